/* Adding and removing nodes and values. */
#include "graph/edit.h"

#include <string.h>

#include "base/log.h"

int edit_value(struct graph *graph, const char *name, enum value_kind kind,
               const struct tensor_type *type) {
    int id = graph->value_count;
    graph->values =
        mem_grow(graph->values, &graph->value_capacity, (size_t)id + 1, sizeof *graph->values);
    graph->value_count++;
    graph->values[id] = (struct value){.name = arena_text(&graph->arena, name),
                                       .kind = kind,
                                       .type = *type,
                                       .producer = -1,
                                       .index = -1,
                                       .root = id,
                                       .use = -1};
    return id;
}

static struct node *append_node(struct graph *graph) {
    size_t need = (size_t)graph->node_count + 1;
    graph->nodes = mem_grow(graph->nodes, &graph->node_capacity, need, sizeof *graph->nodes);
    return &graph->nodes[graph->node_count++];
}

struct node *edit_node(struct graph *graph, const char *name, enum op op,
                       const struct op_attrs *attrs, int in_count, const int *in) {
    struct node node = {.name = arena_text(&graph->arena, name),
                        .op = op,
                        .in_count = in_count,
                        .block = graph->block,
                        .unit = graph->node_count};
    if (attrs) node.attrs = *attrs;
    memcpy(node.in, in, (size_t)in_count * sizeof in[0]);
    struct op_call call = graph_call(graph, &node);
    char why[512] = "";
    if (op_infer(&call, why, sizeof why) != STATUS_OK) {
        graph->status = fail(STATUS_USAGE, "node %s (%s): %-s", name, op_def(op)->name, why);
        return NULL;
    }
    node.out_count = call.out_count;
    for (int i = 0; i < call.out_count; i++) {
        node.out[i] = edit_value(graph, name, VALUE_LOCAL, &call.out[i]);
        graph->values[node.out[i]].producer = graph->node_count;
    }
    if (op_def(op)->flags & OP_VIEW)
        graph->values[node.out[0]].root = graph->values[node.in[0]].root;
    struct node *added = append_node(graph);
    *added = node;
    return added;
}

int edit_consumers(const struct graph *graph, int value) {
    int count = graph->output == value;
    for (int i = 0; i < graph->node_count; i++) {
        for (int k = 0; k < graph->nodes[i].in_count; k++) count += graph->nodes[i].in[k] == value;
    }
    return count;
}

void edit_remove(struct graph *graph, const bool *dead) {
    int kept = 0, forward = 0;
    for (int i = 0; i < graph->node_count; i++) {
        if (dead[i]) continue;
        struct node *node = &graph->nodes[kept];
        *node = graph->nodes[i];
        node->unit = kept;
        for (int k = 0; k < node->out_count; k++) graph->values[node->out[k]].producer = kept;
        forward += node->phase == PHASE_FORWARD;
        kept++;
    }
    graph->node_count = kept;
    graph->forward_count = forward;
}
