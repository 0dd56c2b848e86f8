/* Strategies whose steps overlap, since their pipelines are never flushed: what cannot go with them
 * is refused with a way out, and what follows from them is decided. */
#include <string.h>

#include "base/log.h"
#include "plan/resolve.h"
#include "program/pipeline.h"

/* Gradients are whole on one stage while others are at other steps: nobody has all of them. */
static enum status resolve_clip(struct options *options, struct run_config *config) {
    if (option_is_given(options, OPTION_clip) && options->clip > 0)
        return fail(STATUS_USAGE,
                    "--clip %g: without a flush no step has the norm of all stages' gradients\n"
                    "  --clip 0, or --strategy 1f1b",
                    options->clip);
    if (options->clip > 0 && config->rank == 0)
        log_note("schedule %s does not clip gradients: --clip is 0, not the optimizer's %g",
                 config->schedule, options->clip);
    options->clip = config->clip = 0;
    option_resolve(options, OPTION_clip);
    return STATUS_OK;
}

static enum status refuse(const struct run_config *config, const char *option, const char *why,
                          const char *way) {
    return fail(STATUS_USAGE, "%s: schedule %s is never flushed, and %s\n  %s", option,
                config->schedule, why, way);
}

static enum status check_options(const struct options *options, const struct run_config *config) {
    static const char other[] = "--strategy 1f1b";
    if (config->zero_stage > 0 || option_is_given(options, OPTION_zero_stage))
        return refuse(config, "--zero-stage", "its versions of the parameters are whole",
                      "--strategy 1f1b --zero-stage N");
    if (options->sync_bn)
        return refuse(config, "--sync-bn", "replicas do not meet inside a pass", other);
    if (config->dtype == DTYPE_F16 || strcmp(options->dtype, "f16") == 0)
        return refuse(config, "--dtype f16", "no step has one loss scale", "--dtype bf16 or f32");
    if (recompute_keeps_last(config->recompute))
        return refuse(config, "--recompute except-last",
                      "none of its micro-batches is the last one", "--recompute always");
    if (config->sum != SUM_REPLICA)
        return refuse(config, "--sum", "gradients are added by replica", "--sum replica");
    return STATUS_OK;
}

static enum status check_micros(const struct pipeline_schedule *schedule,
                                const struct run_config *config) {
    int micros = config->micro_batches, stages = config->grid.stages;
    if (schedule->one_micro && micros > 1)
        return fail(STATUS_USAGE,
                    "--micro-batches %d: schedule %s updates after each mini-batch, which it does "
                    "not cut\n  --micro-batches 1, or --strategy pipedream-2bw",
                    micros, config->schedule);
    if (!schedule->one_micro && micros < stages)
        return fail(STATUS_USAGE,
                    "--micro-batches %d: schedule %s needs at least as many as stages, %d\n"
                    "  --micro-batches %d, or --strategy pipedream",
                    micros, config->schedule, stages, stages);
    return STATUS_OK;
}

void resolve_drop_last(struct options *options, struct run_config *config) {
    if (option_is_given(options, OPTION_drop_last) && !options->drop_last && config->rank == 0)
        log_note("--drop-last is on: strategy %s leaves out the short last step of an epoch",
                 options->strategy);
    config->drop_last = options->drop_last = true;
}

enum status resolve_overlap(struct options *options, struct run_config *config) {
    const struct pipeline_schedule *schedule = pipeline_find(config->schedule);
    bool overlaps = schedule && schedule->older && !config->forward;
    if (options->vertical_sync && !config->forward && !(schedule && schedule->one_micro))
        return fail(STATUS_USAGE,
                    "--vertical-sync has no effect with schedule %s\n"
                    "  it acts with --strategy pipedream",
                    config->schedule);
    if (!overlaps) return STATUS_OK;
    TRY(check_options(options, config));
    TRY(check_micros(schedule, config));
    TRY(resolve_clip(options, config));
    config->overlaps = config->grid.stages > 1;
    config->vertical_sync = options->vertical_sync;
    resolve_drop_last(options, config);
    return STATUS_OK;
}
