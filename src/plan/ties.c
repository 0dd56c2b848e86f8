/* See ties.h. */
#include "plan/ties.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "graph/needs.h"

bool ties_share(const struct ties *ties, int param) {
    return ties->second[param] >= 0;
}

bool ties_is_copy(const struct ties *ties, const struct grid *grid, int param, int stage) {
    return ties->first[param] != stage &&
           grid_position(grid, ties->first[param]) != grid_position(grid, stage);
}

void ties_free(struct ties *ties) {
    free(ties->first);
    free(ties->second);
    *ties = (struct ties){0};
}

/* Notes that a stage uses a parameter. Stages come in order. */
static enum status note_use(struct ties *ties, const struct graph *graph, const struct grid *grid,
                            const struct param_need *need, int stage) {
    int *first = &ties->first[need->param], *second = &ties->second[need->param];
    const char *name = graph->params[need->param].name;
    if (*first < 0) {
        *first = stage;
        return STATUS_OK;
    }
    if (graph->params[need->param].frozen)
        return STATUS_OK; /* nothing is added: each has its own */
    if (*second >= 0)
        return fail(STATUS_USAGE,
                    "parameter %s is used in stages %d, %d and %d: at most two can share it\n"
                    "  --cut, or fewer stages",
                    name, *first, *second, stage);
    *second = stage;
    if (need->use_count > 1 && ties_is_copy(ties, grid, need->param, stage))
        return fail(STATUS_USAGE,
                    "parameter %s of stage %d is used %d times in stage %d on another rank: their "
                    "gradients cannot be added in the order of one device\n"
                    "  --cut, or fewer stages",
                    name, *first, need->use_count, stage);
    return STATUS_OK;
}

static enum status find_stages(struct ties *ties, const struct ranges *ranges,
                               const struct grid *grid) {
    enum status status = STATUS_OK;
    for (int p = 0; p < ranges->graph->param_count; p++) ties->first[p] = ties->second[p] = -1;
    for (int s = 0; s < ranges->stage_count && status == STATUS_OK; s++) {
        struct needs needs = needs_of(ranges, s);
        for (int i = 0; i < needs.param_count && status == STATUS_OK; i++)
            status = note_use(ties, ranges->graph, grid, &needs.params[i], s);
        needs_free(&needs);
    }
    return status;
}

/* One pair of stages for all parameters that either of them shares, one pair of ranks for all. */
static enum status add_pair(struct ties *ties, const struct graph *graph, const struct grid *grid,
                            int param) {
    int first = ties->first[param], second = ties->second[param];
    bool apart = grid_position(grid, first) != grid_position(grid, second);
    for (int t = 0; t < ties->count; t++) {
        const struct program_tie *tie = &ties->item[t];
        if (tie->stage == first && tie->other == second) return STATUS_OK;
        bool one = tie->stage == first || tie->stage == second || tie->other == first ||
                   tie->other == second;
        if (one || (apart && tie_is_apart(tie)))
            return fail(STATUS_USAGE,
                        "parameter %s is shared by stages %d and %d, another one by stages %d and "
                        "%d: %s\n  --cut, or fewer stages",
                        graph->params[param].name, first, second, tie->stage, tie->other,
                        one ? "a stage can share with one other stage" : "one pair of ranks can");
    }
    if (ties->count == PROGRAM_MAX_TIES)
        return fail(STATUS_USAGE, "more than %d pairs of stages share parameters\n  fewer stages",
                    PROGRAM_MAX_TIES);
    ties->item[ties->count++] = (struct program_tie){
        .stage = first, .other = second, .other_bucket = apart ? 0 : INSTR_ALL};
    return STATUS_OK;
}

static enum status find_pairs(struct ties *ties, const struct graph *graph, const struct grid *grid,
                              enum sum_order sum) {
    for (int p = 0; p < graph->param_count; p++) {
        if (!ties_share(ties, p)) continue;
        if (sum != SUM_REPLICA)
            return fail(STATUS_USAGE,
                        "parameter %s is shared by stages %d and %d: their gradients are added for "
                        "a whole replica, not in the order \"%s\"\n  --sum replica",
                        graph->params[p].name, ties->first[p], ties->second[p],
                        sum_order_name(sum));
        TRY(add_pair(ties, graph, grid, p));
    }
    return STATUS_OK;
}

enum status ties_of(const struct ranges *ranges, const struct grid *grid, enum sum_order sum,
                    struct ties *out) {
    const struct graph *graph = ranges->graph;
    struct ties ties = {.first = MEM_ARRAY(int, graph->param_count + 1),
                        .second = MEM_ARRAY(int, graph->param_count + 1)};
    enum status status = find_stages(&ties, ranges, grid);
    if (status == STATUS_OK) status = find_pairs(&ties, graph, grid, sum);
    if (status == STATUS_OK)
        *out = ties;
    else
        ties_free(&ties);
    return status;
}

enum status ties_check(const struct ties *ties, const struct program *program, const char *name) {
    for (int t = 0; t < ties->count || t < program->tie_count; t++) {
        const struct program_tie *own = t < ties->count ? &ties->item[t] : NULL,
                                 *given = t < program->tie_count ? &program->tie[t] : NULL;
        if (own && given && memcmp(own, given, sizeof *own) == 0) continue;
        const struct program_tie *one = own ? own : given;
        return fail(STATUS_USAGE, "%s: stages %d and %d share parameters in %s, not in %s", name,
                    one->stage, one->other, own ? "this model" : "the program",
                    own ? "the program, or in other buckets" : "this model");
    }
    return STATUS_OK;
}

enum status ties_refuse(const struct ties *ties, const struct graph *graph, const char *schedule) {
    for (int p = 0; p < graph->param_count; p++)
        if (ties_share(ties, p))
            return fail(STATUS_USAGE,
                        "parameter %s is used in stages %d and %d: schedule %s is never flushed, "
                        "and they are at different updates\n"
                        "  --untie gives the head of a language model weights of its own; or "
                        "--strategy 1f1b",
                        graph->params[p].name, ties->first[p], ties->second[p], schedule);
    return STATUS_OK;
}
