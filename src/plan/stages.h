/* What the stages of the model are made of: parameters held, their buckets, the layout of the
 * store. Private to src/plan. */
#ifndef PLAN_STAGES_H
#define PLAN_STAGES_H

#include "plan/plan.h"

/* Local. What the ranks at a position hold; small parameters first where they are kept whole. The
 * caller frees it with holdings_free. */
enum status stages_hold(const struct plan *plan, int position, struct holdings *out);
/* Local. The parameters of a chunk, for buckets as this run wants them. */
struct bucket_source stages_source(const struct plan *plan, const struct holdings *holdings,
                                   int chunk);

/* Per stage of the model: its buckets, whether the last one is kept, and how many are gathered
 * ahead. */
struct stage_buckets {
    int *count, *ahead;
    bool *kept;
};

/* Local. All 0; the caller frees it. */
struct stage_buckets stage_buckets_new(int stages);
void stage_buckets_free(struct stage_buckets *buckets);
/* Local. Those of every stage: every rank's program has them all. */
enum status stages_count_buckets(const struct plan *plan, struct stage_buckets *out);

/* Local. What a rank of a replica stores, with the buffers and windows that its program has. The
 * caller owns it. */
struct store_layout *stages_layout(const struct plan *plan, const struct holdings *holdings,
                                   const struct rank_program *program, int replica);

#endif
