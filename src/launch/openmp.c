/* See openmp.h. */
#include "launch/openmp.h"

#include <ctype.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/library_signals.h"
#include "launch/waiting.h"

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

static const char *const stack_names[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE"};

/* As OpenMP reads it: a number and a unit, B, K, M or G; K where there is none. 0: not understood,
 * then OpenMP takes its own. */
static double stack_bytes(const char *text) {
    static const char units[] = "bkmg";
    char *end;
    double number = strtod(text, &end), bytes = 1024;
    while (isspace((unsigned char)*end)) end++;
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    for (int i = 0; unit && i <= (int)(unit - units); i++) bytes = i ? bytes * 1024 : 1;
    return *end && !unit ? 0 : number * bytes;
}

/* The kernels of oneDNN and our own have tiles on the stack: 64 KiB sufficed for all that were
 * tried, 32 KiB did not. */
enum { STACK_BYTES = 1 << 20, LEAST_STACK_BYTES = 128 << 10 };

static const char *small_stack(int i) {
    const char *value = getenv(stack_names[i]);
    double bytes = value ? stack_bytes(value) : 0;
    return bytes > 0 && bytes < STACK_BYTES ? value : NULL;
}

enum status openmp_check_stacks(int threads) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < LEAST_STACK_BYTES)
        return fail(
            STATUS_USAGE,
            "the limit of the stack is %llu KiB, kernels need %d\n  raise it with ulimit -s",
            (unsigned long long)limit.rlim_cur >> 10, LEAST_STACK_BYTES >> 10);
    for (int i = 0; i < 2 && threads > 1; i++)
        if (small_stack(i))
            return fail(STATUS_USAGE,
                        "%s=%s: threads of kernels need a stack of 1 MiB\n"
                        "  set more, or none, before the program starts",
                        stack_names[i], small_stack(i));
    return STATUS_OK;
}

static void widen_stacks(void) {
    for (int i = 0; i < 2; i++) {
        if (!small_stack(i)) continue;
        log_warning("%s=%s is not used: threads of kernels need a stack of 1 MiB", stack_names[i],
                    small_stack(i));
        unsetenv(stack_names[i]);
    }
}

/* Where nobody can see that others want the cores (launch/waiting.h), workers spin a little at
 * most: long spinning makes a busy machine crawl (measured: ten times slower and more beside other
 * processes). A team that shrinks by itself breaks oneDNN. */
static void set_waiting(void) {
    setenv("OMP_DYNAMIC", "false", 1);
    if (!getenv("OMP_WAIT_POLICY") && !waiting_is_watched()) setenv("GOMP_SPINCOUNT", "3000", 0);
}

static bool settled;

bool openmp_is_settled(void) {
    return settled;
}

void openmp_settle(char *const argv[]) {
    if (!getenv(OPENMP_SETTLED)) {
        setenv(OPENMP_SETTLED, "1", 1);
        set_waiting();
        widen_stacks();
        openmp_set_aside();
        comm_keep_signals();
        if (noted) sched_setaffinity(0, sizeof given, &given);
        execv("/proc/self/exe", argv); /* where that fails the run is only slower */
    }
    unsetenv(OPENMP_SETTLED);
    settled = true;
}
