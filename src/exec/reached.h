/* Where a device that runs behind the host is. */
#ifndef EXEC_REACHED_H
#define EXEC_REACHED_H

#include "exec/engine.h"

/* Local, in the engine's own thread. The first instruction of the oldest step under way that the
 * device has not done, and the number of that step. NULL: it has done all that it was given, or
 * does it at once. */
const struct instr *engine_reached(struct engine *engine, int64_t *step);

#endif
