/* The table of strategies. */
#include "plan/strategy.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "program/pipeline.h"

enum { ONE_RANK, PROCESSES, THREADS };

static const struct strategy strategies[] = {
#define STRATEGY(NAME, schedule_, sync_, spawn, ...)                                               \
    {.name = NAME,                                                                                 \
     .schedule = schedule_,                                                                        \
     .sync = sync_,                                                                                \
     .threads = spawn == THREADS,                                                                  \
     .one_rank = spawn == ONE_RANK,                                                                \
     .help = __VA_ARGS__},
#include "plan/strategy.def"
#undef STRATEGY
};

const struct strategy *strategy_all(int *count) {
    *count = (int)(sizeof strategies / sizeof strategies[0]);
    return strategies;
}

const struct strategy *strategy_find(const char *name) {
    int found = TEXT_FIND(name, strategies);
    return found < 0 ? NULL : &strategies[found];
}

static const struct strategy *chosen(const struct options *options) {
    return options->strategy ? strategy_find(options->strategy) : NULL;
}

const char *strategy_text(const struct strategy *strategy, const char *schedule, int zero_stage,
                          char text[STRATEGY_TEXT_BYTES]) {
    const struct pipeline_schedule *other = pipeline_find(schedule);
    bool own = strcmp(schedule, strategy->schedule) == 0;
    const char *help = own ? strategy->help : other ? other->help : NULL;
    char zero[64] = "";
    if (zero_stage && zero_stage != strategy->zero_stage)
        snprintf(zero, sizeof zero, ", with --zero-stage %d: ZeRO-%d", zero_stage, zero_stage);
    snprintf(text, STRATEGY_TEXT_BYTES, "%s%s%s%s%s%s", strategy->name,
             own ? "" : ", with --schedule ", own ? "" : schedule, zero, help ? " - " : "",
             help ? help : "");
    return text;
}

bool strategy_uses_threads(const struct options *options) {
    const struct strategy *strategy = chosen(options);
    return (strategy && strategy->threads) || strcmp(options->spawn, "threads") == 0 ||
           strcmp(options->clock, "virtual") == 0;
}

static enum status check_one_rank(const struct options *options, int64_t ranks) {
    const struct strategy *strategy = chosen(options);
    const char *many = options_asking_ranks(options);
    if (!strategy || !strategy->one_rank || ranks <= 1) return STATUS_OK;
    if (options->local_ranks > 1)
        return fail(STATUS_USAGE,
                    "-n %" PRId64 " asks for several ranks, but --strategy %s runs on one",
                    options->local_ranks, strategy->name);
    if (many)
        return fail(STATUS_USAGE, "--%s asks for several ranks, but --strategy %s runs on one",
                    many, strategy->name);
    return fail(STATUS_USAGE, "%" PRId64 " ranks were started, but --strategy %s runs on one",
                ranks, strategy->name);
}

/* Ranks as threads are of one process, and share its memory. */
static enum status check_threads(const struct options *options) {
    const struct strategy *strategy = chosen(options);
    bool own = strategy && strategy->threads, threads = strcmp(options->spawn, "threads") == 0;
    const char *many = options_asking_ranks(options);
    char asked[64];
    bool simulated = strcmp(options->clock, "virtual") == 0;
    bool averages = own && strcmp(strategy->sync, "allreduce") != 0; /* ddp trains otherwise */
    const char *hint = simulated  ? "--clock wall runs ranks as processes"
                       : averages ? "leave this option out"
                                  : "--strategy ddp runs ranks as processes";
    if (!own && !threads && !simulated) return STATUS_OK;
    snprintf(asked, sizeof asked,
             own         ? "--strategy %s"
             : simulated ? "--clock virtual"
                         : "--spawn threads",
             own ? strategy->name : "");
    if (!threads && options->source[OPTION_spawn] == OPTION_FROM_COMMAND_LINE)
        return fail(STATUS_USAGE, "%s runs ranks as threads, --spawn is %s\n  %s", asked,
                    options->spawn, hint);
    if (strcmp(options->comm, "auto") != 0 && strcmp(options->comm, "shm") != 0 &&
        strcmp(options->comm, "peer") != 0 && strcmp(options->comm, "nccl") != 0)
        return fail(STATUS_USAGE, "ranks share the memory of a process with %s, --comm is %s\n  %s",
                    asked, options->comm, hint);
    if (!many) return STATUS_OK;
    return fail(STATUS_USAGE, "--%s asks for other processes, but %s runs in one\n  %s", many,
                asked, hint);
}

enum status strategy_check(const struct options *options, int64_t ranks) {
    if (options->strategy && strcmp(options->strategy, "best") == 0)
        return fail(STATUS_USAGE,
                    "--strategy best is for train, explain and simulate, which search "
                    "first\n  stretto plan prints the options of the best one");
    TRY(check_one_rank(options, ranks));
    return check_threads(options);
}
