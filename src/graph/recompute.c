/* See recompute.h. From the end to the beginning: what backward reads is needed, and so is what a
 * node reads that makes something needed. What is only sent on, counted or added to running
 * statistics is not made a second time.
 *
 * Rejected: all forward nodes of the stage. The last layer of a stage, often its largest, would run
 * again for an output that the next stage has already. */
#include "graph/recompute.h"

#include <stdlib.h>

static void need_inputs(const struct graph *graph, const struct node *node, bool *needed) {
    for (int i = 0; i < node->in_count; i++) needed[graph->values[node->in[i]].root] = true;
}

static bool makes_needed(const struct graph *graph, const struct node *node, const bool *needed) {
    for (int k = 0; k < node->out_count; k++)
        if (needed[graph->values[node->out[k]].root]) return true;
    return false;
}

/* The bytes of a view are another node's. */
static void visit(const struct graph *graph, int n, bool *needed, struct recompute *out) {
    const struct node *node = &graph->nodes[n];
    unsigned flags = op_def(node->op)->flags;
    if (flags & OP_VIEW || !makes_needed(graph, node, needed)) return;
    out->again[n] = !(flags & (OP_SIDE_EFFECT | OP_EXCHANGE));
    if (out->again[n]) need_inputs(graph, node, needed);
    for (int k = 0; k < node->out_count; k++) out->held[node->out[k]] = !out->again[n];
}

struct recompute recompute_of(const struct ranges *ranges, int stage) {
    const struct graph *graph = ranges->graph;
    struct node_range forward = ranges_find(ranges, stage, SEGMENT_ALL, PHASE_FORWARD),
                      backward = ranges_find(ranges, stage, SEGMENT_ALL, PHASE_BACKWARD);
    struct recompute recompute = {.again = MEM_ARRAY(bool, graph->node_count + 1),
                                  .held = MEM_ARRAY(bool, graph->value_count + 1)};
    bool *needed = MEM_ARRAY(bool, graph->value_count + 1);
    for (int n = backward.begin; n < backward.end; n++)
        need_inputs(graph, &graph->nodes[n], needed);
    for (int n = forward.end - 1; n >= forward.begin; n--) visit(graph, n, needed, &recompute);
    free(needed);
    return recompute;
}

void recompute_free(struct recompute *recompute) {
    free(recompute->again);
    free(recompute->held);
    *recompute = (struct recompute){0};
}
