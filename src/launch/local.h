/* The launcher: a process that starts the ranks of this node, runs or finds the control plane, and
 * starts all again after a loss.
 *
 *     char **argv;
 *     launch_arguments(&argv);
 *     return launch_local(&(struct launch_local_config){
 *         .launch = &config, .argv = argv, .log_folder = out});
 *
 * Ranks are copies of this program with the arguments given; each finds its identity with
 * launch_identity and the job with launch_rendezvous_of_rank. On several nodes the same command
 * runs on each, and their launchers meet at --init. */
#ifndef LAUNCH_LOCAL_H
#define LAUNCH_LOCAL_H

#include <stdbool.h>

#include "base/status.h"
#include "launch/identity.h"

struct launch_local_config {
    const struct launch_config *launch;
    const char *program;       /* NULL: this very program */
    char *const *argv;         /* of the ranks, argv[0] included, NULL at the end */
    char *const *restart_argv; /* after a loss (with --resume); NULL: argv again */
    int threads;               /* of OpenMP a rank; 0: cores / ranks */
    int restarts;              /* at most so many times, after a lost peer or a kill */
    const char *isa;           /* that this process has tried (backend.h), or NULL: ranks try */
    const char *log_folder;    /* for rank-N.log, made where it is not there; NULL: no logs */
    bool append_logs;          /* the run goes on with an older one */
    bool answers;        /* rank 0's standard output is this process's own: data, no display */
    double grace_s;      /* for the others, after a rank failed; 0: 30 */
    double join_limit_s; /* for all ranks to come; 0: 60 */
};

/* Blocking until the ranks have ended; from the main thread. Collective over the launchers of
 * several nodes. Returns the exit code of the command: 0, or that of the rank that failed first. */
int launch_local(const struct launch_local_config *config);

/* Local. The arguments of this process, however long, as the system keeps them; the caller frees
 * with launch_arguments_free. */
enum status launch_arguments(char ***out);
/* Local. A copy with `more` (NULL at the end) behind: of an option given twice the last one counts.
 */
char **launch_arguments_with(char *const *argv, const char *const *more);
void launch_arguments_free(char **argv);

#endif
