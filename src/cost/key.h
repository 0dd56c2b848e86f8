/* How a run and a node of a lowered graph are named in a profile: whoever measures and whoever
 * looks up use these functions. Local. */
#ifndef COST_KEY_H
#define COST_KEY_H

#include "cost/profile.h"
#include "graph/graph.h"

/* The shapes of its inputs and outputs, and the layouts that its kernel has them in. The texts live
 * in the arena. */
struct profile_key profile_key_of(const struct graph *graph, const struct node *node,
                                  struct arena *arena);

/* How `ranks` ranks of this machine run, with so many threads each on a device of this name: a
 * profile's section is found by it. `isa` is where its text lies. */
enum { PROFILE_ISA_BYTES = 96 };
struct profile_place profile_place_of(const char *device, int index, int threads, int ranks,
                                      char isa[PROFILE_ISA_BYTES]);

#endif
