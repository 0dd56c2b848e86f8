/* Handlers only set flags, and acknowledge a stop, since a step may be long; the training loop
 * looks at them between steps. Ranks may be threads, so of those that ask at once one takes a
 * request: the flags are atomic (and lock-free, as a handler needs). */
#include "exec/stop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"

static _Atomic int stopped_by, save_wanted, report_wanted;

static bool acknowledges, on_terminal;

/* Not through the display, whose lock this thread may hold. On a terminal a progress bar is cleared
 * away. */
static void acknowledge(int signal) {
    static const char what[] =
        ": stopping after this step, then saving (again: stop without saving)\n";
    const char *begin = on_terminal ? "\r\033[Kstretto: " : "stretto: ",
               *name = process_stop_name(signal);
    struct iovec parts[] = {{(void *)begin, strlen(begin)},
                            {(void *)name, strlen(name)},
                            {(void *)what, sizeof what - 1}};
    struct pollfd error = {STDERR_FILENO, POLLOUT, 0};
    if (poll(&error, 1, 0) != 1 || !(error.revents & POLLOUT)) return;
    ssize_t written = writev(STDERR_FILENO, parts, 3);
    (void)written; /* nobody is there */
}

static void on_stop(int signal) {
    int before = errno;
    if (stopped_by) _exit(128 + signal);
    stopped_by = signal;
    if (acknowledges) acknowledge(signal);
    errno = before;
}

static void on_save(int signal) {
    (void)signal;
    save_wanted = 1;
}

static void on_report(int signal) {
    (void)signal;
    report_wanted = 1;
}

/* A signal that was ignored from the start stays so, as in the launcher. */
static void install(int signal, void (*handler)(int)) {
    if (process_ignores(signal)) return;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

/* Handlers need a stack of their own: matrix kernels of oneDNN point the stack register into memory
 * they allocated, and a signal frame written there (2.5 KiB with AVX-512) would run over the heap.
 * Signals to the process go to its main thread. */
static void own_stack(void) {
    enum { STACK_BYTES = 64 * 1024 };
    static _Alignas(64) char memory[STACK_BYTES];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    sigaltstack(&stack, NULL);
}

void stop_install(bool says) {
    acknowledges = says;
    on_terminal = isatty(STDERR_FILENO);
    own_stack();
    install(SIGHUP, on_stop);
    install(SIGINT, on_stop);
    install(SIGTERM, on_stop);
    install(SIGUSR2, on_save);
    install(SIGUSR1, on_report);
    process_release_signals();
}

int stop_signal(void) {
    return stopped_by;
}

void stop_end_stalled(int rank, int64_t since_ns, double limit_s) {
    int signal = stop_signal();
    double waited_s = (double)(clock_ns() - since_ns) * 1e-9;
    char waited[TEXT_BYTES];
    if (!signal || waited_s < limit_s) return;
    fail(STATUS_PEER,
         "rank %d: %s, and no progress for %s: the step does not end, stopped without saving", rank,
         process_stop_name(signal), text_duration(waited_s, waited));
    _exit(status_exit_code(STATUS_PEER));
}

/* A look is cheap, and made at every instruction; a write would invalidate the cache line on all
 * cores. */
static bool take(_Atomic int *wanted) {
    return atomic_load_explicit(wanted, memory_order_relaxed) && atomic_exchange(wanted, 0);
}

bool stop_take_save(void) {
    return take(&save_wanted);
}

bool stop_take_report(void) {
    return take(&report_wanted);
}
