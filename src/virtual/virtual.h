/* Virtual time: ranks compute for real and their clocks are the simulator's (sim/live.h).
 *
 * Ranks are threads of one process and one of them runs at a time, the next in (virtual time,
 * rank): it has the baton. It passes the baton on when its time moves on, when it needs a time that
 * is not known yet, and when it waits for others in the communicator (comm_hooks). Between its
 * steps a rank is out of the order: evaluations and checkpoints are instants. What ranks do in a
 * step does not depend on the machine, so times repeat to the bit. */
#ifndef VIRTUAL_VIRTUAL_H
#define VIRTUAL_VIRTUAL_H

#include "exec/chooser.h"
#include "exec/engine_clock.h"
#include "plan/plan.h"

struct virtual_world;

/* Local. The world of all ranks of a run, from the plan and the costs of rank 0, which outlive it.
 * The caller frees it after the engines. */
enum status virtual_new(const struct plan *plan, const struct costs *costs,
                        struct virtual_world **out);
void virtual_free(struct virtual_world **world);
/* Local. The clock of a rank, and where members of groups are chosen whoever decides on them (NULL:
 * they are not); the world owns both. */
const struct engine_clock *virtual_clock(struct virtual_world *world, int rank);
const struct engine_chooser *virtual_chooser(struct virtual_world *world, int rank);
/* Local. What a step of this number took, in ns, from the end of the one before: see sim_live_step.
 */
double virtual_step_ns(struct virtual_world *world, int64_t step);

#endif
