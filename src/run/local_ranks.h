/* The ranks of a run that are in this process: one, all of them as threads (--spawn threads, the
 * preset dp, the library), or one that was started as a process (mpirun, srun, our launcher). */
#ifndef RUN_LOCAL_RANKS_H
#define RUN_LOCAL_RANKS_H

#include "exec/rank_threads.h"
#include "run/rank.h"
#include "run/thread_positions.h"
#include "virtual/virtual.h"

struct local_ranks;

struct local_rank {
    struct local_ranks *ranks;
    int index;               /* among those of this process */
    struct session *session; /* its planned run and its engine */
    struct session own;      /* that of a thread */
    struct rank process;
};

typedef enum status local_task(struct local_rank *rank, void *context);

struct local_ranks {
    const struct options *options;
    const struct start *start;
    int count; /* of ranks here */
    int world; /* of the run */
    struct local_rank *rank;
    struct rank_threads *threads;
    struct virtual_world *world_clock; /* of --clock virtual; NULL */
    struct shared_chooser *chooser;    /* of groups that are chosen on the wall clock; else NULL */
    struct thread_positions positions; /* of ranks that are threads */
    struct bytes program;              /* of auto: the text of rank 0's */
    bool apart;                        /* none of them has the caller's thread */
};

/* Collective over the ranks of the run, blocking. Plans a run, opens its folder if it has one and
 * joins the others: what is left is the session of each rank. `start` is of any kind but
 * START_LAUNCHER; both must outlive the ranks. `apart`: none runs on the caller's thread. The
 * caller closes them; *out is NULL after a failure. */
enum status local_ranks_open(const struct options *options, const struct start *start, bool apart,
                             struct local_ranks **out);
/* Local, blocking. Accepts NULL, and clears it. */
void local_ranks_close(struct local_ranks **ranks);

/* As rank_threads_do and rank_threads_try. */
enum status local_ranks_do(struct local_ranks *ranks, local_task *task, void *context);
enum status local_ranks_try(struct local_ranks *ranks, local_task *task, void *context);

/* Local. What the rank does now, for whoever waits for it; instructions of steps tell themselves.
 */
void local_ranks_say(struct local_rank *rank, const char *what);

/* Collective, blocking. Gives `data` of the rank that has it to the ranks of all processes; for a
 * task of local_ranks_do. Ranks of one process share the memory: then nothing is done. */
enum status local_ranks_share(struct local_rank *rank, bool has, void *data, size_t bytes);

#endif
