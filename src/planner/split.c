/* See split.h. */
#include "planner/split.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "plan/state_layout.h"

void planner_splits_new(const struct costs *costs, const struct run_config *base,
                        struct plan_pool *pool, int layers, struct planner_splits *out) {
    *out = (struct planner_splits){.base = base,
                                   .pool = pool,
                                   .costs = *costs,
                                   .classes = cost_class_count(costs),
                                   .layers = layers};
    out->costs.crowd = 0;
}

static void split_free(struct planner_split *split) {
    if (!split) return;
    void *const parts[] = {split->forward,    split->input,       split->weight,
                           split->kept_bytes, split->param_bytes, split->largest_bytes,
                           split->twice};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    free(split);
}

void planner_splits_free(struct planner_splits *splits) {
    for (int g = 0; g < splits->graph_count; g++) {
        struct planner_graph *graph = &splits->graph[g];
        cost_table_free(&graph->table);
        for (int i = 0; i < (splits->layers + 1) * BALANCE_COUNT; i++) split_free(graph->split[i]);
        free(graph->split);
    }
    free(splits->graph);
    *splits = (struct planner_splits){0};
}

/* --- graphs --- */

static double whole_ns(const struct planner_graph *graph, int class, int nodes) {
    struct cost_device device = {class, 1};
    struct cost_devices on = {.item = &device, .count = 1, .in_step = true};
    double sum = 0;
    for (int n = 0; n < nodes; n++) sum += cost_node_ns(&graph->table, &on, n);
    return sum;
}

enum status planner_graph_find(struct planner_splits *splits, int64_t samples, int *out) {
    for (*out = 0; *out < splits->graph_count; (*out)++)
        if (splits->graph[*out].samples == samples) return STATUS_OK;
    struct planner_graph graph = {.samples = samples};
    TRY(plan_pool_graph(splits->pool, splits->base, samples, &graph.graph));
    cost_table_new(&splits->costs, graph.graph, &graph.table);
    graph.split = MEM_ARRAY(struct planner_split *, (splits->layers + 1) * BALANCE_COUNT);
    for (int c = 0; c < splits->classes; c++) {
        double ns = whole_ns(&graph, c, graph.graph->node_count),
               forward = whole_ns(&graph, c, graph.graph->forward_count);
        if (c == 0 || ns < graph.least_ns) graph.least_ns = ns;
        if (c == 0 || forward < graph.least_forward_ns) graph.least_forward_ns = forward;
    }
    splits->graph = mem_grow(splits->graph, &splits->graph_capacity,
                             (size_t)splits->graph_count + 1, sizeof *splits->graph);
    splits->graph[splits->graph_count++] = graph;
    return STATUS_OK;
}

/* --- cuts --- */

static void time_split(const struct planner_splits *splits, struct planner_split *split,
                       const struct ranges *ranges) {
    const struct cost_table *table = &splits->graph[split->graph].table;
    size_t times = (size_t)splits->classes * (size_t)split->count;
    split->forward = MEM_ARRAY(double, times);
    split->input = MEM_ARRAY(double, times);
    split->weight = MEM_ARRAY(double, times);
    for (int i = 0; i < splits->classes * split->count; i++) {
        struct cost_device device = {i / split->count, 1};
        struct cost_devices on = {.item = &device, .count = 1, .in_step = true};
        int stage = i % split->count;
        split->forward[i] = cost_pass_ns(table, &on, ranges, stage, COST_PASS_F);
        split->input[i] = cost_pass_ns(table, &on, ranges, stage, COST_PASS_I);
        split->weight[i] = cost_pass_ns(table, &on, ranges, stage, COST_PASS_W);
    }
}

/* Of several pairs of stages the first one counts. */
static void note_tie(struct planner_split *split, int first, int other, size_t bytes) {
    bool another = split->tied != first || split->tied_other != other;
    if (split->tied_bytes > 0 && another) return;
    split->tied = first;
    split->tied_other = other;
    split->tied_bytes += bytes;
}

static void weigh_param(struct planner_split *split, const struct ranges *ranges,
                        const struct param *param) {
    const struct graph *graph = ranges->graph;
    size_t bytes = tensor_type_bytes(&graph->values[param->value].type);
    int first = -1, last = -1;
    for (int u = param->first_use; u < param->first_use + param->use_count; u++) {
        int maker = graph->values[graph->uses[u].gradient].producer,
            stage = ranges_stage(ranges, &graph->nodes[maker]);
        if (bytes > split->largest_bytes[stage]) split->largest_bytes[stage] = bytes;
        if (first < 0 || stage < first) first = stage;
        if (stage > last) last = stage;
    }
    if (param->use_count > 1 + (first != last)) split->twice[first] = split->twice[last] = true;
    if (param->use_count > 1 && first != last) note_tie(split, first, last, bytes);
}

static void weigh_split(struct planner_split *split, const struct ranges *ranges) {
    const struct graph *graph = ranges->graph;
    split->kept_bytes = MEM_ARRAY(size_t, split->count);
    split->param_bytes = MEM_ARRAY(size_t, split->count);
    split->largest_bytes = MEM_ARRAY(size_t, split->count);
    split->twice = MEM_ARRAY(bool, split->count);
    for (int s = 0; s < split->count; s++) {
        split->kept_bytes[s] = split->partition.chunks[s].kept_bytes;
        split->param_bytes[s] = (size_t)state_bytes(split->partition.chunks[s].param_elements);
    }
    for (int p = 0; p < graph->param_count; p++) weigh_param(split, ranges, &graph->params[p]);
}

bool planner_split_same(const struct planner_split *a, const struct planner_split *b) {
    return a->count == b->count && memcmp(a->partition.cuts, b->partition.cuts,
                                          (size_t)(a->count - 1) * sizeof *a->partition.cuts) == 0;
}

static enum status make_split(struct planner_splits *splits, int graph, int count, int balance,
                              struct planner_split **out) {
    const struct run_config *base = splits->base;
    struct partition_config config = {.chunks = count,
                                      .balance = (enum balance)balance,
                                      .cut = base->cut,
                                      .cut_count = base->cut_count,
                                      .grads = 1,
                                      .states = base->optimizer->state_count};
    const struct planner_graph *of = &splits->graph[graph];
    SCOPED(ranges_free) struct ranges ranges = {0};
    const struct partition *shared;
    if (balance == BALANCE_TIME && splits->costs.section) config.node_ns = of->table.ns;
    TRY(plan_pool_partition(splits->pool, of->graph, &config, &shared));
    TRY(ranges_new(of->graph, shared->cuts, count - 1, &ranges));
    struct planner_split *split = MEM_NEW(struct planner_split);
    *split = (struct planner_split){
        .graph = graph, .count = count, .balance = (int8_t)balance, .partition = *shared};
    time_split(splits, split, &ranges);
    weigh_split(split, &ranges);
    *out = split;
    return STATUS_OK;
}

enum status planner_split_find(struct planner_splits *splits, int graph, int count, int balance,
                               struct planner_split **out) {
    struct planner_split **at = &splits->graph[graph].split[count * BALANCE_COUNT + balance];
    if (!*at) TRY(make_split(splits, graph, count, balance, at));
    *out = *at;
    return STATUS_OK;
}
