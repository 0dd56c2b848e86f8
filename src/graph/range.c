/* See range.h.
 *
 * That backward stands in reverse order of units follows from how graph_gradient walks; that no
 * value goes against the order of the stages, from what graph_lower lets units share. Programs rest
 * on both, so they are checked here, on every graph that is cut, and a graph that breaks them is
 * not run. Rejected: a stage as a list of nodes, which needs no order, but every reader of a
 * program would have to carry the list. */
#include "graph/range.h"

#include <stdlib.h>

#include "base/log.h"

int graph_unit_count(const struct graph *graph) {
    return graph->forward_count ? graph->nodes[graph->forward_count - 1].unit + 1 : 0;
}

int ranges_stage(const struct ranges *ranges, const struct node *node) {
    return ranges->stage_of[node->unit];
}

int ranges_output_stage(const struct ranges *ranges) {
    const struct graph *graph = ranges->graph;
    return ranges_stage(ranges, &graph->nodes[graph->values[graph->output].producer]);
}

/* --- what programs rest on --- */

static void check_order(const struct graph *graph) {
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n], *before = node - 1;
        bool forward = n < graph->forward_count, first = n == 0 || n == graph->forward_count;
        CHECK(forward == (node->phase == PHASE_FORWARD), "node %d (%s) stands in the other phase",
              n, node->name);
        CHECK(first || (forward ? before->unit <= node->unit : before->unit >= node->unit),
              "node %d (%s) of unit %d stands behind unit %d", n, node->name, node->unit,
              before->unit);
    }
}

/* Forward goes up, input gradients go down; what the weight half makes stays in its stage. */
static void check_read(const struct ranges *ranges, const struct node *reader, int value) {
    const struct graph *graph = ranges->graph;
    const struct value *root = &graph->values[graph->values[value].root];
    if (root->kind != VALUE_LOCAL) return;
    const struct node *maker = &graph->nodes[root->producer];
    int from = ranges_stage(ranges, maker), to = ranges_stage(ranges, reader);
    bool up = maker->phase == PHASE_FORWARD, late = !up && maker->half == OP_HALF_W;
    CHECK(from == to || (up ? from < to : from > to && !late),
          "%s, made by %s in stage %d, is read by %s in stage %d", root->name, maker->name, from,
          reader->name, to);
}

static void check_flow(const struct ranges *ranges) {
    const struct graph *graph = ranges->graph;
    for (int n = 0; n < graph->node_count; n++) {
        for (int i = 0; i < graph->nodes[n].in_count; i++)
            check_read(ranges, &graph->nodes[n], graph->nodes[n].in[i]);
    }
}

/* --- stages and segments --- */

static enum status check_cuts(const struct graph *graph, const int *cuts, int count) {
    int units = graph_unit_count(graph), before = 0;
    for (int i = 0; i < count; i++) {
        if (cuts[i] <= before || cuts[i] >= units)
            return fail(STATUS_USAGE,
                        "a cut at unit %d leaves a stage empty: the one before is at %d, and the "
                        "graph has %d units",
                        cuts[i], before, units);
        before = cuts[i];
    }
    return STATUS_OK;
}

static struct node_range nodes_of(const struct graph *graph, const struct stage_range *stage,
                                  enum phase phase) {
    int begin = phase == PHASE_FORWARD ? 0 : graph->forward_count;
    int end = phase == PHASE_FORWARD ? graph->forward_count : graph->node_count;
    struct node_range nodes = {begin, begin};
    bool found = false;
    for (int n = begin; n < end; n++) {
        int unit = graph->nodes[n].unit;
        if (unit < stage->first_unit || unit >= stage->end_unit) continue;
        if (!found) nodes.begin = n;
        found = true;
        nodes.end = n + 1;
    }
    return nodes;
}

enum status ranges_new(const struct graph *graph, const int *cuts, int cut_count,
                       struct ranges *out) {
    TRY(check_cuts(graph, cuts, cut_count));
    check_order(graph);
    struct ranges ranges = {.graph = graph,
                            .stages = MEM_ARRAY(struct stage_range, cut_count + 1),
                            .stage_count = cut_count + 1,
                            .stage_of = MEM_ARRAY(int, graph_unit_count(graph) + 1)};
    for (int s = 0; s <= cut_count; s++) {
        struct stage_range *stage = &ranges.stages[s];
        stage->first_unit = s ? cuts[s - 1] : 0;
        stage->end_unit = s < cut_count ? cuts[s] : graph_unit_count(graph);
        for (int u = stage->first_unit; u < stage->end_unit; u++) ranges.stage_of[u] = s;
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            stage->phase[phase].nodes = nodes_of(graph, stage, (enum phase)phase);
            ranges_cut_segments(&ranges, s, (enum phase)phase, &stage->phase[phase].nodes.end, 1);
        }
    }
    check_flow(&ranges);
    *out = ranges;
    return STATUS_OK;
}

void ranges_free(struct ranges *ranges) {
    for (int s = 0; s < ranges->stage_count; s++) {
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            free(ranges->stages[s].phase[phase].segment_end);
    }
    free(ranges->stages);
    free(ranges->stage_of);
    *ranges = (struct ranges){0};
}

void ranges_cut_segments(struct ranges *ranges, int stage, enum phase phase, const int *ends,
                         int count) {
    struct phase_range *range = &ranges->stages[stage].phase[phase];
    int before = range->nodes.begin, *copy = MEM_ARRAY(int, count);
    for (int e = 0; e < count; e++) {
        CHECK(ends[e] >= before, "segment %d ends at node %d, before it begins at %d", e, ends[e],
              before);
        copy[e] = before = ends[e];
    }
    CHECK(count > 0 && before == range->nodes.end,
          "the last segment ends at node %d, stage %d at %d", before, stage, range->nodes.end);
    free(range->segment_end);
    range->segment_end = copy;
    range->segment_count = count;
}

struct node_range ranges_find(const struct ranges *ranges, int stage, int segment,
                              enum phase phase) {
    const struct phase_range *range = &ranges->stages[stage].phase[phase];
    if (segment == SEGMENT_ALL) return range->nodes;
    CHECK(segment >= 0 && segment < range->segment_count, "segment %d of %d", segment,
          range->segment_count);
    int begin = segment ? range->segment_end[segment - 1] : range->nodes.begin;
    return (struct node_range){begin, range->segment_end[segment]};
}

struct node_range ranges_of_bucket(const struct ranges *ranges, int stage, int bucket,
                                   enum phase phase) {
    int count = ranges->stages[stage].phase[phase].segment_count;
    bool turned = phase == PHASE_FORWARD && bucket != SEGMENT_ALL;
    return ranges_find(ranges, stage, turned ? count - 1 - bucket : bucket, phase);
}

/* A reorder is of the block that wanted it, and of the unit that shares it. */
int *ranges_unit_blocks(const struct graph *graph) {
    int *blocks = MEM_ARRAY(int, graph_unit_count(graph) + 1), block = 0, unit = -1;
    for (int n = 0; n < graph->forward_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (node->unit == unit || node->op == OP_REORDER) continue;
        for (unit++; unit < node->unit; unit++) blocks[unit] = block;
        if (node->block > block) block = node->block;
        blocks[unit] = block;
    }
    return blocks;
}

/* --- crossing a cut --- */

/* Forward: made up to the cut and read behind it, by forward or backward. Backward: the reverse,
 * among backward nodes. */
static bool crosses(const struct ranges *ranges, const struct node *maker,
                    const struct node *reader, int cut) {
    int from = ranges_stage(ranges, maker), to = ranges_stage(ranges, reader);
    return maker->phase == PHASE_FORWARD ? from <= cut && to > cut : from > cut && to <= cut;
}

struct crossing ranges_crossing(const struct ranges *ranges, int cut, enum phase phase) {
    const struct graph *graph = ranges->graph;
    SCOPED_FREE bool *marked = MEM_ARRAY(bool, graph->value_count + 1);
    for (int n = 0; n < graph->node_count; n++) {
        for (int i = 0; i < graph->nodes[n].in_count; i++) {
            int root = graph->values[graph->nodes[n].in[i]].root;
            if (graph->values[root].kind != VALUE_LOCAL) continue;
            const struct node *maker = &graph->nodes[graph->values[root].producer];
            if (maker->phase == phase && crosses(ranges, maker, &graph->nodes[n], cut))
                marked[root] = true;
        }
    }
    struct crossing crossing = {.values = MEM_ARRAY(int, graph->value_count + 1)};
    for (int n = 0; n < graph->node_count; n++) {
        for (int k = 0; k < graph->nodes[n].out_count; k++) {
            int value = graph->nodes[n].out[k];
            if (!marked[value]) continue;
            crossing.values[crossing.count++] = value;
            crossing.bytes += graph->values[value].layout->bytes;
        }
    }
    return crossing;
}
