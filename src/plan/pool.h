/* What plans of one search have in common: the device, and a graph for each size of a micro-batch.
 * Making a graph takes most of the time of a plan, and a search makes hundreds of plans, whose
 * graphs depend on the size of the micro-batch alone. A plan that is given a pool borrows from it;
 * nothing of a plan is written into a graph once it is lowered. */
#ifndef PLAN_POOL_H
#define PLAN_POOL_H

#include "graph/memory.h"
#include "plan/config.h"
#include "plan/partition.h"

struct plan_pool;

/* Local. The device is opened for this configuration, whose model, data, dtype, threads and
 * convolutions all plans of the pool must have; they are described only (dry). The caller frees the
 * pool after the plans. */
enum status plan_pool_new(const struct run_config *config, struct plan_pool **out);
/* Local. Accepts NULL and clears the pointer. */
void plan_pool_free(struct plan_pool **pool);
/* Local. How many graphs there are. */
int plan_pool_count(const struct plan_pool *pool);

/* Local. The graph of a training step with micro-batches of so many samples, which the
 * configuration says all else of; made where there is none yet. The pool owns it. */
enum status plan_pool_graph(struct plan_pool *pool, const struct run_config *config,
                            int64_t samples, const struct graph **out);

/* Local. For plans: the device; the graph of a key. `main_samples` is the micro-batch of the
 * graph whose layouts the parameters have, 0 for that graph itself. NULL: there is none yet. */
struct plan_pool_key {
    int64_t samples, main_samples;
    int stats_ranks;
    bool training;
};
struct device *plan_pool_device(const struct plan_pool *pool);
struct graph *plan_pool_find(const struct plan_pool *pool, const struct plan_pool_key *key);
/* Local. From now on the pool owns the graph. */
void plan_pool_add(struct plan_pool *pool, const struct plan_pool_key *key, struct graph *graph);
/* Local. What all partitions of a graph of the pool are made of, and a partition; the pool owns
 * both. Cuts by name are the same for all plans. */
struct partition_source *plan_pool_source(struct plan_pool *pool, const struct graph *graph);
enum status plan_pool_partition(struct plan_pool *pool, const struct graph *graph,
                                const struct partition_config *config,
                                const struct partition **out);
/* Local. graph_place, of which the sizes alone are there: slots are counted, and nothing is placed.
 * The pool has placed stages of the same nodes for other plans. */
struct placement plan_pool_place(struct plan_pool *pool, const struct ranges *ranges, int stage,
                                 const struct placement_config *config);

#endif
