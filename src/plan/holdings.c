/* See holdings.h. */
#include "plan/holdings.h"

#include <stdlib.h>

#include "base/mem.h"
#include "graph/freeze.h"
#include "graph/needs.h"
#include "plan/slices.h"
#include "plan/state_layout.h"

static bool holds_frozen(const struct holdings *holdings, int param) {
    for (int i = 0; i < holdings->frozen_count; i++)
        if (holdings->frozen[i] == param) return true;
    return false;
}

/* Whoever reads it has it; the rank of its first use answers for it. */
static void take_frozen(struct holdings *holdings, const struct ties *ties, const struct grid *grid,
                        int param, int stage) {
    if (holds_frozen(holdings, param)) return;
    holdings->frozen[holdings->frozen_count++] = param;
    holdings->copies[param] = ties_is_copy(ties, grid, param, stage);
}

/* A use of the stage's. A parameter that an earlier chunk holds is not held again. */
static void take_param(struct holdings *holdings, const struct param_need *need, bool copy,
                       bool again) {
    for (int u = 0; u < need->use_count; u++) holdings->uses[need->first_use + u] = true;
    if (again) return;
    holdings->params[holdings->param_count++] = need->param;
    holdings->copies[need->param] = copy;
}

static void take_stage(struct holdings *holdings, const struct ranges *ranges,
                       const struct grid *grid, const struct ties *ties, int chunk, int stage) {
    SCOPED(needs_free) struct needs needs = needs_of(ranges, stage);
    for (int shared = 0; shared < 2; shared++) {
        for (int i = 0; i < needs.param_count; i++) {
            const struct param_need *need = &needs.params[i];
            if (ranges->graph->params[need->param].frozen) {
                take_frozen(holdings, ties, grid, need->param, stage);
                continue;
            }
            if (ties_share(ties, need->param) != shared) continue;
            bool copy = ties_is_copy(ties, grid, need->param, stage),
                 again = ties->first[need->param] != stage && !copy;
            take_param(holdings, need, copy, again);
            holdings->chunk_shared[chunk] += shared && !again;
        }
    }
    for (int i = 0; i < needs.buffer_count; i++) holdings->buffers[needs.buffers[i]] = true;
}

/* Both parts stay in their order. */
static int keep_small(const struct graph *graph, int *params, int count, int64_t most_bytes) {
    int *large = MEM_ARRAY(int, count + 1), kept = 0, rest = 0;
    for (int i = 0; i < count; i++) {
        const struct value *value = &graph->values[graph->params[params[i]].value];
        if ((int64_t)tensor_type_bytes(&value->type) <= most_bytes)
            params[kept++] = params[i];
        else
            large[rest++] = params[i];
    }
    for (int i = 0; i < rest; i++) params[kept + i] = large[i];
    free(large);
    return kept;
}

/* Where a stage shares parameters, these are kept, and no others. */
static void keep(struct holdings *holdings, const struct graph *graph, int chunks) {
    for (int c = 0; c < chunks; c++) {
        int first = holdings->chunk_first[c], count = holdings->chunk_first[c + 1] - first,
            kept = holdings->chunk_shared[c] ? 0
                                             : keep_small(graph, holdings->params + first, count,
                                                          holdings->rules.keep_bytes);
        holdings->kept[c] = kept < count ? kept : 0; /* of all there is nothing left to slice */
    }
}

struct holdings holdings_of(const struct ranges *ranges, const struct grid *grid,
                            const struct ties *ties, int position,
                            const struct bucket_rules *rules) {
    const struct graph *graph = ranges->graph;
    struct holdings holdings = {.params = MEM_ARRAY(int, graph->param_count + 1),
                                .frozen = MEM_ARRAY(int, graph->param_count + 1),
                                .copies = MEM_ARRAY(bool, graph->param_count + 1),
                                .uses = MEM_ARRAY(bool, graph->use_count + 1),
                                .buffers = MEM_ARRAY(bool, graph->buffer_count + 1)};
    for (int c = 0; position >= 0 && c < grid->chunks; c++) {
        holdings.chunk_first[c] = holdings.param_count;
        take_stage(&holdings, ranges, grid, ties, c, grid_stage(grid, position, c));
    }
    holdings.chunk_first[grid->chunks] = holdings.param_count; /* 0 without a stage */
    if (rules) holdings.rules = *rules;
    if (rules && rules->keep_bytes > 0) keep(&holdings, graph, grid->chunks);
    return holdings;
}

void holdings_free(struct holdings *holdings) {
    free(holdings->params);
    free(holdings->frozen);
    free(holdings->copies);
    free(holdings->uses);
    free(holdings->buffers);
    *holdings = (struct holdings){0};
}

struct bucket_source holdings_source(const struct holdings *holdings, const struct ranges *ranges,
                                     int chunk, int stage) {
    int first = holdings->chunk_first[chunk];
    return (struct bucket_source){.graph = ranges->graph,
                                  .nodes = ranges_find(ranges, stage, SEGMENT_ALL, PHASE_BACKWARD),
                                  .params = holdings->params + first,
                                  .count = holdings->chunk_first[chunk + 1] - first,
                                  .shared = holdings->chunk_shared[chunk],
                                  .most = holdings->rules.most_bytes / state_bytes(1),
                                  .apart = holdings->rules.apart,
                                  .blocks = holdings->rules.blocks,
                                  .frozen = stage < freeze_stages(ranges),
                                  .first_unit = ranges->stages[stage].first_unit,
                                  .end_unit = ranges->stages[stage].end_unit,
                                  .first = first,
                                  .kept = holdings->kept[chunk],
                                  .begin =
                                      state_param_elements(ranges->graph, holdings->params, first)};
}

static void tie_bucket(struct ties *ties, int stage, int bucket) {
    for (int t = 0; t < ties->count; t++) {
        struct program_tie *tie = &ties->item[t];
        if (tie->stage == stage) tie->bucket = bucket;
        if (tie->other == stage && tie_is_apart(tie)) tie->other_bucket = bucket;
    }
}

/* As many of the largest as fit; one unless the user says otherwise. */
static int buckets_ahead(const struct bucket_list *list, bool kept, int64_t bytes) {
    int64_t most = state_bytes(slices_largest(list, list->count - kept));
    if (bytes < 0 || most == 0) return 1;
    return bytes / most < list->count ? (int)(bytes / most) : list->count;
}

void stage_buckets_free(struct stage_buckets *buckets) {
    free(buckets->count);
    free(buckets->ahead);
    free(buckets->kept);
    *buckets = (struct stage_buckets){0};
}

struct stage_buckets holdings_count_buckets(const struct ranges *ranges, const struct grid *grid,
                                            struct ties *ties, const struct bucket_rules *rules) {
    int stages = ranges->stage_count;
    struct stage_buckets out = {MEM_ARRAY(int, stages), MEM_ARRAY(int, stages),
                                MEM_ARRAY(bool, stages)};
    for (int p = 0; p < grid->stages; p++) {
        struct holdings holdings = holdings_of(ranges, grid, ties, p, rules);
        for (int c = 0; c < grid->chunks; c++) {
            int stage = grid_stage(grid, p, c);
            struct bucket_source source = holdings_source(&holdings, ranges, c, stage);
            struct bucket_list list = buckets_of(&source);
            out.count[stage] = list.count;
            out.kept[stage] = buckets_keep_last(&source);
            out.ahead[stage] = buckets_ahead(&list, out.kept[stage], holdings.rules.prefetch_bytes);
            tie_bucket(ties, stage, buckets_shared(&list));
            free(list.items);
        }
        holdings_free(&holdings);
    }
    return out;
}
