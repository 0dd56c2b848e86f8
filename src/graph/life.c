/* See life.h. A slot's own order is all that counts for its lifetimes: whatever other slots do
 * meanwhile, they touch its arena never, and the shared one only between its passes.
 *
 * Where programs run backward both ways, there are two sets of lifetimes, and a plan must suit
 * both. Rejected: one set that covers both orders. What W makes was then in use from where it
 * stands op by op to the end of I and on, so all parameter gradients were alive at once. */
#include "graph/life.h"

#include <stdlib.h>

#include "base/log.h"

struct survey {
    const struct ranges *ranges;
    const struct graph *graph;
    const struct life_config *config;
    struct life *life;
    int *pass; /* per node */
    int stage;
    int forward_end, end; /* times: of the first backward node, behind the last node */
};

static bool is_weight_half(const struct node *node) {
    return node->phase == PHASE_BACKWARD && node->half == OP_HALF_W;
}

static bool is_here(const struct survey *survey, const struct node *node) {
    const struct stage_range *stage = &survey->ranges->stages[survey->stage];
    return node->unit >= stage->first_unit && node->unit < stage->end_unit;
}

/* --- passes --- */

static bool is_exchange(const struct survey *survey, int n) {
    return op_def(survey->graph->nodes[n].op)->flags & OP_EXCHANGE;
}

/* Does another slot's pass perhaps run between node n and the one before? */
static bool is_interrupted(const struct survey *survey, int segment_begin, int n) {
    if (n == segment_begin && survey->config->segments_apart) return true;
    return survey->config->lockstep &&
           (is_exchange(survey, n) || (n > 0 && is_exchange(survey, n - 1)));
}

/* Op by op the halves of backward are one pass; where they may be two, those of W have odd numbers.
 */
static void find_passes(struct survey *survey) {
    int pass = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++, pass += 2) {
        const struct phase_range *range = &survey->ranges->stages[survey->stage].phase[phase];
        for (int e = 0; e < range->segment_count; e++) {
            struct node_range nodes =
                ranges_find(survey->ranges, survey->stage, e, (enum phase)phase);
            for (int n = nodes.begin; n < nodes.end; n++) {
                if (is_interrupted(survey, nodes.begin, n)) pass += 2;
                bool late = survey->config->split && is_weight_half(&survey->graph->nodes[n]);
                survey->pass[n] = pass + late;
            }
        }
    }
}

/* The exchange of a lockstep pass happens for all slots at once: nothing it touches is shared. */
static void touch(struct survey *survey, int value, int n) {
    int *pass = &survey->life->pass[survey->graph->values[value].root];
    bool kept = (*pass != LIFE_NEVER && *pass != survey->pass[n]) ||
                (survey->config->lockstep && is_exchange(survey, n));
    *pass = kept ? LIFE_KEPT : survey->pass[n];
}

static void touch_all(struct survey *survey) {
    const struct graph *graph = survey->graph;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (!is_here(survey, node)) continue;
        for (int k = 0; k < node->out_count; k++) touch(survey, node->out[k], n);
        for (int k = 0; k < node->in_count; k++) touch(survey, node->in[k], n);
    }
}

/* --- times --- */

static void find_times(struct survey *survey, struct life_order *order, bool split) {
    const struct graph *graph = survey->graph;
    survey->end = survey->forward_end = 0;
    for (int second = 0; second < 2; second++) {
        for (int n = 0; n < graph->node_count; n++) {
            const struct node *node = &graph->nodes[n];
            if (!is_here(survey, node)) continue;
            if ((split && is_weight_half(node)) != (second == 1)) continue;
            order->time[n] = survey->end++;
            survey->forward_end += node->phase == PHASE_FORWARD;
        }
    }
}

static void reach(int *last, int time) {
    if (time > *last) *last = time;
}

static void find_lifetimes(struct survey *survey, struct life_order *order) {
    const struct graph *graph = survey->graph;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        int time = order->time[n];
        if (time == LIFE_NEVER) continue;
        for (int k = 0; k < node->out_count; k++) {
            int root = graph->values[node->out[k]].root;
            if (order->first[root] == LIFE_NEVER) order->first[root] = time;
            reach(&order->last[root], time);
        }
        for (int k = 0; k < node->in_count; k++)
            reach(&order->last[graph->values[node->in[k]].root], time);
    }
}

/* --- what is in use beyond the nodes --- */

static void keep(struct survey *survey, struct life_order *order, int value, int last) {
    survey->life->pass[value] = LIFE_KEPT;
    reach(&order->last[value], last);
}

/* Gradients that operations of the input half make wait there for W to name their accumulator;
 * those of the weight half, and all where backward runs op by op, are added as soon as they are
 * made. */
static void keep_for_executor(struct survey *survey, struct life_order *order, bool split) {
    const struct graph *graph = survey->graph;
    for (int u = 0; split && u < graph->use_count; u++) {
        const struct node *maker = &graph->nodes[graph->values[graph->uses[u].gradient].producer];
        if (maker->half == OP_HALF_I && is_here(survey, maker))
            keep(survey, order, graph->uses[u].gradient, survey->end);
    }
    for (int i = 0; i < graph->loss_count; i++) {
        const struct loss *loss = &graph->losses[i];
        if (order->first[loss->sum] != LIFE_NEVER) keep(survey, order, loss->sum, survey->end);
        if (loss->top_k != NO_VALUE && order->first[loss->top_k] != LIFE_NEVER)
            keep(survey, order, loss->top_k, survey->end);
    }
}

/* What crosses a cut of the stage is in use from `first` (where it was not made here) to `last`. */
static void keep_crossing(struct survey *survey, struct life_order *order, int cut,
                          enum phase phase, int first, int last) {
    if (cut < 0 || cut >= survey->ranges->stage_count - 1) return;
    struct crossing crossing = ranges_crossing(survey->ranges, cut, phase);
    for (int i = 0; i < crossing.count; i++) {
        int value = crossing.values[i];
        if (order->first[value] == LIFE_NEVER) order->first[value] = first;
        keep(survey, order, value, last);
    }
    free(crossing.values);
}

static void keep_for_stages(struct survey *survey, struct life_order *order) {
    int stage = survey->stage, turn = survey->forward_end, end = survey->end;
    keep_crossing(survey, order, stage - 1, PHASE_FORWARD, 0, 0);
    keep_crossing(survey, order, stage, PHASE_FORWARD, 0, turn - 1);
    keep_crossing(survey, order, stage, PHASE_BACKWARD, turn, turn);
    keep_crossing(survey, order, stage - 1, PHASE_BACKWARD, turn, end);
}

static int *never(int count) {
    int *list = MEM_ARRAY(int, count + 1);
    for (int i = 0; i < count; i++) list[i] = LIFE_NEVER;
    return list;
}

static void add_order(struct survey *survey, bool split) {
    const struct graph *graph = survey->graph;
    struct life_order *order = &survey->life->order[survey->life->order_count++];
    *order = (struct life_order){.time = never(graph->node_count),
                                 .first = never(graph->value_count),
                                 .last = never(graph->value_count)};
    find_times(survey, order, split);
    find_lifetimes(survey, order);
    keep_for_executor(survey, order, split);
    keep_for_stages(survey, order);
}

struct life life_of(const struct ranges *ranges, int stage, const struct life_config *config) {
    const struct graph *graph = ranges->graph;
    struct life life = {.pass = never(graph->value_count)};
    struct survey survey = {.ranges = ranges,
                            .graph = graph,
                            .config = config,
                            .life = &life,
                            .pass = never(graph->node_count),
                            .stage = stage};
    find_passes(&survey);
    touch_all(&survey);
    add_order(&survey, config->split);
    if (config->split && config->mixed) add_order(&survey, false);
    free(survey.pass);
    return life;
}

void life_free(struct life *life) {
    for (int i = 0; i < life->order_count; i++) {
        free(life->order[i].time);
        free(life->order[i].first);
        free(life->order[i].last);
    }
    free(life->pass);
    *life = (struct life){0};
}
