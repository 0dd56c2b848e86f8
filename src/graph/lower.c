/* Kernels and layouts for the whole graph.
 *
 * Nodes are walked in order. Each kernel is made from the layouts its inputs already have and says
 * what it wants; where the two differ a REORDER node goes in between (once per value and layout, as
 * far as stages allow). A parameter takes the layout its first reader wants, or the one an earlier
 * graph of the run fixed; its gradient is brought to that same layout, so the optimizer can treat
 * parameter, gradient and state as flat arrays. Everything is decided by rule on the whole graph,
 * before any partition, so a cut never changes which kernel runs. */
#include <stdlib.h>

#include "base/log.h"
#include "graph/edit.h"
#include "op/precision.h"

struct reordered {
    int from, to; /* values */
};

struct lowering {
    struct graph *graph;
    struct device *device;
    struct node *old; /* the list being walked; the graph's own list is rebuilt */
    struct reordered *reordered;
    int reordered_count;
    size_t reordered_capacity;
};

static const struct layout *plain_of(struct lowering *low, int value) {
    return low->device->backend->plain(low->device, &low->graph->values[value].type);
}

/* Where a product reads an f32 value in a narrow graph, its kernel is made for the narrow type and
 * may choose the layout. */
static enum status make_kernel(struct lowering *low, struct node *node) {
    const struct layout *in[OP_MAX_IN] = {0};
    struct op_call call = graph_call(low->graph, node);
    for (int i = 0; i < node->in_count; i++) {
        in[i] = low->graph->values[node->in[i]].layout;
        if (call.in[i].dtype != DTYPE_F32 || low->graph->dtype == DTYPE_F32 ||
            !op_narrow_in(node->op, i))
            continue;
        call.in[i].dtype = low->graph->dtype;
        in[i] = NULL;
    }
    return kernel_create(low->device, &call, in, &node->kernel);
}

static void append(struct graph *graph, const struct node *node) {
    size_t need = (size_t)graph->node_count + 1;
    graph->nodes = mem_grow(graph->nodes, &graph->node_capacity, need, sizeof *graph->nodes);
    for (int i = 0; i < node->out_count; i++)
        graph->values[node->out[i]].producer = graph->node_count;
    graph->nodes[graph->node_count++] = *node;
    graph->forward_count += node->phase == PHASE_FORWARD;
}

/* A new value that is `value` in layout `to`, made by a REORDER that takes its place and phase from
 * `reader`. */
static enum status insert_reorder(struct lowering *low, const struct node *reader, int value,
                                  const struct layout *to, int *out) {
    struct graph *graph = low->graph;
    struct value source = graph->values[value];
    struct node node = {.name = source.name,
                        .op = OP_REORDER,
                        .in_count = 1,
                        .out_count = 1,
                        .in = {value},
                        .phase = reader->phase,
                        .half = reader->half,
                        .block = reader->block,
                        .unit = reader->unit};
    node.attrs.reorder.to = to;
    node.out[0] = edit_value(graph, source.name, VALUE_LOCAL, &to->type);
    graph->values[node.out[0]].layout = to;
    TRY(make_kernel(low, &node));
    append(graph, &node);
    *out = node.out[0];
    return STATUS_OK;
}

/* A twin made in the weight half is not there yet when the input half reads, should the two run
 * apart.
 *
 * Between units a cut may lie: there forward's twins of local values serve later units, as the
 * values themselves do, and no others are shared. A stage makes its own of parameters and inputs,
 * which it has, and of gradients; and its weight half waits for that of no other stage.
 *
 * Narrow twins of parameters and inputs are made anew for backward: kept, each micro-batch in
 * flight would have its own copy of the weights. */
static bool may_share(const struct graph *graph, int value, int twin, const struct node *reader) {
    const struct node *maker = &graph->nodes[graph->values[twin].producer];
    bool narrowed = graph->values[twin].type.dtype != graph->values[value].type.dtype;
    if (narrowed && maker->phase != reader->phase &&
        graph->values[graph->values[value].root].kind != VALUE_LOCAL)
        return false;
    bool late = maker->phase == PHASE_BACKWARD && maker->half == OP_HALF_W;
    if (maker->unit == reader->unit) return !late || reader->half == OP_HALF_W;
    return maker->phase == PHASE_FORWARD && maker->unit < reader->unit &&
           graph->values[graph->values[value].root].kind == VALUE_LOCAL;
}

/* The value itself when it has the layout that input `in` of the reader wants (or none yet: then it
 * takes that, or the one to round from), else its reordered twin. */
static enum status bring(struct lowering *low, const struct node *reader, int in, int value,
                         const struct layout *want, int *out) {
    struct value *source = &low->graph->values[value];
    const struct layout *from = reader->kernel ? reader->kernel->rounded_from[in] : NULL;
    if (want->type.dtype == source->type.dtype) from = want;
    if (!source->layout) source->layout = from ? from : plain_of(low, value);
    *out = value;
    if (source->layout == want) return STATUS_OK;
    for (int i = 0; i < low->reordered_count; i++) {
        int twin = low->reordered[i].to;
        if (low->reordered[i].from != value || low->graph->values[twin].layout != want) continue;
        if (!may_share(low->graph, value, twin, reader)) continue;
        *out = twin;
        return STATUS_OK;
    }
    TRY(insert_reorder(low, reader, value, want, out));
    size_t need = (size_t)low->reordered_count + 1;
    low->reordered =
        mem_grow(low->reordered, &low->reordered_capacity, need, sizeof *low->reordered);
    low->reordered[low->reordered_count++] = (struct reordered){value, *out};
    return STATUS_OK;
}

static enum status lower_view(struct lowering *low, struct node node) {
    TRY(bring(low, &node, 0, node.in[0], plain_of(low, node.in[0]), &node.in[0]));
    struct value *view = &low->graph->values[node.out[0]];
    view->root = low->graph->values[node.in[0]].root;
    view->layout = plain_of(low, node.out[0]);
    append(low->graph, &node);
    return STATUS_OK;
}

/* Brings the gradient of a parameter to the parameter's layout. */
static enum status align_gradient(struct lowering *low, const struct node *node, int value) {
    struct graph *graph = low->graph;
    int use = graph->values[value].use;
    if (use < 0) return STATUS_OK;
    const struct layout *want = graph->values[graph->params[graph->uses[use].param].value].layout;
    CHECK(want, "the gradient of %s comes before its first use",
          graph->params[graph->uses[use].param].name);
    if (graph->values[value].layout == want) return STATUS_OK;
    int twin;
    TRY(insert_reorder(low, node, value, want, &twin));
    graph->values[value].use = -1;
    graph->values[twin].use = use;
    graph->uses[use].gradient = twin;
    return STATUS_OK;
}

static enum status lower_node(struct lowering *low, struct node node) {
    struct graph *graph = low->graph;
    if (op_def(node.op)->flags & OP_VIEW) return lower_view(low, node);
    if (node.op == OP_REORDER && !node.attrs.reorder.to) { /* a copy: the layout stays */
        const struct value *from = &graph->values[node.in[0]], *to = &graph->values[node.out[0]];
        node.attrs.reorder.to =
            from->type.dtype == to->type.dtype ? from->layout : plain_of(low, node.out[0]);
    }
    TRY(make_kernel(low, &node));
    for (int i = 0; i < node.in_count; i++) {
        enum status status = bring(low, &node, i, node.in[i], node.kernel->in[i], &node.in[i]);
        if (status != STATUS_OK) {
            kernel_free(&node.kernel);
            return status;
        }
    }
    for (int i = 0; i < node.out_count; i++)
        graph->values[node.out[i]].layout = node.kernel->out[i];
    append(graph, &node);
    for (int i = 0; i < node.out_count; i++) TRY(align_gradient(low, &node, node.out[i]));
    return STATUS_OK;
}

static void start_layouts(struct lowering *low, const struct layout *const *param_layouts) {
    struct graph *graph = low->graph;
    for (int i = 0; i < graph->value_count; i++) {
        struct value *value = &graph->values[i];
        if (value->kind == VALUE_INPUT || value->kind == VALUE_BUFFER)
            value->layout = plain_of(low, i);
        if (value->kind == VALUE_PARAM)
            value->layout = param_layouts ? param_layouts[value->index] : NULL;
    }
}

enum status graph_lower(struct graph *graph, struct device *device,
                        const struct layout *const *param_layouts) {
    struct lowering low = {.graph = graph, .device = device, .old = graph->nodes};
    int count = graph->node_count;
    graph->device = device;
    graph->nodes = NULL;
    graph->node_capacity = 0;
    graph->node_count = graph->forward_count = 0;
    start_layouts(&low, param_layouts);
    enum status status = STATUS_OK;
    for (int i = 0; i < count && status == STATUS_OK; i++) status = lower_node(&low, low.old[i]);
    free(low.old);
    free(low.reordered);
    return status;
}

/* The layouts are those that the description chose. */
static enum status make_described(struct graph *graph, struct node *node) {
    struct kernel *described = node->kernel;
    const struct layout *in[OP_MAX_IN] = {0};
    for (int i = 0; i < node->in_count; i++) in[i] = graph->values[node->in[i]].layout;
    struct op_call call = graph_call(graph, node);
    TRY(kernel_create(graph->device, &call, in, &node->kernel));
    for (int i = 0; i < node->out_count; i++)
        CHECK(node->kernel->out[i] == described->out[i], "%s has another layout when it is made",
              node->name);
    kernel_free(&described);
    return STATUS_OK;
}

enum status graph_make_kernels(struct graph *graph, int begin, int end) {
    for (int i = begin; i < end; i++)
        if (graph->nodes[i].kernel) TRY(make_described(graph, &graph->nodes[i]));
    return STATUS_OK;
}
