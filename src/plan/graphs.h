/* The graphs of a run, one for each size of a micro-batch. */
#ifndef PLAN_GRAPHS_H
#define PLAN_GRAPHS_H

#include "plan/plan.h"

/* Local. A lowered graph of a model; parameters have the layouts of `main`, where that is given.
 * The caller frees it. */
enum status graphs_build(const struct run_config *config, struct device *device,
                         const struct graph *main, int64_t samples, bool training,
                         struct graph **out);
/* Local. The same for a plan; parameters have the layouts of the plan's main graph, where that is
 * made already. Kernels of a model in several stages are described only, until its stages are
 * known; those that will never run, for training in a forward program, for ever. The caller frees
 * it. */
enum status graphs_make(const struct plan *plan, int64_t samples, bool training,
                        struct graph **out);
/* Local. Cuts the graph at the plan's partition: fills in ranges and crossings. */
enum status graphs_cut(const struct plan *plan, struct micro_plan *micro);
/* Local. Stages that run forward only in the steps of the plan, once its main graph is cut. */
int graphs_frozen_stages(const struct plan *plan);
/* Local. Frees what a micro_plan has, but not itself. */
void graphs_free(const struct plan *plan, struct micro_plan *micro);

/* Local. How the tensors lie that ranks give one another: parameters, gradients, and what crosses
 * cuts in training and evaluation, of all replicas. Ranks of another instruction set may have
 * chosen others, and would read garbage. */
enum status graphs_layouts_hash(const struct plan *plan, uint64_t *out);

#endif
