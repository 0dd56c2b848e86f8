/* See ranks.h. One thread, one poll: signals, ends of processes and output are all descriptors. */
#include "launch/ranks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/display.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/shown.h"
#include "launch/child.h"
#include "launch/cores.h"
#include "launch/environment.h"
#include "launch/identity.h"
#include "launch/oom.h"
#include "launch/openmp.h"
#include "launch/output.h"

enum phase { RUNNING, GRACE, ASKED, KILLED };

struct ranks {
    const struct ranks_config *config;
    struct child *child;
    int started, alive;
    struct output *output;
    struct pollfd *poll; /* signals, then a process each, then output, then the display */
    sigset_t before;     /* the mask to give back */
    int signals;
    struct sigaction pipe_before;
    enum phase phase;
    int64_t deadline_ns; /* of the phase; 0: none */
    struct oom_count oom;
    struct ranks_outcome outcome;
    bool settled;    /* the outcome names a rank that failed by itself */
    int cause;       /* else: whom it blames */
    char **given_up; /* of each rank: why, NULL: it is not */
};

/* ---- signals ---- */

static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGWINCH};

/* What was ignored from the start (nohup) stays so, here and in the ranks. */
static enum status take_signals(struct ranks *ranks) {
    sigset_t set;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (!process_ignores(taken[i])) sigaddset(&set, taken[i]);
    }
    ranks->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ranks->signals < 0) return child_fail_limit("a descriptor for signals", errno);
    sigprocmask(SIG_BLOCK, &set, &ranks->before);
    sigaction(SIGPIPE, &ignore, &ranks->pipe_before);
    return STATUS_OK;
}

static void give_back_signals(struct ranks *ranks) {
    if (ranks->signals < 0) return;
    close(ranks->signals);
    sigaction(SIGPIPE, &ranks->pipe_before, NULL);
    sigprocmask(SIG_SETMASK, &ranks->before, NULL);
}

static void signal_all(struct ranks *ranks, int signal) {
    for (int i = 0; i < ranks->started; i++) child_signal(&ranks->child[i], signal);
}

static void handle_stop(struct ranks *ranks, int signal) {
    bool again = ranks->outcome.stopped_by != 0;
    ranks->outcome.stopped_by = signal;
    if (again) ranks->phase = KILLED, ranks->deadline_ns = 0;
    signal_all(ranks, again ? SIGKILL : signal);
    if (again)
        log_note("%s again: ranks are killed", process_stop_name(signal));
    else if (ranks->alive > 0)
        log_note("%s: ranks stop after this step, then save (again: they are killed)",
                 process_stop_name(signal));
}

/* Ctrl-Z reaches the launcher alone: ranks are process groups of their own. They stop with it and
 * go on with it, and the time between counts for no deadline. Blocked, the signal raised here waits
 * for the mask to change; the process then stops inside that call. */
static void stop_together(struct ranks *ranks) {
    int64_t begin_ns = clock_ns();
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    signal_all(ranks, SIGSTOP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    signal_all(ranks, SIGCONT);
    if (ranks->deadline_ns) ranks->deadline_ns += clock_ns() - begin_ns;
}

static void handle_signals(struct ranks *ranks) {
    struct signalfd_siginfo info;
    while (read(ranks->signals, &info, sizeof info) == sizeof info) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGWINCH)
            output_resize(ranks->output);
        else if (signal == SIGTSTP)
            stop_together(ranks);
        else if (signal == SIGUSR1 && ranks->config->report)
            ranks->config->report(ranks->config->context);
        else if (signal == SIGUSR1 || signal == SIGUSR2)
            signal_all(ranks, signal);
        else
            handle_stop(ranks, signal);
    }
}

/* ---- ends ---- */

static bool is_own_fault(int signal) {
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
           signal == SIGABRT || signal == SIGTRAP || signal == SIGSYS;
}

/* How a rank ended: its exit code in the sense of the command line's contract, and words. */
struct end {
    int code;
    bool by_itself; /* not because the launcher was told, or made it, to end */
    bool said;      /* the code is its own */
    char words[128];
};

static struct end judge(struct ranks *ranks, int index, int result) {
    struct end end = {.code = result, .by_itself = ranks->phase < ASKED, .said = result >= 0};
    int signal = -result;
    if (result >= 0) {
        snprintf(end.words, sizeof end.words, "exit code %d", result);
        /* A rank that says so has saved and stopped, and so do the others: by a signal that was
         * passed on or reached the ranks themselves, or because --time-limit is over. */
        if (result > 128) end.by_itself = false;
        return end;
    }
    if (ranks->given_up[index]) {
        snprintf(end.words, sizeof end.words, "%.80s, given up and killed", ranks->given_up[index]);
        end.code = 4;
        return end;
    }
    enum oom_answer memory =
        signal == SIGKILL && end.by_itself ? oom_between(ranks->oom, oom_count("")) : OOM_NO;
    snprintf(end.words, sizeof end.words, "killed by signal %d (%s)%s", signal, strsignal(signal),
             memory == OOM_YES ? ": out of memory, the limit of its cgroup"
             : memory == OOM_PERHAPS
                 ? ": probably out of memory, the kernel killed a process for that"
                 : "");
    end.code = memory != OOM_NO ? 5 : is_own_fault(signal) ? 7 : 4;
    if (ranks->outcome.stopped_by &&
        (signal == ranks->outcome.stopped_by || ranks->phase == KILLED))
        end.code = 128 + ranks->outcome.stopped_by, end.by_itself = false;
    return end;
}

/* A rank that refuses to run has said why: nothing happened to it. */
static bool refuses(const struct end *end) {
    return end->said && (end->code == status_exit_code(STATUS_USAGE) ||
                         end->code == status_exit_code(STATUS_MEMORY));
}

static void write_exit_report(const struct ranks *ranks, int rank, const struct end *end) {
    const struct ranks_config *config = ranks->config;
    char doing[128] = "";
    output_conclude(ranks->output); /* what the rank itself said comes first */
    if (refuses(end)) return;
    if (config->doing) config->doing(config->context, rank, doing, sizeof doing);
    SCOPED_FREE char *log =
        config->log_folder ? shown_text("\n  its output: %s/rank-%d.log", config->log_folder, rank)
                           : mem_text("");
    fail(STATUS_PEER, "rank %d ended: %-s%s%s%-s", rank, end->words, *doing ? ", last at " : "",
         doing, log);
}

static void begin_grace(struct ranks *ranks) {
    if (ranks->phase != RUNNING) return;
    ranks->phase = GRACE;
    ranks->deadline_ns = clock_ns() + (int64_t)(ranks->config->grace_s * 1e9);
}

static void give_up(struct ranks *ranks, int rank, const char *why) {
    int index = rank - ranks->config->first_rank;
    if (index < 0 || index >= ranks->started || !ranks->child[index].pid) return;
    if (!ranks->given_up[index]) ranks->given_up[index] = mem_text(why);
    child_signal(&ranks->child[index], SIGKILL);
}

static void handle_given_up(struct ranks *ranks) {
    const struct ranks_config *config = ranks->config;
    int rank;
    char why[96];
    while (config->given_up && config->given_up(config->context, &rank, why, sizeof why))
        give_up(ranks, rank, why);
}

/* The server that gave a rank up may be another node's: then what is left of it here is a process
 * that stands still. */
static void give_up_stopped(struct ranks *ranks, int rank) {
    int index = rank - ranks->config->first_rank;
    if (index >= 0 && index < ranks->started && child_is_stopped(&ranks->child[index]))
        give_up(ranks, rank, "it stands still");
}

/* The first rank that failed by itself is the one to name; one that tells of another, as of a lost
 * peer, makes room for it. */
static void handle_end(struct ranks *ranks, int index, int result) {
    int rank = ranks->config->first_rank + index;
    struct end end = judge(ranks, index, result);
    ranks->alive--;
    output_drain(ranks->output, index);
    if (end.code == 0) return;
    if (end.by_itself && ranks->config->ended)
        ranks->config->ended(ranks->config->context, rank, end.words);
    struct ranks_outcome *outcome = &ranks->outcome;
    int cause = result >= 0 && ranks->config->cause
                    ? ranks->config->cause(ranks->config->context, rank)
                    : rank;
    bool tells_of_other = result >= 0 && (end.code == 4 || cause != rank);
    bool better = outcome->rank < 0 || (!ranks->settled && end.by_itself && !tells_of_other);
    if (better) outcome->rank = rank, outcome->exit_code = end.code, ranks->cause = cause;
    if (!end.by_itself) return;
    begin_grace(ranks);
    if (end.code == 4 && cause != rank) give_up_stopped(ranks, cause);
    if (better && !tells_of_other) {
        ranks->settled = true;
        outcome->worth_another = result < 0 && !outcome->stopped_by;
        write_exit_report(ranks, rank, &end);
    } else if (better)
        outcome->worth_another = end.code == 4 && !outcome->stopped_by;
}

/* Where all that ended here only told of another, the first of them is named, and whom it blames.
 */
static void report_relayed_end(const struct ranks *ranks) {
    const struct ranks_outcome *outcome = &ranks->outcome;
    struct end end = {.code = outcome->exit_code};
    char who[32] = "another rank";
    bool known = ranks->cause >= 0 && ranks->cause != outcome->rank;
    if (ranks->settled || outcome->exit_code == 0 || outcome->exit_code > 128) return;
    if (known) snprintf(who, sizeof who, "rank %d", ranks->cause);
    if (outcome->exit_code == 4)
        snprintf(end.words, sizeof end.words, "%s was lost", known ? who : "a peer");
    else
        snprintf(end.words, sizeof end.words, "exit code %d, because %s failed", outcome->exit_code,
                 who);
    write_exit_report(ranks, outcome->rank, &end);
}

static void handle_ends(struct ranks *ranks) {
    for (int pass = 0; pass < 2; pass++) { /* those killed first: in one look they are the cause */
        for (int i = 0; i < ranks->started; i++) {
            siginfo_t info = {0};
            struct child *child = &ranks->child[i];
            if (child->pid == 0) continue;
            int result;
            bool killed =
                waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                info.si_pid != 0 && info.si_code != CLD_EXITED;
            if ((pass == 1 || killed) && child_reap(child, &result)) handle_end(ranks, i, result);
        }
    }
}

/* ---- time ---- */

static void say_late(const struct ranks *ranks, const char *what) {
    int *late = MEM_ARRAY(int, ranks->started + 1), count = 0;
    char text[96];
    for (int i = 0; i < ranks->started; i++) {
        if (ranks->child[i].pid) late[count++] = ranks->config->first_rank + i;
    }
    log_warning("rank%s %s still run%s: %s", count > 1 ? "s" : "",
                output_ranks_text(late, count, text, sizeof text), count > 1 ? "" : "s", what);
    free(late);
}

static void handle_time(struct ranks *ranks) {
    if (!ranks->deadline_ns || clock_ns() < ranks->deadline_ns || ranks->alive == 0) return;
    bool ask = ranks->phase == GRACE;
    say_late(ranks, ask ? "asked to end after the failure of another" : "killed");
    signal_all(ranks, ask ? SIGTERM : SIGKILL);
    ranks->phase = ask ? ASKED : KILLED;
    ranks->deadline_ns = ask ? clock_ns() + (int64_t)(ranks->config->kill_s * 1e9) : 0;
}

static int wait_ms(const struct ranks *ranks, int output_ms) {
    int64_t left_ns = ranks->deadline_ns ? ranks->deadline_ns - clock_ns() : -1;
    if (!ranks->deadline_ns) return output_ms;
    int left_ms =
        left_ns > 0 ? (int)(left_ns / 1000000 < 60000 ? left_ns / 1000000 + 1 : 60000) : 0;
    return output_ms >= 0 && output_ms < left_ms ? output_ms : left_ms;
}

static void watch(struct ranks *ranks) {
    while (ranks->alive > 0) {
        int count = ranks->started;
        ranks->poll[0] = (struct pollfd){ranks->signals, POLLIN, 0};
        for (int i = 0; i < count; i++)
            ranks->poll[1 + i] =
                (struct pollfd){ranks->child[i].pid ? ranks->child[i].pidfd : -1, POLLIN, 0};
        int outputs = output_poll(ranks->output, ranks->poll + 1 + count);
        int held_ms = output_flush(ranks->output, false), all = 1 + count + outputs;
        ranks->poll[all++] = (struct pollfd){
            ranks->config->given_up ? ranks->config->given_up_event : -1, POLLIN, 0};
        all += display_poll(ranks->poll + all);
        if (poll(ranks->poll, (nfds_t)all, wait_ms(ranks, held_ms)) < 0) continue;
        display_pump();
        output_handle(ranks->output, ranks->poll + 1 + count, outputs);
        handle_signals(ranks);
        handle_ends(ranks);
        handle_given_up(ranks);
        handle_time(ranks);
    }
    handle_signals(ranks); /* one that came with the last end asks for no other start, either */
}

/* ---- starting ---- */

static enum status start_one(struct ranks *ranks, int index, const struct cores_each *each) {
    const struct ranks_config *config = ranks->config;
    struct output_pipes pipes;
    cpu_set_t cores, slice;
    TRY(output_open(ranks->output, index, &pipes));
    struct environment_config identity = {.rank = config->first_rank + index,
                                          .world = config->world,
                                          .local_rank = index,
                                          .local_world = config->count,
                                          .node = config->node,
                                          .nodes = config->nodes,
                                          .threads = each->threads,
                                          .attempt = config->attempt,
                                          .passive = each->oversubscribed,
                                          .settled = !config->program && openmp_is_settled(),
                                          .isa = config->isa,
                                          .address = config->address,
                                          .secret = config->secret,
                                          .status_table = config->status_table};
    char **envp = environment_new(&identity);
    bool pinned = each->pinned && machine_mask(&cores);
    if (pinned) cores_slice(&cores, index, config->count, &slice);
    struct child_config child = {.program = config->program ? config->program : "/proc/self/exe",
                                 .argv = config->argv,
                                 .envp = envp,
                                 .output = pipes.out,
                                 .error = pipes.error,
                                 .keep = {config->secret, config->status_table},
                                 .cores = pinned ? &slice : NULL,
                                 .mask = &ranks->before};
    enum status status = child_start(&child, &ranks->child[index]);
    environment_free(envp);
    close(pipes.out);
    close(pipes.error);
    TRY(status);
    ranks->started = index + 1;
    ranks->alive++;
    output_started(ranks->output, index, ranks->child[index].pid);
    return STATUS_OK;
}

static enum status start_all(struct ranks *ranks) {
    struct machine_cores cores = machine_cores("");
    int count = ranks->config->count;
    struct cores_each each = cores_each(&cores, count, ranks->config->threads);
    for (int i = 0; i < count; i++) TRY(start_one(ranks, i, &each));
    return STATUS_OK;
}

static enum status run(struct ranks *ranks) {
    const struct ranks_config *config = ranks->config;
    struct launch_identity here;
    launch_identity_here(&here);
    struct output_config output = {.count = config->count,
                                   .first_rank = config->first_rank,
                                   .out = STDOUT_FILENO,
                                   .answers = config->answers,
                                   .error = STDERR_FILENO,
                                   .folder = config->log_folder,
                                   .append = config->append_logs,
                                   .host = here.host};
    TRY(take_signals(ranks));
    TRY(output_new(&output, &ranks->output));
    enum status status = start_all(ranks);
    if (status != STATUS_OK) ranks->phase = KILLED, signal_all(ranks, SIGKILL);
    watch(ranks);
    if (status == STATUS_OK) report_relayed_end(ranks);
    return status;
}

enum status ranks_run(const struct ranks_config *config, struct ranks_outcome *out) {
    struct ranks ranks = {
        .config = config, .signals = -1, .oom = oom_count(""), .outcome = {.rank = -1}};
    ranks.child = MEM_ARRAY(struct child, config->count);
    ranks.poll = MEM_ARRAY(struct pollfd, 2 + 3 * config->count + DISPLAY_STREAMS);
    ranks.given_up = MEM_ARRAY(char *, config->count);
    enum status status = run(&ranks);
    output_free(&ranks.output);
    give_back_signals(&ranks);
    free(ranks.child);
    free(ranks.poll);
    for (int i = 0; i < config->count; i++) free(ranks.given_up[i]);
    free(ranks.given_up);
    if (status == STATUS_OK) *out = ranks.outcome;
    return status;
}
