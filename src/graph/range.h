/* Node ranges of a lowered graph by stage, segment and phase: the nodes that one F, B, I or W runs.
 *
 * The unit of a cut is a fused forward node (struct node: unit). Its backward nodes, and the
 * reorders made for either, belong to it. Forward nodes stand in ascending order of units and
 * backward nodes in descending order. So a run of units, a stage, is contiguous in both phases, and
 * a stage is two ranges of the node list:
 *
 *     stages              0 | 1 | 2
 *     nodes     forward   0 | 1 | 2     backward   2 | 1 | 0
 *
 * A segment is a further cut of one phase of one stage, at any node: backward is cut where a bucket
 * of gradients is whole, forward where parameters are gathered or freed. Segments may be empty. */
#ifndef GRAPH_RANGE_H
#define GRAPH_RANGE_H

#include "graph/graph.h"

enum { SEGMENT_ALL = -1 };

/* Nodes [begin, end). */
struct node_range {
    int begin, end;
};

/* One phase of one stage. */
struct phase_range {
    struct node_range nodes;
    int *segment_end; /* per segment: never decreasing, the last one is nodes.end */
    int segment_count;
};

struct stage_range {
    int first_unit, end_unit;
    struct phase_range phase[PHASE_COUNT];
};

struct ranges {
    const struct graph *graph;
    struct stage_range *stages;
    int stage_count;
    int *stage_of; /* per unit */
};

/* Local. Cuts of a graph have units between 1 and this minus 1. */
int graph_unit_count(const struct graph *graph);

/* Local. Cuts a lowered graph into cut_count + 1 stages: stage s + 1 begins with unit cuts[s]. Each
 * phase of a stage is one segment. STATUS_USAGE where a stage would be empty. The caller frees the
 * result with ranges_free, and keeps the graph. */
enum status ranges_new(const struct graph *graph, const int *cuts, int cut_count,
                       struct ranges *out);
void ranges_free(struct ranges *ranges);

/* Local. Cuts one phase of a stage into segments, in place of those it has: segment e ends before
 * node ends[e]. `ends` is copied. */
void ranges_cut_segments(struct ranges *ranges, int stage, enum phase phase, const int *ends,
                         int count);

/* Local. The nodes of a segment, or of all of them (SEGMENT_ALL). */
struct node_range ranges_find(const struct ranges *ranges, int stage, int segment,
                              enum phase phase);

/* Local. The same of the segment that belongs to a bucket: backward has the first bucket first,
 * forward the last one. */
struct node_range ranges_of_bucket(const struct ranges *ranges, int stage, int bucket,
                                   enum phase phase);

/* Local. Per unit of the graph: the layer block that it is in, never decreasing. The caller frees
 * it. */
int *ranges_unit_blocks(const struct graph *graph);

/* Local. The stage of a node; of the one that makes the graph's output. */
int ranges_stage(const struct ranges *ranges, const struct node *node);
int ranges_output_stage(const struct ranges *ranges);

/* The tensors that cross the cut between stages `cut` and `cut` + 1: forward from the first to the
 * second, backward from the second to the first. Those that only pass through a stage, on their way
 * to a later one, cross its cuts too. Inputs, parameters and buffers never cross: a stage has its
 * own. */
struct crossing {
    int *values; /* roots, in the order they are made */
    int count;
    size_t bytes; /* of all */
};

/* Local. The caller frees `values`. */
struct crossing ranges_crossing(const struct ranges *ranges, int cut, enum phase phase);

#endif
