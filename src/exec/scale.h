/* Loss scaling of f16; private to src/exec. */
#ifndef EXEC_SCALE_H
#define EXEC_SCALE_H

#include "exec/state.h"

/* Local. Whether losses are scaled; makes the first scale of a run, or goes on with that of a
 * checkpoint. */
bool scale_acts(const struct engine *engine);
void scale_begin(struct engine *engine, struct step *step);
/* Local, alike on all ranks. The step is known to have finite gradients, or not: the scale of the
 * next one. STATUS_NUMERIC where no scale is small enough. */
enum status scale_next(struct engine *engine, struct step *step, bool finite);

#endif
