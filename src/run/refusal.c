/* See refusal.h. */
#include "run/refusal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/process.h"

enum { WAIT_S = 10 };

static atomic_bool holding;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static char held[4000];                                  /* errors, one behind the other */

static void hold(const char *text) {
    pthread_mutex_lock(&lock);
    size_t used = strlen(held);
    snprintf(held + used, sizeof held - used, "%s%s", used ? "\n" : "", text);
    pthread_mutex_unlock(&lock);
}

/* Threads that were started meanwhile keep this sink: what is not held goes where it would. */
static void take(void *context, enum log_level level, const char *text) {
    (void)context;
    if (level == LOG_ERROR && atomic_load(&holding)) {
        hold(text);
        return;
    }
    const struct log_sink *own = log_use(NULL);
    if (level == LOG_ERROR) fail(STATUS_OK, "%-s", text);
    if (level == LOG_WARNING) log_warning("%-s", text);
    if (level == LOG_NOTE) log_note("%-s", text);
    if (level == LOG_ANSWER) log_answer("%-s", text);
    log_use(own);
}

static const struct log_sink sink = {NULL, take};

void refusal_hold(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank) rank = getenv("PMI_RANK");
    if (!rank || atoi(rank) <= 0 || getenv("STRETTO_RANK")) return;
    atomic_store(&holding, true);
    log_use(&sink);
}

void refusal_release(void) {
    atomic_store(&holding, false);
}

void refusal_say(void) {
    struct timespec wait = {.tv_sec = WAIT_S};
    refusal_release();
    if (log_used() == &sink) log_use(NULL);
    pthread_mutex_lock(&lock);
    bool any = *held != 0;
    pthread_mutex_unlock(&lock);
    if (!any) return;
    process_release_signals();
    nanosleep(&wait, NULL);
    pthread_mutex_lock(&lock);
    fail(STATUS_OK, "%-s", held);
    pthread_mutex_unlock(&lock);
}
