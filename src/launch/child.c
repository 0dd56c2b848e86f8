/* See child.h. fork and execve rather than posix_spawn, which can set neither the death signal nor
 * the cores. Between the two only calls that are safe after a fork of a process with threads. */
#include "launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limit.h"
#include "base/log.h"

enum status child_fail_limit(const char *what, int error) {
    return limit_fail(what, error);
}

/* What the child needs between fork and exec. */
struct spawn {
    const struct child_config *config;
    pid_t parent;
    int lifeline, report; /* read end; where errno goes */
};

static bool parent_is_gone(const struct spawn *spawn) {
    struct pollfd pipe = {.fd = spawn->lifeline, .events = POLLIN};
    return getppid() != spawn->parent || poll(&pipe, 1, 0) != 0;
}

static bool tie_to_parent(const struct spawn *spawn) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
    fcntl(spawn->lifeline, F_SETOWN, getpid());
    fcntl(spawn->lifeline, F_SETSIG, SIGKILL);
    fcntl(spawn->lifeline, F_SETFL, O_ASYNC | O_NONBLOCK);
    if (parent_is_gone(spawn)) _exit(1);
    return true;
}

static bool set_descriptors(const struct spawn *spawn) {
    const struct child_config *config = spawn->config;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0) return false;
    if (dup2(config->output, 1) < 0 || dup2(config->error, 2) < 0) return false;
    close_range(3, ~0u,
                CLOSE_RANGE_CLOEXEC); /* an old kernel has no such call; ours are marked anyway */
    fcntl(spawn->lifeline, F_SETFD, 0);
    for (int i = 0; i < CHILD_KEEPS; i++) {
        if (config->keep[i] >= 0 && fcntl(config->keep[i], F_SETFD, 0) != 0) return false;
    }
    return true;
}

static void set_signals(const struct child_config *config) {
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(SIGPIPE, &plain, NULL); /* the launcher ignores it */
    sigprocmask(SIG_SETMASK, config->mask, NULL);
}

static void exec_child(const struct spawn *spawn) {
    const struct child_config *config = spawn->config;
    setpgid(0, 0); /* a ^C at the terminal reaches the launcher alone, which passes it on */
    bool good = tie_to_parent(spawn) && set_descriptors(spawn);
    if (good && config->cores) sched_setaffinity(0, sizeof *config->cores, config->cores);
    set_signals(config);
    if (good) execve(config->program, config->argv, config->envp);
    int error = errno;
    ssize_t told = write(spawn->report, &error, sizeof error);
    (void)told;
    _exit(127);
}

static void give_up(pid_t pid) {
    kill(pid, SIGKILL); /* not reaped yet, so the number is still its own */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

/* The report's pipe closes at a successful execve. */
static enum status await_exec(const struct child_config *config, const struct child *child,
                              int report) {
    int error = 0;
    ssize_t got;
    do got = read(report, &error, sizeof error);
    while (got < 0 && errno == EINTR);
    if (got <= 0) return STATUS_OK;
    give_up(child->pid);
    close(child->pidfd);
    return fail(STATUS_DATA, "%s: cannot be started: %s", config->program, strerror(error));
}

static enum status start_with(const struct child_config *config, const int lifeline[2],
                              const int report[2], struct child *out) {
    struct spawn spawn = {config, getpid(), lifeline[0], report[1]};
    pid_t pid = fork();
    if (pid == 0) exec_child(&spawn);
    int error = errno;
    close(lifeline[0]);
    close(report[1]);
    if (pid < 0) return child_fail_limit("a process for a rank", error);
    struct child child = {.pid = pid, .lifeline = lifeline[1], .pidfd = pidfd_open(pid, 0)};
    if (child.pidfd < 0) {
        error = errno;
        give_up(pid);
        return child_fail_limit("a descriptor for the process of a rank", error);
    }
    fcntl(child.pidfd, F_SETFD, FD_CLOEXEC);
    TRY(await_exec(config, &child, report[0]));
    *out = child;
    return STATUS_OK;
}

enum status child_start(const struct child_config *config, struct child *out) {
    int lifeline[2], report[2];
    if (pipe2(lifeline, O_CLOEXEC) != 0) return child_fail_limit("a pipe to a rank", errno);
    if (pipe2(report, O_CLOEXEC) != 0) {
        int error = errno;
        close(lifeline[0]);
        close(lifeline[1]);
        return child_fail_limit("a pipe to a rank", error);
    }
    enum status status = start_with(config, lifeline, report, out);
    close(report[0]);
    if (status != STATUS_OK) close(lifeline[1]);
    return status;
}

void child_signal(const struct child *child, int signal) {
    if (child->pid > 0) pidfd_send_signal(child->pidfd, signal, NULL, 0);
}

bool child_is_stopped(const struct child *child) {
    siginfo_t info = {0};
    return child->pid > 0 &&
           waitid(P_PIDFD, (id_t)child->pidfd, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

bool child_reap(struct child *child, int *result) {
    siginfo_t info = {0};
    if (waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
        return false;
    *result = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
    close(child->pidfd);
    close(child->lifeline);
    *child = (struct child){.pidfd = -1, .lifeline = -1};
    return true;
}
