/* See explain_freeze.h. */
#include "view/explain_freeze.h"

#include "base/mem.h"
#include "base/text.h"
#include "graph/freeze.h"
#include "view/explain.h"

/* Batch norms that take the running statistics in training. */
static bool has_batch_norm(const struct graph *graph) {
    for (int n = 0; n < graph->forward_count; n++)
        if (graph->nodes[n].op == OP_BATCH_NORM_EVAL) return true;
    return false;
}

/* "blocks 1 to 2 of 4, with the layers before them". */
static void blocks_text(const struct graph *graph, char *text, size_t room) {
    int frozen = graph->frozen, all = freeze_blocks(graph);
    const char *stem = graph->stem ? ", with the layers before them" : "";
    if (frozen == all)
        snprintf(text, room, "all %d blocks%s, so the head alone is trained", all, stem);
    else
        snprintf(text, room, "the first %d of %d blocks%s", frozen, all, stem);
}

static const char *tied_name(const struct graph *graph) {
    int tied = freeze_tied(graph);
    return tied < 0 ? NULL : graph->params[tied].name;
}

void explain_freeze_print(const struct plan *plan, FILE *out) {
    const struct graph *graph = plan->micro[0].graph;
    const char *tied = tied_name(graph);
    int stages = plan->program->frozen;
    char blocks[160], trained[TEXT_BYTES], all[TEXT_BYTES], count[TEXT_BYTES], share[96] = "";
    if (graph->frozen == 0) return;
    blocks_text(graph, blocks, sizeof blocks);
    if (stages > 0)
        snprintf(share, sizeof share, " (%s %s no other)", text_count(stages, "stage", count),
                 stages == 1 ? "has" : "have");
    text_row(out, "frozen", EXPLAIN_NAME_COLUMNS,
             "%s; %s of %s parameters are trained. Frozen blocks%s run forward only, as in an "
             "evaluation: no dropout%s",
             blocks, text_thousands(freeze_trained_elements(graph), trained),
             text_thousands(graph_param_elements(graph), all), share,
             has_batch_norm(graph) ? ", batch norm with the running statistics" : "");
    if (tied)
        text_row(out, "", EXPLAIN_NAME_COLUMNS,
                 "%s is used in blocks that are trained, too: it is frozen there as well (--untie "
                 "gives the head weights of its own)",
                 tied);
}

json_t *explain_freeze_json(const struct plan *plan) {
    const struct graph *graph = plan->micro[0].graph;
    if (graph->frozen == 0) return NULL;
    return json_pack("{s:i, s:i, s:i, s:I, s:s?}", "blocks", graph->frozen, "of",
                     freeze_blocks(graph), "stages", plan->program->frozen, "trained_params",
                     (json_int_t)freeze_trained_elements(graph), "tied", tied_name(graph));
}
