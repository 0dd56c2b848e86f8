/* Fusion: one kernel for what would be several passes over memory.
 *
 * Each row of `fusions` names a first and a second operation; where the second is the only reader
 * of the first's output, the pair becomes one node. All patterns here are pairs, so one loop serves
 * them; a fused operation's gradient rule is its own (relu and tanh go back through the output,
 * which is why gelu, which needs its input, stays alone). */
#include <stdlib.h>

#include "base/log.h"
#include "graph/edit.h"

struct fusion {
    enum op first, second, fused;
    enum activation activation; /* set on the fused node */
};

static const struct fusion fusions[] = {
    {OP_CONV2D, OP_RELU, OP_CONV2D, ACTIVATION_RELU},
    {OP_CONV2D, OP_TANH, OP_CONV2D, ACTIVATION_TANH},
    {OP_LINEAR, OP_RELU, OP_LINEAR, ACTIVATION_RELU},
    {OP_LINEAR, OP_TANH, OP_LINEAR, ACTIVATION_TANH},
    {OP_BATCH_NORM, OP_RELU, OP_BATCH_NORM, ACTIVATION_RELU},
    {OP_BATCH_NORM_APPLY, OP_RELU, OP_BATCH_NORM_APPLY, ACTIVATION_RELU},
    {OP_BATCH_NORM_EVAL, OP_RELU, OP_BATCH_NORM_EVAL, ACTIVATION_RELU},
    {OP_ADD, OP_RELU, OP_ADD, ACTIVATION_RELU},
    {OP_LOG_SOFTMAX, OP_NLL, OP_CROSS_ENTROPY, ACTIVATION_NONE},
};

static const struct fusion *fusion_of(const struct node *first, const struct node *second) {
    for (size_t i = 0; i < sizeof fusions / sizeof fusions[0]; i++) {
        if (fusions[i].first == first->op && fusions[i].second == second->op &&
            first->attrs.activation == ACTIVATION_NONE)
            return &fusions[i];
    }
    return NULL;
}

/* The fused node stands where the first one stood, reads what both read beyond the value between
 * them, and makes the second one's output first. Outputs the fused operation has beyond that (a
 * mask, say) become new values. */
static void merge(struct graph *graph, int first_id, int second_id, const struct fusion *fusion) {
    struct node *first = &graph->nodes[first_id], *second = &graph->nodes[second_id];
    int between = first->out[0], result = second->out[0];
    if (fusion->fused != first->op) first->attrs = second->attrs;
    for (int i = 0; i < second->in_count; i++) {
        if (second->in[i] != between) first->in[first->in_count++] = second->in[i];
    }
    first->op = fusion->fused;
    first->attrs.activation = fusion->activation;
    struct op_call call = graph_call(graph, first);
    char why[256] = "";
    CHECK(op_infer(&call, why, sizeof why) == STATUS_OK, "node %s fused: %s", first->name, why);
    first->out[0] = result;
    graph->values[result].producer = first_id;
    for (int i = first->out_count; i < call.out_count; i++) {
        int extra = edit_value(graph, graph->nodes[first_id].name, VALUE_LOCAL, &call.out[i]);
        graph->values[extra].producer = first_id;
        graph->nodes[first_id].out[i] = extra;
    }
    graph->nodes[first_id].out_count = call.out_count;
}

/* Is all that the second reads there already where the first stands? */
static bool is_ready(const struct graph *graph, int first_id, const struct node *second) {
    for (int i = 1; i < second->in_count; i++)
        if (graph->values[second->in[i]].producer >= first_id) return false;
    return true;
}

/* No cut between losses: their labels are counted, and their sums read, on one stage, the last. */
static void join_losses(struct graph *graph) {
    int first = graph->node_count;
    for (int i = 0; i < graph->loss_count; i++) {
        int producer = graph->values[graph->losses[i].sum].producer;
        if (producer < first) first = producer;
    }
    for (int n = first; n < graph->node_count; n++) graph->nodes[n].unit = first;
}

void graph_fuse(struct graph *graph) {
    bool *dead = MEM_ARRAY(bool, graph->node_count);
    for (int i = 0; i < graph->node_count; i++) {
        int value = graph->nodes[i].in_count ? graph->nodes[i].in[0] : NO_VALUE;
        int producer = value == NO_VALUE ? -1 : graph->values[value].producer;
        if (producer < 0 || dead[i]) continue;
        const struct fusion *fusion = fusion_of(&graph->nodes[producer], &graph->nodes[i]);
        if (!fusion || graph->nodes[producer].out[0] != value || edit_consumers(graph, value) != 1)
            continue;
        if (!is_ready(graph, producer, &graph->nodes[i])) continue;
        merge(graph, producer, i, fusion);
        dead[i] = true;
    }
    edit_remove(graph, dead);
    join_losses(graph);
    free(dead);
}
