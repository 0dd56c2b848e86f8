/* What the ranks of each stage store. Private to src/plan. */
#ifndef PLAN_STAGES_H
#define PLAN_STAGES_H

#include "plan/plan.h"

/* Local. How this run makes buckets. */
struct bucket_rules stages_rules(const struct run_config *config);

/* Local. What the rank of a replica at a position stores, with the buffers and windows that its
 * program has. The caller owns it. */
struct state_layout *stages_layout(const struct plan *plan, const struct holdings *holdings,
                                   const struct rank_program *program, int position, int replica);

/* Local. The most that a rank at a position needs of memory that others reach. */
size_t stages_heap_bytes(const struct plan *plan, int position);

#endif
