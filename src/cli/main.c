/* The program. Everything it does is in the library, so that tests can reach it; only how the
 * process itself starts is decided here. */
#include <malloc.h>

#include "base/limit.h"
#include "base/process.h"
#include "cli/cli.h"
#include "launch/openmp.h"

/* Before the initialisation of any library: some of them take tens of milliseconds, in which a
 * SIGUSR1 would end the run, may open files, bind the process to a core, or run out of memory. What
 * comes while the system still loads the program cannot be helped. */
static void settle_process(void) {
    process_fill_streams();
    process_append_messages();
    process_hold_signals();
    limit_watch_signals();
    openmp_note_cores();
}

__attribute__((section(".preinit_array"), used)) static void (*const settle)(void) = settle_process;

int main(int argc, char **argv) {
    openmp_settle(argv);
    mallopt(M_MMAP_THRESHOLD,
            1 << 20); /* large temporaries go back to the system when freed, always */
    return cli_main(argc, argv);
}
