/* Recomputation: which forward nodes of a stage run again before its backward, where a slot keeps
 * only what came into the stage, or into each of its segments. */
#ifndef GRAPH_RECOMPUTE_H
#define GRAPH_RECOMPUTE_H

#include "graph/range.h"

struct recompute {
    bool *again; /* per node: a forward node of the stage that runs again */
    bool *held;  /* per value: what forward made is kept: its node must not run again, or another
                    segment reads it */
};

/* Local. Forward nodes that backward depends on, by way of what they make, run again. Those with
 * side effects, those that ask other ranks and those of frozen blocks do not: what they made is
 * held. With `blocks` segment after segment is run again and then backward, so what one segment
 * reads of another is held, too; both phases are cut into the same number of segments. The caller
 * frees the result with graph_recompute_free. */
struct recompute graph_recompute_of(const struct ranges *ranges, int stage, bool blocks);
void graph_recompute_free(struct recompute *recompute);

#endif
