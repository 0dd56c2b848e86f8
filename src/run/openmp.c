/* See openmp.h. */
#include "run/openmp.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "run/waiting.h"

const char *const openmp_binding[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY",
                                      "KMP_AFFINITY", NULL};

static cpu_set_t given;
static bool noted;

/* Sanitizers may not be ready yet when this runs. */
__attribute__((no_sanitize("address", "thread", "undefined"))) void openmp_note_cores(void) {
    noted = sched_getaffinity(0, sizeof given, &given) == 0;
}

static const char *aside_name(const char *name, char text[64]) {
    snprintf(text, 64, "STRETTO_ASIDE_%s", name);
    return text;
}

const char *openmp_aside(const char *name) {
    char text[64];
    return getenv(aside_name(name, text));
}

void openmp_set_aside(void) {
    for (int i = 0; openmp_binding[i]; i++) {
        char text[64];
        const char *value = getenv(openmp_binding[i]);
        if (!value) continue;
        setenv(aside_name(openmp_binding[i], text), value, 1);
        unsetenv(openmp_binding[i]);
    }
}

/* Where nobody can see that others want the cores (run/waiting.h), workers spin a little at most:
 * long spinning makes a busy machine crawl (measured: ten times slower and more beside other
 * processes). A team that shrinks by itself breaks oneDNN. */
static void set_waiting(void) {
    setenv("OMP_DYNAMIC", "false", 1);
    if (!getenv("OMP_WAIT_POLICY") && !waiting_is_watched()) setenv("GOMP_SPINCOUNT", "3000", 0);
}

void openmp_settle(char *const argv[]) {
    static const char mark[] = "STRETTO_STARTED";
    if (!getenv(mark)) {
        setenv(mark, "1", 1);
        set_waiting();
        openmp_set_aside();
        if (noted) sched_setaffinity(0, sizeof given, &given);
        execv("/proc/self/exe", argv); /* where that fails the run is only slower */
    }
    unsetenv(mark);
}
