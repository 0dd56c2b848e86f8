/* Names, shapes, order and number of parameters: what makes weights interchange with the ecosystem.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"

static struct graph *build(const struct model *model, struct model_config config) {
    struct graph *graph = NULL;
    cr_assert(model);
    config.batch = 2;
    config.training = true;
    cr_assert_eq(model_build(model, &config, &graph), STATUS_OK, "%s", model->name);
    return graph;
}

/* "fc1.weight[128,64] fc1.bias[128] ..." of parameters [from, to). */
static const char *listing(const struct graph *graph, int from, int to) {
    static char text[8192];
    size_t used = 0;
    text[0] = 0;
    for (int i = from; i < to && i < graph->param_count; i++) {
        char shape[SHAPE_TEXT_BYTES];
        shape_text(&graph->values[graph->params[i].value].type.shape, shape);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s", i == from ? "" : " ",
                                 graph->params[i].name, shape);
    }
    return text;
}

static const struct model_config digits = {.channels = 1, .height = 8, .width = 8, .classes = 10};

Test(model_names, mlp) {
    struct graph *graph = build(model_find("mlp"), digits);
    cr_assert_str_eq(listing(graph, 0, 99),
                     "fc1.weight[128,64] fc1.bias[128] fc2.weight[64,128] fc2.bias[64] "
                     "fc3.weight[10,64] fc3.bias[10]");
    graph_free(&graph);
}

Test(model_names, lenet) {
    struct graph *graph =
        build(model_find("lenet"),
              (struct model_config){.channels = 1, .height = 28, .width = 28, .classes = 10});
    cr_assert_str_eq(listing(graph, 0, 99),
                     "conv1.weight[6,1,5,5] conv1.bias[6] conv2.weight[16,6,5,5] conv2.bias[16] "
                     "fc1.weight[120,400] fc1.bias[120] fc2.weight[84,120] fc2.bias[84] "
                     "fc3.weight[10,84] fc3.bias[10]");
    graph_free(&graph);
}

Test(model_names, resnet8) {
    struct graph *graph = build(model_find("resnet8"), digits);
    cr_assert_str_eq(
        listing(graph, 0, 99),
        "conv1.weight[16,1,3,3] bn1.weight[16] bn1.bias[16] "
        "layer1.0.conv1.weight[16,16,3,3] layer1.0.bn1.weight[16] layer1.0.bn1.bias[16] "
        "layer1.0.conv2.weight[16,16,3,3] layer1.0.bn2.weight[16] layer1.0.bn2.bias[16] "
        "layer2.0.conv1.weight[32,16,3,3] layer2.0.bn1.weight[32] layer2.0.bn1.bias[32] "
        "layer2.0.conv2.weight[32,32,3,3] layer2.0.bn2.weight[32] layer2.0.bn2.bias[32] "
        "layer2.0.downsample.0.weight[32,16,1,1] layer2.0.downsample.1.weight[32] "
        "layer2.0.downsample.1.bias[32] "
        "layer3.0.conv1.weight[64,32,3,3] layer3.0.bn1.weight[64] layer3.0.bn1.bias[64] "
        "layer3.0.conv2.weight[64,64,3,3] layer3.0.bn2.weight[64] layer3.0.bn2.bias[64] "
        "layer3.0.downsample.0.weight[64,32,1,1] layer3.0.downsample.1.weight[64] "
        "layer3.0.downsample.1.bias[64] fc.weight[10,64] fc.bias[10]");
    graph_free(&graph);
}

Test(model_names, batch_norm_buffers) {
    struct graph *graph = build(model_find("resnet8"), digits);
    cr_assert_eq(graph->buffer_count, 3 * 9);
    cr_assert_str_eq(graph->buffers[0].name, "bn1.running_mean");
    cr_assert_str_eq(graph->buffers[1].name, "bn1.running_var");
    cr_assert_str_eq(graph->buffers[2].name, "bn1.num_batches_tracked");
    cr_assert_eq(graph->buffers[0].start, 0);
    cr_assert_eq(graph->buffers[1].start, 1);
    const struct tensor_type *counter = &graph->values[graph->buffers[2].value].type;
    cr_assert(counter->dtype == DTYPE_I64 && counter->shape.rank == 0);
    graph_free(&graph);
}

Test(model_names, vit_micro) {
    struct graph *graph = build(model_find("vit-micro"), digits);
    cr_assert_str_eq(
        listing(graph, 0, 16),
        "cls_token[1,1,64] pos_embed[1,17,64] patch_embed.proj.weight[64,1,2,2] "
        "patch_embed.proj.bias[64] blocks.0.norm1.weight[64] blocks.0.norm1.bias[64] "
        "blocks.0.attn.qkv.weight[192,64] blocks.0.attn.qkv.bias[192] "
        "blocks.0.attn.proj.weight[64,64] blocks.0.attn.proj.bias[64] blocks.0.norm2.weight[64] "
        "blocks.0.norm2.bias[64] blocks.0.mlp.fc1.weight[128,64] blocks.0.mlp.fc1.bias[128] "
        "blocks.0.mlp.fc2.weight[64,128] blocks.0.mlp.fc2.bias[64]");
    cr_assert_str_eq(listing(graph, 4 + 4 * 12, 99),
                     "norm.weight[64] norm.bias[64] head.weight[10,64] head.bias[10]");
    graph_free(&graph);
}

Test(model_names, bert_tiny) {
    struct graph *graph = build(model_find("bert-tiny"), (struct model_config){0});
    cr_assert_str_eq(listing(graph, 0, 21),
                     "bert.embeddings.word_embeddings.weight[30522,128] "
                     "bert.embeddings.position_embeddings.weight[512,128] "
                     "bert.embeddings.token_type_embeddings.weight[2,128] "
                     "bert.embeddings.LayerNorm.weight[128] bert.embeddings.LayerNorm.bias[128] "
                     "bert.encoder.layer.0.attention.self.query.weight[128,128] "
                     "bert.encoder.layer.0.attention.self.query.bias[128] "
                     "bert.encoder.layer.0.attention.self.key.weight[128,128] "
                     "bert.encoder.layer.0.attention.self.key.bias[128] "
                     "bert.encoder.layer.0.attention.self.value.weight[128,128] "
                     "bert.encoder.layer.0.attention.self.value.bias[128] "
                     "bert.encoder.layer.0.attention.output.dense.weight[128,128] "
                     "bert.encoder.layer.0.attention.output.dense.bias[128] "
                     "bert.encoder.layer.0.attention.output.LayerNorm.weight[128] "
                     "bert.encoder.layer.0.attention.output.LayerNorm.bias[128] "
                     "bert.encoder.layer.0.intermediate.dense.weight[512,128] "
                     "bert.encoder.layer.0.intermediate.dense.bias[512] "
                     "bert.encoder.layer.0.output.dense.weight[128,512] "
                     "bert.encoder.layer.0.output.dense.bias[128] "
                     "bert.encoder.layer.0.output.LayerNorm.weight[128] "
                     "bert.encoder.layer.0.output.LayerNorm.bias[128]");
    cr_assert_str_eq(
        listing(graph, 5 + 2 * 16, 99),
        "bert.pooler.dense.weight[128,128] bert.pooler.dense.bias[128] "
        "cls.predictions.bias[30522] cls.predictions.transform.dense.weight[128,128] "
        "cls.predictions.transform.dense.bias[128] "
        "cls.predictions.transform.LayerNorm.weight[128] "
        "cls.predictions.transform.LayerNorm.bias[128] cls.seq_relationship.weight[2,128] "
        "cls.seq_relationship.bias[2]");
    graph_free(&graph);
}

Test(model_names, bottleneck) {
    struct graph *graph =
        build(model_find("resnet50"), (struct model_config){.height = 224, .classes = 1000});
    cr_assert_str_eq(
        listing(graph, 0, 15),
        "conv1.weight[64,3,7,7] bn1.weight[64] bn1.bias[64] "
        "layer1.0.conv1.weight[64,64,1,1] layer1.0.bn1.weight[64] layer1.0.bn1.bias[64] "
        "layer1.0.conv2.weight[64,64,3,3] layer1.0.bn2.weight[64] layer1.0.bn2.bias[64] "
        "layer1.0.conv3.weight[256,64,1,1] layer1.0.bn3.weight[256] layer1.0.bn3.bias[256] "
        "layer1.0.downsample.0.weight[256,64,1,1] layer1.0.downsample.1.weight[256] "
        "layer1.0.downsample.1.bias[256]");
    cr_assert_str_eq(listing(graph, 159, 161), "fc.weight[1000,2048] fc.bias[1000]");
    graph_free(&graph);
}

Test(model_names, pyramidnet) {
    struct graph *graph = build(model_find("pyramidnet"), (struct model_config){0});
    cr_assert_str_eq(
        listing(graph, 0, 11),
        "conv1.weight[16,3,3,3] bn1.weight[16] bn1.bias[16] "
        "layer1.0.bn1.weight[16] layer1.0.bn1.bias[16] layer1.0.conv1.weight[21,16,3,3] "
        "layer1.0.bn2.weight[21] layer1.0.bn2.bias[21] layer1.0.conv2.weight[21,21,3,3] "
        "layer1.0.bn3.weight[21] layer1.0.bn3.bias[21]");
    cr_assert_str_eq(listing(graph, 411, 415),
                     "bn_out.weight[271] bn_out.bias[271] fc_out.weight[10,271] fc_out.bias[10]");
    graph_free(&graph);
}

Test(model_names, gpt2) {
    struct graph *graph =
        build(model_find("gpt2-nano"), (struct model_config){.vocabulary = 300, .sequence = 16});
    cr_assert_str_eq(
        listing(graph, 0, 14),
        "transformer.wte.weight[300,128] transformer.wpe.weight[1024,128] "
        "transformer.h.0.ln_1.weight[128] transformer.h.0.ln_1.bias[128] "
        "transformer.h.0.attn.c_attn.weight[128,384] transformer.h.0.attn.c_attn.bias[384] "
        "transformer.h.0.attn.c_proj.weight[128,128] transformer.h.0.attn.c_proj.bias[128] "
        "transformer.h.0.ln_2.weight[128] transformer.h.0.ln_2.bias[128] "
        "transformer.h.0.mlp.c_fc.weight[128,512] transformer.h.0.mlp.c_fc.bias[512] "
        "transformer.h.0.mlp.c_proj.weight[512,128] transformer.h.0.mlp.c_proj.bias[128]");
    cr_assert_str_eq(listing(graph, 2 + 4 * 12, 99),
                     "transformer.ln_f.weight[128] transformer.ln_f.bias[128]");
    graph_free(&graph);
}

/* Published sizes: torchvision's, timm's and HF's own counts; the small ones by hand. */
struct size {
    const char *model;
    int64_t side, classes, elements; /* of images; 0 for tokens, whose vocabulary is the model's */
    int tensors, buffers, blocks;
};

static const struct size sizes[] = {
    {"mlp", 32, 10, 402250, 6, 0, 3},
    {"lenet", 32, 10, 83126, 10, 0, 3},
    {"resnet8", 32, 10, 78042, 29, 27, 5},
    {"resnet20", 32, 10, 272474, 65, 63, 11},
    {"resnet56", 32, 10, 855770, 173, 171, 29},
    {"resnet18-cifar", 32, 10, 11173962, 62, 60, 10},
    {"resnet18", 224, 1000, 11689512, 62, 60, 10},
    {"resnet18", 224, 10, 11181642, 62, 60, 10},
    {"resnet34", 224, 1000, 21797672, 110, 108, 18},
    {"resnet50", 224, 1000, 25557032, 161, 159, 18},
    {"resnet50", 224, 10, 23528522, 161, 159, 18},
    {"resnet101", 224, 1000, 44549160, 314, 312, 35},
    {"resnet152", 224, 1000, 60192808, 467, 465, 52},
    {"pyramidnet", 32, 10, 24253410, 415, 465, 53},
    {"vit-tiny", 224, 1000, 5717416, 152, 0, 14},
    {"vit-small", 224, 1000, 22050664, 152, 0, 14},
    {"vit-base", 224, 1000, 86567656, 152, 0, 14},
    {"vit-base", 224, 10, 85806346, 152, 0, 14},
    {"bert-tiny", 0, 0, 4433468, 46, 0, 4},
    {"bert-base", 0, 0, 110106428, 206, 0, 14},
    {"bert-large", 0, 0, 336226108, 398, 0, 26},
    {"gpt2", 0, 0, 124439808, 148, 0, 14},
};

Test(model_names, sizes) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct size *size = &sizes[i];
        struct graph *graph =
            build(model_find(size->model),
                  (struct model_config){.height = size->side, .classes = size->classes});
        cr_expect_eq(graph_param_elements(graph), size->elements, "%s: %ld parameters, not %ld",
                     size->model, (long)graph_param_elements(graph), (long)size->elements);
        cr_expect_eq(graph->param_count, size->tensors, "%s: %d tensors", size->model,
                     graph->param_count);
        cr_expect_eq(graph->buffer_count, size->buffers, "%s: %d buffers", size->model,
                     graph->buffer_count);
        cr_expect_eq(graph->block + 1, size->blocks, "%s: %d blocks", size->model,
                     graph->block + 1);
        graph_free(&graph);
    }
}

Test(model_names, defaults_of_the_families) {
    int count;
    const struct model *all = model_all(&count);
    cr_assert_eq(count, 21);
    for (int i = 0; i < count; i++) {
        const struct model *model = &all[i];
        cr_assert_eq(model_find(model->name), model);
        bool adam = model->heads > 0;
        bool plain = strcmp(model->name, "mlp") == 0 || strcmp(model->name, "lenet") == 0;
        cr_expect_str_eq(model->optimizer, adam ? "adamw" : "sgd");
        cr_expect_eq(model->lr, adam ? 1e-3 : plain ? 0.01 : 0.1);
        cr_expect_eq(model->weight_decay, adam ? 0.01 : 1e-4);
        cr_expect_eq(model->clip, adam ? 1.0 : 0);
    }
    cr_assert_null(model_find("resnet"));
}
