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

struct holdings {
    int *params; /* of the graph, in the order of the store */
    int param_count;
    int chunk_first[GRID_MAX_CHUNKS + 1]; /* in params: where a chunk's begin */
    int chunk_shared[GRID_MAX_CHUNKS];    /* how many of a chunk's, its last, are shared */
    bool *copies;                         /* per parameter of the graph: another rank has it, too,
                                             and answers for it */
    bool *uses;                           /* per use of the graph: its gradient is made here */
    bool *buffers;                        /* per buffer of the graph: it is held */
};

/* Local. What the ranks at a position hold, on the main graph cut into stages. The caller frees it
 * with holdings_free. */
struct holdings holdings_of(const struct ranges *ranges, const struct grid *grid,
                            const struct ties *ties, int position);
void holdings_free(struct holdings *holdings);

/* Local. The parameters of one chunk, a stage, for its buckets, in any graph of the same model. */
struct bucket_source holdings_source(const struct holdings *holdings, const struct ranges *ranges,
                                     int chunk, int stage);

/* Local. How many buckets of gradients each stage has, an array that the caller frees; `ties` get
 * the numbers of theirs. */
int *holdings_count_buckets(const struct ranges *ranges, const struct grid *grid,
                            struct ties *ties);

#endif
