/* Graphs by the size of micro-batches, and their cuts into stages, with what passes take on each
 * class of devices: made once for all candidates that have them. Private to src/planner. */
#ifndef PLANNER_SPLIT_H
#define PLANNER_SPLIT_H

#include "cost/cost.h"
#include "plan/config.h"
#include "plan/partition.h"
#include "plan/pool.h"

/* A cut of a graph into stages. Times are per class and stage: [class * count + stage]. */
struct planner_split {
    int graph, count;
    int8_t balance;
    struct partition partition;
    double *forward, *input, *weight;
    size_t *kept_bytes;
    size_t *param_bytes;   /* per stage: of those that are used first there */
    size_t *largest_bytes; /* per stage: of a parameter of it */
    bool *twice;           /* per stage: it uses a parameter more than once */
    /* Parameters that two stages share: the two, and bytes. 0 bytes: none. */
    int tied, tied_other;
    size_t tied_bytes;
};

/* A size of micro-batches. */
struct planner_graph {
    int64_t samples;
    const struct graph *graph;
    struct cost_table table;
    double least_ns, least_forward_ns; /* of the whole model, on the fastest class */
    struct planner_split **split;      /* by number of stages and balance */
};

struct planner_splits {
    const struct run_config *base; /* of one rank; borrowed, as the pool */
    struct plan_pool *pool;
    struct costs costs; /* without a crowd */
    int classes, layers;
    struct planner_graph *graph;
    int graph_count;
    size_t graph_capacity;
};

/* Local. The caller frees them; pool, costs and configuration outlive them. */
void planner_splits_new(const struct costs *costs, const struct run_config *base,
                        struct plan_pool *pool, int layers, struct planner_splits *out);
void planner_splits_free(struct planner_splits *splits);

/* Local. Found, or made; the index of a graph, and a cut of it that the splits own. */
enum status planner_graph_find(struct planner_splits *splits, int64_t samples, int *out);
enum status planner_split_find(struct planner_splits *splits, int graph, int count, int balance,
                               struct planner_split **out);
/* Local. Of one graph: do they cut it alike? */
bool planner_split_same(const struct planner_split *a, const struct planner_split *b);

#endif
