/* --delay: passes that wait; private to src/exec. */
#ifndef EXEC_DELAY_H
#define EXEC_DELAY_H

#include "exec/state.h"

/* Local. Whether an instruction is a pass that waits instead of computing. It then leaves memory as
 * it is, and delay() takes its time, in which operations under way go on. */
bool delays(const struct engine *engine, const struct instr *instr);
enum status delay(struct engine *engine, const struct instr *instr);
/* Local, blocking. Waits until a time of the clock, while operations under way go on. */
enum status delay_until(struct engine *engine, int64_t end_ns);
/* Local. That time; the segments of a pass take that of the pass together. */
int64_t delay_ns(const struct plan *plan, const struct instr *instr);

#endif
