/* Frozen blocks: what cannot go with them is refused with a way out. How many blocks the model has
 * is known when its graph is there (graph/freeze.h). */
#include <string.h>

#include "base/log.h"
#include "plan/plan_auto.h"
#include "plan/resolve.h"
#include "program/pipeline.h"

static enum status check(const struct options *options, const struct run_config *config) {
    const struct pipeline_schedule *schedule = pipeline_find(config->schedule);
    const char *what = options->freeze;
    if (schedule && schedule->older)
        return fail(STATUS_USAGE,
                    "--freeze %s: schedule %s is never flushed, and its stages keep versions of "
                    "what they train\n  --strategy 1f1b",
                    what, config->schedule);
    if (config->apart)
        return fail(STATUS_USAGE,
                    "--freeze %s with --sync %s: replicas that train apart average all parameters"
                    "\n  --sync allreduce",
                    what, config->sync);
    if (config->zero_stage == 3)
        return fail(STATUS_USAGE,
                    "--freeze %s with --zero-stage 3: what is not trained is not sliced, and "
                    "slices are gathered with what is\n  --zero-stage 2",
                    what);
    if (option_is_given(options, OPTION_program))
        return fail(STATUS_USAGE,
                    "--freeze %s with --program %s: which stages are frozen follows from the "
                    "model, not from a program\n  leave one of them out",
                    what, option_string(options, OPTION_program));
    return STATUS_OK;
}

/* What a run cannot do yet that changes its plan on the way. */
static enum status check_changes(const struct options *options, const struct run_config *config) {
    const char *what = options->freeze;
    if (options->freeze_every.steps == 0 && options->freeze_every.epochs == 0)
        return fail(STATUS_USAGE,
                    "--freeze %s with --freeze-every never: only its first number would count\n"
                    "  --freeze %d",
                    what, freezing_first(&config->freezing));
    if (config->freezing.norm && strcmp(options->dtype, "f16") == 0)
        return fail(STATUS_USAGE,
                    "--freeze %s with --dtype f16: steps whose gradients overflow are left out, and "
                    "norms would miss them\n  --dtype bf16, or --freeze alpha=SHARE",
                    what);
    if (strcmp(options->clock, "virtual") == 0)
        return fail(STATUS_USAGE,
                    "--freeze %s with --clock virtual: costs of virtual time are of one plan\n"
                    "  --clock wall, or --freeze with one number",
                    what);
    if (plan_is_auto(config))
        return fail(STATUS_USAGE,
                    "--freeze %s with --strategy auto: an order is chosen once for a run\n"
                    "  --strategy 1f1b, or --freeze with one number",
                    what);
    return STATUS_OK;
}

enum status resolve_freeze(const struct options *options, struct run_config *config) {
    /* A run's config.yml has its default, too. */
    bool every = options->source[OPTION_freeze_every] == OPTION_FROM_COMMAND_LINE;
    if (option_is_set(options, OPTION_freeze)) {
        TRY(freezing_rule_read(options->freeze, &config->freezing));
        config->frozen = freezing_first(&config->freezing);
        TRY(check(options, config));
        config->unpadded = freezing_changes(&config->freezing);
        if (config->unpadded) return check_changes(options, config);
    }
    if (!every) return STATUS_OK;
    return fail(STATUS_USAGE, "--freeze-every has no effect: %s\n  --freeze 0,4,7, or alpha=1/3",
                option_is_set(options, OPTION_freeze)
                    ? "--freeze names one number for the whole run"
                    : "nothing is frozen");
}
