/* See cases.h. */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/auto.h"
#include "program/pipeline.h"
#include "program/schedule.h"
#include "sync/sync.h"

enum { MOST_STAGES = 16 };

struct all {
    struct case_of *items;
    int count;
    size_t capacity;
};

/* How a step is dealt, and what else the program has. */
struct deal {
    int stages, chunks, replicas, micros;
    bool one_rank; /* runs all replicas */
    bool v_shape;
    int last; /* micro-batches with samples in a short last step; 0: there is none */
    enum sum_order sum;
    bool shares;
    unsigned sliced; /* SLICED_..., by sync policy zero */
    bool kept;       /* the last bucket of each stage is gathered once a step */
    int prefetch;
    enum recompute_policy recompute;
    bool driven; /* by the calls of a driver */
    bool tied;   /* the first stage and the last share a bucket */
    bool clips;  /* the update awaits the norm */
    int frozen;  /* stages */
    bool vertical_sync;
    int every;  /* replicas train apart; 0: they do not */
    int chosen; /* replicas choose whom they average with; 2: for each stage */
};

static struct grid grid_of(const struct deal *deal) {
    return (struct grid){.stages = deal->stages,
                         .chunks = deal->chunks,
                         .replicas = deal->replicas,
                         .replicas_each = deal->one_rank ? deal->replicas : 1,
                         .v_shape = deal->v_shape,
                         .drivers = deal->driven};
}

/* Orders that ranks cannot add in are no cases. */
static bool can_be(const struct deal *deal) {
    bool ranks = deal->replicas > 1 && !deal->one_rank;
    bool blocks = recompute_by_block(deal->recompute);
    if (deal->shares && deal->replicas == 1) return false;
    if (deal->shares && deal->one_rank && blocks) return false;
    if (deal->sum == SUM_TREE && ranks) return (deal->micros & (deal->micros - 1)) == 0;
    return deal->sum != SUM_REPLICAS_FIRST || !ranks || deal->micros == 1;
}

/* Where more than the state is sliced what stages share is kept: the last bucket of its stage. */
static bool keeps_tied(const struct deal *deal) {
    return deal->tied && deal->sliced & ~(unsigned)SLICED_STATE;
}

static struct program_tie tie_of(const struct deal *deal, const struct grid *grid,
                                 const int *buckets) {
    int last = deal->stages * deal->chunks - 1;
    bool apart = grid_position(grid, 0) != grid_position(grid, last);
    int other = keeps_tied(deal) ? buckets[last] - 1 : 0;
    return (struct program_tie){.stage = 0,
                                .bucket = buckets[0] - 1,
                                .other = last,
                                .other_bucket = apart ? other : INSTR_ALL};
}

/* Buckets of a stage, and whether its last one is kept. */
static int cut_stage(const struct deal *deal, const struct grid *grid, int stage, bool *kept) {
    int buckets = 1 + (stage + deal->micros) % 3, last = deal->stages * deal->chunks - 1;
    bool apart = grid_position(grid, 0) != grid_position(grid, last);
    bool tied = keeps_tied(deal) && (stage == 0 || (stage == last && apart));
    if (tied && buckets == 1) buckets = 2;
    if (stage < deal->frozen) buckets = 0;
    *kept = tied || (deal->kept && buckets > 1);
    return buckets;
}

/* `auto` is given the order of a greedy builder for stages that cost more and more. */
static void build_auto(const struct schedule_config *config, struct program **out) {
    struct pipeline_shape shape = {.positions = config->grid.stages,
                                   .chunks = config->grid.chunks,
                                   .v_shape = config->grid.v_shape,
                                   .micro_batches = config->micro_batches};
    double cost[MOST_STAGES];
    int64_t bytes[MOST_STAGES], limit[MOST_STAGES];
    for (int s = 0; s < MOST_STAGES; s++) {
        cost[s] = 1 + 0.3 * s;
        bytes[s] = 100;
        limit[s] = 100 * shape.chunks * (shape.positions + 1);
    }
    struct replay_costs costs = {.forward = cost, .input = cost, .weight = cost, .hop = 0.1};
    struct replay_bytes kept = {bytes, bytes};
    struct auto_input input = {
        .shape = &shape, .costs = &costs, .bytes = &kept, .limit_bytes = limit};
    struct pipeline_order *orders = MEM_ARRAY(struct pipeline_order, shape.positions);
    struct schedule_config own = *config;
    CHECK(greedy_build(&input, GREEDY_HOLD_WEIGHT, orders), "auto");
    own.orders = orders;
    CHECK(schedule_build(PIPELINE_AUTO, &own, out) == STATUS_OK, "auto");
    pipeline_orders_free(&orders, shape.positions);
}

static struct program *build(const char *schedule, const struct deal *deal,
                             const int64_t *samples) {
    struct program *program = NULL;
    int stages = deal->stages * deal->chunks, buckets[MOST_STAGES], ahead[MOST_STAGES];
    bool kept[MOST_STAGES];
    struct grid grid = grid_of(deal);
    for (int s = 0; s < stages; s++) {
        buckets[s] = cut_stage(deal, &grid, s, &kept[s]);
        ahead[s] = deal->prefetch;
    }
    struct schedule_config config = {.grid = grid,
                                     .micro_batches = deal->micros,
                                     .sum = deal->sum,
                                     .samples = samples,
                                     .clips = deal->clips,
                                     .frozen = deal->frozen,
                                     .shares = deal->shares,
                                     .recompute = deal->recompute,
                                     .vertical_sync = deal->vertical_sync,
                                     .buckets = buckets};
    struct program_tie tie = tie_of(deal, &config.grid, buckets);
    if (deal->tied) config.ties = &tie, config.tie_count = 1;
    if (strcmp(schedule, PIPELINE_AUTO) == 0)
        build_auto(&config, &program);
    else
        CHECK(schedule_build(schedule, &config, &program) == STATUS_OK, "%s", schedule);
    struct sync_config sync = {.buckets = buckets,
                               .sliced = deal->sliced,
                               .kept = kept,
                               .prefetch = ahead,
                               .every = deal->every,
                               .by_stage = deal->chosen > 1};
    const char *policy = deal->sliced   ? "zero"
                         : deal->chosen ? "preduce"
                         : deal->every  ? "local"
                                        : "allreduce";
    CHECK(sync_insert(policy, program, &sync) == STATUS_OK, "%s", policy);
    return program;
}

static void name(const char *schedule, const struct deal *deal, struct case_of *one) {
    char more[64] = "", frozen[32] = "";
    if (deal->frozen) snprintf(frozen, sizeof frozen, " frozen %d", deal->frozen);
    if (deal->sliced)
        snprintf(more, sizeof more, " sliced %s ahead %d%s", sliced_name(deal->sliced),
                 deal->prefetch, deal->kept ? " kept" : "");
    snprintf(one->name, sizeof one->name, "%s S%d V%d R%d M%d %s%s%s%s again %s%s%s%s last %d",
             schedule, deal->stages, deal->chunks, deal->replicas, deal->micros,
             sum_order_name(deal->sum), deal->shares ? " sync-bn" : "",
             deal->one_rank ? " one rank" : "", more, recompute_policy_name(deal->recompute),
             deal->tied ? " tied" : "", deal->clips ? " clip" : "",
             deal->every    ? " apart"
             : deal->chosen ? " chosen"
                            : frozen,
             deal->last);
}

/* Every other case clips, but those whose steps overlap. */
static void add_case(struct all *all, const char *schedule, const struct deal *given) {
    struct deal deal = *given;
    struct case_of one = {.shares = deal.shares, .driven = deal.driven};
    int total = deal.replicas * deal.micros;
    if (!can_be(&deal) || total > CASE_MICROS / 2) return;
    for (int g = 0; g < CASE_MICROS; g++) one.samples[g] = !deal.last || g < deal.last;
    const struct pipeline_schedule *pipeline = pipeline_find(schedule);
    deal.clips = all->count % 2 && !(pipeline && pipeline->older);
    one.program = build(schedule, &deal, NULL);
    if (deal.last) {
        struct program *last = build(schedule, &deal, one.samples);
        program_set_last(one.program, last);
        program_free(&last);
    }
    name(schedule, &deal, &one);
    all->items = mem_grow(all->items, &all->capacity, (size_t)all->count + 1, sizeof one);
    all->items[all->count++] = one;
}

/* Each order of sums with a whole step; the others in turn with short ones and shared statistics.
 */
static void add_ways(struct all *all, const char *schedule, struct deal deal) {
    int total = deal.replicas * deal.micros;
    const int lasts[] = {0, total - 1, 1, total / 2, deal.micros + 1};
    for (int sum = 0; sum < SUM_ORDER_COUNT; sum++) {
        deal.sum = (enum sum_order)sum;
        for (int shares = 0; shares < 2; shares++) {
            deal.shares = shares;
            for (int l = 0; l < 5; l++) {
                deal.last = lasts[l];
                if (l > 0 && (deal.last < 1 || deal.last >= total || sum == SUM_REPLICAS_FIRST))
                    continue;
                add_case(all, schedule, &deal);
            }
        }
    }
}

static void add_pipelines(struct all *all, const struct pipeline_schedule *schedule) {
    static const int shapes[][3] = {{1, 2, 2}, {2, 1, 3}, {2, 2, 2}, {3, 1, 4},
                                    {2, 3, 2}, {4, 1, 2}, {3, 2, 3}, {2, 2, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct deal deal = {.stages = shapes[i][0],
                            .chunks = schedule->chunks,
                            .replicas = shapes[i][1],
                            .micros = shapes[i][2],
                            .v_shape = schedule->v_shape};
        add_ways(all, schedule->name, deal);
    }
}

/* --- what replicas slice, what is run again, called for, shared by stages --- */

/* Whole steps and short ones, with and without shared statistics. */
static void add_some(struct all *all, const char *schedule, struct deal deal) {
    int total = deal.replicas * deal.micros;
    const int lasts[] = {0, total - 1, 1};
    for (int i = 0; i < 6; i++) {
        deal.last = lasts[i % 3];
        deal.shares = i >= 3;
        if (i % 3 == 0 || (deal.last >= 1 && deal.last < total)) add_case(all, schedule, &deal);
    }
}

/* Stages 1 to 3 of ZeRO; 2 and 3 with a scatter for each micro-batch, 3 also without. */
static void add_sliced(struct all *all, const char *schedule, struct deal deal) {
    static const struct {
        unsigned sliced;
        bool kept;
        int prefetch;
    } ways[] = {{SLICED_STATE, false, 1},
                {SLICED_STATE | SLICED_GRADIENTS, false, 1},
                {SLICED_STATE | SLICED_PARAMS, false, 1},
                {SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS, false, 0},
                {SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS, true, 1},
                {SLICED_STATE | SLICED_PARAMS, true, 2}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && deal.replicas > 1; i++) {
        deal.sliced = ways[i].sliced;
        deal.kept = ways[i].kept;
        deal.prefetch = ways[i].prefetch;
        add_some(all, schedule, deal);
    }
}

/* The first stage, and all but the last; by itself, with what is sliced, and with what is run
 * again. */
static void add_frozen(struct all *all, const char *schedule, struct deal deal) {
    static const unsigned sliced[] = {0, SLICED_STATE, SLICED_STATE | SLICED_GRADIENTS};
    int most = deal.stages * deal.chunks - 1;
    for (deal.frozen = 1; deal.frozen <= most; deal.frozen += most > 1 ? most - 1 : 1)
        for (int i = 0; i < 6; i++) {
            deal.sliced = sliced[i % 3];
            deal.recompute = i < 3 ? RECOMPUTE_NEVER : RECOMPUTE_ALWAYS_BLOCK;
            if (deal.sliced && deal.replicas == 1) continue;
            add_some(all, schedule, deal);
        }
}

/* By itself, and together with what replicas slice. */
static void add_again(struct all *all, const char *schedule, struct deal deal,
                      enum recompute_policy policy) {
    deal.recompute = policy;
    add_some(all, schedule, deal);
    add_sliced(all, schedule, deal);
}

static void add_tied(struct all *all, const char *schedule, struct deal deal) {
    deal.tied = true;
    if (deal.stages * deal.chunks == 1) return;
    add_again(all, schedule, deal, RECOMPUTE_NEVER);
    add_again(all, schedule, deal, RECOMPUTE_ALWAYS_BLOCK);
}

static void add_more(struct all *all, const char *schedule, int chunks, bool v_shape) {
    static const int shapes[][3] = {{1, 2, 2}, {2, 2, 2}, {2, 2, 3}, {2, 3, 1}, {3, 1, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct deal deal = {.stages = shapes[i][0],
                            .chunks = chunks,
                            .replicas = shapes[i][1],
                            .micros = shapes[i][2],
                            .v_shape = v_shape};
        add_sliced(all, schedule, deal);
        for (int r = RECOMPUTE_EXCEPT_LAST; r < RECOMPUTE_POLICY_COUNT; r++)
            add_again(all, schedule, deal, (enum recompute_policy)r);
        add_tied(all, schedule, deal);
        add_frozen(all, schedule, deal);
    }
}

/* Ranks that have the whole model, and one that runs all replicas. */
static void add_flat(struct all *all) {
    static const int shapes[][2] = {{1, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 2}, {5, 1}, {4, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct deal deal = {
            .stages = 1, .chunks = 1, .replicas = shapes[i][0], .micros = shapes[i][1]};
        add_ways(all, "single", deal);
        add_sliced(all, "single", deal);
        add_again(all, "single", deal, RECOMPUTE_ALWAYS_BLOCK);
        deal.one_rank = true;
        if (deal.replicas == 1) continue;
        add_ways(all, "single", deal);
        deal.recompute = RECOMPUTE_ALWAYS_BLOCK;
        add_some(all, "single", deal);
    }
}

static void add_driven(struct all *all) {
    static const int shapes[][2] = {{1, 2}, {2, 2}, {3, 2}, {3, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct deal deal = {.stages = shapes[i][0],
                            .chunks = 1,
                            .replicas = 1,
                            .micros = shapes[i][1],
                            .driven = true};
        for (int sum = 0; sum < SUM_ORDER_COUNT; sum++) {
            deal.sum = (enum sum_order)sum;
            add_some(all, "rpc", deal);
            if (sum == SUM_REPLICA) add_frozen(all, "rpc", deal);
        }
    }
}

/* Steps that overlap: whole ones alone, and few things go with them. */
static void add_overlapping(struct all *all, const char *schedule) {
    static const int shapes[][3] = {{1, 1, 2}, {2, 1, 2}, {3, 1, 3}, {4, 1, 4},
                                    {2, 2, 2}, {2, 3, 3}, {3, 2, 4}};
    bool each = strcmp(schedule, "pipedream") == 0;
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
        const int *shape = shapes[i / 2];
        struct deal deal = {.stages = shape[0],
                            .chunks = 1,
                            .replicas = shape[1],
                            .micros = each ? 1 : shape[2],
                            .vertical_sync = each && i % 2,
                            .recompute = !each && i % 2 ? RECOMPUTE_ALWAYS : RECOMPUTE_NEVER};
        add_case(all, schedule, &deal);
    }
}

/* Replicas that train apart, whole steps alone. */
static void add_apart(struct all *all) {
    static const struct {
        const char *schedule;
        struct deal deal;
    } ways[] = {{"single", {.stages = 1, .chunks = 1, .replicas = 2, .micros = 1}},
                {"single", {.stages = 1, .chunks = 1, .replicas = 3, .micros = 2}},
                {"gpipe", {.stages = 2, .chunks = 1, .replicas = 2, .micros = 2}},
                {"1f1b", {.stages = 2, .chunks = 1, .replicas = 3, .micros = 2}},
                {"interleaved", {.stages = 2, .chunks = 2, .replicas = 2, .micros = 2}},
                {"zbv", {.stages = 2, .chunks = 2, .replicas = 2, .micros = 2, .v_shape = true}}};
    for (size_t i = 0; i < 4 * sizeof ways / sizeof ways[0]; i++) {
        struct deal deal = ways[i / 4].deal;
        deal.every = 2 + (int)i % 3;
        deal.tied = i % 4 >= 2 && deal.stages > 1;
        if (i % 4 == 3) deal.recompute = RECOMPUTE_ALWAYS;
        add_case(all, ways[i / 4].schedule, &deal);
        deal.every = 0;
        deal.chosen = 1 + (i % 4 == 1 && deal.chunks == 1);
        add_case(all, ways[i / 4].schedule, &deal);
    }
}

static void add_auto(struct all *all) {
    static const struct deal deals[] = {
        {.stages = 2, .chunks = 1, .replicas = 2, .micros = 3},
        {.stages = 3, .chunks = 1, .replicas = 1, .micros = 4},
        {.stages = 2, .chunks = 2, .replicas = 2, .micros = 2, .v_shape = true}};
    for (size_t i = 0; i < sizeof deals / sizeof deals[0]; i++) {
        add_ways(all, PIPELINE_AUTO, deals[i]);
        add_more(all, PIPELINE_AUTO, deals[i].chunks, deals[i].v_shape);
    }
}

struct case_of *cases_all(int *count) {
    struct all all = {0};
    add_flat(&all);
    add_apart(&all);
    for (int i = 0; i < pipeline_count(); i++) {
        const struct pipeline_schedule *schedule = pipeline_at(i);
        if (schedule->older) {
            add_overlapping(&all, schedule->name);
            continue;
        }
        add_pipelines(&all, schedule);
        add_more(&all, schedule->name, schedule->chunks, schedule->v_shape);
    }
    add_driven(&all);
    add_auto(&all);
    *count = all.count;
    return all.items;
}

int cases_named(struct case_of *cases, int count, const char *name) {
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (strstr(cases[i].name, name))
            cases[kept++] = cases[i];
        else
            program_free(&cases[i].program);
    return kept;
}

void cases_free(struct case_of *cases, int count) {
    for (int i = 0; i < count; i++) program_free(&cases[i].program);
    free(cases);
}
