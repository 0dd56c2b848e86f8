/* The ranks of one host: started, watched, ended. Knows processes, not the job: launch/local.h adds
 * the control plane and restarts.
 *
 * Blocking, local; call from the main thread of a process, once at a time: it takes over SIGINT,
 * SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP and SIGWINCH meanwhile. The first SIGINT, SIGTERM or
 * SIGHUP is passed on to the ranks, which save and stop; the second kills them. SIGUSR2 is passed
 * on, and SIGUSR1 where nobody here answers it. SIGTSTP (Ctrl-Z) stops the ranks with the launcher,
 * and they go on with it. A rank that fails starts a grace period for the
 * others (they hear of it from the control plane and end by themselves); then come SIGTERM and
 * SIGKILL. Signals that are held (base/process.h) stay so across fork and exec: a rank releases
 * them when it has handlers. What was ignored from the start stays ignored. Only own processes are
 * signalled, through descriptors that cannot mean another. */
#ifndef LAUNCH_RANKS_H
#define LAUNCH_RANKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct ranks_config {
    const char *program;                /* NULL: this very program */
    char *const *argv;                  /* the ranks' arguments, argv[0] included */
    int count;                          /* ranks to start here, */
    int first_rank, world, node, nodes; /* and where they stand in the job */
    int threads;                        /* of OpenMP a rank; 0: cores / count */
    int attempt;                        /* 0, then counts restarts */
    const char *isa;                    /* see launch/local.h */
    const char *address;                /* of the control plane, or NULL */
    int secret, status_table;           /* descriptors the ranks inherit, -1: none */
    const char *log_folder;             /* NULL: no logs */
    bool append_logs;
    bool answers;           /* rank 0's standard output is this process's own */
    double grace_s, kill_s; /* from a failure to SIGTERM; from there to SIGKILL */
    /* Called in the loop; may be NULL. A rank failed; what was it doing? Where are all? */
    void *context;
    void (*ended)(void *context, int rank, const char *why);
    const char *(*doing)(void *context, int rank, char *text, size_t bytes);
    void (*report)(void *context);
    /* Whose failure an exit tells of: the rank's own, another's or RANKS_ANOTHER's. */
    int (*cause)(void *context, int rank);
    /* The next rank that the others gave up, and why; false: none. Asked when the descriptor
     * `given_up_event` becomes readable. */
    int given_up_event;
    bool (*given_up)(void *context, int *rank, char *why, size_t bytes);
};
enum { RANKS_ANOTHER = -1 /* it is not known whose */ };

struct ranks_outcome {
    int exit_code;      /* 0, or that of the rank that failed first (below) */
    int rank;           /* which, -1: none */
    int stopped_by;     /* the signal that asked the launcher to stop, 0: none */
    bool worth_another; /* a peer was lost or a rank was killed, before anybody asked to stop */
};

/* Runs the ranks to their end. A rank that was killed counts as a lost peer (4), by the kernel for
 * want of memory as 5, by its own fault (SIGSEGV and the like) as a bug (7); by the signal passed
 * on as 128 + signal. Ranks that end with 4, or because of another, only tell of it: where the one
 * that caused it ends before anyone was made to, that one is named. Its exit report is logged. A
 * rank that the others gave up is killed at once: stopped or stuck as it is it would not hear of
 * it. A failure to start ends those started. */
enum status ranks_run(const struct ranks_config *config, struct ranks_outcome *out);

#endif
