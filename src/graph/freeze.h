/* Frozen blocks: the first blocks of a model run forward only, as in an evaluation.
 *
 * A graph is built with the number of them. Its dropouts are off there, batch norm takes the
 * running statistics and leaves them alone, and parameters that are made there have no gradient,
 * wherever they are read: one that is tied to the head is frozen in the head, too. The rest
 * follows: backward ends where no trained parameter stands behind a value, so a stage whose blocks
 * are all frozen has no backward nodes, keeps nothing for them and sends no gradients.
 *
 * Rejected: a pass that cuts a whole graph off. Batch norm and dropout would have to be undone, and
 * what is fused with them. */
#ifndef GRAPH_FREEZE_H
#define GRAPH_FREEZE_H

#include "graph/range.h"

/* Local. Whether the nodes and parameters of a block, as the graph numbers them, are frozen. */
static inline bool freeze_holds(const struct graph *graph, int block) {
    return graph->frozen > 0 && block < graph->frozen + graph->stem;
}

/* Local. Blocks of the model that can freeze: all but the head. Of a graph that was built. */
int freeze_blocks(const struct graph *graph);

/* Local. Which of them a block of the graph is, with the layers before the first; the head comes
 * behind the last. */
static inline int freeze_block(const struct graph *graph, int block) {
    return block > graph->stem ? block - graph->stem : 0;
}

/* Local. STATUS_USAGE where a graph was built with more of them frozen than its model has; `name`
 * is the model's. */
enum status freeze_check(const struct graph *graph, const char *name);

/* Local. How many stages run forward only: the first ones, whose nodes are all frozen. Always less
 * than all, and 0 where nothing is frozen. */
int freeze_stages(const struct ranges *ranges);

/* Local. Elements of the parameters that are trained; a frozen one that is read in blocks that are
 * not, by its number, or -1. */
int64_t freeze_trained_elements(const struct graph *graph);
int freeze_tied(const struct graph *graph);

#endif
