/* config.json says of a model what its graph has: from_pretrained makes tensors of these sizes. The
 * same files are read by transformers in tests/torch. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/model.h"
#include "model/pretrained.h"

static json_t *config_of(const struct model *model, const struct model_config *config) {
    char *text = pretrained_config(model, config);
    json_t *root = text ? json_loads(text, 0, NULL) : NULL;
    cr_assert(!text || root, "%s: not JSON: %s", model->name, text);
    free(text);
    return root;
}

static int64_t number(json_t *root, const char *key) {
    json_t *value = json_object_get(root, key);
    cr_assert(json_is_integer(value), "no number %s", key);
    return json_integer_value(value);
}

static const struct param *find(const struct graph *graph, const char *name) {
    for (int i = 0; i < graph->param_count; i++)
        if (strcmp(graph->params[i].name, name) == 0) return &graph->params[i];
    return NULL;
}

/* The tensor of this name has the two sizes that the keys give. */
static void expect_sizes(const struct graph *graph, const char *name, json_t *root,
                         const char *rows, const char *columns) {
    const struct param *param = find(graph, name);
    cr_assert(param, "no tensor %s", name);
    const struct shape *shape = &graph->values[param->value].type.shape;
    cr_expect(shape->rank == 2 && shape->dim[0] == number(root, rows) &&
                  shape->dim[1] == number(root, columns),
              "%s is not [%s,%s]", name, rows, columns);
}

/* There is a block for each layer, and none more. */
static void expect_layers(const struct graph *graph, const char *format, int64_t layers) {
    char name[80];
    snprintf(name, sizeof name, format, (int)layers - 1);
    cr_expect(find(graph, name), "no %s", name);
    snprintf(name, sizeof name, format, (int)layers);
    cr_expect_not(find(graph, name), "%s", name);
}

static void expect_gpt2(const struct graph *graph, json_t *root) {
    expect_sizes(graph, "transformer.wte.weight", root, "vocab_size", "n_embd");
    expect_sizes(graph, "transformer.wpe.weight", root, "n_positions", "n_embd");
    expect_sizes(graph, "transformer.h.0.mlp.c_fc.weight", root, "n_embd", "n_inner");
    expect_layers(graph, "transformer.h.%d.mlp.c_fc.weight", number(root, "n_layer"));
}

static void expect_bert(const struct graph *graph, json_t *root) {
    expect_sizes(graph, "bert.embeddings.word_embeddings.weight", root, "vocab_size",
                 "hidden_size");
    expect_sizes(graph, "bert.embeddings.position_embeddings.weight", root,
                 "max_position_embeddings", "hidden_size");
    expect_sizes(graph, "bert.embeddings.token_type_embeddings.weight", root, "type_vocab_size",
                 "hidden_size");
    expect_sizes(graph, "bert.encoder.layer.0.intermediate.dense.weight", root, "intermediate_size",
                 "hidden_size");
    expect_layers(graph, "bert.encoder.layer.%d.output.dense.weight",
                  number(root, "num_hidden_layers"));
}

Test(model_pretrained, sizes_are_those_of_the_graph) {
    static const struct {
        const char *model, *architecture, *heads;
        void (*expect)(const struct graph *graph, json_t *root);
    } cases[] = {{"gpt2-nano", "GPT2LMHeadModel", "n_head", expect_gpt2},
                 {"gpt2", "GPT2LMHeadModel", "n_head", expect_gpt2},
                 {"bert-tiny", "BertForPreTraining", "num_attention_heads", expect_bert},
                 {"bert-base", "BertForPreTraining", "num_attention_heads", expect_bert}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *model = model_find(cases[i].model);
        struct model_config config = {
            .batch = 1, .sequence = 16, .predictions = 2, .vocabulary = 300, .dropout = -1};
        struct graph *graph;
        cr_assert_eq(model_build(model, &config, &graph), STATUS_OK);
        json_t *root = config_of(model, &config);
        cr_assert(root, "%s has no config.json", model->name);
        json_t *architecture = json_array_get(json_object_get(root, "architectures"), 0);
        cr_expect_str_eq(json_string_value(architecture), cases[i].architecture);
        cr_expect_eq(number(root, "vocab_size"), 300);
        cr_expect_eq(number(root, cases[i].heads), model->heads);
        cr_expect(json_is_true(json_object_get(root, "tie_word_embeddings")));
        cases[i].expect(graph, root);
        json_decref(root);
        graph_free(&graph);
    }
}

/* The options that change a model change its description. */
Test(model_pretrained, dropout_and_ends_of_text) {
    struct model_config config = {.vocabulary = 50257, .dropout = 0.25f};
    json_t *root = config_of(model_find("gpt2"), &config);
    cr_expect_eq(json_real_value(json_object_get(root, "resid_pdrop")), 0.25);
    cr_expect_eq(number(root, "eos_token_id"), 50256);
    json_decref(root);
    config.vocabulary = 256;
    root = config_of(model_find("gpt2"), &config);
    cr_expect(json_is_null(json_object_get(root, "eos_token_id")));
    json_decref(root);
    root = config_of(model_find("bert-tiny"), &config);
    cr_expect_eq(json_real_value(json_object_get(root, "hidden_dropout_prob")), 0.25);
    json_decref(root);
}

Test(model_pretrained, other_models_have_none) {
    int count, described = 0;
    const struct model *models = model_all(&count);
    for (int i = 0; i < count; i++) {
        json_t *root = config_of(&models[i], &(struct model_config){.vocabulary = 300});
        bool words = models[i].input & (MODEL_TEXT | MODEL_MASKED_TOKENS);
        cr_expect_eq(root != NULL, words, "%s", models[i].name);
        described += root != NULL;
        json_decref(root);
    }
    cr_expect_gt(described, 0);
}
