/* A plain runner for the Criterion tests, linked in place of Criterion's own.
 *
 * Criterion 2.4.1 does not end a test that runs past --timeout, tells of a test that dies after its
 * last assertion in a warning without its output, and starts each test through an inherited arena
 * at a fixed address, which the thread sanitizer's shadow memory leaves no room for. Here a test is
 * a fork that leaves through exit(), so whatever it does is a result of the test that did it. The
 * functions below take the place of the library's own of the same name; its text helpers are still
 * used. Parameterized tests are not known here: write a loop over a table. */
#include <criterion/criterion.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[], *__stop_cr_sts[];

/* What a test tells the runner; in a shared mapping. */
struct verdict {
    int failures;
    int skipped;
    char reason[512];
};

struct job {
    pid_t pid;
    const struct criterion_test *test;
    struct verdict *verdict;
    FILE *output;
    int64_t begin_ns;
};

enum { JOBS_MAX = 64 };

static struct verdict *my_verdict;
static const struct criterion_test *my_test;
static jmp_buf test_end;

/* --- the part that runs in a test's process --- */

void criterion_send_assert(struct criterion_assert_stats *stats) {
    if (stats->passed) return;
    my_verdict->failures++;
    fprintf(stderr, "%s:%u: %s\n", stats->file, stats->line,
            stats->message ? stats->message : "failed");
}

void cri_asserts_passed_incr(void) {
}

void criterion_continue_test(void) {
}

void criterion_abort_test(void) {
    longjmp(test_end, 1);
}

void criterion_skip_test(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(my_verdict->reason, sizeof my_verdict->reason, format ? format : "", args);
    va_end(args);
    my_verdict->skipped = 1;
    longjmp(test_end, 1);
}

/* What TestSuite() says about the suite of this test, NULL when nothing. */
static const struct criterion_test_extra_data *my_suite(void) {
    for (struct criterion_suite **next = __start_cr_sts; next < __stop_cr_sts; next++) {
        if (*next && (*next)->data && !strcmp((*next)->name, my_test->category))
            return (*next)->data;
    }
    return NULL;
}

void criterion_internal_test_setup(void) {
    const struct criterion_test_extra_data *suite = my_suite();
    if (setjmp(test_end) != 0) return;
    if (suite && suite->init) suite->init();
    if (my_test->data->init) my_test->data->init();
}

void criterion_internal_test_main(void (*body)(void)) {
    if (setjmp(test_end) == 0) body();
}

void criterion_internal_test_teardown(void) {
    const struct criterion_test_extra_data *suite = my_suite();
    if (setjmp(test_end) != 0) return;
    if (my_test->data->fini) my_test->data->fini();
    if (suite && suite->fini) suite->fini();
}

static void run_here(const struct job *job, unsigned limit_s) {
    my_verdict = job->verdict;
    my_test = job->test;
    dup2(fileno(job->output), STDOUT_FILENO);
    dup2(fileno(job->output), STDERR_FILENO);
    alarm(limit_s);
    job->test->test();
    exit(my_verdict->failures ? 1 : 0);
}

/* --- the part that starts tests and reports --- */

static void start(struct job *job, const struct criterion_test *test, unsigned limit_s) {
    job->test = test;
    job->output = tmpfile();
    job->begin_ns = clock_ns();
    job->verdict =
        mmap(NULL, sizeof *job->verdict, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!job->output || job->verdict == MAP_FAILED) {
        perror("tests: cannot start");
        exit(1);
    }
    fflush(NULL);
    job->pid = fork();
    if (job->pid == 0) run_here(job, limit_s);
}

static void copy_indented(FILE *from, FILE *to) {
    char line[1024];
    rewind(from);
    while (fgets(line, sizeof line, from))
        fprintf(to, "  %s%s", line, strchr(line, '\n') ? "" : "\n");
}

/* A test that was expected to end by a signal or with a status says so in its extra data. */
static bool ended_as_expected(const struct job *job, int status) {
    const struct criterion_test_extra_data *extra = job->test->data;
    if (job->verdict->failures) return false;
    if (extra->signal) return WIFSIGNALED(status) && WTERMSIG(status) == extra->signal;
    return WIFEXITED(status) && WEXITSTATUS(status) == extra->exit_code;
}

static bool report(struct job *job, int status, FILE *tap) {
    const struct criterion_test *test = job->test;
    double seconds = (double)(clock_ns() - job->begin_ns) * 1e-9;
    bool good = ended_as_expected(job, status);
    if (good && job->verdict->skipped) {
        fprintf(tap, "ok - %s::%s # SKIP %s\n", test->category, test->name, job->verdict->reason);
    } else if (good) {
        fprintf(tap, "ok - %s::%s (%.2fs)\n", test->category, test->name, seconds);
    } else {
        fprintf(tap, "not ok - %s::%s %s %d (%.2fs)\n", test->category, test->name,
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), seconds);
        copy_indented(job->output, tap);
    }
    fflush(tap);
    fclose(job->output);
    munmap(job->verdict, sizeof *job->verdict);
    *job = (struct job){0};
    return good;
}

/* Blocking. Waits for one test to end and frees its place. */
static bool reap(struct job *jobs, FILE *tap) {
    int status = 0;
    pid_t pid = wait(&status);
    for (int i = 0; i < JOBS_MAX; i++) {
        if (jobs[i].pid == pid && pid > 0) return report(&jobs[i], status, tap);
    }
    return false;
}

struct settings {
    int jobs;
    unsigned limit_s;
    bool list;
    const char *filter, *tap;
};

static struct settings read_arguments(int argc, char **argv) {
    struct settings settings = {.jobs = 1, .limit_s = 600};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--jobs") && more)
            settings.jobs = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--timeout") && more)
            settings.limit_s = (unsigned)atoi(argv[++i]);
        else if (!strncmp(argv[i], "--filter=", 9))
            settings.filter = argv[i] + 9;
        else if (!strncmp(argv[i], "--tap=", 6))
            settings.tap = argv[i] + 6;
        else if (!strcmp(argv[i], "--list"))
            settings.list = true;
        else {
            fprintf(stderr, "unit-tests: unknown argument %s\n", argv[i]);
            exit(2);
        }
    }
    if (settings.jobs < 1) settings.jobs = 1;
    if (settings.jobs > JOBS_MAX) settings.jobs = JOBS_MAX;
    return settings;
}

/* Patterns are Criterion's: @(a|b) is one of them, !(a|b) none. */
static bool is_wanted(const struct criterion_test *test, const struct settings *settings) {
    if (!test || test->data->disabled) return false;
    return !settings->filter || !fnmatch(settings->filter, test->data->identifier_, FNM_EXTMATCH);
}

/* As Criterion lists them, but without gathering those of a suite. */
static int list(const struct settings *settings) {
    for (struct criterion_test **next = __start_cr_tst; next < __stop_cr_tst; next++) {
        if (!is_wanted(*next, settings)) continue;
        printf("%s: 1 test\n`-- %s\n", (*next)->category, (*next)->name);
    }
    return 0;
}

static struct job *free_place(struct job *jobs) {
    struct job *place = jobs;
    while (place->pid) place++;
    return place;
}

int main(int argc, char **argv) {
    struct settings settings = read_arguments(argc, argv);
    if (settings.list) return list(&settings);
    struct job jobs[JOBS_MAX] = {{0}};
    FILE *tap = settings.tap ? fopen(settings.tap, "w") : stdout;
    if (!tap) return 2;
    int running = 0, failed = 0;
    for (struct criterion_test **next = __start_cr_tst; next < __stop_cr_tst; next++) {
        if (!is_wanted(*next, &settings)) continue;
        if (running == settings.jobs) {
            failed += !reap(jobs, tap);
            running--;
        }
        start(free_place(jobs), *next, settings.limit_s);
        running++;
    }
    for (; running; running--) failed += !reap(jobs, tap);
    fclose(tap);
    return failed ? 1 : 0;
}
