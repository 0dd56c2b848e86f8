/* See cases.h. */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/pipeline.h"
#include "sync/sync.h"
#include "program/schedule.h"

struct all {
    struct case_of *items;
    int count;
    size_t capacity;
};

/* How a step is dealt. */
struct deal {
    int stages, chunks, replicas, micros;
    bool one_rank; /* runs all replicas */
    bool v_shape;
    int last; /* samples of the step in all; 0: every micro-batch has some */
    enum sum_order sum;
    bool shares;
};

static struct grid grid_of(const struct deal *deal) {
    return (struct grid){.stages = deal->stages,
                         .chunks = deal->chunks,
                         .replicas = deal->replicas,
                         .replicas_each = deal->one_rank ? deal->replicas : 1,
                         .v_shape = deal->v_shape};
}

/* Orders that ranks cannot add in are no cases. */
static bool can_be(const struct deal *deal) {
    bool ranks = deal->replicas > 1 && !deal->one_rank;
    if (deal->shares && deal->replicas == 1) return false;
    if (deal->sum == SUM_TREE && ranks) return (deal->micros & (deal->micros - 1)) == 0;
    return deal->sum != SUM_REPLICAS_FIRST || !ranks || deal->micros == 1;
}

static void add_case(struct all *all, const char *schedule, const struct deal *deal) {
    struct case_of one = {.shares = deal->shares};
    int total = deal->replicas * deal->micros, stages = deal->stages * deal->chunks, buckets[64];
    if (!can_be(deal) || total > CASE_MICROS / 2) return;
    for (int g = 0; g < CASE_MICROS; g++) one.samples[g] = !deal->last || g < deal->last;
    for (int s = 0; s < stages; s++) buckets[s] = 1 + (s + deal->micros) % 3;
    struct schedule_config config = {.grid = grid_of(deal),
                                     .micro_batches = deal->micros,
                                     .sum = deal->sum,
                                     .samples = one.samples,
                                     .clips = all->count % 2,
                                     .shares = deal->shares};
    CHECK(schedule_build(schedule, &config, &one.program) == STATUS_OK, "%s", schedule);
    CHECK(sync_insert("allreduce", one.program, &(struct sync_config){.buckets = buckets}) ==
              STATUS_OK,
          "allreduce");
    snprintf(one.name, sizeof one.name, "%s S%d V%d R%d M%d %s%s%s%s last %d", schedule,
             deal->stages, deal->chunks, deal->replicas, deal->micros, sum_order_name(deal->sum),
             deal->shares ? " sync-bn" : "", config.clips ? " clip" : "",
             deal->one_rank ? " one rank" : "", deal->last);
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

static void add_flat(struct all *all) {
    static const int shapes[][2] = {{1, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 2}, {5, 1}, {4, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct deal deal = {
            .stages = 1, .chunks = 1, .replicas = shapes[i][0], .micros = shapes[i][1]};
        add_ways(all, "single", deal);
        deal.one_rank = true;
        if (deal.replicas > 1) add_ways(all, "single", deal);
    }
}

struct case_of *cases_all(int *count) {
    struct all all = {0};
    add_flat(&all);
    for (int i = 0; i < pipeline_count(); i++) add_pipelines(&all, pipeline_at(i));
    *count = all.count;
    return all.items;
}

void cases_free(struct case_of *cases, int count) {
    for (int i = 0; i < count; i++) program_free(&cases[i].program);
    free(cases);
}
