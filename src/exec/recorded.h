/* What a checkpoint keeps of a run whose plan changes; private to src/exec. */
#ifndef EXEC_RECORDED_H
#define EXEC_RECORDED_H

#include "base/mem.h"
#include "exec/train_state.h"

/* Local. The parts that have begun, and what is known of the gradients since; it borrows both. */
struct train_course recorded_course(const struct train_state *state);
/* Local. The same with memory of the arena. */
void recorded_copy(const struct train_course *course, struct arena *arena,
                   struct train_course *out);

#endif
