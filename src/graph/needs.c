/* See needs.h. */
#include "graph/needs.h"

#include <stdlib.h>

/* Which values the nodes of a stage read, views counted for their root. */
static bool *find_read(const struct ranges *ranges, int stage) {
    const struct graph *graph = ranges->graph;
    bool *read = MEM_ARRAY(bool, graph->value_count + 1);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct node_range nodes = ranges_find(ranges, stage, SEGMENT_ALL, (enum phase)phase);
        for (int n = nodes.begin; n < nodes.end; n++)
            for (int i = 0; i < graph->nodes[n].in_count; i++)
                read[graph->values[graph->nodes[n].in[i]].root] = true;
    }
    return read;
}

static struct param_need param_need(const struct ranges *ranges, int stage, int p) {
    const struct graph *graph = ranges->graph;
    const struct param *param = &graph->params[p];
    struct param_need need = {.param = p};
    for (int u = param->first_use; u < param->first_use + param->use_count; u++) {
        int maker = graph->values[graph->uses[u].gradient].producer;
        if (ranges_stage(ranges, &graph->nodes[maker]) != stage) continue;
        if (need.use_count++ == 0) need.first_use = u;
    }
    return need;
}

/* Per buffer: where it is looked for. One that nothing reads (a frozen batch norm counts no
 * batches) is kept with the one before it; where there is none, by the first stage: -1. */
static int *find_keepers(const struct graph *graph) {
    int *keeper = MEM_ARRAY(int, graph->buffer_count + 1);
    SCOPED_FREE bool *read = MEM_ARRAY(bool, graph->value_count + 1);
    for (int n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n].in_count; i++)
            read[graph->values[graph->nodes[n].in[i]].root] = true;
    for (int b = 0; b < graph->buffer_count; b++)
        keeper[b] = read[graph->buffers[b].value] ? b : b > 0 ? keeper[b - 1] : -1;
    return keeper;
}

struct needs needs_of(const struct ranges *ranges, int stage) {
    const struct graph *graph = ranges->graph;
    struct needs needs = {.params = MEM_ARRAY(struct param_need, graph->param_count + 1),
                          .buffers = MEM_ARRAY(int, graph->buffer_count + 1),
                          .inputs = MEM_ARRAY(int, graph->input_count + 1),
                          .losses = MEM_ARRAY(int, graph->loss_count + 1)};
    SCOPED_FREE bool *read = find_read(ranges, stage);
    for (int p = 0; p < graph->param_count; p++)
        if (read[graph->params[p].value])
            needs.params[needs.param_count++] = param_need(ranges, stage, p);
    SCOPED_FREE int *keeper = find_keepers(graph);
    for (int b = 0; b < graph->buffer_count; b++)
        if (keeper[b] < 0 ? stage == 0 : read[graph->buffers[keeper[b]].value])
            needs.buffers[needs.buffer_count++] = b;
    for (int i = 0; i < graph->input_count; i++)
        if (read[graph->inputs[i]]) needs.inputs[needs.input_count++] = i;
    for (int i = 0; i < graph->loss_count; i++) {
        int maker = graph->values[graph->losses[i].sum].producer;
        if (ranges_stage(ranges, &graph->nodes[maker]) == stage)
            needs.losses[needs.loss_count++] = i;
    }
    return needs;
}

void needs_free(struct needs *needs) {
    free(needs->params);
    free(needs->buffers);
    free(needs->inputs);
    free(needs->losses);
    *needs = (struct needs){0};
}

static bool has(const int *list, int count, int item) {
    for (int i = 0; i < count; i++)
        if (list[i] == item) return true;
    return false;
}

bool needs_value(const struct needs *needs, const struct graph *graph, int value) {
    const struct value *root = &graph->values[graph->values[value].root];
    if (root->kind == VALUE_INPUT) return has(needs->inputs, needs->input_count, root->index);
    if (root->kind == VALUE_BUFFER) return has(needs->buffers, needs->buffer_count, root->index);
    for (int i = 0; root->kind == VALUE_PARAM && i < needs->param_count; i++)
        if (needs->params[i].param == root->index) return true;
    return false;
}
