/* Which values of a graph are narrow: see op/precision.h. Views have the type of their root, so
 * what decides is asked of roots. Where a product reads an f32 value, graph_lower rounds it, in the
 * REORDER that brings it to the kernel's layout. */

#include "graph/graph.h"
#include "op/precision.h"

/* Parameter gradients, what losses are made from, the model's output, and outputs that their
 * operation keeps f32. */
static void mark_exact(const struct graph *graph, bool *exact) {
    for (int i = 0; i < graph->use_count; i++)
        exact[graph->values[graph->uses[i].gradient].root] = true;
    for (int i = 0; i < graph->loss_count; i++)
        exact[graph->values[graph->losses[i].scores].root] = true;
    if (graph->output != NO_VALUE) exact[graph->values[graph->output].root] = true;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (op_exact_in(node->op)) exact[graph->values[node->in[0]].root] = true;
        if (op_def(node->op)->flags & OP_VIEW) continue;
        for (int i = 0; i < node->out_count; i++)
            if (!op_narrow_out(node->op, i)) exact[node->out[i]] = true;
    }
}

/* What goes through a norm of rows into a sum is a stream from layer to layer, as in BERT. Narrow,
 * it would be rounded four times a layer, and end twice as far from f32. So such a norm, and what
 * it reads, are f32; products read the norm rounded, as ever. Where norms are read by products
 * alone, the stream is the sums between them, each rounded once: not worth the bytes. */
static bool is_summed(const struct graph *graph, int value) {
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (node->op != OP_ADD || node->phase != PHASE_FORWARD) continue;
        for (int i = 0; i < node->in_count; i++)
            if (graph->values[node->in[i]].root == value) return true;
    }
    return false;
}

static void mark_streams(const struct graph *graph, bool *exact) {
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (!(op_def(node->op)->flags & OP_STREAM) || node->phase != PHASE_FORWARD) continue;
        if (!is_summed(graph, node->out[0])) continue;
        exact[node->out[0]] = exact[graph->values[node->in[0]].root] = true;
    }
}

void graph_narrow(struct graph *graph, enum dtype dtype) {
    graph->dtype = dtype;
    if (dtype == DTYPE_F32) return;
    SCOPED_FREE bool *exact = MEM_ARRAY(bool, graph->value_count + 1);
    mark_exact(graph, exact);
    mark_streams(graph, exact);
    for (int i = 0; i < graph->value_count; i++) {
        struct value *value = &graph->values[i];
        if (graph->values[value->root].kind == VALUE_LOCAL && value->type.dtype == DTYPE_F32 &&
            !exact[value->root])
            value->type.dtype = dtype;
    }
}
