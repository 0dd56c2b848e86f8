/* Ranks as threads of one process: each has a thread of its own that does what it is told, task by
 * task, and waits in between.
 *
 * A device belongs to the thread that opened it, so all that a rank does is done on its thread.
 * Rank 0 may be the caller's thread: then a single rank needs no other. The library and --spawn
 * threads keep it apart, since any thread may use a run. */
#ifndef EXEC_RANK_THREADS_H
#define EXEC_RANK_THREADS_H

#include "comm/comm.h"
#include "plan/plan.h"

struct rank_threads;

typedef enum status rank_task(void *context, int rank);

/* Local. Starts them; `apart`: rank 0 has a thread too. Their messages go where the caller's do.
 * The caller closes them. */
enum status rank_threads_open(int count, bool apart, struct rank_threads **out);
/* Local, blocking. Accepts NULL, and clears it. Communicators that nobody took are closed. */
void rank_threads_close(struct rank_threads **threads);

/* As the task says, blocking. Runs it on all ranks, and gives the first status that is not the echo
 * of another's failure. After a failure every wait of every rank ends, so no other task of this
 * kind may follow; a stop on request is no failure. A task must not close the rank's communicator
 * after a failure: the others are told through it. */
enum status rank_threads_do(struct rank_threads *threads, rank_task *task, void *context);
/* The same of a task whose ranks fail together, or which waits for nobody: the others are not told.
 */
enum status rank_threads_try(struct rank_threads *threads, rank_task *task, void *context);
/* Local. The first failure of rank_threads_do. */
enum status rank_threads_failed(const struct rank_threads *threads);

/* Collective over the ranks, of which there are several; blocking; in a task. The communicator of a
 * rank for its plan: rank 0 opens those of all. The caller closes it, before it asks for another.
 */
enum status rank_threads_comm(struct rank_threads *threads, int rank, const struct plan *plan,
                              struct comm **out);

#endif
