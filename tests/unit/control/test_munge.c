/* The real MUNGE, with a daemon of our own: what is sealed can be opened by this user, once, and by
 * nobody else; what another user sealed is refused. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/seal.h"

enum { SOMEBODY = 65534 };
static char folder[64], *place;
static pid_t daemon_pid;
static struct control_seal seal;

static void exec_daemon(void) {
    char *key = mem_format("--key-file=%s/key", folder);
    char *socket = mem_format("--socket=%s", place);
    char *pid = mem_format("--pid-file=%s/pid", folder);
    char *log = mem_format("--log-file=%s/log", folder);
    char *seed = mem_format("--seed-file=%s/seed", folder);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 1);
    dup2(null, 2);
    alarm(60);
    execl("/usr/sbin/munged", "munged", "--foreground", "--force", "--num-threads=2", key, socket,
          pid, log, seed, NULL);
    _exit(127);
}

static void write_key(void) {
    char *path = mem_format("%s/key", folder), random[128];
    int from = open("/dev/urandom", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_EXCL, 0400);
    cr_assert_eq(read(from, random, sizeof random), (ssize_t)sizeof random);
    cr_assert_eq(write(to, random, sizeof random), (ssize_t)sizeof random);
    close(from);
    close(to);
    free(path);
}

static void start(void) {
    char why[CONTROL_SEAL_WHY] = "";
    if (access("/usr/sbin/munged", X_OK) != 0) return;
    snprintf(folder, sizeof folder, "/tmp/stretto-munge-XXXXXX");
    cr_assert(mkdtemp(folder));
    chmod(folder, 0755); /* the socket is for all users */
    place = mem_format("%s/socket", folder);
    write_key();
    daemon_pid = fork();
    if (daemon_pid == 0) exec_daemon();
    for (int i = 0; i < 1000 && !control_seal_munge(place, &seal, why); i++) {
        if (strstr(why, "this build has none") || strstr(why, "libmunge.so.2")) break;
        usleep(10000);
    }
}

static void stop(void) {
    if (daemon_pid <= 0) return;
    kill(daemon_pid, SIGKILL);
    waitpid(daemon_pid, NULL, 0);
    folder_remove(folder);
    free(place);
}

TestSuite(control_munge, .init = start, .fini = stop, .timeout = 60);

static void need(bool root) {
    if (!seal.close)
        cr_skip_test("no MUNGE: neither munged nor libmunge-dev, or it does not start");
    if (root && geteuid() != 0) cr_skip_test("another user can be tried by root alone");
}

static char *closed(void) {
    char *text = NULL;
    cr_assert_eq(seal.close(&seal, "secret", 6, &text), STATUS_OK);
    cr_assert(!strstr(text, "secret"));
    return text;
}

static void is_refused(const char *text, const char *says) {
    char *data = NULL, why[CONTROL_SEAL_WHY] = "";
    size_t bytes;
    cr_assert(!seal.open(&seal, text, &data, &bytes, why));
    cr_assert_null(data);
    cr_expect(strstr(why, says), "%s", why);
}

Test(control_munge, opened_once) {
    char *data, why[CONTROL_SEAL_WHY];
    size_t bytes;
    need(false);
    char *text = closed();
    cr_assert(seal.open(&seal, text, &data, &bytes, why), "%s", why);
    cr_assert(bytes == 6 && memcmp(data, "secret", 6) == 0);
    is_refused(text, "Replayed");
    free(data);
    free(text);
}

Test(control_munge, damaged) {
    need(false);
    char *text = closed();
    char *middle = text + strlen(text) / 2;
    *middle = *middle == 'A' ? 'B' : 'A';
    is_refused(text, "nvalid");
    is_refused("MUNGE:nonsense:", "nvalid");
    is_refused("", "nvalid");
    free(text);
}

/* In a process of another user: exit code 0 when it was refused. */
static int another_user_opens(const char *text) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        char *data = NULL, why[CONTROL_SEAL_WHY] = "";
        size_t bytes;
        if (setgid(SOMEBODY) != 0 || setuid(SOMEBODY) != 0) _exit(2);
        if (seal.open(&seal, text, &data, &bytes, why)) _exit(3);
        _exit(data == NULL && strstr(why, "Unauthorized") ? 0 : 4);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(control_munge, another_user_cannot_open) {
    char *data, why[CONTROL_SEAL_WHY];
    size_t bytes;
    need(true);
    char *text = closed();
    cr_assert_eq(another_user_opens(text), 0);
    cr_assert(seal.open(&seal, text, &data, &bytes, why),
              "its owner cannot open it after another user tried: %s", why);
    free(data);
    free(text);
}

/* A credential of another user, open to all, as a forger would make it. */
static void forge(char text[4096]) {
    int ends[2];
    char *socket = mem_format("--socket=%s", place);
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        if (setgid(SOMEBODY) != 0 || setuid(SOMEBODY) != 0) _exit(2);
        execlp("munge", "munge", socket, "--string=secret", NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], text + used, 4095 - used)) > 0) used += (size_t)got;
    text[used] = 0;
    text[strcspn(text, "\n")] = 0;
    close(ends[0]);
    waitpid(pid, NULL, 0);
    free(socket);
}

Test(control_munge, forged_by_another_user) {
    char text[4096];
    need(true);
    forge(text);
    cr_assert_eq(strncmp(text, "MUNGE:", 6), 0, "%s", text);
    is_refused(text, "user 65534 closed it, this process runs as user 0");
}

Test(control_munge, no_daemon) {
    struct control_seal none;
    char why[CONTROL_SEAL_WHY] = "";
    cr_assert(!control_seal_munge("/nowhere/munge.socket", &none, why));
    cr_assert(why[0]);
}
