/* Arithmetic of all nodes of a phase, for tests of what parts of a graph cost. */
#ifndef TESTS_GRAPH_FLOPS_H
#define TESTS_GRAPH_FLOPS_H

#include "graph/graph.h"

static inline double graph_flops(const struct graph *graph, enum phase phase) {
    double flops = 0;
    for (int i = 0; i < graph->node_count; i++) {
        struct op_call call = graph_call(graph, &graph->nodes[i]);
        if (graph->nodes[i].phase == phase) flops += op_cost(&call).flops;
    }
    return flops;
}

#endif
