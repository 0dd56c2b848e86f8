/* The program. Everything it does is in the library, so that tests can reach it; only how the
 * process itself starts is decided here. */
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/process.h"
#include "cli/cli.h"

/* Before the initialisation of any library: some of them take tens of milliseconds, in which a
 * SIGUSR1 would end the run, and may open files. What comes while the system still loads the
 * program cannot be helped. */
static void settle_process(void) {
    process_fill_streams();
    process_hold_signals();
}

__attribute__((section(".preinit_array"), used)) static void (*const settle)(void) = settle_process;

/* OpenMP reads its environment when the library is loaded, before main: the process starts itself
 * once more to change it. Workers that spin for long between parallel regions are what makes a busy
 * machine crawl (measured: ten times slower and more beside other processes); a short spin keeps
 * the speed of an idle one. A team that shrinks by itself breaks oneDNN. */
static void settle_openmp(char **argv) {
    if (getenv("STRETTO_STARTED")) return;
    setenv("STRETTO_STARTED", "1", 1);
    setenv("OMP_DYNAMIC", "false", 1);
    if (!getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "3000", 0);
    execv("/proc/self/exe", argv); /* where that fails the run is only slower */
}

int main(int argc, char **argv) {
    settle_openmp(argv);
    unsetenv("STRETTO_STARTED");
    mallopt(M_MMAP_THRESHOLD,
            1 << 20); /* large temporaries go back to the system when freed, always */
    return cli_main(argc, argv);
}
