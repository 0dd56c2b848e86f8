/* See probe.h. A plan that fails there fails here, too, with a message: there is none of the
 * forked one. */
#include "planned/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "plan/plan_auto.h"
#include "plan/resolve.h"

enum { PROBE_LIMIT_S = 60 };

/* The process it was forked from may write to other places than these two. */
static void discard_output(void) {
    static char unheard[256];
    log_capture(unheard, sizeof unheard);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0) return;
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
}

struct probe {
    const struct run_config *config;
    const struct plan_given *given;
    int count;
    size_t *bytes; /* of each */
};

/* Runs a task in a process that is forked for it, and takes over the bytes that it found. */
static void in_another(bool (*task)(const struct probe *probe), const struct probe *probe) {
    size_t all = (size_t)probe->count * sizeof *probe->bytes;
    ssize_t got = -1;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pid_t child = fork();
    if (child == 0) {
        discard_output();
        _exit(!task(probe) || write(ends[1], probe->bytes, all) != (ssize_t)all);
    }
    close(ends[1]);
    while (child > 0 && (got = read(ends[0], probe->bytes, all)) < 0 && errno == EINTR) {
    }
    if (got != (ssize_t)all) memset(probe->bytes, 0, all);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    close(ends[0]);
}

static bool plan_one(const struct probe *probe) {
    struct plan *plan;
    signal(SIGALRM, SIG_DFL);
    alarm(PROBE_LIMIT_S);
    size_t before = mem_resident_bytes();
    if (plan_new(probe->config, probe->given, &plan) != STATUS_OK) return false;
    if (plan_warm_up(plan) != STATUS_OK) return false;
    *probe->bytes = mem_resident_bytes() - before;
    return true;
}

/* Of a long pipeline the inner ranks are taken to be alike: each costs the time of a plan. */
enum { PROBED = 8 };

static bool plan_each(const struct probe *probe) {
    for (int p = 0; p < probe->count; p++) {
        int rank = group_rank(&probe->config->grid, GROUP_PIPELINE, 0, p);
        struct run_config at = resolve_for_rank(probe->config, rank, probe->config->dry);
        if (p >= PROBED - 1 && p < probe->count - 1)
            probe->bytes[p] = probe->bytes[p - 1];
        else
            in_another(plan_one, &(struct probe){&at, probe->given, 1, &probe->bytes[p]});
    }
    return true;
}

/* The plan that chooses has no kernels. It is kept meanwhile: what it holds is not taken for free
 * memory. */
static bool choose_first(const struct probe *probe) {
    struct probe chosen = *probe;
    struct plan_given given = *probe->given;
    struct run_config dry = resolve_for_rank(probe->config, probe->config->rank, true);
    struct plan *choosing;
    if (plan_new(&dry, probe->given, &choosing) != STATUS_OK) return false;
    if (choosing->choice.orders) given.chosen = &choosing->choice;
    chosen.given = &given;
    return plan_each(&chosen);
}

void probe_positions(const struct run_config *config, const struct plan_given *given, int count,
                     size_t *bytes) {
    struct probe probe = {config, given, count, bytes};
    if (plan_is_auto(config) && !given->agreed)
        in_another(choose_first, &probe);
    else
        plan_each(&probe);
}
