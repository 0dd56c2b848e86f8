/* The backward part, from the operations' own rules.
 *
 * Forward nodes are walked from last to first; each rule emits the backward nodes of its operation.
 * A value read in several places receives several gradients, added in that (reverse graph) order. A
 * parameter's gradients are not added here: each use keeps its own, because the order of sums over
 * micro-batches and uses is part of the program (contract 1). */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "graph/edit.h"

struct walk {
    struct graph *graph;
    int *gradient; /* per forward value: its gradient so far, or NO_VALUE */
    bool *needed;  /* per forward value: does a parameter stand behind it? */
    int node;      /* being differentiated */
};

static void emit(struct op_grad *grad, enum op op, const struct op_attrs *attrs, enum op_half half,
                 int in_count, const int *in, int *out) {
    struct walk *walk = grad->graph;
    struct graph *graph = walk->graph;
    const struct node *forward = &graph->nodes[walk->node];
    graph->block = forward->block;
    struct node *node = edit_node(graph, forward->name, op, attrs, in_count, in);
    CHECK(node, "the gradient of %s does not fit", graph->nodes[walk->node].name);
    node->phase = PHASE_BACKWARD;
    node->half = half;
    node->unit = graph->nodes[walk->node].unit;
    memcpy(out, node->out, (size_t)node->out_count * sizeof out[0]);
}

static void mark_needed(struct walk *walk) {
    struct graph *graph = walk->graph;
    for (int i = 0; i < graph->param_count; i++)
        walk->needed[graph->params[i].value] = !graph->params[i].frozen;
    for (int i = 0; i < graph->forward_count; i++) {
        const struct node *node = &graph->nodes[i];
        if (!op_def(node->op)->grad) continue;
        bool any = false;
        for (int k = 0; k < node->in_count; k++) any |= walk->needed[node->in[k]];
        for (int k = 0; k < node->out_count; k++) walk->needed[node->out[k]] = any;
    }
}

static void add_use(struct graph *graph, int param, int gradient) {
    size_t need = (size_t)graph->use_count + 1;
    graph->uses = mem_grow(graph->uses, &graph->use_capacity, need, sizeof *graph->uses);
    graph->uses[graph->use_count++] = (struct param_use){param, gradient};
}

/* A parameter's gradient must have bytes of its own, since the executor may point them at the
 * accumulator: a view, a gradient that only passes through this node, or one that serves another
 * input too is copied. */
static int own_gradient(struct walk *walk, struct op_grad *grad, int gradient) {
    bool own = walk->graph->values[gradient].root == gradient;
    for (int i = 0; i < grad->call->out_count; i++) own &= grad->d_out[i] != gradient;
    int served = 0;
    for (int i = 0; i < grad->call->in_count; i++)
        served += grad->need[i] && grad->d_in[i] == gradient;
    int copy = gradient;
    if (!own || served > 1) emit(grad, OP_REORDER, NULL, OP_HALF_W, 1, &gradient, &copy);
    return copy;
}

/* Hands the gradient of one node input on: to the parameter's list of uses, or to the sum for that
 * value. */
static void deliver(struct walk *walk, struct op_grad *grad, int value, int gradient) {
    struct graph *graph = walk->graph;
    if (graph->values[value].kind == VALUE_PARAM) {
        add_use(graph, graph->values[value].index, own_gradient(walk, grad, gradient));
        return;
    }
    if (walk->gradient[value] == NO_VALUE) {
        walk->gradient[value] = gradient;
        return;
    }
    int sum;
    emit(grad, OP_ADD, NULL, OP_HALF_I, 2, (int[]){walk->gradient[value], gradient}, &sum);
    walk->gradient[value] = sum;
}

static int seed_of(const struct graph *graph, const struct node *node) {
    for (int i = 0; i < graph->loss_count; i++) {
        if (graph->losses[i].sum == node->out[0]) return graph->losses[i].seed;
    }
    return NO_VALUE;
}

static void differentiate(struct walk *walk, int id) {
    struct graph *graph = walk->graph;
    const struct node node = graph->nodes[id]; /* a copy: emitting moves the list */
    const struct op_def *def = op_def(node.op);
    int d_out[OP_MAX_OUT], d_in[OP_MAX_IN],
        seed = node.out_count ? seed_of(graph, &node) : NO_VALUE;
    bool need[OP_MAX_IN], flows = seed != NO_VALUE, wanted = false;
    for (int i = 0; i < node.out_count; i++) {
        d_out[i] = walk->gradient[node.out[i]];
        flows |= d_out[i] != NO_VALUE;
    }
    for (int i = 0; i < node.in_count; i++) {
        need[i] = walk->needed[node.in[i]];
        wanted |= need[i];
        d_in[i] = NO_VALUE;
    }
    if (!def->grad || !flows || !wanted) return;
    walk->node = id;
    struct op_call call = graph_call(graph, &node);
    struct op_grad grad = {.call = &call,
                           .in = node.in,
                           .out = node.out,
                           .d_out = d_out,
                           .need = need,
                           .seed = seed,
                           .d_in = d_in,
                           .graph = walk,
                           .emit = emit};
    def->grad(&grad);
    for (int i = 0; i < node.in_count; i++) {
        if (need[i] && d_in[i] != NO_VALUE) deliver(walk, &grad, node.in[i], d_in[i]);
    }
}

/* Uses were found from last to first; they are kept by parameter, in graph order. */
static enum status sort_uses(struct graph *graph) {
    SCOPED_FREE struct param_use *sorted = MEM_ARRAY(struct param_use, graph->use_count + 1);
    int count = 0;
    for (int p = 0; p < graph->param_count; p++) {
        struct param *param = &graph->params[p];
        param->first_use = count;
        for (int u = graph->use_count - 1; u >= 0; u--) {
            if (graph->uses[u].param == p) sorted[count++] = graph->uses[u];
        }
        param->use_count = count - param->first_use;
        if (param->use_count == 0 && !param->frozen)
            return fail(STATUS_USAGE, "parameter %s has no influence on the loss", param->name);
    }
    memcpy(graph->uses, sorted, (size_t)count * sizeof sorted[0]);
    for (int u = 0; u < count; u++) graph->values[sorted[u].gradient].use = u;
    return STATUS_OK;
}

/* When the halves run apart all of I comes first: what an input gradient is made from belongs to
 * I, whatever the rule that emitted it thought. */
static void pull_into_input_half(struct graph *graph) {
    for (int n = graph->node_count - 1; n >= graph->forward_count; n--) {
        const struct node *node = &graph->nodes[n];
        for (int i = 0; node->half == OP_HALF_I && i < node->in_count; i++) {
            int producer = graph->values[node->in[i]].producer;
            if (producer >= graph->forward_count) graph->nodes[producer].half = OP_HALF_I;
        }
    }
}

enum status graph_gradient(struct graph *graph) {
    CHECK(graph->training && graph->forward_count == graph->node_count,
          "gradient of a graph that has one");
    int block = graph->block;
    struct walk walk = {.graph = graph,
                        .gradient = MEM_ARRAY(int, graph->value_count),
                        .needed = MEM_ARRAY(bool, graph->value_count)};
    for (int i = 0; i < graph->value_count; i++) walk.gradient[i] = NO_VALUE;
    mark_needed(&walk);
    for (int i = graph->forward_count - 1; i >= 0; i--) differentiate(&walk, i);
    graph->block = block;
    pull_into_input_half(graph);
    free(walk.gradient);
    free(walk.needed);
    return sort_uses(graph);
}
