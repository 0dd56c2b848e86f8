/* See planned_search.h. */
#include "planned/planned_search.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/option_registry.h"
#include "plan/resolve.h"
#include "plan/strategy.h"
#include "planned/events.h"
#include "planned/paths.h"
#include "planned/weigher.h"
#include "record/trace.h"
#include "sync/sync.h"

enum { BEST = 10, FALLBACK_LIBRARY_BYTES = 24 << 20 };

/* --- ranks --- */

enum status planned_ranks_asked(const struct options *options, int *out) {
    SCOPED(cluster_free) struct cluster cluster = {0};
    int asked = resolve_ranks_asked(options), local = (int)options->local_ranks;
    *out = local > 1 ? local : asked;
    const struct strategy *strategy =
        option_is_given(options, OPTION_strategy) ? strategy_find(options->strategy) : NULL;
    if (strategy && strategy->one_rank) return STATUS_OK;
    bool said = option_is_given(options, OPTION_local_ranks) ||
                option_is_given(options, OPTION_stages) ||
                option_is_given(options, OPTION_replicas) ||
                option_is_given(options, OPTION_deal) || options_asking_ranks(options);
    if (said || !option_is_given(options, OPTION_cluster)) return STATUS_OK;
    TRY(cluster_read(options->cluster, &cluster));
    *out = (int)cluster.ranks;
    return STATUS_OK;
}

/* What --stages or --replicas alone say is a part of the ranks. */
static enum status ranks_searched(const struct planned_search *search, int *out) {
    const struct options *options = &search->options;
    const struct cluster *cluster = search->opened.costs->cluster;
    bool both =
        option_is_given(options, OPTION_stages) && option_is_given(options, OPTION_replicas);
    int asked = resolve_ranks_asked(options);
    *out = option_is_given(options, OPTION_local_ranks) ? (int)options->local_ranks
           : both || !cluster                           ? asked
                                                        : (int)cluster->ranks;
    if (cluster) TRY(cluster_check_ranks(cluster, options->cluster, *out));
    return STATUS_OK;
}

/* --- memory --- */

static void complete(void *context, struct plan *plan) {
    const struct planned_search *search = context;
    struct trace_config trace = events_trace_config(plan, &search->options, plan->config.rank);
    plan->memory.trace = trace_bytes(&trace);
    plan->memory.library = (size_t)search->library_bytes;
}

/* One rank, micro-batches of the size that many candidates have: all kernels of the model. */
static enum status ask_usual(const struct planned_search *search, struct weigher *out) {
    const struct options *options = &search->options;
    int64_t replicas = 1;
    for (int64_t r = 1; r <= search->input.ranks; r++)
        if (options->batch % r == 0) replicas = r;
    struct planner_choice usual = {.ranks = 1,
                                   .stages = 1,
                                   .replicas = 1,
                                   .micro_batches = (int32_t)replicas,
                                   .chunks = 1,
                                   .schedule = PLANNER_WHOLE};
    struct options alone = *options;
    alone.arena = (struct arena){0};
    for (int id = 0; id < OPTION_COUNT; id++)
        if (option_rows[id].commands & OPTION_OF_LAYOUT) option_reset(&alone, (enum option_id)id);
    enum status status = planner_apply(&usual, search->input.costs, &alone);
    if (status == STATUS_OK) *out = weigher_ask(&alone);
    arena_free(&alone.arena);
    return status;
}

/* Ranks as processes have a control plane besides: planned_memory.c. */
static void take_library(struct planned_search *search, const struct weighed *weighed) {
    enum { CONTROL_BYTES = (380 + 900) << 10 };
    search->library_bytes = weighed->found ? weighed->library_bytes : FALLBACK_LIBRARY_BYTES;
    if (search->input.ranks > 1) search->library_bytes += CONTROL_BYTES;
}

static void set_memory(struct planned_search *search) {
    struct planner_memory *memory = &search->input.memory;
    if (option_is_set(&search->options, OPTION_memory_limit_bytes))
        memory->limit_bytes = search->options.memory_limit_bytes;
    else if (!search->opened.costs->cluster)
        memory->machine_bytes = machine_memory("").usable_bytes;
}

/* --- the search --- */

/* An option of a policy whose replicas train apart; OPTION_COUNT: nobody asks for one. */
static enum option_id option_apart(const struct options *options) {
    const struct sync_policy *policy;
    enum option_id id;
    for (int i = 0; (policy = sync_at(i)); i++)
        if (policy->apart && resolve_asks_policy(options, policy, &id)) return id;
    return OPTION_COUNT;
}

/* What a step of theirs sends is not what the next one sends. */
static enum status refuse_apart(const struct options *options) {
    const struct strategy *strategy =
        option_is_given(options, OPTION_strategy) ? strategy_find(options->strategy) : NULL;
    bool named = option_is_given(options, OPTION_sync);
    const struct sync_policy *policy = named      ? sync_find(options->sync)
                                       : strategy ? sync_find(strategy->sync)
                                                  : NULL;
    enum option_id id = named ? OPTION_sync : OPTION_strategy;
    if (!policy || !policy->apart) id = option_apart(options);
    if (id == OPTION_COUNT) return STATUS_OK;
    SCOPED_FREE char *text = option_text(options, id);
    return fail(STATUS_USAGE,
                "--%s %s: replicas train apart, which plan does not search\n"
                "  simulate forecasts it for a grid that is given",
                option_rows[id].name, text);
}

static enum status refuse_costs(const struct options *options) {
    static const enum option_id others[] = {OPTION_delay, OPTION_hetero, OPTION_deal,
                                            OPTION_program, OPTION_course};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (option_is_given(options, others[i]))
            return fail(
                STATUS_USAGE,
                "--%s is for one plan or fixes its times, so plan cannot compare others by it\n"
                "  explain and simulate take it, with a strategy that is named",
                option_rows[others[i]].name);
    TRY(refuse_apart(options));
    if (strcmp(options->clock, "virtual") != 0) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--clock virtual: plan forecasts the wall clock\n"
                "  leave it out; --cluster forecasts for other devices than this machine's");
}

static enum status set_input(struct planned_search *search) {
    struct planner_input *input = &search->input;
    struct cores_share cores;
    *input = (struct planner_input){.options = &search->options,
                                    .model = model_find(search->options.model),
                                    .dataset = search->opened.dataset,
                                    .costs = search->opened.costs,
                                    .complete = complete,
                                    .context = search,
                                    .best = BEST};
    TRY(ranks_searched(search, &input->ranks));
    cores_of_ranks(input->ranks, &cores);
    input->threads = option_is_set(&search->options, OPTION_threads) ? (int)search->options.threads
                                                                     : cores_threads(&cores);
    if (!search->opened.costs->cluster) input->cores = machine_cores("").online;
    set_memory(search);
    return STATUS_OK;
}

static enum status open_search(struct planned_search *search) {
    search->opened.options = search->options;
    TRY(planned_open_data(&search->opened));
    search->options = search->opened.options;
    TRY(cost_read(&search->options, true, &search->opened.costs));
    return set_input(search);
}

/* The first row that fits by explain's own figures. */
static enum status find_fitting(struct planned_search *search) {
    struct planner_result *result = &search->result;
    for (search->fitting = 0; search->fitting < result->timed; search->fitting++) {
        struct planner_row *row = &result->row[search->fitting];
        struct options options;
        struct weigher weigher = {.pid = -1, .answer = -1};
        enum status status = planned_search_options(search, row, &options);
        if (status == STATUS_OK) weigher = weigher_ask(&options);
        arena_free(&options.arena);
        struct weighed weighed = weigher_answer(&weigher);
        TRY(status);
        if (!weighed.found) return STATUS_OK;
        row->over_bytes = weighed.fits ? 0 : weighed.most_bytes - row->peak_bytes + 1;
        row->peak_bytes = weighed.most_bytes;
        if (weighed.fits) return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status search_all(struct planned_search *search) {
    struct weigher weigher;
    TRY(ask_usual(search, &weigher));
    struct weighed weighed = weigher_answer(&weigher);
    take_library(search, &weighed);
    TRY(planner_search(&search->input, &search->result));
    return find_fitting(search);
}

enum status planned_search_open(const struct options *options, struct planned_search *out) {
    *out = (struct planned_search){.options = *options};
    if (option_is_given(options, OPTION_strategy) && strcmp(options->strategy, "best") == 0)
        option_reset(&out->options, OPTION_strategy);
    TRY(refuse_costs(options));
    return open_search(out);
}

enum status planned_search(const struct options *options, bool exhaustive,
                           struct planned_search *out) {
    enum status status = planned_search_open(options, out);
    out->input.exhaustive = exhaustive;
    if (status == STATUS_OK) status = search_all(out);
    if (status != STATUS_OK) planned_search_close(out);
    return status;
}

void planned_search_close(struct planned_search *search) {
    planner_free(&search->result);
    planned_close(&search->opened);
}

const struct planner_row *planned_search_first(const struct planned_search *search) {
    return search->fitting < search->result.timed ? &search->result.row[search->fitting] : NULL;
}

/* --- nothing fits --- */

/* Of those that do not fit the one that misses least. NULL: there is none. */
static const struct planner_row *nearest_fit(const struct planned_search *search) {
    const struct planner_result *result = &search->result;
    const struct planner_row *best = NULL;
    for (int64_t i = 0; i < result->row_count; i++) {
        const struct planner_row *row = &result->row[i];
        bool large = row->state == PLANNER_TOO_LARGE || row->over_bytes > 0;
        if (!large || row->over_bytes <= 0) continue;
        if (!best || row->over_bytes < best->over_bytes) best = row;
    }
    return best;
}

/* Ranks that would hold what this one has too much, were it spread evenly. */
static int64_t ranks_more(const struct planned_search *search, const struct planner_row *row) {
    double needs = (double)row->peak_bytes, has = needs - (double)row->over_bytes;
    int ranks = search->input.ranks;
    if (has <= 0) return 0;
    return (int64_t)(needs / has * ranks) + 1 - ranks;
}

/* What the user fixed and may leave open. */
static const char *fixed_hint(const struct planned_search *search) {
    const struct options *options = &search->options;
    if (option_is_given(options, OPTION_micro_batches)) return "leave --micro-batches open; ";
    if (option_is_given(options, OPTION_recompute)) return "leave --recompute open; ";
    if (option_is_given(options, OPTION_zero_stage)) return "leave --zero-stage open; ";
    if (option_is_given(options, OPTION_strategy)) return "leave --strategy open; ";
    return "";
}

enum status planned_search_refuse(const struct planned_search *search) {
    const struct planner_row *near = nearest_fit(search);
    char over[TEXT_BYTES], need[TEXT_BYTES], more[TEXT_BYTES];
    if (planned_search_first(search)) return STATUS_OK;
    if (!near)
        return fail(STATUS_USAGE,
                    "no plan of these options can be made: all %lld are refused\n"
                    "  explain says why, for one of them",
                    (long long)search->result.refused);
    int64_t ranks = ranks_more(search, near);
    return fail(
        STATUS_MEMORY,
        "nothing fits: the smallest of %lld plans (%s, %d x %d, M %d, ZeRO %d, recompute %s) "
        "needs %s, %s too much\n  %s%s%s a smaller --batch or model",
        (long long)search->result.row_count, planner_schedule_name(&near->choice),
        near->choice.stages, near->choice.replicas, near->choice.micro_batches,
        near->choice.zero_stage,
        recompute_policy_name((enum recompute_policy)near->choice.recompute),
        text_size(near->peak_bytes, need), text_size(near->over_bytes, over), fixed_hint(search),
        ranks > 0 ? text_count(ranks, "rank", more) : "", ranks > 0 ? " more; or" : "");
}

enum status planned_search_options(const struct planned_search *search,
                                   const struct planner_row *row, struct options *out) {
    struct cores_share cores;
    char text[TEXT_BYTES];
    *out = search->options;
    out->arena = (struct arena){0};
    TRY(planner_apply(&row->choice, search->input.costs, out));
    TRY(options_check(out));
    cores_of_ranks(row->choice.ranks, &cores);
    if (option_is_given(out, OPTION_threads) || cores_threads(&cores) == search->input.threads)
        return STATUS_OK;
    snprintf(text, sizeof text, "%d", search->input.threads);
    return option_set(out, OPTION_threads, text, "--threads", OPTION_FROM_COMMAND_LINE);
}

/* --- a config file --- */

bool planned_search_is_told(const struct options *options, enum option_id id,
                            enum option_command command) {
    static const enum option_id never[] = {OPTION_json, OPTION_quiet, OPTION_help, OPTION_draw};
    const struct option_row *row = &option_rows[id];
    bool forecast = command & (COMMAND_SIMULATE | COMMAND_EXPLAIN);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (id == never[i]) return false;
    bool by_time = strcmp(options->strategy, "auto") == 0;
    if (id == OPTION_cluster) return (forecast || by_time) && option_is_given(options, id);
    by_time |= strcmp(options->balance, "time") == 0;
    if (id == OPTION_profile && !forecast && !by_time) return false;
    return row->commands & (unsigned)command;
}

static char *config_text(const struct options *options) {
    struct options kept = *options;
    SCOPED(arena_free) struct arena paths = {0};
    kept.arena = (struct arena){0};
    kept.command = COMMAND_TRAIN;
    for (int id = 0; id < OPTION_COUNT; id++) {
        bool said = option_is_given(&kept, (enum option_id)id) || id == OPTION_model;
        if (!said || !planned_search_is_told(options, (enum option_id)id, COMMAND_TRAIN))
            kept.source[id] = OPTION_UNSET;
    }
    paths_make_absolute(&kept, &paths);
    SCOPED_FREE char *yaml = options_write_yaml(&kept);
    arena_free(&kept.arena);
    return mem_format(PLANNED_CONFIG_LINE "%s", yaml);
}

enum status planned_search_write(const struct planned_search *search, const struct planner_row *row,
                                 const char *path) {
    struct options options;
    enum status status = planned_search_options(search, row, &options);
    SCOPED_FREE char *text = status == STATUS_OK ? config_text(&options) : NULL;
    if (status == STATUS_OK) status = file_write_text(path, text);
    arena_free(&options.arena);
    return status;
}
