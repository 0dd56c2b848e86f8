/* The graph as text: one line a node, what explain --show graph prints. */
#include "base/text.h"
#include "graph/graph.h"

static void add_node(const struct graph *graph, const struct node *node, struct text_table *table) {
    struct op_call call = graph_call(graph, node);
    struct op_cost cost = op_cost(&call);
    char attrs[OP_TEXT_BYTES], shape[SHAPE_TEXT_BYTES];
    const struct value *result = node->out_count ? &graph->values[node->out[0]] : NULL;
    text_table_cell(table, "%d", node->block);
    text_table_cell(table, "%s",
                    node->phase == PHASE_FORWARD ? "F"
                    : node->half == OP_HALF_I    ? "I"
                                                 : "W");
    text_table_cell(table, "%s", node->name);
    text_table_cell(table, "%s", op_def(node->op)->name);
    text_table_cell(table, "%s", op_attrs_text(&call, attrs));
    text_table_cell(table, "%s", result ? shape_text(&result->type.shape, shape) : "-");
    bool narrow = result && dtype_is_narrow(result->type.dtype);
    text_table_cell(table, "%s%s%s", narrow ? dtype_name(result->type.dtype) : "",
                    narrow ? ":" : "", result && result->layout ? result->layout->text : "-");
    text_table_cell(table, "%.3f", cost.flops * 1e-6);
    text_table_cell(table, "%s", node->kernel ? node->kernel->name : "view");
}

void graph_print(const struct graph *graph, FILE *out) {
    static const char *const titles[] = {"block",  "pass",   "name",  "operation", "attributes",
                                         "output", "layout", "MFLOP", "kernel"};
    SCOPED(text_table_free) struct text_table table = {.align = "rllllllrl"};
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
        text_table_cell(&table, "%s", titles[i]);
    for (int i = 0; i < graph->node_count; i++) add_node(graph, &graph->nodes[i], &table);
    text_table_print(&table, 2, out);
}
