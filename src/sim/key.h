/* How a node of a lowered graph is named in a profile: whoever measures and whoever looks up use
 * this one function. Local. */
#ifndef SIM_KEY_H
#define SIM_KEY_H

#include "graph/graph.h"
#include "sim/profile.h"

/* The shapes of its inputs and outputs, and the layouts that its kernel has them in. The texts live
 * in the arena. */
struct profile_key profile_key_of(const struct graph *graph, const struct node *node,
                                  struct arena *arena);

#endif
