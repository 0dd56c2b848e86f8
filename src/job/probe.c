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

_Noreturn static void plan_and_tell(const struct run_config *config, const char *name,
                                    const struct bytes *program, int to) {
    struct plan *plan;
    signal(SIGALRM, SIG_DFL);
    alarm(PROBE_LIMIT_S);
    be_silent();
    size_t before = mem_resident_bytes();
    if (plan_new(config, name, program, &plan) != STATUS_OK) _exit(1);
    if (plan_warm_up(plan) != STATUS_OK) _exit(1);
    size_t bytes = mem_resident_bytes() - before;
    _exit(write(to, &bytes, sizeof bytes) != sizeof bytes);
}

size_t probe_planning(const struct run_config *config, const char *name,
                      const struct bytes *program) {
    int ends[2];
    size_t bytes = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) return 0;
    pid_t child = fork();
    if (child == 0) plan_and_tell(config, name, program, ends[1]);
    close(ends[1]);
    if (child > 0) {
        ssize_t got;
        while ((got = read(ends[0], &bytes, sizeof bytes)) < 0 && errno == EINTR) {
        }
        if (got != sizeof bytes) bytes = 0;
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    close(ends[0]);
    return bytes;
}
