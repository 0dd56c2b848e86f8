/* The mover: a thread that moves posted operations on while its rank computes. Private to comm.
 *
 * Over a network every step of an operation needs somebody who looks: letters, pieces, results each
 * wait for the next look of the rank they come to. A rank that looks between two nodes of its graph
 * looks every ten milliseconds or so; measured, one of thirteen buckets was done when backward
 * ended. So a communicator that moves bytes by messages has this thread. Shared memory has none:
 * there an operation is work, not waiting, and a thread would take a core from the computation.
 *
 * One lock guards the communicator; whoever calls it holds it for that call. The mover sleeps where
 * nothing is posted and while the rank itself waits inside the communicator (it then does the same
 * work, sooner); else it looks, and naps for as long as looking is in vain. */
#ifndef COMM_MOVER_H
#define COMM_MOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct comm;
struct mover;

/* Local. Sets comm->mover; the communicator must not be in use. */
enum status mover_start(struct comm *comm);
/* Local, blocking until the thread has ended. Accepts a communicator without one. */
void mover_stop(struct comm *comm);

/* Local, for the rank's own thread; nothing where there is no mover. The lock may be taken again by
 * who has it. */
void mover_lock(struct comm *comm);
bool mover_try_lock(struct comm *comm);
void mover_unlock(struct comm *comm);
/* The rank begins or ends to wait inside the communicator: the mover keeps out meanwhile. */
void mover_pause(struct comm *comm, bool pause);
/* Something was posted. The lock is held. */
void mover_wake(struct comm *comm);
/* What the mover has spent on moving, since the start. */
int64_t mover_busy_ns(struct comm *comm);

/* Holds the lock until the end of the block, however it is left. */
#define MOVER_GUARD(whose)                                                                         \
    __attribute__((cleanup(mover_unguard), unused)) struct comm *guarded_ = mover_guard(whose)
struct comm *mover_guard(struct comm *comm);
void mover_unguard(struct comm **comm);

#endif
