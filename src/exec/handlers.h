/* The handlers, one for each row of instr.def; private to src/exec. A row without its handler does
 * not link. handlers.c has those of passes and of the end of a step, messages.c those between
 * stages, gradients.c those of buckets, calls.c those of a driver's calls, broadcast.c those that
 * bring data to other ranks, save.c and collect.c those of a checkpoint. */
#ifndef EXEC_HANDLERS_H
#define EXEC_HANDLERS_H

#include "exec/engine.h"

/* COMPUTE: `run`, called again after what it awaits (engine->awaiting) until it awaits nothing.
 * COMM: `prepare` enqueues what it needs of the device; `post` once that is done; `finish` once the
 * operation is done: it enqueues what goes to the device. All are local and wait for no other rank.
 */
struct handler {
    enum status (*run)(struct engine *engine, const struct instr *instr);
    enum status (*prepare)(struct engine *engine, const struct instr *instr);
    enum status (*post)(struct engine *engine, const struct instr *instr,
                        struct comm_request **out);
    enum status (*finish)(struct engine *engine, const struct instr *instr);
};
extern const struct handler handlers[INSTR_COUNT_];

#define DECLARE_COMPUTE(NAME)                                                                      \
    enum status run_##NAME(struct engine *engine, const struct instr *instr);
#define DECLARE_COMM(NAME)                                                                         \
    enum status prepare_##NAME(struct engine *engine, const struct instr *instr);                  \
    enum status post_##NAME(struct engine *engine, const struct instr *instr,                      \
                            struct comm_request **out);                                            \
    enum status finish_##NAME(struct engine *engine, const struct instr *instr);
#define INSTR(NAME, operands, flags, lists, queue, ...) DECLARE_##queue(NAME)
#include "program/instr.def"
#undef INSTR
/* Local. Once the message that an instruction received is on the device: its buffer is the sender's
 * again. */
enum status close_receive(struct engine *engine, const struct instr *instr);

#endif
