/* What a plan's steps will take: its program in virtual time, with the critical path and, where
 * costs are uncertain, an interval. All local. */
#ifndef SIM_FORECAST_H
#define SIM_FORECAST_H

#include "sim/plan_costs.h"
#include "sim/run.h"

struct forecast {
    struct plan_costs costs;
    struct sim_input input; /* of the run; its program is the plan's, or `round` */
    struct program *round;  /* of a forward program: its step is a round; else NULL */
    struct sim_result result;
    struct sim_path path; /* empty where there are too many instructions to keep */
    double averaging; /* a step that averages, where replicas train apart in the others; else 0 */
    bool units;       /* times are units of --costs; else ns */
    double low, high; /* of the step: 90%; both the step itself where costs are given */
    double seconds;   /* that the simulator took, from the program to the result */
};

/* Steps that are run: the last one is the steady state. Where steps overlap it is the mean of
 * several: see sim_result. */
enum { FORECAST_STEPS = 3 };
int forecast_steps(const struct program *program);

/* What a forecast simulates, of a plan that trains: the caller frees the costs, which the input
 * borrows. */
enum status forecast_input(const struct plan *plan, const struct costs *costs,
                           struct plan_costs *out_costs, struct sim_input *out);

/* Simulates the plan's program; of a forward program a round, as if that were its step. `apart`: it
 * runs every pipeline, also those that do the same. Plan and costs must outlive the forecast; the
 * caller frees it, where it lies: it must not be moved. */
enum status forecast_new(const struct plan *plan, const struct costs *costs, bool apart,
                         struct forecast *out);
void forecast_free(struct forecast *forecast);

/* What it takes to go on with a plan in place of another one, in the time of the costs: parameters,
 * optimizer state and running statistics, tensor by tensor, over the slowest link from rank 0. Time
 * to plan is not counted. */
double forecast_change(const struct plan *plan, const struct costs *costs);

/* How much longer a step is because STEP awaits NORM, for clipping: compared with the same
 * program without that wait. *waits is false where STEP awaits nobody, and *time is not set
 * then. */
enum status forecast_clip(const struct forecast *forecast, bool *waits, double *time);

/* What unequal ranks cost: a step with them, and with equal ones. Where draws or times differ from
 * step to step it is the mean of several. */
struct forecast_unequal {
    bool are;          /* ranks are unequal; else the rest is not set */
    double step, same; /* with the laws; without those that make ranks unequal */
    int steps;         /* whose mean that is */
    /* What would cost less, on the same stages, replicas and micro-batches. */
    const char *other, /* a strategy; NULL: none that is known here does */
        *how;          /* it trains */
    double other_step; /* in the mean */
};
enum status forecast_unequal(const struct plan *plan, const struct forecast *forecast,
                             struct forecast_unequal *out);

#endif
