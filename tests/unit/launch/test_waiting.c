/* How OpenMP's workers wait: who is found to stand in line for a core, and what follows. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/waiting.h"

enum { SECOND_MS = 1000 };

static const int64_t ms = 1000 * 1000;

Test(run_waiting, workers_sleep_after_a_window_in_line_and_spin_after_a_pause) {
    struct waiting_rule rule = {0};
    waiting_judge(&rule, 100 * ms, 20 * ms);
    cr_expect_not(rule.sleeps);
    waiting_judge(&rule, 100 * ms, 50 * ms);
    cr_expect(rule.sleeps);
    cr_expect_eq(rule.pause_ns, SECOND_MS * ms);
    /* What was measured in a pause says nothing: workers did not spin. */
    waiting_judge(&rule, SECOND_MS * ms, 900 * ms);
    cr_expect_not(rule.sleeps);
}

Test(run_waiting, pauses_double_until_spinning_succeeds) {
    struct waiting_rule rule = {0};
    for (int64_t pause = 1; pause <= 64; pause *= 2) {
        waiting_judge(&rule, 100 * ms, 100 * ms);
        cr_expect(rule.sleeps);
        cr_expect_eq(rule.pause_ns, (pause < 16 ? pause : 16) * SECOND_MS * ms);
        waiting_judge(&rule, rule.pause_ns, 0);
    }
    waiting_judge(&rule, 100 * ms, 0);
    waiting_judge(&rule, 100 * ms, 100 * ms);
    cr_expect_eq(rule.pause_ns, SECOND_MS * ms);
}

static int tasks(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *one; (one = readdir(folder));) count += one->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* A thread that has ended may be listed for a moment. */
static void await_tasks(int count) {
    while (tasks() != count) usleep(100);
}

/* The thread sanitizer adds a thread of its own to the first: what counts tasks begins after it. */
static void count_in_thread(void *(*body)(void *)) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, body, NULL), 0);
    pthread_join(thread, NULL);
}

static void *sleep_and_spin(void *none) {
    int before = tasks();
    cr_expect(waiting_set_team(3));
    cr_expect_eq(tasks() - before, 2);
    cr_expect(waiting_set_team(0));
    await_tasks(before);
    return none;
}

Test(run_waiting, an_idle_team_is_there_until_given_back, .timeout = 20) {
    if (!waiting_is_watched()) cr_skip("OpenMP is not libgomp, or this kernel does not count");
    omp_set_dynamic(0);
    count_in_thread(sleep_and_spin);
}

/* libgomp's rule for short spins: more threads than cores. */
Test(run_waiting, the_idle_team_exceeds_the_cores_by_one) {
    cr_expect_eq(waiting_team(16, 1, 16), 2);
    cr_expect_eq(waiting_team(16, 1, 2), 16); /* 2 + 15 */
    cr_expect_eq(waiting_team(16, 4, 4), 5);  /* 1 + 4 x 3 + 4 */
    cr_expect_eq(waiting_team(2, 4, 2), 2);   /* there are more already */
}

/* 0 as it should be, 1 a team was given, 2 this cannot be tried. */
static int ask_for_team_beyond_limit(void) {
    struct rlimit few = {1, 1};
    if (geteuid() == 0 && setuid(65534) != 0) return 2;
    if (setrlimit(RLIMIT_NPROC, &few) != 0) return 2;
    return waiting_set_team(3) ? 1 : 0;
}

/* libgomp ends the process where it gets no thread. In a process that ends at once: the search for
 * leaks of a sanitizer would need a thread too. */
Test(run_waiting, a_team_that_the_system_does_not_give_is_not_begun) {
    int status;
    pid_t child = fork();
    if (child == 0) _exit(ask_for_team_beyond_limit());
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) cr_skip("no user without privileges");
    cr_expect_eq(WEXITSTATUS(status), 0);
}

static int stop;

static void *use_first_core(void *none) {
    cpu_set_t all, one;
    int core = 0;
    sched_getaffinity(0, sizeof all, &all);
    while (!CPU_ISSET(core, &all)) core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) continue;
    return none;
}

/* Two threads that want one core. */
static void *stand_in_line(void *none) {
    pthread_t thread[2];
    int before = tasks();
    struct waiting *waiting = waiting_new(1, 2);
    cr_expect_not_null(waiting);
    if (!waiting) return none;
    for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, use_first_core, NULL);
    while (tasks() < before + 3 + waiting_team(omp_get_num_procs(), 1, 2) - 1)
        usleep(1000); /* the idle team */
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    waiting_free(&waiting);
    await_tasks(before);
    return none;
}

Test(run_waiting, threads_in_line_for_a_core_make_workers_sleep, .timeout = 30) {
    if (!waiting_is_watched()) cr_skip("OpenMP is not libgomp, or this kernel does not count");
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
    omp_set_dynamic(0);
    cr_expect_null(waiting_new(1, 1), "one thread has no workers");
    count_in_thread(stand_in_line);
}

Test(run_waiting, what_the_user_decided_stays) {
    setenv("OMP_WAIT_POLICY", "active", 1);
    cr_expect_null(waiting_new(1, 2));
    unsetenv("OMP_WAIT_POLICY");
    setenv("GOMP_SPINCOUNT", "5", 1);
    cr_expect_null(waiting_new(1, 2));
}
