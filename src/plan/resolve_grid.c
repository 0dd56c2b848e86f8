/* Which stage and replica each rank has: ranks = stages x replicas, any two give the third. A
 * schedule with a driver has one pipeline, and a rank more. */

#include "base/log.h"
#include "base/text.h"
#include "plan/resolve.h"
#include "plan/strategy.h"
#include "program/auto.h"
#include "program/pipeline.h"

/* The number that an option gives, or 0. */
static int given(const struct options *options, enum option_id id, int64_t value) {
    return option_is_given(options, id) ? (int)value : 0;
}

static int drivers_of(const struct pipeline_schedule *schedule) {
    return schedule && schedule->driven ? 1 : 0;
}

/* The schedule that the options name, or the strategy's. */
static const struct pipeline_schedule *schedule_asked(const struct options *options) {
    const struct strategy *strategy = options->strategy ? strategy_find(options->strategy) : NULL;
    if (option_is_given(options, OPTION_schedule)) return pipeline_find(options->schedule);
    return strategy ? pipeline_find(strategy->schedule) : NULL;
}

int resolve_ranks_asked(const struct options *options) {
    int stages = given(options, OPTION_stages, options->stages),
        replicas = given(options, OPTION_replicas, options->replicas);
    return (stages ? stages : 1) * (replicas ? replicas : 1) + drivers_of(schedule_asked(options));
}

static enum status refuse_product(int ranks, int stages, int replicas) {
    char all[TEXT_BYTES], each[TEXT_BYTES], copies[TEXT_BYTES];
    return fail(STATUS_USAGE,
                "%s %s not %s x %s\n"
                "  give two of -n, --stages and --replicas, or three that fit",
                text_count(ranks, "rank", all), ranks == 1 ? "is" : "are",
                text_count(stages, "stage", each), text_count(replicas, "replica", copies));
}

/* Without either, all ranks are one pipeline. */
static enum status solve(const struct options *options, int ranks, int *stages, int *replicas) {
    *stages = given(options, OPTION_stages, options->stages);
    *replicas = given(options, OPTION_replicas, options->replicas);
    if (!*stages && !*replicas) *replicas = 1;
    if (!*stages) *stages = ranks / *replicas;
    if (!*replicas) *replicas = ranks / *stages;
    if (*stages < 1 || *replicas < 1 || *stages * *replicas != ranks)
        return refuse_product(ranks, *stages < 1 ? 1 : *stages, *replicas < 1 ? 1 : *replicas);
    return STATUS_OK;
}

/* One driver calls one pipeline. */
static enum status check_driven(const struct options *options,
                                const struct pipeline_schedule *schedule, int ranks) {
    int stages = given(options, OPTION_stages, options->stages),
        replicas = given(options, OPTION_replicas, options->replicas);
    if (!schedule || !schedule->driven) return STATUS_OK; /* auto is not in the table */
    if (replicas > 1)
        return fail(STATUS_USAGE, "--replicas %d: the driver of schedule %s calls one pipeline",
                    replicas, schedule->name);
    if (ranks > 1 && (!stages || stages == ranks - 1)) return STATUS_OK;
    char all[TEXT_BYTES], each[TEXT_BYTES];
    if (!stages) stages = 1;
    return fail(STATUS_USAGE,
                "%s %s not a driver and %s\n"
                "  schedule %s has a rank more than stages: -n %d",
                text_count(ranks, "rank", all), ranks == 1 ? "is" : "are",
                text_count(stages, "stage", each), schedule->name, stages + 1);
}

/* The schedule as resolve_run will choose it. */
static const char *schedule_of(const struct options *options, int ranks) {
    const char *name = option_is_set(options, OPTION_strategy) ? options->strategy
                       : ranks > 1                             ? "ddp"
                                                               : "single";
    const struct strategy *strategy = strategy_find(name);
    CHECK(strategy, "no strategy is called %s", name);
    return option_is_given(options, OPTION_schedule) ? options->schedule : strategy->schedule;
}

enum status resolve_replicas(const struct options *options, int ranks, int *out) {
    int stages;
    if (option_is_set(options, OPTION_deal))
        *out = (int)options->deal.replicas;
    else if (pipeline_is(schedule_of(options, ranks)))
        return solve(options, ranks - drivers_of(pipeline_find(schedule_of(options, ranks))),
                     &stages, out);
    else
        *out = ranks;
    return STATUS_OK;
}

/* auto has as many as it finds best; until then 1. */
static enum status solve_chunks(const struct options *options,
                                const struct pipeline_schedule *schedule, int *chunks) {
    *chunks = given(options, OPTION_virtual_stages, options->virtual_stages);
    if (*chunks == 0) *chunks = schedule ? schedule->chunks : 1;
    if (!schedule || *chunks == schedule->chunks || schedule->any_chunks) return STATUS_OK;
    char has[TEXT_BYTES];
    return fail(STATUS_USAGE,
                "--virtual %d: schedule %s has %s on each rank\n"
                "  --virtual %d, or --strategy interleaved",
                *chunks, schedule->name, text_count(schedule->chunks, "stage", has),
                schedule->chunks);
}

/* A strategy without stages may be one that a pipeline can have as well. */
static enum status refuse_stages(const struct options *options, int stages) {
    const struct strategy *strategy = strategy_find(options->strategy);
    char way[64] = "--strategy 1f1b, gpipe or another pipeline";
    if (strategy->zero_stage)
        snprintf(way, sizeof way, "--strategy 1f1b --zero-stage %d, or another pipeline",
                 strategy->zero_stage);
    return fail(STATUS_USAGE, "--stages %d: --strategy %s has the whole model on each rank\n  %s",
                stages, strategy->name, way);
}

/* Every replica is whole on its rank, or one device plays them all. */
static enum status flat_grid(const struct options *options, const struct run_config *config,
                             struct grid *out) {
    bool dealt = option_is_set(options, OPTION_deal);
    int replicas = dealt ? (int)options->deal.replicas : config->ranks,
        stages = given(options, OPTION_stages, options->stages),
        wanted = given(options, OPTION_replicas, options->replicas);
    if (stages > 1) return refuse_stages(options, stages);
    if (option_is_given(options, OPTION_virtual_stages) || option_is_given(options, OPTION_cut))
        return fail(STATUS_USAGE, "--%s has no effect with schedule %s",
                    option_is_given(options, OPTION_virtual_stages) ? "virtual" : "cut",
                    config->schedule);
    if (wanted && wanted != config->ranks) return refuse_product(config->ranks, 1, wanted);
    *out = grid_flat(config->ranks, replicas);
    return STATUS_OK;
}

enum status resolve_grid(const struct options *options, const struct run_config *config,
                         struct grid *out) {
    const struct pipeline_schedule *schedule = pipeline_find(config->schedule);
    int stages, replicas, chunks;
    if (!pipeline_is(config->schedule)) return flat_grid(options, config, out);
    if (option_is_set(options, OPTION_deal))
        return fail(STATUS_USAGE,
                    "--deal replays replicas on one device, with --strategy single; "
                    "this run is %s",
                    config->schedule);
    TRY(check_driven(options, schedule, config->ranks));
    TRY(solve(options, config->ranks - drivers_of(schedule), &stages, &replicas));
    TRY(solve_chunks(options, schedule, &chunks));
    *out = (struct grid){.stages = stages,
                         .chunks = chunks,
                         .replicas = replicas,
                         .replicas_each = 1,
                         .v_shape = schedule && schedule->v_shape,
                         .drivers = drivers_of(schedule)};
    return STATUS_OK;
}
