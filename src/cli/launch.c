/* `stretto launch --emit sbatch`: a job script from the options of a training run. */
#include <limits.h>
#include <unistd.h>

#include "base/log.h"
#include "base/machine.h"
#include "cli/cli.h"
#include "launch/sbatch.h"
#include "plan/strategy.h"

/* What all ranks of the job would be refused for; they check it again, with all else. */
static enum status check_options(const struct options *options) {
    struct options solved = *options;
    int64_t nodes = option_is_set(options, OPTION_nodes) ? options->nodes : 1,
            ranks = nodes * options->local_ranks;
    TRY(strategy_check(options, ranks));
    if (ranks > 1 && strategy_uses_threads(options))
        return fail(STATUS_USAGE,
                    "srun starts ranks as processes; --strategy dp, --spawn threads and --clock "
                    "virtual run them as threads of one\n  --strategy ddp runs ranks as processes");
    return options_solve_batch(&solved, ranks);
}

enum status launch_run(const struct options *options) {
    char program[PATH_MAX];
    if (!option_is_given(options, OPTION_emit))
        return fail(
            STATUS_USAGE,
            "launch needs --emit sbatch\n  to start ranks on this machine: stretto train -n N");
    TRY(check_options(options));
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return fail(STATUS_DATA, "/proc/self/exe cannot be read: is /proc mounted?");
    program[length] = 0;
    return sbatch_write(options, program, machine_cores("").usable, stdout);
}
