/* See thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/limit.h"
#include "base/log.h"

struct start {
    void *(*run)(void *);
    void *argument;
    const struct log_sink *sink;
};

static void *begin(void *argument) {
    struct start start = *(struct start *)argument;
    free(argument);
    log_use(start.sink);
    return start.run(start.argument);
}

int thread_try(pthread_t *thread, void *(*run)(void *), void *argument) {
    sigset_t all, before;
    struct start *start = malloc(sizeof *start);
    if (!start) return ENOMEM;
    *start = (struct start){run, argument, log_used()};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int cause = pthread_create(thread, NULL, begin, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (cause != 0) free(start);
    return cause;
}

enum status thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
    int cause = thread_try(thread, run, argument);
    return cause == 0 ? STATUS_OK : limit_fail("a thread of this process", cause);
}
