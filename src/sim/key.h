/* How a run and a node of a lowered graph are named in a profile: whoever measures and whoever
 * looks up use these functions. Local. */
#ifndef SIM_KEY_H
#define SIM_KEY_H

#include "graph/graph.h"
#include "plan/config.h"
#include "sim/profile.h"

/* The shapes of its inputs and outputs, and the layouts that its kernel has them in. The texts live
 * in the arena. */
struct profile_key profile_key_of(const struct graph *graph, const struct node *node,
                                  struct arena *arena);

/* How `ranks` ranks of this machine run on their devices, which a profile's section is found by.
 * `isa` is where its text lies. */
enum { PROFILE_ISA_BYTES = 96 };
struct profile_place profile_place_of(const struct run_config *config, int ranks,
                                      char isa[PROFILE_ISA_BYTES]);

#endif
