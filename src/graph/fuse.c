/* Fusion: one kernel for what would be several passes over memory.
 *
 * Each operation says which activations, and which other operation, it can do the work of
 * (op_def.fuses). Where such a second operation is the only reader of the first's output, the pair
 * becomes one node. All fusions are of pairs, so one loop serves them (batch norm, sum and relu are
 * two); a fused operation's gradient rule is its own. The gradient of relu and tanh is made from
 * the output. gelu's and silu's need the input, so a linear layer in training makes both. In bf16
 * that pair stays two: the function is applied to what was rounded. */

#include "graph/edit.h"
#include "graph/freeze.h"

/* What the two are together, and the activation of that. False where they are not fused. */
static bool fusion_of(const struct node *first, const struct node *second, enum op *fused,
                      enum activation *activation) {
    const struct op_fusion *fuses = &op_def(first->op)->fuses;
    const struct op_function *function = op_def(second->op)->function;
    if (first->attrs.activation != ACTIVATION_NONE || second->attrs.activation != ACTIVATION_NONE)
        return false;
    bool activates = function && second->op != function->backward;
    *activation = activates ? function->activation : ACTIVATION_NONE;
    *fused = activates ? first->op : fuses->becomes;
    return activates ? fuses->activations >> *activation & 1
                     : fuses->becomes && fuses->with == second->op;
}

/* The node that does the work of both: it reads what both read beyond the value between them. False
 * where they are not fused, or where the fused operation does not take that (batch norm adds one
 * residual, of x's shape). */
static bool fused_node(const struct graph *graph, const struct node *first,
                       const struct node *second, struct node *out, struct op_call *call) {
    char why[256];
    enum op fused;
    enum activation activation;
    *out = *first;
    if (!fusion_of(first, second, &fused, &activation)) return false;
    if (first->in_count + second->in_count - 1 > OP_MAX_IN) return false;
    if (fused != first->op) out->attrs = second->attrs;
    for (int i = 0; i < second->in_count; i++)
        if (second->in[i] != first->out[0]) out->in[out->in_count++] = second->in[i];
    out->op = fused;
    out->attrs.activation = activation;
    bool saves = activation_needs_input(activation);
    if (saves && dtype_is_narrow(graph->dtype)) return false;
    out->attrs.saves = saves && graph->training && !freeze_holds(graph, first->block);
    *call = graph_call(graph, out);
    return op_infer(call, why, sizeof why) == STATUS_OK;
}

/* It stands where the first one stood and makes the second one's output first. Outputs the fused
 * operation has beyond that (a mask, say) become new values. */
static bool merge(struct graph *graph, int first_id, int second_id) {
    const struct node *second = &graph->nodes[second_id];
    struct node fused;
    struct op_call call;
    if (!fused_node(graph, &graph->nodes[first_id], second, &fused, &call)) return false;
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
    return edit_consumers(graph, value) == 1 && is_ready(graph, first_id, second, in) &&
           merge(graph, first_id, second_id);
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
    SCOPED_FREE bool *dead = MEM_ARRAY(bool, graph->node_count);
    for (int i = 0; i < graph->node_count; i++)
        for (int in = 0; in < graph->nodes[i].in_count && !dead[i]; in++)
            dead[i] = merge_back(graph, i, in);
    edit_remove(graph, dead);
    join_losses(graph);
}
