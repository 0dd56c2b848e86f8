/* See list.h. What one dimension forbids another one is left out here where it is simple to say;
 * the rest is refused when its options are resolved, as it would be in a run. */
#include "planner/list.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "plan/strategy.h"
#include "program/pipeline.h"

struct lister {
    const struct planner_input *input;
    const struct options *options;
    int layers;
    struct planner_choice now; /* dimensions that are set so far */
    struct planner_rows *out;
};

static bool is_fixed(const struct lister *lister, enum option_id id) {
    return option_is_given(lister->options, id);
}

static bool allows(const struct lister *lister, enum option_id id, int64_t given, int64_t value) {
    return !is_fixed(lister, id) || given == value;
}

/* --- what the strategy fixes --- */

/* The schedule that is asked for, "" where none is; best and ddp's kin say nothing of pipelines. */
static const char *schedule_asked(const struct lister *lister) {
    const struct options *options = lister->options;
    const struct strategy *strategy =
        is_fixed(lister, OPTION_strategy) ? strategy_find(options->strategy) : NULL;
    if (is_fixed(lister, OPTION_schedule)) return options->schedule;
    return strategy && strategy->schedule ? strategy->schedule : "";
}

static int zero_asked(const struct lister *lister) {
    const struct options *options = lister->options;
    const struct strategy *strategy =
        is_fixed(lister, OPTION_strategy) ? strategy_find(options->strategy) : NULL;
    if (is_fixed(lister, OPTION_zero_stage)) return (int)options->zero_stage;
    if (is_fixed(lister, OPTION_sync)) return strcmp(options->sync, "zero") == 0 ? -1 : 0;
    return strategy && strcmp(strategy->schedule, "single") == 0 ? strategy->zero_stage : -1;
}

static bool allows_schedule(const struct lister *lister, const char *name) {
    const char *asked = schedule_asked(lister);
    return !*asked || strcmp(asked, name) == 0;
}

/* --- dimensions, the last one first --- */

static void add(struct lister *lister) {
    struct planner_rows *out = lister->out;
    out->item = mem_grow(out->item, &out->capacity, (size_t)out->count + 1, sizeof *out->item);
    out->item[out->count++] = (struct planner_row){.choice = lister->now};
}

static void each_balance(struct lister *lister) {
    bool whole = lister->now.stages == 1, fixed = is_fixed(lister, OPTION_balance),
         cut = is_fixed(lister, OPTION_cut);
    int asked = balance_find(lister->options->balance);
    for (int balance = 0; balance < BALANCE_COUNT; balance++) {
        bool is_default = balance == asked;
        if ((whole || fixed || cut) && !is_default) continue;
        if (balance == BALANCE_TIME && !lister->input->costs->section) continue;
        lister->now.balance = (int8_t)balance;
        add(lister);
    }
}

static bool takes_recompute(const struct lister *lister, enum recompute_policy policy) {
    const struct planner_choice *now = &lister->now;
    bool overlaps = now->schedule >= 0 && pipeline_at(now->schedule)->older;
    if (policy == RECOMPUTE_NEVER || policy == RECOMPUTE_ALWAYS_BLOCK) return true;
    if (now->stages == 1) return false;
    return !recompute_keeps_last(policy) || (now->micro_batches > 1 && !overlaps);
}

static void each_recompute(struct lister *lister) {
    int asked = recompute_policy_find(lister->options->recompute);
    for (int policy = 0; policy < RECOMPUTE_POLICY_COUNT; policy++) {
        if (!allows(lister, OPTION_recompute, asked, policy)) continue;
        if (!takes_recompute(lister, (enum recompute_policy)policy)) continue;
        lister->now.recompute = (int8_t)policy;
        each_balance(lister);
    }
}

/* Stage 2 with whole gradients, which are scattered once a step. */
static bool is_zero1(const struct lister *lister) {
    return lister->now.micro_batches > 1 && strcmp(lister->options->zero_accumulate, "local") == 0;
}

static void each_zero(struct lister *lister) {
    int asked = zero_asked(lister);
    bool overlaps = lister->now.schedule >= 0 && pipeline_at(lister->now.schedule)->older;
    for (int zero = 0; zero <= 3; zero++) {
        if (asked >= 0 && zero != asked) continue;
        if (asked < 0 && is_fixed(lister, OPTION_sync) && zero == 0) continue;
        if (zero && (lister->now.replicas == 1 || overlaps)) continue;
        if (zero == 2 && asked < 0 && is_zero1(lister)) continue;
        lister->now.zero_stage = (int8_t)zero;
        each_recompute(lister);
    }
}

static void add_chunks(struct lister *lister, const struct pipeline_schedule *schedule) {
    const struct options *options = lister->options;
    int least = schedule->any_chunks ? 2 : schedule->chunks,
        most = schedule->any_chunks ? GRID_MAX_CHUNKS : schedule->chunks;
    for (int chunks = least; chunks <= most; chunks++) {
        struct pipeline_shape shape = {.positions = lister->now.stages,
                                       .chunks = chunks,
                                       .v_shape = schedule->v_shape,
                                       .micro_batches = lister->now.micro_batches};
        if (lister->now.stages * chunks > lister->layers) break;
        if (!allows(lister, OPTION_virtual_stages, options->virtual_stages, chunks)) continue;
        if (!pipeline_takes(schedule, &shape)) continue;
        lister->now.chunks = (int16_t)chunks;
        each_zero(lister);
    }
}

/* One micro-batch at a time is what gpipe with one of them does; a driver is a rank that trains
 * nothing. */
static bool is_searched(const struct lister *lister, const struct pipeline_schedule *schedule) {
    static const char *const never[] = {"mp", "pmp", "rpc"};
    const struct option_list *include = &lister->options->include;
    bool asked = strcmp(schedule_asked(lister), schedule->name) == 0;
    if (TEXT_FIND(schedule->name, never) >= 0) return false;
    for (int i = 0; i < include->count; i++) asked |= strcmp(include->item[i], schedule->name) == 0;
    return !schedule->older || asked;
}

static bool takes_micros(const struct lister *lister, const struct pipeline_schedule *schedule) {
    bool by_step = strcmp(schedule->name, "pipedream-2bw") == 0;
    if (!schedule->older) return true;
    return by_step ? lister->now.micro_batches >= lister->now.stages
                   : lister->now.micro_batches == 1;
}

static void each_schedule(struct lister *lister) {
    for (int i = 0; i < pipeline_count(); i++) {
        const struct pipeline_schedule *schedule = pipeline_at(i);
        if (!is_searched(lister, schedule) || !allows_schedule(lister, schedule->name)) continue;
        if (!takes_micros(lister, schedule)) continue;
        lister->now.schedule = (int16_t)i;
        add_chunks(lister, schedule);
    }
    if (!allows_schedule(lister, "auto")) return;
    lister->now.schedule = PLANNER_AUTO;
    lister->now.chunks = 0;
    if (is_fixed(lister, OPTION_virtual_stages))
        lister->now.chunks = (int16_t)lister->options->virtual_stages;
    each_zero(lister);
}

static void with_micros(struct lister *lister) {
    const struct options *options = lister->options;
    int64_t samples = options->batch / lister->now.replicas / lister->now.micro_batches;
    if (!allows(lister, OPTION_micro_batches, options->micro_batches, lister->now.micro_batches))
        return;
    if (!allows(lister, OPTION_micro_batch_size, options->micro_batch_size, samples)) return;
    if (lister->now.stages > 1) {
        each_schedule(lister);
        return;
    }
    if (!allows_schedule(lister, "single")) return;
    if (is_fixed(lister, OPTION_virtual_stages) || is_fixed(lister, OPTION_cut)) return;
    lister->now.schedule = PLANNER_WHOLE;
    lister->now.chunks = 1;
    each_zero(lister);
}

static void each_micros(struct lister *lister) {
    int64_t each = lister->options->batch / lister->now.replicas;
    for (int64_t micros = 1; micros <= each; micros++) {
        if (each % micros) continue;
        lister->now.micro_batches = (int32_t)micros;
        with_micros(lister);
    }
}

static bool allows_grid(const struct lister *lister) {
    const struct options *options = lister->options;
    const struct strategy *strategy =
        is_fixed(lister, OPTION_strategy) ? strategy_find(options->strategy) : NULL;
    bool one = strategy && strategy->one_rank;
    return allows(lister, OPTION_stages, options->stages, lister->now.stages) &&
           allows(lister, OPTION_replicas, options->replicas, lister->now.replicas) &&
           (!one || lister->now.ranks == 1);
}

static void each_grid(struct lister *lister) {
    int64_t batch = lister->options->batch;
    for (int replicas = 1; replicas <= lister->input->ranks && replicas <= batch; replicas++) {
        for (int stages = 1; stages * replicas <= lister->input->ranks; stages++) {
            if (batch % replicas || stages > lister->layers) continue;
            lister->now.replicas = replicas;
            lister->now.stages = stages;
            lister->now.ranks = stages * replicas;
            if (allows_grid(lister)) each_micros(lister);
        }
    }
}

/* --- refusals --- */

static enum status refuse_two(const struct lister *lister, enum option_id a, enum option_id b,
                              const char *why) {
    SCOPED_FREE char *one = option_text(lister->options, a);
    SCOPED_FREE char *other = option_text(lister->options, b);
    return fail(STATUS_USAGE, "--%s %s and --%s %s exclude one another: %s", option_rows[a].name,
                one, option_rows[b].name, other, why);
}

/* Options that fix what is searched. */
static const enum option_id fixing[] = {
    OPTION_strategy,       OPTION_schedule, OPTION_stages,        OPTION_replicas,
    OPTION_virtual_stages, OPTION_cut,      OPTION_zero_stage,    OPTION_sync,
    OPTION_recompute,      OPTION_balance,  OPTION_micro_batches, OPTION_micro_batch_size};

/* The two options of which the later one leaves nothing that the earlier one allows: found by
 * leaving out one after the other. */
static enum status refuse(const struct lister *lister) {
    enum { COUNT = sizeof fixing / sizeof fixing[0] };
    for (int a = 0; a < COUNT; a++) {
        for (int b = a + 1; b < COUNT; b++) {
            struct options two = *lister->options;
            struct planner_rows rows = {0};
            struct lister other = *lister;
            if (!is_fixed(lister, fixing[a]) || !is_fixed(lister, fixing[b])) continue;
            for (int i = 0; i < COUNT; i++)
                if (i != a && i != b) two.source[fixing[i]] = OPTION_DEFAULT;
            other.options = &two;
            other.out = &rows;
            each_grid(&other);
            free(rows.item);
            if (rows.count == 0)
                return refuse_two(lister, fixing[a], fixing[b], "no plan has both");
        }
    }
    return STATUS_OK;
}

/* One option that leaves nothing by itself, with what it would need. */
static enum status refuse_one(const struct lister *lister) {
    const struct options *options = lister->options;
    char layers[TEXT_BYTES], ranks[TEXT_BYTES];
    bool stages = is_fixed(lister, OPTION_stages), replicas = is_fixed(lister, OPTION_replicas);
    int64_t asked = (stages ? options->stages : 1) * (replicas ? options->replicas : 1);
    text_count(lister->layers, "layer", layers);
    text_count(lister->input->ranks, "rank", ranks);
    if (stages && options->stages > lister->layers)
        return fail(STATUS_USAGE,
                    "--stages %lld: the model has %s, and each stage needs at least one",
                    (long long)options->stages, layers);
    if (asked > lister->input->ranks)
        return fail(STATUS_USAGE, "%s %lld%s needs %lld ranks, and there %s %s",
                    stages ? "--stages" : "--replicas",
                    (long long)(stages ? options->stages : options->replicas),
                    stages && replicas ? " with these --replicas" : "", (long long)asked,
                    lister->input->ranks == 1 ? "is" : "are", ranks);
    if (replicas && options->batch % options->replicas)
        return fail(STATUS_USAGE, "--batch %lld is no multiple of --replicas %lld",
                    (long long)options->batch, (long long)options->replicas);
    if (is_fixed(lister, OPTION_micro_batches) && options->batch % options->micro_batches)
        return fail(STATUS_USAGE, "--batch %lld is no multiple of --micro-batches %lld",
                    (long long)options->batch, (long long)options->micro_batches);
    if (is_fixed(lister, OPTION_micro_batch_size) && options->batch % options->micro_batch_size)
        return fail(STATUS_USAGE, "--batch %lld is no multiple of --micro-batch-size %lld",
                    (long long)options->batch, (long long)options->micro_batch_size);
    return STATUS_OK;
}

/* "--stages 2, --schedule zbv" */
static char *fixed_text(const struct lister *lister) {
    char *all = mem_text("");
    for (size_t i = 0; i < sizeof fixing / sizeof *fixing; i++) {
        if (!is_fixed(lister, fixing[i])) continue;
        SCOPED_FREE char *value = option_text(lister->options, fixing[i]), *before = all;
        all = mem_format("%s%s--%s %s", before, *before ? ", " : "", option_rows[fixing[i]].name,
                         value);
    }
    return all;
}

static enum status refuse_alone(const struct lister *lister) {
    char layers[TEXT_BYTES], ranks[TEXT_BYTES];
    TRY(refuse_one(lister));
    TRY(refuse(lister));
    SCOPED_FREE char *fixed = fixed_text(lister);
    return fail(STATUS_USAGE,
                "no plan has %s together, with %s, --batch %lld and a model of %s\n"
                "  leave one of them out",
                fixed, text_count(lister->input->ranks, "rank", ranks),
                (long long)lister->options->batch, text_count(lister->layers, "layer", layers));
}

enum status planner_list(const struct planner_input *input, int layers, struct planner_rows *out) {
    struct planner_rows rows = {0};
    struct lister lister = {
        .input = input, .options = input->options, .layers = layers, .out = &rows};
    each_grid(&lister);
    if (rows.count == 0) return refuse_alone(&lister);
    *out = rows;
    return STATUS_OK;
}

int64_t planner_nearest_batch(const struct planner_input *input, int layers) {
    int64_t batch = input->options->batch, best = 0;
    for (int replicas = 1; replicas <= input->ranks; replicas++) {
        int stages = input->ranks / replicas;
        if (input->ranks % replicas || stages > layers) continue;
        if (option_is_given(input->options, OPTION_stages) && stages != input->options->stages)
            continue;
        int64_t below = batch / replicas * replicas, above = below + replicas;
        int64_t near = below > 0 && batch - below <= above - batch ? below : above;
        if (!best || llabs(near - batch) < llabs(best - batch)) best = near;
    }
    return best;
}
