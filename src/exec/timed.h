/* Times of a step that a clock tells (engine_clock.h); private to src/exec. */
#ifndef EXEC_TIMED_H
#define EXEC_TIMED_H

#include "exec/state.h"

/* Blocking. Before an instruction of a step, behind it, and at the end of the list: what it waited
 * for others is counted, and told to whoever watches. */
enum status timed_come(struct engine *engine, const struct instr *instr,
                       const struct engine_observer *observer);
enum status timed_ran(struct engine *engine, const struct instr *instr);
enum status timed_end(struct engine *engine, const struct engine_observer *observer);
/* Local. Of what is done: when it was under way. */
void timed_take(struct engine *engine, struct posted *posted);

#endif
