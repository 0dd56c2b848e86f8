/* The table of models and what is common to building any of them. */
#include "model/model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "model/pretrained.h"

#define MODEL(name, builder, ...)                                                                  \
    void builder(struct graph *graph, const struct model_config *config, const struct model *model);
#include "model/model.def"
#undef MODEL

/* Recipes of the families. */
#define SGD(rate) .optimizer = "sgd", .lr = rate, .weight_decay = 1e-4
#define ADAMW .optimizer = "adamw", .lr = 1e-3, .weight_decay = 0.01, .clip = 1.0

enum { MODELS_ADDED = 64 };

static const struct model built_in[] = {
#define MODEL(NAME, builder, reads, SIDE, recipe, DEPTH, WIDTH, HEADS, HIDDEN, CONFIG, HELP)       \
    {.name = NAME,                                                                                 \
     .help = HELP,                                                                                 \
     .input = reads,                                                                               \
     .side = SIDE,                                                                                 \
     recipe,                                                                                       \
     .build = builder,                                                                             \
     .depth = DEPTH,                                                                               \
     .width = WIDTH,                                                                               \
     .heads = HEADS,                                                                               \
     .hidden = HIDDEN,                                                                             \
     .pretrained = CONFIG},
#include "model/model.def"
#undef MODEL
};
enum { BUILT_IN = sizeof(built_in) / sizeof(built_in[0]) };

/* Those and the ones that were added, which are never changed or taken away again. */
static struct model models[BUILT_IN + MODELS_ADDED];
static atomic_int model_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int fill_table(void) {
    int count = atomic_load_explicit(&model_count, memory_order_acquire);
    if (count) return count;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&model_count)) {
        memcpy(models, built_in, sizeof built_in);
        atomic_store_explicit(&model_count, BUILT_IN, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return atomic_load(&model_count);
}

const struct model_reads *model_reads(unsigned input) {
    static const struct model_reads reads[] = {
        {"images", "image", "images", "digits", "resnet8"},
        {"rows of numbers", "features", "images", "npy:DIR", "mlp"},
        {"tokens with masks", "masked_positions", "tokens", "wiki:DIR or synthetic", "bert-tiny"},
        {"text", "next_ids", "text", "tokens:DIR or synthetic", "gpt2-nano"},
    };
    return &reads[__builtin_ctz(input)];
}

const struct model *model_find(const char *name) {
    int count = fill_table();
    for (int i = 0; i < count; i++)
        if (strcmp(models[i].name, name) == 0) return &models[i];
    return NULL;
}

enum status model_add(const struct model *model) {
    enum status status = STATUS_OK;
    bool taken = model_find(model->name);
    pthread_mutex_lock(&lock);
    int count = atomic_load(&model_count);
    for (int i = BUILT_IN; i < count; i++) taken |= strcmp(models[i].name, model->name) == 0;
    if (taken)
        status = fail(STATUS_USAGE, "there is a model %s already", model->name);
    else if (count == BUILT_IN + MODELS_ADDED)
        status =
            fail(STATUS_USAGE, "model %s: no more than %d can be added", model->name, MODELS_ADDED);
    else
        models[count] = *model;
    if (status == STATUS_OK) atomic_store_explicit(&model_count, count + 1, memory_order_release);
    pthread_mutex_unlock(&lock);
    return status;
}

const struct model *model_all(int *count) {
    *count = fill_table();
    return models;
}

const char *model_acts(const struct model *model) {
    if (model->input == MODEL_OWN) return "image-size classes augment seq conv sync-bn";
    if (!(model->input & MODEL_IMAGES)) return "seq layer-norm-eps untie";
    if (model->heads > 0) return "image-size classes augment patch layer-norm-eps";
    bool residual = model->width > 0; /* 3x3 convolutions and batch norms */
    return residual ? "image-size classes augment conv sync-bn" : "image-size classes augment";
}

static void fill(int64_t *field, int64_t usual) {
    if (*field == 0) *field = usual;
}

/* What was left at 0 takes the usual: images as CIFAR-10's, tokens as BERT's first phase or
 * GPT-2's. */
static struct model_config filled(const struct model *model, const struct model_config *config) {
    struct model_config full = *config;
    fill(&full.channels, 3);
    fill(&full.height, 32);
    fill(&full.width, full.height);
    fill(&full.classes, 10);
    fill(&full.sequence, 128);
    fill(&full.predictions, 20);
    fill(&full.vocabulary, model->input == MODEL_TEXT ? 50257 : 30522);
    return full;
}

enum status model_build(const struct model *model, const struct model_config *config,
                        struct graph **out) {
    CHECK(config->batch > 0, "a micro-batch of %ld samples", (long)config->batch);
    struct model_config full = filled(model, config);
    struct graph *graph = graph_new(config->batch, config->training);
    graph->stats_ranks = config->stats_ranks;
    graph->frozen = config->frozen;
    graph->layer_norm_epsilon = config->layer_norm_epsilon;
    model->build(graph, &full, model);
    enum status status = graph->status;
    if (status != STATUS_OK) {
        graph_free(&graph);
        return status;
    }
    *out = graph;
    return STATUS_OK;
}
