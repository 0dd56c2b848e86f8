/* Strategies whose replicas have parameters of their own between averages: what cannot go with them
 * is refused with a way out, and what follows from them is decided. */
#include <string.h>

#include "base/log.h"
#include "plan/resolve.h"
#include "plan/strategy.h"

static enum status refuse(const struct run_config *config, const char *option, const char *why,
                          const char *way) {
    return fail(STATUS_USAGE, "%s: with --sync %s replicas train apart, and %s\n  %s", option,
                config->sync, why, way);
}

static enum status check_chosen(const struct options *options, const struct run_config *config) {
    if (config->overlaps)
        return fail(STATUS_USAGE,
                    "--sync %s: schedule %s is never flushed, and replicas average behind a whole "
                    "step\n  --schedule 1f1b",
                    config->sync, config->schedule);
    if (config->plane_named)
        return refuse(config, "--comm", "between GPUs no groups can be chosen while ranks run",
                      "--comm auto, which goes through memory of the host");
    if (strategy_uses_threads(options)) return STATUS_OK;
    return refuse(config, "--spawn processes", "choose their groups in memory that they share",
                  "--spawn threads, or --clock virtual");
}

static enum status check_options(const struct options *options, const struct run_config *config) {
    if (options->sync_bn)
        return refuse(config, "--sync-bn", "do not meet inside a pass",
                      "no --sync-bn, or --sync allreduce");
    if (config->dtype == DTYPE_F16 || strcmp(options->dtype, "f16") == 0)
        return refuse(config, "--dtype f16", "have no loss scale in common", "--dtype bf16 or f32");
    if (config->chooses) return check_chosen(options, config);
    if (config->overlaps)
        return fail(STATUS_USAGE,
                    "--sync %s: schedule %s is never flushed, and an average every %d steps would "
                    "drain it\n  --schedule 1f1b",
                    config->sync, config->schedule, (int)options->sync_every);
    return STATUS_OK;
}

static struct outer_config outer_of(const struct options *options) {
    bool sgd = strcmp(options->outer_optimizer, "sgd") == 0;
    return (struct outer_config){.lr = (float)options->outer_lr,
                                 .momentum = sgd ? 0 : (float)options->outer_momentum};
}

enum status resolve_apart(struct options *options, struct run_config *config) {
    if (!config->apart) return STATUS_OK;
    TRY(check_options(options, config));
    if (config->chooses) {
        TRY(resolve_groups(options, config));
        config->plane = NULL; /* averages go through memory of the host */
    } else {
        config->sync_every = (int)options->sync_every;
        config->outer = outer_of(options);
    }
    resolve_drop_last(options, config); /* replicas take samples alike */
    return STATUS_OK;
}
