/* The memory plan of a stage: an offset in an arena for every value its nodes touch, by lifetime.
 *
 * A slot holds one micro-batch, from F to B or from I to W. A pass is what one instruction runs in
 * a slot. A value that lives inside one pass is transient, every other one is kept: passes of other
 * slots may run in between. There are two forms of the plan:
 *
 *     joint    each slot has an arena for all of its values
 *     shared   each slot has an arena for what it keeps. Transient values lie in dead space of that
 *              arena where they fit, and else in one arena that all slots of the rank share.
 *
 * The first suits one slot, since a value made by F may lie where another one dies. With several
 * the second is mostly smaller; plans compare.
 *
 * Where forward is recomputed (struct life_config), R and the B or I behind it are one pass. What F
 * makes is then transient in both, and a slot keeps what came into the stage, or into each of its
 * segments, what goes out, and what W needs of I. */
#ifndef GRAPH_MEMORY_H
#define GRAPH_MEMORY_H

#include "graph/life.h"

struct placement_config {
    struct life_config life;
    bool gradients_outside; /* parameter gradients go straight into their accumulators: no room for
                               them here */
    bool shared;            /* the form for several slots */
};

struct placement {
    const struct graph *graph;
    size_t *offset;                  /* per value; PLACED_ELSEWHERE for parameters, buffers, inputs
                                        that have no place here, and values that no node of the
                                        stage touches */
    bool *in_shared;                 /* per value: the offset is in the shared arena */
    size_t slot_bytes, shared_bytes; /* of a slot's arena, and of the one all slots share */
    size_t live_bytes; /* most bytes of one slot live at any one node: no joint placement can be
                          smaller */
    int live_node, live_order; /* where */
    struct life life;
};

#define PLACED_ELSEWHERE ((size_t)-1)

/* Local. Places the values of one stage of a lowered graph. The caller frees the result with
 * placement_free, and keeps the graph. */
struct placement graph_place(const struct ranges *ranges, int stage,
                             const struct placement_config *config);
void placement_free(struct placement *placement);

/* Local. Bytes of the arenas of `slots` slots. */
size_t placement_bytes(const struct placement *placement, int slots);

/* Local. The three largest of what is alive at the peak, as one line. */
void placement_largest(const struct placement *placement, char *text, size_t bytes);
/* Local. What is alive at the peak, largest first, at most `count` lines. */
void placement_print(const struct placement *placement, FILE *out, int count);

#endif
