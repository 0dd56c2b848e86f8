/* --delay: passes that wait; private to src/exec. */
#ifndef EXEC_DELAY_H
#define EXEC_DELAY_H

#include "exec/state.h"

/* Local. Whether an instruction is a pass that waits instead of computing. It then leaves memory as
 * it is, and delay() takes its time, in which operations under way go on. */
bool delays(const struct exec *exec, const struct instr *instr);
enum status delay(struct exec *exec, const struct instr *instr);

#endif
