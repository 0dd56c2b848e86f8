/* The two lists of a graph, and questions asked of them. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

struct graph *graph_new(int64_t batch, bool training) {
    struct graph *graph = MEM_NEW(struct graph);
    graph->batch = batch;
    graph->training = training;
    graph->output = NO_VALUE;
    return graph;
}

void graph_free(struct graph **graph) {
    if (!*graph) return;
    for (int i = 0; i < (*graph)->node_count; i++) kernel_free(&(*graph)->nodes[i].kernel);
    free((*graph)->values);
    free((*graph)->nodes);
    free((*graph)->params);
    free((*graph)->uses);
    free((*graph)->buffers);
    arena_free(&(*graph)->arena);
    free(*graph);
    *graph = NULL;
}

struct op_call graph_call(const struct graph *graph, const struct node *node) {
    struct op_call call = {.op = node->op,
                           .attrs = node->attrs,
                           .in_count = node->in_count,
                           .out_count = node->out_count};
    for (int i = 0; i < node->in_count; i++) call.in[i] = graph->values[node->in[i]].type;
    for (int i = 0; i < node->out_count; i++) call.out[i] = graph->values[node->out[i]].type;
    return call;
}

int graph_input_find(const struct graph *graph, const char *name) {
    for (int i = 0; i < graph->input_count; i++) {
        if (strcmp(graph->values[graph->inputs[i]].name, name) == 0) return graph->inputs[i];
    }
    return NO_VALUE;
}

int64_t graph_param_elements(const struct graph *graph) {
    int64_t count = 0;
    for (int i = 0; i < graph->param_count; i++)
        count += shape_count(&graph->values[graph->params[i].value].type.shape);
    return count;
}

size_t graph_scratch_bytes(const struct graph *graph, int begin, int end) {
    size_t most = 0;
    for (int i = begin; i < end; i++) {
        const struct kernel *kernel = graph->nodes[i].kernel;
        if (kernel && kernel->scratch_bytes > most) most = kernel->scratch_bytes;
    }
    return most;
}

size_t graph_packed_bytes(const struct graph *graph, int begin, int end) {
    size_t most = 0;
    for (int i = begin; i < end; i++) {
        const struct kernel *kernel = graph->nodes[i].kernel;
        if (kernel && kernel->packed_bytes > most) most = kernel->packed_bytes;
    }
    return most;
}

struct graph_exchanges graph_exchanges(const struct graph *graph, enum phase phase) {
    struct graph_exchanges sum = {0};
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        if (node->phase != phase || !(op_def(node->op)->flags & OP_EXCHANGE)) continue;
        sum.count++;
        sum.bytes += tensor_type_bytes(&graph->values[node->in[0]].type);
    }
    return sum;
}
