/* See thread.h. */
#include "base/thread.h"

#include <signal.h>

#include "base/limit.h"

int thread_try(pthread_t *thread, void *(*run)(void *), void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int cause = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return cause;
}

enum status thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
    int cause = thread_try(thread, run, argument);
    return cause == 0 ? STATUS_OK : limit_fail("a thread of this process", cause);
}
