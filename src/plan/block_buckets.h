/* Buckets by layer blocks, for recomputation by block: segments of both phases end where blocks do,
 * and bucket e is what segment e makes whole. Private to src/plan. */
#ifndef PLAN_BLOCK_BUCKETS_H
#define PLAN_BLOCK_BUCKETS_H

#include "plan/buckets.h"

/* Local. As buckets_of and buckets_cut, of a source with `blocks`. */
struct bucket_list block_buckets_of(const struct bucket_source *source);
void block_buckets_cut(const struct bucket_list *buckets, const struct bucket_source *source,
                       struct ranges *ranges, int stage);

#endif
