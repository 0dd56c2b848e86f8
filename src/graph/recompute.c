/* See recompute.h. From the end to the beginning: what backward reads is needed, and so is what a
 * node reads that makes something needed. What is only sent on, counted or added to running
 * statistics is not made a second time. By blocks each segment is such a part of its own: what it
 * needs and does not make itself is there, received or held.
 *
 * Rejected: all forward nodes of the stage. The last layer of a stage, often its largest, would run
 * again for an output that the next stage has already. */
#include "graph/recompute.h"

#include <stdlib.h>

#include "graph/freeze.h"

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
    bool once = flags & (OP_SIDE_EFFECT | OP_EXCHANGE) || freeze_holds(graph, node->block);
    out->again[n] = !once;
    if (out->again[n]) need_inputs(graph, node, needed);
    for (int k = 0; k < node->out_count && !out->again[n]; k++) out->held[node->out[k]] = true;
}

/* What another segment of the stage makes. */
static void hold_needed(const struct graph *graph, struct node_range stage, struct node_range own,
                        const bool *needed, struct recompute *out) {
    for (int v = 0; v < graph->value_count; v++) {
        int maker = graph->values[v].producer;
        bool here = maker >= stage.begin && maker < stage.end;
        if (needed[v] && here && (maker < own.begin || maker >= own.end)) out->held[v] = true;
    }
}

/* One segment of backward (SEGMENT_ALL: all), with the forward it is of. */
static void add_part(const struct ranges *ranges, int stage, int segment, struct recompute *out) {
    const struct graph *graph = ranges->graph;
    struct node_range all = ranges_find(ranges, stage, SEGMENT_ALL, PHASE_FORWARD),
                      forward = ranges_of_bucket(ranges, stage, segment, PHASE_FORWARD),
                      backward = ranges_of_bucket(ranges, stage, segment, PHASE_BACKWARD);
    SCOPED_FREE bool *needed = MEM_ARRAY(bool, graph->value_count + 1);
    for (int n = backward.begin; n < backward.end; n++)
        need_inputs(graph, &graph->nodes[n], needed);
    for (int n = forward.end - 1; n >= forward.begin; n--) visit(graph, n, needed, out);
    hold_needed(graph, all, forward, needed, out);
}

struct recompute graph_recompute_of(const struct ranges *ranges, int stage, bool blocks) {
    const struct graph *graph = ranges->graph;
    int segments = blocks ? ranges->stages[stage].phase[PHASE_BACKWARD].segment_count : 1;
    struct recompute recompute = {.again = MEM_ARRAY(bool, graph->node_count + 1),
                                  .held = MEM_ARRAY(bool, graph->value_count + 1)};
    for (int e = 0; e < segments; e++)
        add_part(ranges, stage, blocks ? e : SEGMENT_ALL, &recompute);
    return recompute;
}

void graph_recompute_free(struct recompute *recompute) {
    free(recompute->again);
    free(recompute->held);
    *recompute = (struct recompute){0};
}
