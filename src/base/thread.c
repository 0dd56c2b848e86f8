/* See thread.h. */
#include "base/thread.h"

#include <signal.h>
#include <string.h>

#include "base/log.h"

enum status thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int cause = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (cause == 0) return STATUS_OK;
    return fail(STATUS_MEMORY,
                "the system gives no more threads: %s\n"
                "  look at ulimit -u and the container's limit of processes",
                strerror(cause));
}
