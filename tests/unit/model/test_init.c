/* Initial values: the distribution each layer asks for, and keyed draws. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

struct moments {
    double mean, deviation, most;
};

static int find(const struct graph *graph, const char *name) {
    for (int i = 0; i < graph->param_count; i++)
        if (strcmp(graph->params[i].name, name) == 0) return i;
    cr_assert_fail("no parameter %s", name);
    return -1;
}

static float *draw(const struct graph *graph, const char *name, uint64_t seed, int64_t *count) {
    int index = find(graph, name);
    *count = shape_count(&graph->values[graph->params[index].value].type.shape);
    float *values = MEM_ARRAY(float, *count);
    model_init_param(graph, index, seed, values);
    return values;
}

static struct moments moments(const float *values, int64_t count) {
    struct moments m = {0};
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        m.mean += values[i];
        squares += (double)values[i] * values[i];
        m.most = fmax(m.most, fabs(values[i]));
    }
    m.mean /= (double)count;
    m.deviation = sqrt(squares / (double)count - m.mean * m.mean);
    return m;
}

static struct graph *build(const char *name) {
    struct graph *graph = NULL;
    struct model_config config = {.batch = 2, .training = true, .patch = 8};
    cr_assert_eq(model_build(model_find(name), &config, &graph), STATUS_OK);
    return graph;
}

enum shape_of { CONSTANT, UNIFORM, NORMAL };
static const struct {
    const char *model, *param;
    enum shape_of shape;
    double scale; /* the constant, the bound, the deviation */
} starts[] = {
    {"mlp", "fc1.weight", UNIFORM, 0.018042195912175804}, /* 1/sqrt(3072) */
    {"mlp", "fc1.bias", UNIFORM, 0.018042195912175804},
    {"lenet", "conv2.weight", UNIFORM, 0.081649658092772609},                  /* 1/sqrt(6*25) */
    {"resnet18-cifar", "layer1.0.conv1.weight", NORMAL, 0.058925565098878960}, /* sqrt(2/576) */
    {"resnet18-cifar", "layer2.0.downsample.0.weight", NORMAL, 0.125},         /* sqrt(2/128) */
    {"resnet18-cifar", "layer1.0.bn1.weight", CONSTANT, 1},
    {"resnet18-cifar", "layer1.0.bn1.bias", CONSTANT, 0},
    {"resnet18-cifar", "fc.weight", UNIFORM, 0.044194173824159223}, /* 1/sqrt(512) */
    {"vit-tiny", "blocks.3.attn.qkv.weight", NORMAL, 0.02},
    {"vit-tiny", "blocks.3.attn.qkv.bias", CONSTANT, 0},
    {"vit-tiny", "pos_embed", NORMAL, 0.02},
    {"vit-tiny", "cls_token", NORMAL, 1e-6},
    {"vit-tiny", "patch_embed.proj.weight", UNIFORM, 0.072168783648703216}, /* 1/sqrt(192) */
    {"vit-tiny", "norm.weight", CONSTANT, 1},
    {"bert-tiny", "bert.encoder.layer.1.output.dense.weight", NORMAL, 0.02},
    {"bert-tiny", "bert.embeddings.position_embeddings.weight", NORMAL, 0.02},
    {"bert-tiny", "bert.embeddings.token_type_embeddings.weight", NORMAL, 0.02},
    {"bert-tiny", "bert.embeddings.LayerNorm.weight", CONSTANT, 1},
    {"bert-tiny", "cls.predictions.transform.dense.weight", NORMAL, 0.02},
    {"bert-tiny", "cls.seq_relationship.weight", NORMAL, 0.02},
    {"bert-tiny", "cls.predictions.bias", CONSTANT, 0},
    {"vit-tiny", "patch_embed.proj.bias", UNIFORM, 0.072168783648703216},
    {"vit-tiny", "blocks.3.mlp.fc2.weight", NORMAL, 0.02},
    {"vit-tiny", "head.weight", NORMAL, 0.02},
    {"vit-tiny", "head.bias", CONSTANT, 0},
    {"resnet50", "conv1.weight", NORMAL, 0.025253813613805269},          /* sqrt(2/(64*49)) */
    {"resnet50", "layer3.2.conv1.weight", NORMAL, 0.088388347648318447}, /* sqrt(2/256) */
    {"resnet50", "layer3.2.conv3.weight", NORMAL, 0.044194173824159223}, /* sqrt(2/1024) */
    {"resnet50", "layer3.2.bn3.weight", CONSTANT, 1},
    {"resnet50", "fc.weight", UNIFORM, 0.022097086912079612}, /* 1/sqrt(2048) */
    {"resnet50", "fc.bias", UNIFORM, 0.022097086912079612},
    {"pyramidnet", "layer2.3.conv2.weight", NORMAL, 0.042562827}, /* sqrt(2/(121*9)) */
    {"pyramidnet", "fc_out.weight", UNIFORM, 0.060745775},        /* 1/sqrt(271) */
    {"gpt2-nano", "transformer.wte.weight", NORMAL, 0.02},
    {"gpt2-nano", "transformer.wpe.weight", NORMAL, 0.02},
    {"gpt2-nano", "transformer.h.2.attn.c_attn.weight", NORMAL, 0.02},
    {"gpt2-nano", "transformer.h.2.attn.c_proj.weight", NORMAL, 0.0070710678}, /* 0.02/sqrt(8) */
    {"gpt2-nano", "transformer.h.2.mlp.c_proj.weight", NORMAL, 0.0070710678},
    {"gpt2-nano", "transformer.h.2.mlp.c_fc.bias", CONSTANT, 0},
    {"gpt2-nano", "transformer.ln_f.weight", CONSTANT, 1},
};

/* Bounds are four standard errors wide: wrong distributions miss them by far, and the draws are
 * fixed. */
Test(model_init, distributions) {
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct graph *graph = build(starts[i].model);
        int64_t count;
        float *values = draw(graph, starts[i].param, 0, &count);
        struct moments m = moments(values, count);
        double want = starts[i].shape == CONSTANT  ? 0
                      : starts[i].shape == UNIFORM ? starts[i].scale / sqrt(3)
                                                   : starts[i].scale;
        double slack = 4 / sqrt((double)count),
               middle = starts[i].shape == CONSTANT ? starts[i].scale : 0;
        cr_expect(fabs(m.mean - middle) <= want * slack, "%s: mean %g", starts[i].param, m.mean);
        cr_expect(fabs(m.deviation - want) <= want * slack, "%s: deviation %g, not %g",
                  starts[i].param, m.deviation, want);
        if (starts[i].shape == UNIFORM)
            cr_expect(m.most <= starts[i].scale * (1 + 1e-6), "%s: %g", starts[i].param, m.most);
        free(values);
        graph_free(&graph);
    }
}

Test(model_init, padding_row_is_zero) {
    struct graph *graph = build("bert-tiny");
    int64_t count;
    float *values = draw(graph, "bert.embeddings.word_embeddings.weight", 0, &count);
    struct moments first = moments(values, 128), rest = moments(values + 128, count - 128);
    cr_assert_eq(first.most, 0);
    cr_assert_float_eq(rest.deviation, 0.02, 1e-4);
    free(values);
    graph_free(&graph);
}

Test(model_init, keyed_by_seed_and_name) {
    struct graph *graph = build("resnet8");
    int64_t count, other_count;
    float *a = draw(graph, "layer1.0.conv1.weight", 7, &count);
    float *b = draw(graph, "layer1.0.conv1.weight", 7, &count);
    float *seed = draw(graph, "layer1.0.conv1.weight", 8, &count);
    float *name = draw(graph, "layer1.0.conv2.weight", 7, &other_count);
    size_t bytes = (size_t)count * sizeof(float);
    cr_assert_eq(count, other_count);
    cr_assert_eq(memcmp(a, b, bytes), 0);
    cr_assert_neq(memcmp(a, seed, bytes), 0);
    cr_assert_neq(memcmp(a, name, bytes), 0);
    free(a), free(b), free(seed), free(name);
    graph_free(&graph);
}

/* A deviation near the cut-off: some draws must be made again. */
Test(model_init, truncation) {
    struct graph *graph = build("vit-tiny");
    int index = find(graph, "blocks.0.attn.proj.weight");
    int64_t count = shape_count(&graph->values[graph->params[index].value].type.shape);
    float *values = MEM_ARRAY(float, count);
    graph->params[index].scale = 2;
    model_init_param(graph, index, 0, values);
    struct moments m = moments(values, count);
    cr_assert(m.most <= 2 && m.most > 1.99, "%g", m.most);
    cr_assert_float_eq(m.deviation, 2 * 0.53956, 0.02, "%g",
                       m.deviation); /* normal cut at one deviation */
    free(values);
    graph_free(&graph);
}
