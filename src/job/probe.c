/* See probe.h. A plan that fails there fails here, too, with a message: there is none of the
 * forked one. */
#include "job/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "plan/plan_auto.h"
#include "plan/resolve.h"

enum { PROBE_LIMIT_S = 60 };

/* The process it was forked from may write to other places than these two. */
static void be_silent(void) {
    static char unheard[256];
    log_capture(unheard, sizeof unheard);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0) return;
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
}

_Noreturn static void plan_and_tell(const struct run_config *config, const struct plan_given *given,
                                    int to) {
    struct plan *plan;
    signal(SIGALRM, SIG_DFL);
    alarm(PROBE_LIMIT_S);
    be_silent();
    size_t before = mem_resident_bytes();
    if (plan_new(config, given, &plan) != STATUS_OK) _exit(1);
    if (plan_warm_up(plan) != STATUS_OK) _exit(1);
    size_t bytes = mem_resident_bytes() - before;
    _exit(write(to, &bytes, sizeof bytes) != sizeof bytes);
}

/* What a forked process writes; nothing where it failed. */
static bool hear(pid_t child, const int ends[2], void *data, size_t bytes) {
    ssize_t got = -1;
    close(ends[1]);
    while (child > 0 && (got = read(ends[0], data, bytes)) < 0 && errno == EINTR) {
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    close(ends[0]);
    return got == (ssize_t)bytes;
}

static size_t probe_planning(const struct run_config *config, const struct plan_given *given) {
    int ends[2];
    size_t bytes = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) return 0;
    pid_t child = fork();
    if (child == 0) plan_and_tell(config, given, ends[1]);
    return hear(child, ends, &bytes, sizeof bytes) ? bytes : 0;
}

/* --- all positions --- */

/* Of a long pipeline the inner ranks are taken to be alike: each costs the time of a plan. */
enum { PROBED = 8 };

static void probe_all(const struct run_config *config, const struct plan_given *given, int count,
                      size_t *bytes) {
    for (int p = 0; p < count; p++) {
        int rank = group_rank(&config->grid, GROUP_PIPELINE, 0, p);
        struct run_config at = resolve_for_rank(config, rank, config->dry);
        bool inner = p >= PROBED - 1 && p < count - 1;
        bytes[p] = inner ? bytes[p - 1] : probe_planning(&at, given);
    }
}

/* The plan that chooses has no kernels. It is kept meanwhile: what it holds is not taken for free
 * memory. */
_Noreturn static void choose_and_tell(const struct run_config *config,
                                      const struct plan_given *given, int count, size_t *bytes,
                                      int to) {
    struct plan *choosing;
    struct plan_given chosen = *given;
    struct run_config dry = resolve_for_rank(config, config->rank, true);
    size_t all = (size_t)count * sizeof *bytes;
    be_silent();
    if (plan_new(&dry, given, &choosing) != STATUS_OK) _exit(1);
    if (choosing->choice.orders) chosen.chosen = &choosing->choice;
    probe_all(config, &chosen, count, bytes);
    _exit(write(to, bytes, all) != (ssize_t)all);
}

void probe_positions(const struct run_config *config, const struct plan_given *given, int count,
                     size_t *bytes) {
    int ends[2];
    if (!plan_is_auto(config) || given->agreed) {
        probe_all(config, given, count, bytes);
        return;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pid_t child = fork();
    if (child == 0) choose_and_tell(config, given, count, bytes, ends[1]);
    hear(child, ends, bytes, (size_t)count * sizeof *bytes);
}
