/* Errors that a rank of mpirun holds back: its threads say them at once, and none is lost. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/log.h"
#include "base/thread.h"
#include "run/refusal.h"

enum { THREADS = 4, ERRORS = 400 };

static pthread_barrier_t together;

static void *say_errors(void *context) {
    (void)context;
    pthread_barrier_wait(&together);
    for (int i = 0; i < ERRORS; i++) fail(STATUS_DATA, "x");
    return NULL;
}

static void on_alarm(int signal) {
    (void)signal;
}

/* The wait for mpirun's end would be seconds. */
static void cut_waits_short(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 10000}, {0, 10000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

Test(run_refusal, threads_hold_errors_together) {
    static char said[8000];
    pthread_t thread[THREADS];
    int count = 0;
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    log_capture(said, sizeof said);
    refusal_hold();
    pthread_barrier_init(&together, NULL, THREADS);
    for (int t = 0; t < THREADS; t++)
        cr_assert_eq(thread_start(&thread[t], say_errors, NULL), STATUS_OK);
    for (int t = 0; t < THREADS; t++) pthread_join(thread[t], NULL);
    cr_expect_str_empty(said, "not held: %s", said);
    cut_waits_short();
    refusal_say();
    for (const char *at = said; (at = strchr(at, 'x')); at++) count++;
    cr_expect_eq(count, THREADS * ERRORS, "%d errors of %d", count, THREADS * ERRORS);
}
