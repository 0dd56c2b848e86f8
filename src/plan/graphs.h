/* The graphs of a run, one for each size of a micro-batch. */
#ifndef PLAN_GRAPHS_H
#define PLAN_GRAPHS_H

#include "plan/plan.h"

/* Local. A lowered graph; parameters have the layouts of the plan's main graph, where that is made
 * already. Kernels of a model in several stages are described only, until its stages are known. The
 * caller frees it. */
enum status graphs_make(const struct plan *plan, int64_t samples, bool training,
                        struct graph **out);

#endif
