/* Frozen blocks: what cannot go with them is refused with a way out. How many blocks the model has
 * is known when its graph is there (graph/freeze.h). */
#include "base/log.h"
#include "plan/resolve.h"
#include "program/pipeline.h"

static enum status check(const struct options *options, const struct run_config *config) {
    const struct pipeline_schedule *schedule = pipeline_find(config->schedule);
    long long blocks = (long long)options->freeze;
    if (schedule && schedule->older)
        return fail(STATUS_USAGE,
                    "--freeze %lld: schedule %s is never flushed, and its stages keep versions of "
                    "what they train\n  --strategy 1f1b",
                    blocks, config->schedule);
    if (config->apart)
        return fail(STATUS_USAGE,
                    "--freeze %lld with --sync %s: replicas that train apart average all parameters"
                    "\n  --sync allreduce",
                    blocks, config->sync);
    if (config->zero_stage == 3)
        return fail(STATUS_USAGE,
                    "--freeze %lld with --zero-stage 3: what is not trained is not sliced, and "
                    "slices are gathered with what is\n  --zero-stage 2",
                    blocks);
    if (option_is_given(options, OPTION_program))
        return fail(STATUS_USAGE,
                    "--freeze %lld with --program %s: which stages are frozen follows from the "
                    "model, not from a program\n  leave one of them out",
                    blocks, option_string(options, OPTION_program));
    return STATUS_OK;
}

enum status resolve_freeze(const struct options *options, struct run_config *config) {
    config->frozen = option_is_set(options, OPTION_freeze) ? (int)options->freeze : 0;
    return config->frozen ? check(options, config) : STATUS_OK;
}
