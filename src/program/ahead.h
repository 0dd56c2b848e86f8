/* Programs whose steps overlap: a pipeline that is never flushed.
 *
 * The body is that of a loop in which a stage begins with a micro-batch before those before it are
 * through. Its step is the one whose backwards and update it has; micro-batches are counted from
 * the first of that step, so m = M and on are of the steps behind it, `ahead` (header) of them at
 * most. Only what comes before backward is run ahead: LOAD, RECV_F, F, SEND_F.
 *
 * The lists that fill and drain such a pipeline are this body, too: of the bodies before the first
 * step only what belongs to a step from there on is run, and of the last ones only what belongs to
 * a step before the end. Every rank leaves out the same micro-batches, so whoever is left waits for
 * nothing that it did not wait for with them. Lists of their own were rejected: there would be one
 * for each number of steps that are fewer than a pipeline holds.
 *
 * Slots rotate: a body's slot a is slot (a + step * M) mod slots of the stage, so that micro-batch
 * m of any body is found again in the next one as m - M. */
#ifndef PROGRAM_AHEAD_H
#define PROGRAM_AHEAD_H

#include "program/program.h"

/* Local. The step that an instruction of the body belongs to, where the body is that of `step`; the
 * micro-batch in that step. */
int64_t ahead_step(const struct program *program, const struct instr *instr, int64_t step);
int ahead_micro(const struct program *program, const struct instr *instr);
/* Local. The slot of its stage that an instruction of the body of `step` names. */
int ahead_slot(const struct program *program, const struct chunk_sizes *sizes,
               const struct instr *instr, int64_t step);
/* Local. Whether an instruction of the body of `step` is run, where the pipeline runs the steps
 * from `first` on, but not `end` and those behind it. */
bool ahead_runs(const struct program *program, const struct instr *instr, int64_t step,
                int64_t first, int64_t end);

#endif
