/* The streams of an engine, and what is enqueued there beside kernels; private to src/exec.
 *
 * Instructions are enqueued in the order of the program: those of the queue COMPUTE on one stream,
 * copies for the communicator on another, those of LOAD on a third, and a plane has the fourth. A
 * stream that needs what another makes waits for its event. On a device whose memory is the host's
 * all streams are nothing, and a copy from a place to itself is none. */
#ifndef EXEC_QUEUES_H
#define EXEC_QUEUES_H

#include "exec/state.h"

/* Local. Streams, events and what the device tells of steps; queues_close accepts an engine that
 * has none. */
enum status queues_open(struct engine *engine);
void queues_close(struct engine *engine);

/* Local, blocking. Until the device has done all that was enqueued. */
enum status queues_await(struct engine *engine);

/* Local, blocking. Until the device has come to an event; ends with STATUS_PEER where it waits for
 * a rank that is lost. */
enum status queues_wait(struct engine *engine, struct event *event);

/* Local. What is enqueued for the communicator from now on comes behind all computation so far. */
void queues_follow(struct engine *engine);
/* Local, asynchronous on the stream of communication. */
enum status queues_copy_out(struct engine *engine, void *host, const void *from, size_t bytes);
enum status queues_copy_in(struct engine *engine, void *to, const void *host, size_t bytes);

/* Local. Notes that work enqueued so far uses the slot of the instruction: the next LOAD into this
 * slot comes behind it. */
void queues_use_slot(struct engine *engine, const struct instr *instr);

/* Local, asynchronous. The samples of a micro-batch, into the slot's place for them, on the stream
 * of LOAD, behind the last that used the slot. The loss seeds, on that of computation. */
enum status queues_load(struct engine *engine, struct slot *slot, int index);
enum status queues_give_seeds(struct engine *engine, const struct slot *slot, int index);

/* Local, asynchronous, behind all computation so far. Zeros, of whole floats, in device memory. */
enum status queues_clear(struct engine *engine, void *at, size_t bytes);

/* What the device tells of a step (struct step_told), by who writes it. */
enum told_part { TOLD_BY_NORM, TOLD_BY_FORWARD, TOLD_ALL };
/* Local, asynchronous. Clears `stop`: updates change parameters again. */
enum status queues_clear_stop(struct engine *engine);
/* Local, asynchronous. Clears step_told of the step, before the step begins. */
enum status queues_clear_told(struct engine *engine, struct step *step);
/* Local, asynchronous. Copies step_told to the host, which may read it behind step->done: all of it
 * at the end of the step, or earlier a part that nothing enqueued since then writes. */
enum status queues_read_told(struct engine *engine, struct step *step, enum told_part part);

#endif
