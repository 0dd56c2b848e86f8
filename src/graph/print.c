/* The graph as text: one line a node, what explain --show graph prints. */
#include "graph/graph.h"

static void print_node(const struct graph *graph, const struct node *node, FILE *out) {
    struct op_call call = graph_call(graph, node);
    struct op_cost cost = op_cost(&call);
    char attrs[OP_TEXT_BYTES], shape[SHAPE_TEXT_BYTES];
    const char *pass = node->phase == PHASE_FORWARD ? "F" : node->half == OP_HALF_I ? "I" : "W";
    const struct value *result = node->out_count ? &graph->values[node->out[0]] : NULL;
    fprintf(out, "  %3d %s %-24s %-20s %-20s %-16s %-9s %9.3f %s\n", node->block, pass, node->name,
            op_def(node->op)->name, op_attrs_text(&call, attrs),
            result ? shape_text(&result->type.shape, shape) : "-",
            result && result->layout ? result->layout->text : "-", cost.flops * 1e-6,
            node->kernel ? node->kernel->name : "view");
}

void graph_print(const struct graph *graph, FILE *out) {
    fprintf(out, "  %3s %s %-24s %-20s %-20s %-16s %-9s %9s %s\n", "blk", "P", "name", "operation",
            "attributes", "output", "layout", "MFLOP", "kernel");
    for (int i = 0; i < graph->node_count; i++) print_node(graph, &graph->nodes[i], out);
}
