/* Every model through every pass on every backend; dropout and evaluation; sizes that do not fit.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "graph/build.h"
#include "model/model.h"

static enum status passes(const struct model *model, const struct model_config *config,
                          struct device *device) {
    struct graph *graph = NULL;
    TRY(model_build(model, config, &graph));
    graph_fuse(graph);
    enum status status = config->training ? graph_gradient(graph) : STATUS_OK;
    if (status == STATUS_OK) status = graph_lower(graph, device, NULL);
    for (int i = 0; config->training && i < graph->param_count; i++) {
        int tied = strcmp(graph->params[i].name, "bert.embeddings.word_embeddings.weight") == 0 ||
                   strcmp(graph->params[i].name, "transformer.wte.weight") == 0;
        cr_expect_eq(graph->params[i].use_count, 1 + tied, "%s", graph->params[i].name);
    }
    graph_free(&graph);
    return status;
}

static void lower_all(const char *backend) {
    int count;
    const struct model *models = model_all(&count);
    if (!backend_find(backend)) cr_skip_test("no backend %s in this build", backend);
    for (int i = 0; i < count; i++) {
        for (int training = 0; training <= 1; training++) {
            struct device *device = NULL;
            struct model_config config = {.batch = 2, .training = training, .dropout = -1};
            cr_assert_eq(device_open(backend, 0, 1, &device), STATUS_OK);
            cr_expect_eq(passes(&models[i], &config, device), STATUS_OK, "%s on %s, training %d",
                         models[i].name, backend, training);
            device_close(&device);
        }
    }
}

Test(model_build, lowers_on_ref) {
    lower_all("ref");
}

Test(model_build, lowers_on_cpu) {
    lower_all("cpu");
}

static struct graph *build(const char *name, bool training, float dropout) {
    struct model_config config = {.batch = 2, .training = training, .dropout = dropout};
    struct graph *graph = NULL;
    cr_assert_eq(model_build(model_find(name), &config, &graph), STATUS_OK, "%s", name);
    return graph;
}

static int places(const char *name, bool training, float dropout) {
    struct graph *graph = build(name, training, dropout);
    int found = 0;
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        found += node->op == OP_DROPOUT;
        found += node->op == OP_ATTENTION && node->attrs.attention.dropout > 0;
    }
    graph_free(&graph);
    return found;
}

Test(model_build, every_model_honours_dropout) {
    int count;
    const struct model *models = model_all(&count);
    for (int i = 0; i < count; i++) {
        int own = models[i].input & MODEL_IMAGES ? 0 : 1 + 3 * models[i].depth;
        cr_expect_eq(places(models[i].name, true, -1), own, "%s", models[i].name);
        cr_expect_eq(places(models[i].name, true, 0), 0, "%s", models[i].name);
        cr_expect_gt(places(models[i].name, true, 0.5f), 0, "%s", models[i].name);
        cr_expect_eq(places(models[i].name, false, 0.5f), 0, "%s", models[i].name);
    }
}

static int count_ops(const struct graph *graph, enum op op) {
    int count = 0;
    for (int i = 0; i < graph->node_count; i++) count += graph->nodes[i].op == op;
    return count;
}

/* A block's shortcut is made ahead of its last norm, so that the norm adds it. */
Test(model_build, batch_norms_add_the_residuals) {
    static const char *const names[] = {"resnet20", "resnet50", "pyramidnet"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int training = 0; training <= 1; training++) {
            struct graph *graph = build(names[i], training, -1);
            cr_expect_gt(count_ops(graph, OP_ADD), 8, "%s", names[i]);
            graph_fuse(graph);
            cr_expect_eq(count_ops(graph, OP_ADD), 0, "%s, training %d", names[i], training);
            graph_free(&graph);
        }
}

Test(model_build, inputs_and_losses) {
    static const char *const tokens[] = {"input_ids",        "segment_ids",   "input_mask",
                                         "masked_positions", "masked_labels", "next_sentence"};
    struct graph *bert = build("bert-tiny", false, 0);
    cr_assert_eq(bert->input_count, 6);
    for (int i = 0; i < 6; i++) cr_expect_neq(graph_input_find(bert, tokens[i]), NO_VALUE);
    cr_assert_eq(bert->loss_count, 2);
    cr_assert_str_eq(bert->losses[0].label, "masked_labels");
    cr_assert_str_eq(bert->losses[1].label, "next_sentence");
    cr_assert(bert->losses[0].top_k != NO_VALUE && bert->losses[1].top_k == NO_VALUE);
    graph_free(&bert);
    struct graph *lenet = build("lenet", false, 0);
    cr_assert_eq(lenet->input_count, 2);
    cr_assert_eq(lenet->loss_count, 1);
    cr_assert_str_eq(lenet->losses[0].label, "label");
    cr_assert(lenet->losses[0].top_k != NO_VALUE);
    graph_free(&lenet);
}

static const struct {
    const char *model;
    struct model_config config;
    const char *words[3]; /* the message names them */
} misfits[] = {
    {"lenet", {.height = 8, .width = 8}, {"lenet", "8x8", "12x12"}},
    {"lenet", {.height = 28, .width = 11}, {"lenet", "28x11", "12x12"}},
    {"vit-micro", {.height = 30, .width = 30}, {"vit-micro", "30x30", "8x8"}},
    {"vit-micro", {.height = 2, .width = 9, .patch = 2}, {"vit-micro", "2x9", "--patch"}},
    {"vit-tiny", {.height = 8, .width = 8, .patch = 16}, {"vit-tiny", "8x8", "16x16"}},
    {"vit-tiny", {.height = 32, .width = 32, .patch = 5}, {"vit-tiny", "32x32", "5x5"}},
    {"pyramidnet", {.height = 32, .width = 30}, {"pyramidnet", "32x30", "multiple of 4"}},
    {"gpt2", {.sequence = 1025}, {"gpt2", "1025", "1024"}},
    {"bert-tiny", {.sequence = 513}, {"bert-tiny", "513", "512"}},
};

Test(model_build, misfits_are_explained) {
    for (size_t i = 0; i < sizeof misfits / sizeof misfits[0]; i++) {
        char text[1024] = "";
        struct model_config config = misfits[i].config;
        struct graph *graph = NULL;
        config.batch = 2;
        log_capture(text, sizeof text);
        enum status status = model_build(model_find(misfits[i].model), &config, &graph);
        log_capture(NULL, 0);
        cr_expect_eq(status, STATUS_USAGE, "%s", misfits[i].model);
        cr_expect_null(graph);
        for (int w = 0; w < 3; w++)
            cr_expect(strstr(text, misfits[i].words[w]), "no \"%s\" in: %s", misfits[i].words[w],
                      text);
        int lines = 0;
        for (const char *c = text; *c; c++) lines += *c == '\n';
        cr_expect(lines <= 3, "%d lines: %s", lines, text);
    }
}

/* The smallest sizes that do fit. */
Test(model_build, smallest_images) {
    static const struct {
        const char *model;
        int64_t height, width;
    } cases[] = {
        {"mlp", 1, 1},      {"lenet", 12, 12},    {"resnet8", 1, 1},   {"resnet18-cifar", 3, 5},
        {"resnet50", 1, 7}, {"pyramidnet", 4, 8}, {"vit-micro", 4, 8}, {"vit-tiny", 1, 48}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct graph *graph = NULL;
        struct model_config config = {
            .batch = 2, .training = true, .height = cases[i].height, .width = cases[i].width};
        cr_expect_eq(model_build(model_find(cases[i].model), &config, &graph), STATUS_OK, "%s",
                     cases[i].model);
        graph_free(&graph);
    }
}

/* Small images have small patches, not a handful of large ones. */
Test(model_build, usual_patches) {
    static const struct {
        int64_t height, width, patch;
    } cases[] = {{224, 224, 16}, {384, 384, 16}, {128, 128, 16}, {96, 96, 12},
                 {64, 64, 8},    {32, 32, 4},    {28, 28, 4},    {30, 30, 3},
                 {8, 8, 1},      {5, 5, 1},      {224, 32, 4},   {37, 37, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct graph *graph = NULL;
        struct model_config config = {
            .batch = 1, .height = cases[i].height, .width = cases[i].width};
        cr_assert_eq(model_build(model_find("vit-tiny"), &config, &graph), STATUS_OK);
        int kernel = graph_param_find(graph, "patch_embed.proj.weight");
        cr_expect_eq(graph->values[kernel].type.shape.dim[2], cases[i].patch, "%d x %d",
                     (int)cases[i].height, (int)cases[i].width);
        graph_free(&graph);
    }
}

/* 1e-6 in timm's vision transformers, unless another is asked for. */
Test(model_build, epsilon_of_layer_norms) {
    for (int asked = 0; asked < 2; asked++) {
        struct graph *graph = NULL;
        struct model_config config = {.batch = 1, .layer_norm_epsilon = asked ? 1e-12f : 0};
        int norms = 0;
        cr_assert_eq(model_build(model_find("vit-tiny"), &config, &graph), STATUS_OK);
        for (int i = 0; i < graph->node_count; i++) {
            if (graph->nodes[i].op != OP_LAYER_NORM) continue;
            cr_expect_eq(graph->nodes[i].attrs.norm.epsilon, asked ? 1e-12f : 1e-6f);
            norms++;
        }
        cr_expect_eq(norms, 25);
        graph_free(&graph);
    }
}
