/* See weigher.h. */
#include "planned/weigher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "planned/planned.h"

enum { ANSWER_LIMIT_S = 120 };

/* --- the forked processes --- */

static void quiet(void) {
    static char unheard[256];
    log_capture(unheard, sizeof unheard);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0) return;
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
}

static int64_t over_of(const struct planned_run *planned) {
    struct planned_fit fit;
    int64_t machine = planned->available_bytes, need = (int64_t)planned_machine_bytes(planned);
    if (planned_fit(planned, &fit))
        return fit.fits ? 0 : (int64_t)fit.need_bytes - (int64_t)fit.has_bytes;
    return machine > 0 && need > machine ? need - machine : 0;
}

static struct weighed weigh(const struct options *base, const struct planner_choice *choice) {
    struct options options = *base;
    struct rank_info info;
    SCOPED(planned_close) struct planned_run planned = {0};
    struct costs none = {0};
    options.arena = (struct arena){0};
    signal(SIGALRM, SIG_DFL);
    alarm(ANSWER_LIMIT_S);
    if (planner_apply(choice, &none, &options) != STATUS_OK) return (struct weighed){0};
    info = planned_info_to_forecast(&options, choice->ranks);
    if (planned_open(&options, &info, &planned) != STATUS_OK) return (struct weighed){0};
    struct weighed weighed = {.found = true,
                              .library_bytes = (int64_t)planned.plan->memory.library,
                              .shared_bytes = (int64_t)planned.code_bytes,
                              .beside_bytes =
                                  planned.to_start ? (int64_t)planned.before.own_bytes : 0,
                              .over_bytes = over_of(&planned)};
    weighed.most_bytes = (int64_t)memory_sum(planned_largest(&planned, &weighed.most_rank));
    return weighed;
}

static void answer_one(const struct weigher *weigher, const struct options *options,
                       const struct planner_choice *choice) {
    pid_t child = fork();
    if (child == 0) {
        struct weighed weighed = weigh(options, choice);
        _exit(write(weigher->answer, &weighed, sizeof weighed) != (ssize_t)sizeof weighed);
    }
    int ended = 1;
    while (child > 0 && waitpid(child, &ended, 0) < 0 && errno == EINTR) {
    }
    struct weighed none = {0};
    if (ended != 0 && write(weigher->answer, &none, sizeof none) < 0) _exit(1);
}

static void serve(const struct weigher *weigher, const struct options *options) {
    struct planner_choice choice;
    quiet();
    while (read(weigher->ask, &choice, sizeof choice) == (ssize_t)sizeof choice)
        answer_one(weigher, options, &choice);
    _exit(0);
}

/* --- the process that searches --- */

void weigher_open(const struct options *options, struct weigher *out) {
    int ask[2], answer[2];
    *out = (struct weigher){.pid = -1, .ask = -1, .answer = -1};
    if (pipe2(ask, O_CLOEXEC) != 0) return;
    if (pipe2(answer, O_CLOEXEC) != 0) {
        close(ask[0]), close(ask[1]);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ask[1]), close(answer[0]);
        serve(&(struct weigher){.ask = ask[0], .answer = answer[1]}, options);
    }
    close(ask[0]), close(answer[1]);
    *out = (struct weigher){.pid = child, .ask = ask[1], .answer = answer[0]};
}

void weigher_close(struct weigher *weigher) {
    if (weigher->ask >= 0) close(weigher->ask);
    if (weigher->answer >= 0) close(weigher->answer);
    while (weigher->pid > 0 && waitpid(weigher->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    *weigher = (struct weigher){.pid = -1, .ask = -1, .answer = -1};
}

void weigher_ask(const struct weigher *weigher, const struct planner_choice *choice) {
    ssize_t sent;
    while (weigher->pid > 0 && (sent = write(weigher->ask, choice, sizeof *choice)) < 0 &&
           errno == EINTR) {
    }
}

struct weighed weigher_answer(const struct weigher *weigher) {
    struct weighed weighed = {0};
    ssize_t got = -1;
    while (weigher->pid > 0 && (got = read(weigher->answer, &weighed, sizeof weighed)) < 0 &&
           errno == EINTR) {
    }
    return got == (ssize_t)sizeof weighed ? weighed : (struct weighed){0};
}
