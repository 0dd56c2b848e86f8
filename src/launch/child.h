/* One child process: a rank. Private to src/launch.
 *
 * It dies with its parent, three times over: the parent's death signal; a look at the parent after
 * that was set; and a pipe whose other end only the parent holds, whose closing makes the kernel
 * send SIGKILL (asynchronous I/O with that signal), so that no thread of the rank has to watch. All
 * calls are local; start from the main thread, since the death signal follows the thread that
 * forks. */
#ifndef LAUNCH_CHILD_H
#define LAUNCH_CHILD_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

enum { CHILD_KEEPS = 2 };

struct child_config {
    const char *program; /* absolute path */
    char *const *argv, *const *envp;
    int output, error;      /* become descriptors 1 and 2; 0 is /dev/null */
    int keep[CHILD_KEEPS];  /* descriptors the child keeps under their numbers, -1: none; all others
                               are closed */
    const cpu_set_t *cores; /* NULL: any */
    const sigset_t *mask;   /* signals blocked in the child */
};

struct child {
    pid_t pid;
    int pidfd; /* readable when it has ended; signals go through it, so never to a process that took
                  the number */
    int lifeline; /* the child is killed when this closes */
};

/* Returns when the program runs, or why it does not. The caller reaps with child_reap. */
enum status child_start(const struct child_config *config, struct child *out);
/* Whether it stands still after SIGSTOP or the like. */
bool child_is_stopped(const struct child *child);
/* A signal to the child; nothing where it has ended. */
void child_signal(const struct child *child, int signal);
/* Not blocking. False while it runs; else its exit code, or minus the signal that killed it, and
 * the descriptors are closed. */
bool child_reap(struct child *child, int *result);

/* Says which limit stopped `what` (errno EMFILE, ENFILE, EAGAIN, ENOMEM), and how to raise it;
 * STATUS_USAGE. */
enum status child_fail_limit(const char *what, int error);

#endif
