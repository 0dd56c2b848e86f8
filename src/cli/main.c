/* The program. Everything it does is in the library, so that tests can reach it; only how the
 * process itself starts is decided here. */
#include <malloc.h>

#include "cli/cli.h"
#include "cli/openmp.h"

__attribute__((section(".preinit_array"),
               used)) static void (*const note_cores)(void) = openmp_note_cores;

int main(int argc, char **argv) {
    openmp_settle(argv);
    mallopt(M_MMAP_THRESHOLD,
            1 << 20); /* large temporaries go back to the system when freed, always */
    return cli_main(argc, argv);
}
