/* A crew: the ranks of a run that are in this process, each on a thread of its own that does what
 * it is told, task by task, and waits in between. A program's run (run/library.c) has one; of the
 * command, a run whose ranks are threads (--spawn threads, the preset dp).
 *
 * A device belongs to the thread that opened it, and kernels of oneDNN want a stack of their own
 * (exec/stop.h): so also a single rank is not on the caller's thread, and any thread may use a run.
 * A rank that was started as a process (mpirun, srun) is a crew of one. */
#ifndef RUN_CREW_H
#define RUN_CREW_H

#include <pthread.h>

#include "run/rank.h"
#include "run/thread_positions.h"

struct crew;

struct crew_rank {
    struct crew *crew;
    int index;               /* among those of this process */
    struct session *session; /* its job, communicator and executor */
    struct checkpoint_state saved;
    enum status status; /* of the last task */
    struct session own; /* of a thread */
    struct rank process;
    pthread_t thread;
};

typedef enum status crew_task(struct crew_rank *rank, void *context);

struct crew {
    const struct options *options;
    const struct start *start;
    int count; /* of ranks here */
    int world; /* of the job */
    struct crew_rank *rank;
    struct thread_positions positions; /* of ranks that are threads */
    struct bytes program;              /* of auto: the text of rank 0's */
    enum status status;                /* of the first failure that ends the run */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t go, done;
    crew_task *task;
    void *context;
    int first, end; /* the ranks that it is for */
    bool aborts;    /* one that fails tells the others, which would wait for it */
    int64_t number; /* of tasks so far */
    int pending;
};

/* Collective over the ranks of the job, blocking. Plans a run, opens its folder if it has one, and
 * its communicators: what is left is the session of each rank. `start` is of any kind but
 * START_LAUNCHER; both must outlive the crew. Messages of the threads go where the caller's do. The
 * caller closes it; *out is NULL after a failure. */
enum status crew_open(const struct options *options, const struct start *start, struct crew **out);
/* Local, blocking. Accepts NULL, and clears it. */
void crew_close(struct crew **crew);

/* As the task says, blocking. Runs it on all ranks here, and gives the first status that is not the
 * echo of another's failure. After a failure every wait of every rank ends, and no task runs any
 * more; a stop on request is none. */
enum status crew_do(struct crew *crew, crew_task *task, void *context);
/* The same of a task whose ranks fail together, or which waits for nobody: the run goes on. */
enum status crew_try(struct crew *crew, crew_task *task, void *context);

/* Local. What the rank does now, for whoever waits for it; instructions of steps tell themselves.
 */
void crew_says(struct crew_rank *rank, const char *what);

/* Collective, blocking. Gives `data` of the rank that has it to the ranks of all processes; for a
 * task of crew_do. Ranks of one process share the memory: then nothing is done. */
enum status crew_share(struct crew_rank *rank, bool has, void *data, size_t bytes);

#endif
