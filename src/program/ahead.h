/* Programs whose steps overlap: a pipeline that is never flushed.
 *
 * In such a pipeline a stage begins a micro-batch while earlier ones are still under way. The body
 * of a step has the backwards and the update of that step, and forwards of later steps.
 * Micro-batches are counted from the first one of the step, so those from m = M on belong to later
 * steps, at most `ahead` (header) of them. Only LOAD, RECV_F, F and SEND_F run ahead.
 *
 * The same body fills and drains the pipeline. It is run `ahead` times before the first step, of
 * which it then runs only what belongs to that step or a later one; in the last steps it leaves out
 * what belongs to steps after the end. Every rank leaves out the same micro-batches, so the others
 * wait for nothing new. Rejected: lists of their own, one for each number of steps below what a
 * pipeline holds.
 *
 * Slots rotate: slot a of a body is slot (a + step * M) mod slots of the stage. So micro-batch m of
 * a body is micro-batch m - M of the next one, in the same slot. */
#ifndef PROGRAM_AHEAD_H
#define PROGRAM_AHEAD_H

#include "program/program.h"

/* Local. The step that an instruction in the body of `step` belongs to; the number of its
 * micro-batch in that step. */
int64_t ahead_step(const struct program *program, const struct instr *instr, int64_t step);
int ahead_micro(const struct program *program, const struct instr *instr);
/* Local. The slot of the stage that an instruction in the body of `step` names. */
int ahead_slot(const struct program *program, const struct chunk_sizes *sizes,
               const struct instr *instr, int64_t step);
/* Local. Whether an instruction in the body of `step` is run by a pipeline that runs the steps from
 * `first` to `end` - 1. */
bool ahead_runs(const struct program *program, const struct instr *instr, int64_t step,
                int64_t first, int64_t end);

#endif
