/* See life.h. A slot's own order is all that counts for its lifetimes: whatever other slots do
 * meanwhile, they touch its arena never, and the shared one only between its passes.
 *
 * Where programs run backward both ways, there are two sets of lifetimes, and a plan must suit
 * both. Rejected: one set that covers both orders. What W makes was then in use from where it
 * stands op by op to the end of I and on, so all parameter gradients were alive at once.
 *
 * Where forward runs twice, its two runs are orders of their own: what the first one makes is gone
 * behind it, but for what came in, goes out, or must not be made again. */
#include "graph/life.h"

#include <stdlib.h>

/* What an order runs: all of the stage; its forward alone; or what runs again, then backward. */
enum run { RUN_ALL, RUN_FORWARD, RUN_AGAIN };

struct survey {
    const struct ranges *ranges;
    const struct graph *graph;
    const struct life_config *config;
    struct life *life;
    int *pass; /* per node */
    int stage;
    enum run run;         /* of the order being made */
    int forward_end, end; /* times: of the first backward node, behind the last node */
};

static bool is_weight_half(const struct node *node) {
    return node->phase == PHASE_BACKWARD && node->half == OP_HALF_W;
}

static bool is_here(const struct survey *survey, const struct node *node) {
    const struct stage_range *stage = &survey->ranges->stages[survey->stage];
    return node->unit >= stage->first_unit && node->unit < stage->end_unit;
}

static bool in_run(const struct survey *survey, int n) {
    const struct node *node = &survey->graph->nodes[n];
    bool forward = node->phase == PHASE_FORWARD;
    if (!is_here(survey, node)) return false;
    if (survey->run == RUN_FORWARD) return forward;
    return survey->run == RUN_ALL || !forward || survey->life->recompute.again[n];
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

/* The segment whose backward stands behind what runs again of node n. */
static int segment_behind(const struct survey *survey, int n) {
    int segment = 0;
    if (!survey->config->blocks) return SEGMENT_ALL;
    while (ranges_of_bucket(survey->ranges, survey->stage, segment, PHASE_FORWARD).begin > n)
        segment++;
    return segment;
}

/* What runs again is one pass with the backward behind it. */
static int pass_of(const struct survey *survey, int n) {
    const struct node *node = &survey->graph->nodes[n];
    bool again = survey->run == RUN_AGAIN && node->phase == PHASE_FORWARD;
    struct node_range backward = again ? ranges_find(survey->ranges, survey->stage,
                                                     segment_behind(survey, n), PHASE_BACKWARD)
                                       : (struct node_range){0, 0};
    return again && backward.begin < backward.end ? survey->pass[backward.begin] / 2 * 2
                                                  : survey->pass[n];
}

/* The exchange of a lockstep pass happens for all slots at once: nothing it touches is shared. */
static void touch(struct survey *survey, int *passes, int value, int n) {
    int *pass = &passes[survey->graph->values[value].root], own = pass_of(survey, n);
    bool kept = (*pass != LIFE_NEVER && *pass != own) ||
                (survey->config->lockstep && is_exchange(survey, n));
    *pass = kept ? LIFE_KEPT : own;
}

static int *never(int count) {
    int *list = MEM_ARRAY(int, count + 1);
    for (int i = 0; i < count; i++) list[i] = LIFE_NEVER;
    return list;
}

/* A value is kept where one of the runs keeps it. */
static void touch_all(struct survey *survey, enum run run) {
    const struct graph *graph = survey->graph;
    int *passes = never(graph->value_count), *all = survey->life->pass;
    survey->run = run;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (!in_run(survey, n)) continue;
        for (int k = 0; k < node->out_count; k++) touch(survey, passes, node->out[k], n);
        for (int k = 0; k < node->in_count; k++) touch(survey, passes, node->in[k], n);
    }
    for (int v = 0; v < graph->value_count; v++)
        if (all[v] != LIFE_KEPT && passes[v] != LIFE_NEVER) all[v] = passes[v];
    free(passes);
}

/* --- times --- */

/* Those of some nodes that run in this half; the times go on. */
static void add_times(struct survey *survey, struct life_order *order, struct node_range nodes,
                      bool split, bool second) {
    for (int n = nodes.begin; n < nodes.end; n++) {
        const struct node *node = &survey->graph->nodes[n];
        if (!in_run(survey, n) || (split && is_weight_half(node)) != second) continue;
        if (node->phase == PHASE_BACKWARD && survey->forward_end < 0)
            survey->forward_end = survey->end;
        order->time[n] = survey->end++;
    }
}

static void find_times(struct survey *survey, struct life_order *order, bool split) {
    bool blocks = survey->run == RUN_AGAIN && survey->config->blocks;
    const struct phase_range *backward =
        survey->ranges->stages[survey->stage].phase + PHASE_BACKWARD;
    struct node_range all = {0, survey->graph->node_count};
    survey->end = 0;
    survey->forward_end = -1;
    for (int e = 0; blocks && e < backward->segment_count; e++)
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            add_times(survey, order,
                      ranges_of_bucket(survey->ranges, survey->stage, e, (enum phase)phase), split,
                      false);
    if (!blocks) add_times(survey, order, all, split, false);
    add_times(survey, order, all, split, true);
    if (survey->forward_end < 0) survey->forward_end = survey->end;
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
static void keep_gradients(struct survey *survey, struct life_order *order) {
    const struct graph *graph = survey->graph;
    for (int u = 0; u < graph->use_count; u++) {
        const struct node *maker = &graph->nodes[graph->values[graph->uses[u].gradient].producer];
        if (maker->half == OP_HALF_I && is_here(survey, maker))
            keep(survey, order, graph->uses[u].gradient, survey->end);
    }
}

/* They are read behind the first forward; so is the output, which an evaluation may be asked for.
 */
static void keep_losses(struct survey *survey, struct life_order *order) {
    const struct graph *graph = survey->graph;
    for (int i = 0; i < graph->loss_count; i++) {
        const struct loss *loss = &graph->losses[i];
        if (order->first[loss->sum] != LIFE_NEVER) keep(survey, order, loss->sum, survey->end);
        if (loss->top_k != NO_VALUE && order->first[loss->top_k] != LIFE_NEVER)
            keep(survey, order, loss->top_k, survey->end);
    }
    int output = graph->output == NO_VALUE ? NO_VALUE : graph->values[graph->output].root;
    if (!graph->training && output != NO_VALUE && order->first[output] != LIFE_NEVER)
        keep(survey, order, output, survey->end);
}

/* What forward made and must not make again: from there on in use. */
static void keep_held(struct survey *survey, struct life_order *order) {
    for (int v = 0; v < survey->graph->value_count; v++) {
        if (!survey->life->recompute.held[v]) continue;
        if (survey->run == RUN_AGAIN) order->first[v] = 0;
        keep(survey, order, v, survey->run == RUN_AGAIN ? 0 : survey->end);
    }
}

/* What crosses a cut of the stage is in use from `first` (where it was not made here) to `last`. */
static void keep_crossing(struct survey *survey, struct life_order *order, int cut,
                          enum phase phase, int first, int last) {
    if (cut < 0 || cut >= survey->ranges->stage_count - 1) return;
    struct crossing crossing = ranges_crossing(survey->ranges, cut, phase);
    for (int i = 0; i < crossing.count; i++) {
        int value = crossing.values[i];
        /* The first here to touch it may be a view, some nodes later. */
        bool made = is_here(survey, &survey->graph->nodes[survey->graph->values[value].producer]);
        if (!made) order->first[value] = first;
        keep(survey, order, value, last);
    }
    free(crossing.values);
}

/* Where forward runs twice, what it received is there from its first run to backward; what it sends
 * is gone when it runs again; gradients may come before or after that. */
static void keep_for_stages(struct survey *survey, struct life_order *order) {
    int stage = survey->stage, turn = survey->forward_end, end = survey->end;
    bool again = survey->run == RUN_AGAIN, once = survey->run == RUN_ALL;
    int arrival = again ? 0 : turn;
    keep_crossing(survey, order, stage - 1, PHASE_FORWARD, 0, once || again ? 0 : end);
    if (!again) keep_crossing(survey, order, stage, PHASE_FORWARD, 0, once ? turn - 1 : end);
    if (survey->run == RUN_FORWARD) return;
    keep_crossing(survey, order, stage, PHASE_BACKWARD, arrival, turn);
    keep_crossing(survey, order, stage - 1, PHASE_BACKWARD, arrival, end);
}

static void add_order(struct survey *survey, enum run run, bool split) {
    const struct graph *graph = survey->graph;
    struct life_order *order = &survey->life->order[survey->life->order_count++];
    *order = (struct life_order){.time = never(graph->node_count),
                                 .first = never(graph->value_count),
                                 .last = never(graph->value_count)};
    survey->run = run;
    find_times(survey, order, split);
    find_lifetimes(survey, order);
    if (split) keep_gradients(survey, order);
    if (run != RUN_AGAIN) keep_losses(survey, order);
    if (run != RUN_ALL) keep_held(survey, order);
    keep_for_stages(survey, order);
}

/* Backward as programs run it, in front of it all of forward or what runs again. */
static void add_orders(struct survey *survey, enum run run) {
    touch_all(survey, run);
    add_order(survey, run, survey->config->split);
    if (survey->config->split && survey->config->mixed) add_order(survey, run, false);
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
    if (config->recompute) life.recompute = graph_recompute_of(ranges, stage, config->blocks);
    find_passes(&survey);
    if (!config->recompute || config->some_kept) add_orders(&survey, RUN_ALL);
    if (config->recompute) {
        add_orders(&survey, RUN_AGAIN);
        touch_all(&survey, RUN_FORWARD);
        add_order(&survey, RUN_FORWARD, false);
    }
    free(survey.pass);
    return life;
}

bool life_runs(const struct life *life, int node) {
    for (int i = 0; i < life->order_count; i++)
        if (life->order[i].time[node] != LIFE_NEVER) return true;
    return false;
}

bool life_uses(const struct life *life, int value) {
    for (int i = 0; i < life->order_count; i++)
        if (life->order[i].first[value] != LIFE_NEVER) return true;
    return false;
}

void life_free(struct life *life) {
    for (int i = 0; i < life->order_count; i++) {
        free(life->order[i].time);
        free(life->order[i].first);
        free(life->order[i].last);
    }
    free(life->pass);
    graph_recompute_free(&life->recompute);
    *life = (struct life){0};
}
