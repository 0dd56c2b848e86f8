/* What unequal ranks cost, and which other strategy would cost less: see forecast.h.
 *
 * The others are tried on the stages, replicas and micro-batches of the plan, whose passes and
 * messages cost the same in another program. What would not be accepted with the options of the run
 * is no answer. Other grids are the search's of src/planner, which this lies below. */
#include <string.h>

#include "base/mem.h"
#include "sim/forecast.h"

/* So many that the mean says something, and that the simulator is done soon. */
static int steps_for_mean(const struct forecast *forecast) {
    enum { MOST = 200 };
    const double instructions = 2e7;
    double each = (double)forecast->result.instructions / forecast->input.steps,
           steps = 1 + instructions / (each + 1);
    int least = forecast_steps(forecast->input.program);
    if (steps < least) return least;
    return steps > MOST ? MOST : (int)steps;
}

/* The mean of so many steps, or with one the steady state. */
static enum status step_of(const struct forecast *forecast, const struct program *program,
                           int steps, double *out) {
    struct sim_input input = forecast->input;
    struct sim_result result;
    input.program = program;
    input.record = false;
    input.steps = steps > 1 ? 1 + steps : forecast_steps(program);
    TRY(sim_run(&input, &result));
    *out = steps > 1 ? result.mean : result.step;
    sim_result_free(&result);
    return STATUS_OK;
}

/* --- the others --- */

/* Frozen blocks go with neither. */
static bool freezes(const struct run_config *config) {
    return config->frozen > 0 || config->unpadded;
}

static bool can_be_unflushed(const struct plan *plan) {
    const struct run_config *config = &plan->config;
    return config->grid.stages > 1 && config->grid.chunks == 1 && config->grid.drivers == 0 &&
           config->micro_batches >= config->grid.stages && plan->program->ahead == 0 &&
           !config->apart && !freezes(config) && !config->sliced && !config->sync_bn &&
           plan->ties.count == 0 && config->sum == SUM_REPLICA &&
           config->recompute == RECOMPUTE_NEVER && config->dtype != DTYPE_F16 && !config->forward;
}

static enum status simulate_unflushed(const struct plan *plan, const struct forecast *forecast,
                                      int steps, double *out) {
    SCOPED(program_free) struct program *program = NULL;
    struct run_config config = plan->config;
    config.schedule = "pipedream-2bw";
    config.overlaps = true;
    TRY(plan_other_program(plan, &config, &program));
    return step_of(forecast, program, steps, out);
}

/* As many as --sync-every has where it is not given. */
enum { AVERAGE_EVERY = 16 };

static bool can_be_apart(const struct plan *plan) {
    const struct run_config *config = &plan->config;
    return config->grid.replicas > 1 && config->grid.replicas_each == 1 &&
           config->grid.drivers == 0 && plan->program->ahead == 0 && !config->apart &&
           !freezes(config) && !config->sliced && !config->sync_bn && config->dtype != DTYPE_F16 &&
           !config->forward && strcmp(config->sync, "allreduce") == 0;
}

static enum status simulate_apart(const struct plan *plan, const struct forecast *forecast,
                                  int steps, double *out) {
    SCOPED(program_free) struct program *program = NULL, *last = NULL;
    struct run_config config = plan->config;
    double body, averages;
    config.sync = "local";
    config.sync_every = AVERAGE_EVERY;
    TRY(plan_other_program(plan, &config, &program));
    last = program_of_last(program);
    TRY(step_of(forecast, program, steps, &body));
    TRY(step_of(forecast, last, steps, &averages));
    *out = ((AVERAGE_EVERY - 1) * body + averages) / AVERAGE_EVERY;
    return STATUS_OK;
}

static const struct other {
    const char *name, *how;
    bool (*can)(const struct plan *plan);
    enum status (*simulate)(const struct plan *plan, const struct forecast *forecast, int steps,
                            double *out);
} others[] = {
    {"pipedream-2bw",
     "is never flushed, does not clip gradients and trains with weights one update old",
     can_be_unflushed, simulate_unflushed},
    {"diloco", "averages replicas every 16 steps and lets them train apart in between",
     can_be_apart, simulate_apart},
};

/* What costs as good as the same is not worth another training. */
static const double LESS = 0.99;

static enum status look_at_others(const struct plan *plan, const struct forecast *forecast,
                                  struct forecast_unequal *out) {
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        double step;
        if (!others[i].can(plan)) continue;
        TRY(others[i].simulate(plan, forecast, out->steps, &step));
        if (step > LESS * (out->other ? out->other_step : out->step)) continue;
        out->other = others[i].name;
        out->how = others[i].how;
        out->other_step = step;
    }
    return STATUS_OK;
}

/* --- the whole --- */

enum status forecast_unequal(const struct plan *plan, const struct forecast *forecast,
                             struct forecast_unequal *out) {
    struct forecast equal = *forecast;
    const struct program *program = forecast->input.program;
    const struct hetero *law = forecast->input.net.hetero;
    *out = (struct forecast_unequal){
        .are = law && hetero_is_unequal(law), .step = forecast->result.step, .steps = 1};
    if (!out->are) return STATUS_OK;
    if (hetero_differs(law)) {
        out->steps = steps_for_mean(forecast);
        TRY(step_of(forecast, program, out->steps, &out->step));
    }
    equal.input.net.hetero = NULL;
    TRY(step_of(&equal, program, 1, &out->same));
    return look_at_others(plan, forecast, out);
}
