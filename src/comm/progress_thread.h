/* The progress thread: makes progress on posted operations while its rank computes. Private to
 * comm.
 *
 * Over a network every step of an operation needs a poll: headers, pieces and results each wait for
 * the next poll of the rank they come to. A rank that polls between two nodes of its graph polls
 * every ten milliseconds or so; measured, one of thirteen buckets was done when backward ended. So
 * a communicator that moves bytes by messages has this thread. Shared memory has none: there an
 * operation is work, not waiting, and a thread would take a core from the computation.
 *
 * One lock guards the communicator; a caller holds it for its call. The thread sleeps where nothing
 * is posted and while the rank itself waits inside the communicator (the rank then does the same
 * work, sooner); otherwise it polls, with growing naps while nothing moves. */
#ifndef COMM_PROGRESS_THREAD_H
#define COMM_PROGRESS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct comm;
struct progress_thread;

/* Local. Sets comm->progress_thread; the communicator must not be in use. */
enum status comm_thread_start(struct comm *comm);
/* Local, blocking until the thread has ended. Accepts a communicator without one. */
void comm_thread_stop(struct comm *comm);

/* Local, for the rank's own thread; nothing where there is no progress thread. The lock may be
 * taken again by who has it. */
void comm_thread_lock(struct comm *comm);
bool comm_thread_try_lock(struct comm *comm);
void comm_thread_unlock(struct comm *comm);
/* The rank begins or ends to wait inside the communicator: the progress thread keeps out meanwhile.
 */
void comm_thread_pause(struct comm *comm, bool pause);
/* Something was posted. The lock is held. */
void comm_thread_wake(struct comm *comm);
/* Time the progress thread has spent on moving data, since the start. */
int64_t comm_thread_busy_ns(struct comm *comm);

/* Holds the lock until the end of the block, however it is left. */
#define PROGRESS_THREAD_GUARD(whose)                                                               \
    __attribute__((cleanup(comm_thread_unguard), unused)) struct comm *guarded_ =                  \
        comm_thread_guard(whose)
struct comm *comm_thread_guard(struct comm *comm);
void comm_thread_unguard(struct comm **comm);

#endif
