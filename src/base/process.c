/* See process.h. */
#include "base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* open() takes the lowest free number. Opened in the direction that is of no use, a stream fails
 * as the closed one would, so that an answer that reaches nobody is still an error. */
void process_fill_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
    }
}

void process_append_messages(void) {
    struct stat info;
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    if (flags < 0 || fstat(STDERR_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return;
    fcntl(STDERR_FILENO, F_SETFL, flags | O_APPEND);
}

static void change_mask(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigprocmask(how, &set, NULL);
}

void process_hold_signals(void) {
    change_mask(SIG_BLOCK);
}

void process_release_signals(void) {
    change_mask(SIG_UNBLOCK);
}

bool process_ignores(int signal) {
    struct sigaction now;
    return sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

const char *process_stop_name(int signal) {
    return signal == SIGINT    ? "SIGINT"
           : signal == SIGTERM ? "SIGTERM"
           : signal == SIGHUP  ? "SIGHUP"
                               : "a signal";
}

/* "PID (name) STATE ...": the name may hold any character, also brackets. */
bool process_is_stopped(int pid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = 0;
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' && (state[2] == 'T' || state[2] == 't');
}
