/* `stretto launch --emit sbatch`: a job script from the options of a training run. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/machine.h"
#include "cli/cli.h"
#include "launch/sbatch.h"

enum status launch_run(const struct options *options) {
    char program[PATH_MAX];
    if (!option_is_given(options, OPTION_emit))
        return fail(
            STATUS_USAGE,
            "launch needs --emit sbatch\n  to start ranks on this machine: stretto train -n N");
    struct options solved = *options; /* the script's ranks solve it again */
    int64_t nodes = option_is_set(options, OPTION_nodes) ? options->nodes : 1;
    TRY(options_solve_batch(&solved, nodes * options->local_ranks));
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return fail(STATUS_DATA, "/proc/self/exe cannot be read: is /proc mounted?");
    program[length] = 0;
    return sbatch_write(options, program, machine_cores("").usable, stdout);
}
