/* See refusal.h. */
#include "run/refusal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/process.h"

enum { WAIT_S = 10 };

static atomic_bool holding;
static char held[4000]; /* errors, one behind the other */

/* Threads that were started meanwhile keep this sink: what is not held goes where it would. */
static void take(void *context, enum log_level level, const char *text) {
    size_t used = strlen(held);
    (void)context;
    if (level == LOG_ERROR && atomic_load(&holding)) {
        snprintf(held + used, sizeof held - used, "%s%s", used ? "\n" : "", text);
        return;
    }
    const struct log_sink *own = log_use(NULL);
    if (level == LOG_ERROR) fail(STATUS_OK, "%s", text);
    if (level == LOG_WARNING) log_warning("%s", text);
    if (level == LOG_NOTE) log_note("%s", text);
    if (level == LOG_ANSWER) log_answer("%s", text);
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
    if (!*held) return;
    process_release_signals();
    nanosleep(&wait, NULL);
    fail(STATUS_OK, "%s", held);
}
