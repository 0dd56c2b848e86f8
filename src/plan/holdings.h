/* What each stage of the model has of parameters and running statistics, and what a rank holds:
 * that of its chunks, one behind the other.
 *
 * Parameters that a stage shares with another one stand behind its others: they are a bucket of
 * their own. Of two stages on one rank the earlier has them; of two ranks both do. */
#ifndef PLAN_HOLDINGS_H
#define PLAN_HOLDINGS_H

#include "graph/range.h"
#include "plan/buckets.h"
#include "plan/ties.h"
#include "program/grid.h"

/* How buckets are made, where that is not by the size of the model alone. */
struct bucket_rules {
    int64_t most_bytes;     /* of a bucket; 0: by the size of the model */
    bool apart;             /* passes touch one bucket after the other */
    bool blocks;            /* segments are layer blocks, or several */
    int64_t keep_bytes;     /* parameters of at most this size are kept whole for a step */
    int64_t prefetch_bytes; /* of parameters that are gathered ahead; -1: one bucket */
};

struct holdings {
    int *params; /* of the graph that are trained, in the order of the store */
    int param_count;
    int *frozen; /* that are not */
    int frozen_count;
    int chunk_first[GRID_MAX_CHUNKS + 1]; /* in params: where a chunk's begin */
    int chunk_shared[GRID_MAX_CHUNKS];    /* how many of a chunk's, its last, are shared */
    bool *copies;                         /* per parameter of the graph: another rank has it, too,
                                             and answers for it */
    bool *uses;                           /* per use of the graph: its gradient is made here */
    int kept[GRID_MAX_CHUNKS]; /* per chunk: how many, from its first on, are kept whole */
    struct bucket_rules rules;
    bool *buffers; /* per buffer of the graph: it is held */
};

/* Local. What the ranks at a position hold, on the main graph cut into stages. `rules` is NULL
 * where the usual ones hold. The caller frees it with holdings_free. */
struct holdings holdings_of(const struct ranges *ranges, const struct grid *grid,
                            const struct ties *ties, int position,
                            const struct bucket_rules *rules);
void holdings_free(struct holdings *holdings);

/* Local. The parameters of one chunk, a stage, for its buckets, in any graph of the same model. */
struct bucket_source holdings_source(const struct holdings *holdings, const struct ranges *ranges,
                                     int chunk, int stage);

/* Per stage of the model: its buckets, whether the last one is kept, and how many are gathered
 * ahead where parameters are sliced. */
struct stage_buckets {
    int *count, *ahead;
    bool *kept;
};

/* Local. Those of every stage: every rank's program has them all. `ties` get the numbers of theirs.
 * The caller frees it with stage_buckets_free. */
struct stage_buckets holdings_count_buckets(const struct ranges *ranges, const struct grid *grid,
                                            struct ties *ties, const struct bucket_rules *rules);
void stage_buckets_free(struct stage_buckets *buckets);

#endif
