/* Buckets: the pieces of a gradient buffer that are reduced one by one, in the order backward makes
 * them whole. */
#ifndef PLAN_BUCKETS_H
#define PLAN_BUCKETS_H

#include "graph/range.h"

/* Parameters [first, first + count) of those the rank holds, in the order of its store; elements
 * [begin, begin + elements) of a gradient array. */
struct bucket {
    int first, count;
    int64_t begin, elements;
    bool shared; /* with another stage: of these parameters, all of them and no others */
};

struct bucket_list {
    struct bucket *items;
    int count;
};

/* The parameters of one stage: of a lowered training graph, `count` from position `first` on in the
 * order of the store, at element `begin`; the last `shared` of them are in another stage, too. */
struct bucket_source {
    const struct graph *graph;
    struct node_range nodes; /* the stage's backward */
    const int *params;
    int count, shared, first;
    int64_t begin;
    int kept;    /* so many parameters, from the first on, are one bucket: the last one. Every pass
                    touches it */
    bool apart;  /* passes touch one bucket after the other, no two in turn */
    bool blocks; /* segments end where layer blocks do: block_buckets.h */
    bool frozen; /* the stage has no backward, and no buckets */
    int first_unit, end_unit; /* of the stage, in this graph */
    int64_t most; /* elements of a bucket, unless one parameter has more; 0: by the size of the
                     model */
};

/* Local. Cuts the parameters of a stage, from the last to the first, into pieces of at most
 * source->most elements (or a sixteenth of the model's gradients, but 1 to 25 MiB), and one of
 * those it shares (with source->apart the last), ordered by when backward completes them; the
 * caller frees the items. One at least, also where there is no parameter; of a frozen stage none.
 */
struct bucket_list buckets_of(const struct bucket_source *source);

/* Local. Whether every segment touches the last bucket, whose own segment is empty: so with a
 * kept bucket, and with a shared one where passes touch one bucket after the other. */
bool buckets_keep_last(const struct bucket_source *source);

/* Local. The number of the shared bucket; -1: there is none. */
int buckets_shared(const struct bucket_list *buckets);

/* Local. Makes one of all. */
void buckets_join(struct bucket_list *buckets);

/* Local. Cuts the backward of a stage into a segment for each bucket, which ends with the node
 * after which the bucket is whole; the last one ends with the stage. With source->apart both phases
 * are cut, before the first node that touches the next bucket: reads its parameters or makes their
 * gradients. Forward has the last bucket in its first segment. */
void buckets_cut(const struct bucket_list *buckets, const struct bucket_source *source,
                 struct ranges *ranges, int stage);

/* Local. The most bytes of a bucket of a model with so many parameters, where no option says it.
 * One parameter may be larger. */
int64_t buckets_most_bytes(int64_t total);

#endif
