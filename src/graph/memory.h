/* The memory plan of a graph: an offset in one arena for every local value, by lifetime. */
#ifndef GRAPH_MEMORY_H
#define GRAPH_MEMORY_H

#include "graph/graph.h"

struct placement_config {
    bool split; /* backward runs as two passes, all of I and then all of W, instead of op by op */
    bool mixed; /* with split: in some steps it runs op by op all the same; good for both */
    bool gradients_outside; /* parameter gradients go straight into their accumulators: no room for
                               them here */
};

struct placement {
    const struct graph *graph;
    size_t *offset;    /* per value; PLACED_ELSEWHERE for inputs, parameters, buffers */
    size_t bytes;      /* of the arena: the predicted peak */
    size_t live_bytes; /* most bytes live at any one node: no placement can be smaller */
    int live_node;     /* where */
    int *first, *last; /* per value: its bytes are in use from and to these times (views count for
                          their root) */
    int *time;         /* per node: when it runs */
};

#define PLACED_ELSEWHERE ((size_t)-1)

/* Local. Places the values of a lowered graph. The caller frees the result with placement_free, and
 * keeps the graph. */
struct placement graph_place(const struct graph *graph, const struct placement_config *config);
void placement_free(struct placement *placement);

/* Local. The three largest of what is alive at the peak, as one line. */
void placement_largest(const struct placement *placement, char *text, size_t bytes);
/* Local. What is alive at the peak, largest first, at most `count` lines. */
void placement_print(const struct placement *placement, FILE *out, int count);

#endif
