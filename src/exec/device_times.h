/* When a device that is apart ran the instructions of a step: by events, resolved when the step is
 * finished; private to src/exec. On others the host's clock tells, and nothing is done here. */
#ifndef EXEC_DEVICE_TIMES_H
#define EXEC_DEVICE_TIMES_H

#include "exec/state.h"

/* Local. Events for the longest list of a step; times_close accepts what is not open. */
enum status times_open(struct engine *engine);
void times_close(struct engine *engine);

/* Local. Whether the device tells when this instruction ran. What fills a pipeline is of no step.
 */
static inline bool times_by_device(const struct engine *engine, const struct instr *instr) {
    if (!engine->apart || engine->meeting.clock || !list_is_step(engine->list_name)) return false;
    if (engine->overlap.fill > 0) return false;
    return instr_row(instr)->queue == QUEUE_COMPUTE && instr_row(instr)->time != TIME_DATA;
}
/* Local, asynchronous. A step begins; the instruction is next on the stream of computation; it was
 * enqueued. */
void times_step(struct engine *engine, struct step *step);
void times_begin(struct engine *engine, const struct instr *instr);
void times_end(struct engine *engine);
/* Local. Of a step that the device has done: tells whoever watches, and adds up its times. */
enum status times_tell(struct engine *engine, struct step *step);

/* Local, blocking. One kernel: enqueues it by `run` and tells what it took. */
enum status times_kernel(struct engine *engine, enum status (*run)(void *context), void *context,
                         int64_t *ns);

#endif
