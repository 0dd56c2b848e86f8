/* Frozen blocks of every family of models: which blocks there are, and what of their training is
 * left. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "graph/freeze.h"
#include "graph/recompute.h"
#include "kit.h"

static struct graph *build(const char *name, int frozen, float dropout) {
    struct model_config config = {.batch = 4,
                                  .training = true,
                                  .channels = 3,
                                  .height = 16,
                                  .classes = 10,
                                  .sequence = 16,
                                  .predictions = 3,
                                  .vocabulary = 60,
                                  .dropout = dropout,
                                  .frozen = frozen};
    struct graph *graph = NULL;
    cr_assert_eq(model_build(model_find(name), &config, &graph), STATUS_OK, "%s", name);
    return graph;
}

static const struct {
    const char *name;
    int blocks;
    const char *last, *next; /* parameters of the first block, and of the second or the head */
    const char *tied;
} models[] = {{"mlp", 2, "fc1.bias", "fc2.weight", NULL},
              {"lenet", 2, "conv1.bias", "conv2.weight", NULL},
              {"resnet8", 3, "layer1.0.bn2.weight", "layer2.0.conv1.weight", NULL},
              {"resnet20", 9, "layer1.0.bn2.weight", "layer1.1.conv1.weight", NULL},
              {"resnet50", 16, "layer1.0.downsample.1.weight", "layer1.1.conv1.weight", NULL},
              {"pyramidnet", 0, "layer1.0.bn3.weight", "layer1.1.bn1.weight", NULL},
              {"vit-tiny", 12, "blocks.0.mlp.fc2.bias", "blocks.1.norm1.weight", NULL},
              {"bert-tiny", 2, "bert.encoder.layer.0.output.LayerNorm.bias",
               "bert.encoder.layer.1.attention.self.query.weight",
               "bert.embeddings.word_embeddings.weight"},
              {"gpt2-nano", 4, "transformer.h.0.mlp.c_proj.bias", "transformer.h.1.ln_1.weight",
               "transformer.wte.weight"}};
enum { MODELS = sizeof models / sizeof *models };

static const struct param *param_of(struct graph *graph, const char *name) {
    int value = graph_param_find(graph, name);
    cr_assert_neq(value, NO_VALUE, "%s", name);
    return &graph->params[graph->values[value].index];
}

/* The stem, and all up to the block; not what stands behind it. */
Test(graph_freeze, the_first_block_takes_the_stem_along) {
    for (int m = 0; m < MODELS; m++) {
        struct graph *graph = build(models[m].name, 1, -1);
        if (models[m].blocks) cr_expect_eq(freeze_blocks(graph), models[m].blocks);
        cr_expect(graph->params[0].frozen, "%s", models[m].name);
        cr_expect(param_of(graph, models[m].last)->frozen, "%s", models[m].name);
        cr_expect(!param_of(graph, models[m].next)->frozen, "%s", models[m].name);
        cr_expect(!graph->params[graph->param_count - 1].frozen, "%s", models[m].name);
        int tied = freeze_tied(graph);
        const char *name = tied < 0 ? NULL : graph->params[tied].name;
        cr_expect(models[m].tied ? name && strcmp(name, models[m].tied) == 0 : !name, "%s: %s",
                  models[m].name, name ? name : "none");
        graph_free(&graph);
    }
}

/* Backward ends at the boundary, whatever is fused there; the head always trains. */
Test(graph_freeze, what_is_frozen_has_no_backward) {
    for (int m = 0; m < MODELS; m++) {
        int all = models[m].blocks ? models[m].blocks : 1;
        for (int frozen = 1; frozen <= all; frozen += all > 1 ? all - 1 : 1) {
            struct graph *graph = build(models[m].name, frozen, 0.1f);
            int64_t trained = 0;
            graph_fuse(graph);
            cr_assert_eq(graph_gradient(graph), STATUS_OK);
            cr_expect_gt(graph->node_count, graph->forward_count);
            for (int n = graph->forward_count; n < graph->node_count; n++)
                cr_expect(!freeze_holds(graph, graph->nodes[n].block), "%s: %s", models[m].name,
                          graph->nodes[n].name);
            for (int p = 0; p < graph->param_count; p++) {
                const struct param *param = &graph->params[p];
                cr_expect_eq(param->frozen, param->use_count == 0, "%s", param->name);
                if (!param->frozen) trained += shape_count(&graph->values[param->value].type.shape);
            }
            cr_expect_eq(trained, freeze_trained_elements(graph));
            graph_free(&graph);
        }
    }
}

static bool draws(const struct node *node) {
    return node->op == OP_DROPOUT ||
           (node->op == OP_ATTENTION && node->attrs.attention.dropout > 0);
}

static uint32_t place_of(const struct node *node) {
    return node->op == OP_DROPOUT ? node->attrs.dropout.place : node->attrs.attention.place;
}

static const struct node *node_of(const struct graph *graph, const char *name, enum op op) {
    for (int n = 0; n < graph->forward_count; n++)
        if (graph->nodes[n].op == op && strcmp(graph->nodes[n].name, name) == 0)
            return &graph->nodes[n];
    return NULL;
}

/* Dropout is off in frozen blocks, and its masks elsewhere are those of a run that freezes nothing.
 */
Test(graph_freeze, dropouts_keep_their_places) {
    static const char *const names[] = {"mlp", "vit-tiny", "bert-tiny", "gpt2-nano"};
    for (size_t m = 0; m < sizeof names / sizeof *names; m++) {
        struct graph *whole = build(names[m], 0, 0.1f), *part = build(names[m], 1, 0.1f);
        int kept = 0, off = 0;
        for (int n = 0; n < whole->forward_count; n++) {
            const struct node *node = &whole->nodes[n], *like;
            if (!draws(node)) continue;
            like = node_of(part, node->name, node->op);
            bool frozen = freeze_holds(part, node->block);
            cr_expect_eq(!like || !draws(like), frozen, "%s: %s", names[m], node->name);
            if (!frozen) cr_expect_eq(place_of(node), place_of(like), "%s", node->name);
            *(frozen ? &off : &kept) += 1;
        }
        cr_expect(kept > 0 && off > 0, "%s: %d and %d", names[m], kept, off);
        graph_free(&whole);
        graph_free(&part);
    }
}

/* Running statistics are read, and moved by no node. */
Test(graph_freeze, batch_norm_is_that_of_an_evaluation) {
    struct graph *graph = build("resnet8", 3, -1);
    int eval = 0;
    for (int n = 0; n < graph->forward_count; n++) {
        const struct node *node = &graph->nodes[n];
        eval += node->op == OP_BATCH_NORM_EVAL;
        cr_expect_neq(node->op, OP_BATCH_NORM, "%s", node->name);
        cr_expect_neq(node->op, OP_BATCH_NORM_TRACK, "%s", node->name);
    }
    cr_expect_gt(eval, 6);
    graph_free(&graph);
    graph = build("resnet8", 1, -1);
    cr_expect(node_of(graph, "layer1.0.bn2", OP_BATCH_NORM_EVAL));
    cr_expect(node_of(graph, "layer2.0.bn1", OP_BATCH_NORM));
    graph_free(&graph);
}

/* What frozen blocks made for the others is kept, and they do not run a second time. */
Test(graph_freeze, nothing_frozen_runs_again, .init = kit_open_devices, .fini = kit_close_devices) {
    for (int frozen = 0; frozen < 2; frozen++) {
        struct graph *graph = build("vit-tiny", frozen * 6, -1);
        struct ranges ranges;
        int again = 0, held = 0;
        kit_compile(graph, ref, NULL);
        cr_assert_eq(ranges_new(graph, NULL, 0, &ranges), STATUS_OK);
        struct recompute recompute = graph_recompute_of(&ranges, 0, false);
        for (int n = 0; n < graph->forward_count; n++)
            again += recompute.again[n] && freeze_holds(graph, graph->nodes[n].block);
        for (int v = 0; v < graph->value_count; v++) held += recompute.held[v];
        cr_expect_eq(again, 0);
        cr_expect_eq(held, frozen, "one tensor goes from the frozen blocks to the others");
        graph_recompute_free(&recompute);
        ranges_free(&ranges);
        graph_free(&graph);
    }
}

Test(graph_freeze, no_more_than_the_model_has) {
    char log[512] = "";
    struct graph *graph = build("vit-tiny", 13, -1);
    log_capture(log, sizeof log);
    cr_expect_eq(freeze_check(graph, "vit-tiny"), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "--freeze 13: model vit-tiny has 12 blocks beside its head"), "%s", log);
    graph_free(&graph);
    graph = build("vit-tiny", 12, -1);
    cr_expect_eq(freeze_check(graph, "vit-tiny"), STATUS_OK);
    graph_free(&graph);
}
