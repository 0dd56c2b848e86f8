/* See limit.h. The handler looks for the limit itself: a descriptor, a piece of address space and a
 * process are asked for, with calls that are safe in a handler. */
#include "base/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/thread.h"

/* What a code generator or the stack of a thread asks for at once. */
enum { PIECE_BYTES = 16 << 20 };
enum { MANY_FILES = 1024 };

static unsigned long long limit_of(int resource) {
    struct rlimit limit = {0};
    getrlimit(resource, &limit);
    return (unsigned long long)limit.rlim_cur;
}

static bool is_space_left(void) {
    void *piece =
        mmap(NULL, PIECE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (piece == MAP_FAILED) return false;
    munmap(piece, PIECE_BYTES);
    return true;
}

static enum status fail_space(const char *what) {
    char text[TEXT_BYTES];
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_AS, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        return fail(STATUS_MEMORY, "%s: the system has no more memory", what);
    return fail(STATUS_MEMORY,
                "%s: out of memory: the limit of address space is %s\n  raise it with ulimit -v",
                what, text_size((int64_t)limit.rlim_cur, text));
}

static enum status fail_processes(const char *what) {
    return fail(STATUS_USAGE,
                "%s: the system gives no more processes and threads\n"
                "  the limit of this user is %llu; raise it with ulimit -u, or look at the "
                "container's",
                what, limit_of(RLIMIT_NPROC));
}

enum status limit_fail(const char *what, int error) {
    if (error == ENOMEM || (error == EAGAIN && !is_space_left())) return fail_space(what);
    if (error == EAGAIN) return fail_processes(what);
    if (error == EMFILE)
        return fail(STATUS_USAGE,
                    "%s: %s\n  the limit of open files is %llu; raise it with ulimit "
                    "-n",
                    what, strerror(error), limit_of(RLIMIT_NOFILE));
    if (error == EFBIG)
        return fail(STATUS_USAGE,
                    "%s: %s\n  the limit of file sizes holds for shared memory too, and is %llu "
                    "bytes; raise it with ulimit -f",
                    what, strerror(error), limit_of(RLIMIT_FSIZE));
    return fail(STATUS_USAGE, "%s: %s", what, strerror(error));
}

/* ---- room ---- */

/* How many of `wanted` descriptors are free. */
static int count_free(int wanted) {
    unsigned long long limit = limit_of(RLIMIT_NOFILE);
    int found = 0;
    for (int fd = 0; found < wanted && (unsigned long long)fd < limit; fd++)
        found += fcntl(fd, F_GETFD) < 0;
    return found;
}

static enum status room_for_files(const char *what, int wanted, const char *instead) {
    struct rlimit limit;
    int left = count_free(wanted);
    if (left >= wanted) return STATUS_OK;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        rlim_t enough = (rlim_t)wanted + MANY_FILES;
        limit.rlim_cur = enough < limit.rlim_max ? enough : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        left = count_free(wanted);
    }
    if (left >= wanted) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: %d open files are needed, %d are left\n"
                "  the limit of open files is %llu; raise it with ulimit -n%s%s",
                what, wanted, left, limit_of(RLIMIT_NOFILE), instead ? ", or " : "",
                instead ? instead : "");
}

static void *wait_for_all(void *barrier) {
    pthread_mutex_lock(barrier);
    pthread_mutex_unlock(barrier);
    return NULL;
}

static enum status room_for_threads(const char *what, int wanted) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    SCOPED_FREE pthread_t *thread = MEM_ARRAY(pthread_t, wanted);
    int count = 0, cause = 0;
    pthread_mutex_lock(&gate);
    while (count < wanted && cause == 0) {
        cause = thread_try(&thread[count], wait_for_all, &gate);
        count += cause == 0;
    }
    enum status status = cause ? limit_fail(what, cause) : STATUS_OK;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < count; i++) pthread_join(thread[i], NULL);
    return status;
}

enum status limit_room(const char *what, int files, int threads, const char *instead) {
    TRY(room_for_files(what, files, instead));
    return threads > 0 ? room_for_threads(what, threads) : STATUS_OK;
}

/* ---- ways out ---- */

static volatile sig_atomic_t watched;
static _Thread_local volatile sig_atomic_t beginning;

static bool is_process_left(void) {
    pid_t pid = _Fork();
    if (pid == 0) _exit(0);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
    return pid > 0;
}

/* The errno of a limit that is reached, 0: none is. */
static int reached(bool crashed) {
    int fd = dup(STDERR_FILENO);
    if (fd < 0 && errno == EMFILE) return EMFILE;
    if (fd >= 0) close(fd);
    if (!is_space_left()) return ENOMEM;
    return crashed || is_process_left() ? 0 : EAGAIN;
}

/* A crash is of the limits' doing only where memory is at its end. What comes back from here comes
 * once more, for whoever looks after it: abort() raises it again and a fault repeats itself. One
 * that another process sent does not, so it is raised here; it is delivered at the return. */
static void on_end(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code == SI_USER && info->si_pid != getpid()) {
        raise(signal);
        return;
    }
    int error = reached(signal == SIGSEGV);
    if (!error && signal == SIGABRT && beginning) error = EAGAIN;
    if (!error || (signal == SIGSEGV && error != ENOMEM)) return;
    _exit(status_exit_code(limit_fail("stretto cannot continue", error)));
}

static void on_exit_called(int code, void *nothing) {
    (void)nothing;
    if (!watched || code != EXIT_FAILURE) return;
    int error = reached(false);
    enum status status =
        error ? limit_fail("stretto cannot continue", error)
              : fail(STATUS_USAGE, "a library ended the process; the line above is its reason");
    _exit(status_exit_code(status));
}

static void recorder_signal(int signal) {
    struct sigaction before, action = {.sa_sigaction = on_end,
                                       .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK | SA_SIGINFO)};
    if (sigaction(signal, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(signal, &action, NULL);
}

void limit_begin(void) {
    beginning = 1;
}

void limit_end(void) {
    beginning = 0;
}

void limit_watch_signals(void) {
    recorder_signal(SIGABRT);
    recorder_signal(SIGSEGV);
}

void limit_watch(void) {
    watched = 1;
    signal(SIGXFSZ, SIG_IGN);
    limit_watch_signals();
    on_exit(on_exit_called, NULL);
}

void limit_watch_end(void) {
    watched = 0;
}
