/* Buckets: the pieces of a gradient buffer that are reduced one by one, in the order backward makes
 * them whole. */
#ifndef PLAN_BUCKETS_H
#define PLAN_BUCKETS_H

#include "graph/range.h"

/* Parameters [first, first + count), elements [begin, begin + elements) of a gradient array. */
struct bucket {
    int first, count;
    int64_t begin, elements;
};

struct bucket_list {
    struct bucket *items;
    int count;
};

/* Local. Cuts the parameters of a lowered training graph, from the last to the first, into pieces
 * of at most a sixteenth of all gradients (but 1 to 25 MiB), ordered by when backward completes
 * them; the caller frees the items. */
struct bucket_list buckets_of(const struct graph *graph);

/* Local. Makes one of all. */
void buckets_join(struct bucket_list *buckets);

/* Local. Cuts the backward of a stage into a segment for each bucket, which ends with the node
 * after which the bucket is whole; the last one ends with the stage. */
void buckets_cut(const struct bucket_list *buckets, struct ranges *ranges, int stage);

#endif
