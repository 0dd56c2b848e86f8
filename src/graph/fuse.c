/* Fusion: one kernel for what would be several passes over memory.
 *
 * Each row of `fusions` names a first and a second operation; where the second is the only reader
 * of the first's output, the pair becomes one node. All patterns here are pairs, so one loop serves
 * them (batch norm, sum and relu are two); a fused operation's gradient rule is its own. relu and
 * tanh go back through the output. gelu needs its input, so a linear layer in training makes both.
 * In bf16 that pair stays two: gelu is applied to what was rounded. */
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
    {OP_LINEAR, OP_GELU, OP_LINEAR, ACTIVATION_GELU},
    {OP_LINEAR, OP_GELU_TANH, OP_LINEAR, ACTIVATION_GELU_TANH},
    {OP_BATCH_NORM, OP_RELU, OP_BATCH_NORM, ACTIVATION_RELU},
    {OP_BATCH_NORM_APPLY, OP_RELU, OP_BATCH_NORM_APPLY, ACTIVATION_RELU},
    {OP_BATCH_NORM_EVAL, OP_RELU, OP_BATCH_NORM_EVAL, ACTIVATION_RELU},
    {OP_BATCH_NORM, OP_ADD, OP_BATCH_NORM, ACTIVATION_NONE},
    {OP_BATCH_NORM_APPLY, OP_ADD, OP_BATCH_NORM_APPLY, ACTIVATION_NONE},
    {OP_BATCH_NORM_EVAL, OP_ADD, OP_BATCH_NORM_EVAL, ACTIVATION_NONE},
    {OP_ADD, OP_RELU, OP_ADD, ACTIVATION_RELU},
    {OP_LOG_SOFTMAX, OP_NLL, OP_CROSS_ENTROPY, ACTIVATION_NONE},
};

static const struct fusion *fusion_of(const struct node *first, const struct node *second) {
    for (size_t i = 0; i < sizeof fusions / sizeof fusions[0]; i++) {
        if (fusions[i].first == first->op && fusions[i].second == second->op &&
            first->attrs.activation == ACTIVATION_NONE &&
            second->attrs.activation == ACTIVATION_NONE)
            return &fusions[i];
    }
    return NULL;
}

/* The node that does the work of both: it reads what both read beyond the value between them. False
 * where the fused operation does not take that (batch norm adds one residual, of x's shape). */
static bool fused_node(const struct graph *graph, const struct node *first,
                       const struct node *second, const struct fusion *fusion, struct node *out,
                       struct op_call *call) {
    char why[256];
    *out = *first;
    if (first->in_count + second->in_count - 1 > OP_MAX_IN) return false;
    if (fusion->fused != first->op) out->attrs = second->attrs;
    for (int i = 0; i < second->in_count; i++)
        if (second->in[i] != first->out[0]) out->in[out->in_count++] = second->in[i];
    out->op = fusion->fused;
    out->attrs.activation = fusion->activation;
    bool gelu = activation_is_gelu(fusion->activation);
    if (gelu && graph->dtype != DTYPE_F32) return false;
    out->attrs.saves = gelu && graph->training;
    *call = graph_call(graph, out);
    return op_infer(call, why, sizeof why) == STATUS_OK;
}

/* It stands where the first one stood and makes the second one's output first. Outputs the fused
 * operation has beyond that (a mask, say) become new values. */
static bool merge(struct graph *graph, int first_id, int second_id, const struct fusion *fusion) {
    const struct node *second = &graph->nodes[second_id];
    struct node fused;
    struct op_call call;
    if (!fused_node(graph, &graph->nodes[first_id], second, fusion, &fused, &call)) return false;
    fused.out[0] = second->out[0];
    for (int i = fused.out_count; i < call.out_count; i++)
        fused.out[i] = edit_value(graph, fused.name, VALUE_LOCAL, &call.out[i]);
    fused.out_count = call.out_count;
    for (int i = 0; i < fused.out_count; i++) graph->values[fused.out[i]].producer = first_id;
    graph->nodes[first_id] = fused;
    return true;
}

/* Is all else that the second reads there already where the first stands? */
static bool is_ready(const struct graph *graph, int first_id, const struct node *second, int in) {
    for (int i = 0; i < second->in_count; i++)
        if (i != in && graph->values[second->in[i]].producer >= first_id) return false;
    return true;
}

/* Into the node that makes input `in`. */
static bool merge_back(struct graph *graph, int second_id, int in) {
    const struct node *second = &graph->nodes[second_id];
    int value = second->in[in], first_id = graph->values[value].producer;
    if (first_id < 0 || graph->nodes[first_id].out[0] != value) return false;
    const struct fusion *fusion = fusion_of(&graph->nodes[first_id], second);
    return fusion && edit_consumers(graph, value) == 1 && is_ready(graph, first_id, second, in) &&
           merge(graph, first_id, second_id, fusion);
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
    for (int i = 0; i < graph->node_count; i++)
        for (int in = 0; in < graph->nodes[i].in_count && !dead[i]; in++)
            dead[i] = merge_back(graph, i, in);
    edit_remove(graph, dead);
    join_losses(graph);
    free(dead);
}
