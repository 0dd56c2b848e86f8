/* Frozen blocks: what cannot go with them is refused with a way out. How many blocks the model has
 * is known when its graph is there (graph/freeze.h). */
#include <string.h>

#include "base/log.h"
#include "plan/course_file.h"
#include "plan/plan_auto.h"
#include "plan/resolve.h"
#include "program/pipeline.h"

static enum status check(const struct options *options, const struct run_config *config,
                         const char *option, const char *what) {
    const struct pipeline_schedule *schedule = pipeline_find(config->schedule);
    if (schedule && schedule->older)
        return fail(STATUS_USAGE,
                    "%s %s: schedule %s is never flushed, and its stages keep versions of "
                    "what they train\n  --strategy 1f1b",
                    option, what, config->schedule);
    if (config->apart)
        return fail(STATUS_USAGE,
                    "%s %s with --sync %s: replicas that train apart average all parameters"
                    "\n  --sync allreduce",
                    option, what, config->sync);
    if (config->zero_stage == 3 || config->several.zero_stage == 3)
        return fail(STATUS_USAGE,
                    "%s %s with --zero-stage 3: what is not trained is not sliced, and "
                    "slices are gathered with what is\n  --zero-stage 2",
                    option, what);
    if (option_is_given(options, OPTION_program))
        return fail(STATUS_USAGE,
                    "%s %s with --program %s: which stages are frozen follows from the "
                    "model, not from a program\n  leave one of them out",
                    option, what, option_string(options, OPTION_program));
    return STATUS_OK;
}

/* What a run cannot do yet that changes its plan on the way. */
static enum status check_changes(const struct options *options, const struct run_config *config,
                                 const char *option, const char *what) {
    if (config->freezing.norm && strcmp(options->dtype, "f16") == 0)
        return fail(
            STATUS_USAGE,
            "--freeze %s with --dtype f16: steps whose gradients overflow are left out, and "
            "norms would miss them\n  --dtype bf16, or --freeze alpha=SHARE",
            what);
    if (plan_is_auto(config))
        return fail(STATUS_USAGE,
                    "%s %s with --strategy auto: an order is chosen once for a run\n"
                    "  --strategy 1f1b, or --freeze with one number",
                    option, what);
    return STATUS_OK;
}

/* --- pipelines that shrink --- */

static enum pipe_rule rule_of(const struct options *options) {
    if (strcmp(options->auto_pipe, "params") == 0) return PIPE_PARAMS;
    return strcmp(options->auto_pipe, "params-lambda") == 0 ? PIPE_PARAMS_LAMBDA : PIPE_OFF;
}

static enum status check_pipe(const struct options *options, const struct run_config *config) {
    const char *what = options->auto_pipe;
    if (!pipeline_find(config->schedule) || config->grid.drivers > 0 || plan_is_auto(config))
        return fail(STATUS_USAGE,
                    "--auto-pipe %s with schedule %s: it cuts and shrinks pipelines without a "
                    "driver\n  --strategy gpipe or 1f1b",
                    what, config->schedule);
    if (config->grid.chunks > 1)
        return fail(STATUS_USAGE,
                    "--auto-pipe %s with schedule %s: its rules cut pipelines with one stage a "
                    "rank, and this one has %d\n  --strategy gpipe or 1f1b",
                    what, config->schedule, config->grid.chunks);
    if (option_is_given(options, OPTION_cut))
        return fail(STATUS_USAGE, "--auto-pipe %s with --cut: each says alone where stages begin",
                    what);
    return STATUS_OK;
}

/* Samples of a replica would be added in another order once there are several. */
static enum status check_dp(const struct options *options, const struct run_config *config) {
    bool scatters = strcmp(options->zero_accumulate, "scatter") == 0;
    if (config->pipe == PIPE_OFF)
        return fail(STATUS_USAGE,
                    "--auto-dp with --auto-pipe %s: no rank is freed that could be a replica\n"
                    "  --auto-pipe params",
                    options->auto_pipe);
    if (config->several.zero_stage >= 2 && scatters)
        return fail(STATUS_USAGE,
                    "--auto-dp with --zero-accumulate scatter: its order of sums follows from the "
                    "number of replicas\n  --zero-accumulate local");
    return STATUS_OK;
}

/* The rules act on what is frozen, and on nothing else. */
static enum status resolve_pipe(const struct options *options, struct run_config *config) {
    bool freezes = config->freezing.count > 0 || freezing_changes(&config->freezing);
    config->pipe = rule_of(options);
    config->auto_dp = options->auto_dp;
    if (config->pipe == PIPE_OFF && !config->auto_dp) return STATUS_OK;
    if (!freezes)
        return fail(STATUS_USAGE,
                    "--%s%s without --freeze: pipelines shrink as blocks freeze\n"
                    "  --freeze alpha=1/3",
                    config->pipe ? "auto-pipe " : "auto-dp",
                    config->pipe ? options->auto_pipe : "");
    if (config->pipe != PIPE_OFF) TRY(check_pipe(options, config));
    if (config->auto_dp) TRY(check_dp(options, config));
    if (config->auto_dp || !freezing_changes(&config->freezing) || config->replicas == 1)
        return STATUS_OK;
    return fail(
        STATUS_USAGE,
        "--auto-pipe %s with %d replicas: ranks that are freed idle beside one pipeline, or "
        "become further replicas\n  --auto-dp, or --replicas 1",
        options->auto_pipe, config->replicas);
}

static enum status resolve_rule(const struct options *options, struct run_config *config) {
    /* A run's config.yml has its default, too. */
    bool every = options->source[OPTION_freeze_every] == OPTION_FROM_COMMAND_LINE;
    if (option_is_set(options, OPTION_freeze)) {
        TRY(freezing_rule_read(options->freeze, &config->freezing));
        config->frozen = freezing_first(&config->freezing);
        TRY(check(options, config, "--freeze", options->freeze));
        config->unpadded = freezing_changes(&config->freezing);
        bool never = options->freeze_every.steps == 0 && options->freeze_every.epochs == 0;
        if (config->unpadded && never)
            return fail(STATUS_USAGE,
                        "--freeze %s with --freeze-every never: only its first number would "
                        "count\n  --freeze %d",
                        options->freeze, freezing_first(&config->freezing));
        if (config->unpadded) return check_changes(options, config, "--freeze", options->freeze);
    }
    if (!every) return STATUS_OK;
    return fail(STATUS_USAGE, "--freeze-every has no effect: %s\n  --freeze 0,4,7, or alpha=1/3",
                option_is_set(options, OPTION_freeze)
                    ? "--freeze names one number for the whole run"
                    : "nothing is frozen");
}

/* --- courses of files --- */

static enum status check_course(const struct options *options, const struct run_config *config) {
    const char *other = option_is_set(options, OPTION_freeze) ? "freeze"
                        : rule_of(options) != PIPE_OFF        ? "auto-pipe"
                        : options->auto_dp                    ? "auto-dp"
                                                              : NULL;
    if (other)
        return fail(STATUS_USAGE,
                    "--course %s with --%s: the file says what is frozen when\n"
                    "  leave one of them out",
                    options->course, other);
    if (config->several.zero_stage >= 2 && config->several.scatters)
        return fail(STATUS_USAGE,
                    "--course %s with --zero-accumulate scatter: its order of sums follows from "
                    "the number of replicas\n  --zero-accumulate local",
                    options->course);
    TRY(check(options, config, "--course", options->course));
    return check_changes(options, config, "--course", options->course);
}

static enum status resolve_course(const struct options *options, const struct course_file *file,
                                  struct run_config *config) {
    if (!file) return STATUS_OK;
    config->course = file;
    config->frozen = file->part[0].frozen;
    config->unpadded = true;
    return check_course(options, config);
}

enum status resolve_freeze(const struct options *options, const struct course_file *course,
                           struct run_config *config) {
    TRY(resolve_course(options, course, config));
    TRY(resolve_rule(options, config));
    return resolve_pipe(options, config);
}
