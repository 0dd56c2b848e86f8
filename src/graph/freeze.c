/* See freeze.h. */
#include "graph/freeze.h"

#include "base/log.h"
#include "base/text.h"

int freeze_blocks(const struct graph *graph) {
    return graph->block - graph->stem;
}

enum status freeze_check(const struct graph *graph, const char *name) {
    int most = freeze_blocks(graph);
    char blocks[TEXT_BYTES];
    if (graph->frozen <= most) return STATUS_OK;
    if (most <= 0)
        return fail(STATUS_USAGE,
                    "--freeze %d: model %s has no blocks beside its head, which is trained\n"
                    "  a model of a program's own names them by stretto_next_block",
                    graph->frozen, name);
    return fail(STATUS_USAGE,
                "--freeze %d: model %s has %s beside its head, which is trained\n"
                "  --freeze %d freezes all of them",
                graph->frozen, name, text_count(most, "block", blocks), most);
}

int freeze_stages(const struct ranges *ranges) {
    int stage = 0;
    if (ranges->graph->frozen == 0 || !ranges->graph->training) return 0;
    for (; stage < ranges->stage_count; stage++) {
        struct node_range nodes = ranges_find(ranges, stage, SEGMENT_ALL, PHASE_BACKWARD);
        if (nodes.begin < nodes.end) break;
    }
    CHECK(stage < ranges->stage_count, "no stage has a gradient");
    return stage;
}

int64_t freeze_trained_elements(const struct graph *graph) {
    int64_t elements = 0;
    for (int p = 0; p < graph->param_count; p++)
        if (!graph->params[p].frozen)
            elements += shape_count(&graph->values[graph->params[p].value].type.shape);
    return elements;
}

int freeze_tied(const struct graph *graph) {
    for (int n = 0; graph->frozen && n < graph->forward_count; n++) {
        const struct node *node = &graph->nodes[n];
        for (int i = 0; i < node->in_count && !freeze_holds(graph, node->block); i++) {
            const struct value *root = &graph->values[graph->values[node->in[i]].root];
            bool frozen = root->kind == VALUE_PARAM && graph->params[root->index].frozen;
            if (frozen) return root->index;
        }
    }
    return -1;
}
