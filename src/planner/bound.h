/* What no plan of a candidate can be better than. Private to src/planner.
 *
 * Sums of the cost module's answers for the stages, by what every program keeps to: a rank runs one
 * computation at a time; stage s begins a step after the first forward of the stages before it, and
 * the step does not end before the last backward of these; gradients are summed over replicas once
 * the last micro-batch has them. They are not forecasts: what waits for what otherwise, copies that
 * wait and buckets that come late only make a step longer. Memory: parameters, their gradients and
 * optimizer state, and what one micro-batch keeps.
 *
 * Stages are cut as a plan cuts them. What depends on the size of the micro-batch alone is made
 * once for it, and what depends on the cut once for each cut. */
#ifndef PLANNER_BOUND_H
#define PLANNER_BOUND_H

/* On 4 of 200 random clusters a bound was above the simulated step, by up to 8%. Until the reason
 * is found, bounds are taken that much lower. */
#define PLANNER_MARGIN 0.9

#include "planner/planner.h"
#include "planner/trial.h"

/* A size of micro-batches. */
struct planner_graph {
    int64_t samples;
    const struct graph *graph;
    struct cost_table table;
    double least_ns, least_forward_ns; /* of the whole model, on the fastest class */
    struct planner_split **split;      /* by number of stages and balance */
};

/* A cut of it into stages. Times are per class and stage: [class * count + stage]. */
struct planner_split {
    int graph, count;
    int8_t balance;
    bool again; /* another balance has the same cuts */
    struct partition partition;
    double *forward, *input, *weight;
    size_t *kept_bytes, *param_bytes, *largest_bytes; /* per stage; of a parameter of it */
};

/* Computations in the order of a schedule, without what its program adds to them. */
struct planner_order_key {
    const struct planner_split *split;
    int schedule, stages, micro_batches, replicas, again, block;
};
struct planner_ordered {
    struct planner_order_key key;
    double total_ns, first_ns; /* all positions; the first one, which begins the next step */
    int64_t kept_bytes;        /* most of a position, where forward is not run again */
    double *late_ns;           /* per stage: when its last weight gradients begin; owned */
};

struct planner_bounds {
    const struct planner_input *input;
    const struct run_config *base; /* of one rank */
    struct plan_pool *pool;
    struct costs costs; /* without a crowd */
    int classes;
    struct planner_graph *graph;
    int graph_count;
    size_t graph_capacity;
    struct planner_split **split;
    int split_count;
    size_t split_capacity;
    struct planner_ordered *ordered;
    int ordered_count;
    size_t ordered_capacity;
    int layers;          /* of the model */
    double bucket_bytes; /* at most, of its parameters */
};

/* Local. The caller frees the bounds with planner_bounds_free; pool and configuration outlive them.
 */
void planner_bounds_new(const struct planner_input *input, const struct run_config *base,
                        struct plan_pool *pool, struct planner_bounds *out);
void planner_bounds_free(struct planner_bounds *bounds);

/* Local. A first bound, without a cut. */
enum status planner_bound_whole(struct planner_bounds *bounds, struct planner_row *row);
/* Local. A better one, by the stages. `same`: another balance makes the same cut. */
enum status planner_bound_stages(struct planner_bounds *bounds, struct planner_row *row,
                                 bool *same);
/* Local. A third one, by the order of its schedule, or by what auto chose (else NULL). */
enum status planner_bound_order(struct planner_bounds *bounds, const struct planner_auto *chosen,
                                struct planner_row *row);

#endif
