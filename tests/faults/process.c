/* See process.h. */
#include "process.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void process_job(struct process_job *job, int world, double join_s, double silent_s) {
    static int count;
    *job = (struct process_job){.world = world, .join_s = join_s, .silent_s = silent_s};
    cr_assert_eq(control_secret_new(&job->secret), STATUS_OK);
    snprintf(job->address, sizeof job->address, "ipc://@stretto-test-%d-%d", (int)getpid(),
             count++);
}

struct control_config process_rank_config(const struct process_job *job, int rank) {
    return (struct control_config){.address = job->address,
                                   .secret = job->secret,
                                   .epoch = job->epoch,
                                   .rank = rank,
                                   .world = job->world,
                                   .host = job->host ? job->host : "here",
                                   .join_limit_s = job->join_s};
}

struct control_server_config process_server_config(const struct process_job *job) {
    return (struct control_server_config){.bind = job->address,
                                          .secret = job->secret,
                                          .epoch = job->epoch,
                                          .world = job->world,
                                          .join_limit_s = job->join_s,
                                          .silent_limit_s = job->silent_s,
                                          .leave_limit_s = 0.3};
}

static void play(struct control *control, enum process_role role) {
    static char big[CONTROL_VALUE_BYTES];
    void *value;
    size_t bytes;
    enum status status = STATUS_OK;
    if (role == PROCESS_WAITS) status = control_get(control, "never", &value, &bytes);
    while (role == PROCESS_PUTS && status == STATUS_OK)
        status = control_put(control, "big", big, sizeof big);
    for (int i = 0; role == PROCESS_WATCHES && i < 60; i++) {
        process_sleep_ms(100);
        if (control_lost(control) != CONTROL_NOBODY) status = STATUS_PEER;
    }
    control_leave(&control);
    _exit(status_exit_code(status));
}

static void hush(void) {
    int fd = open("/dev/null", O_WRONLY);
    dup2(fd, STDERR_FILENO);
    signal(SIGALRM, SIG_DFL);
    alarm(60); /* nothing of ours may outlive the test for long */
}

pid_t process_rank(const struct process_job *job, int rank, enum process_role role) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    struct control_config config = process_rank_config(job, rank);
    struct control *control = NULL;
    hush();
    enum status status = control_join(&config, &control);
    if (status != STATUS_OK) _exit(status_exit_code(status));
    play(control, role);
    _exit(7);
}

pid_t process_server(const struct process_job *job) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    struct control_server_config config = process_server_config(job);
    struct control_server *server = NULL;
    hush();
    if (control_server_start(&config, &server) != STATUS_OK) _exit(2);
    while (true) pause();
}

int process_end(pid_t pid, int limit_ms) {
    int status;
    for (int waited = 0; waitpid(pid, &status, WNOHANG) == 0; waited += 5) {
        if (waited > limit_ms) {
            process_kill(pid);
            return -1;
        }
        process_sleep_ms(5);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void process_kill(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

void process_sleep_ms(int ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L};
    nanosleep(&time, NULL);
}
