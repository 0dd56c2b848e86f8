/* What each stage of the model has of parameters and running statistics, and what a rank holds:
 * that of its chunks, one behind the other. */
#ifndef PLAN_HOLDINGS_H
#define PLAN_HOLDINGS_H

#include "graph/range.h"
#include "plan/buckets.h"
#include "program/grid.h"

struct holdings {
    int *params; /* of the graph, in the order of the store */
    int param_count;
    int chunk_first[GRID_MAX_CHUNKS + 1]; /* in params: where a chunk's begin */
    int kept[GRID_MAX_CHUNKS];            /* per chunk: so many, its first, are kept whole */
    bool *buffers;                        /* per buffer of the graph: it is held */
};

/* Local. What the ranks at a position hold, on the main graph cut into stages. STATUS_USAGE where a
 * parameter is used in several stages. The caller frees it with holdings_free. */
enum status holdings_of(const struct ranges *ranges, const struct grid *grid, int position,
                        struct holdings *out);
void holdings_free(struct holdings *holdings);

/* Local. Puts the parameters of each chunk that have at most so many bytes before the others. */
void holdings_keep(struct holdings *holdings, const struct graph *graph, int chunks,
                   int64_t most_bytes);

/* Local. The parameters of one chunk, for its buckets. */
struct bucket_source holdings_source(const struct holdings *holdings, const struct graph *graph,
                                     int chunk);

#endif
