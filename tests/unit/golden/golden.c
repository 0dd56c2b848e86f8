/* See golden.h. Samples are made up, so that the test needs no file: tokens are noise; an image is
 * the pattern of its class under noise. On pure noise ten steps of a deep network are chaos, in
 * which even PyTorch's float32 leaves its float64. */
#include "golden.h"

#include <string.h>

#include "base/log.h"
#include "base/rng.h"

const struct golden_case golden_cases[] = {
#define GOLDEN(test, ...) {__VA_ARGS__},
#define LOGITS(...) {__VA_ARGS__},
#include "golden.def"
#undef GOLDEN
#undef LOGITS
};
const int golden_case_count = sizeof(golden_cases) / sizeof(golden_cases[0]);

const struct golden_case *golden_find(const char *model) {
    for (int i = 0; i < golden_case_count; i++)
        if (strcmp(golden_cases[i].model, model) == 0) return &golden_cases[i];
    return NULL;
}

struct model_config golden_config(const struct golden_case *gold) {
    return (struct model_config){.batch = gold->batch,
                                 .training = true,
                                 .channels = gold->channels,
                                 .height = gold->side,
                                 .width = gold->side,
                                 .classes = gold->classes,
                                 .sequence = gold->sequence,
                                 .predictions = gold->predictions,
                                 .patch = gold->patch};
}

struct optim_config golden_optim(void) {
    return (struct optim_config){
        .lr = 1e-3, .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
}

enum status golden_build(const struct golden_case *gold, struct graph **out) {
    struct model_config config = golden_config(gold);
    return model_build(model_find(gold->model), &config, out);
}

/* Tokens of sample `b` that are not padding: the later samples are shorter. */
static int64_t length(const struct graph *graph, int64_t b) {
    int ids = graph_input_find(graph, "input_ids");
    return graph->values[ids].type.shape.dim[1] - 3 * b;
}

static int64_t vocabulary(const struct graph *graph) {
    for (int i = 0; i < graph->param_count; i++)
        if (strstr(graph->params[i].name, "word_embeddings") ||
            strstr(graph->params[i].name, "wte.weight"))
            return graph->values[graph->params[i].value].type.shape.dim[0];
    return 0;
}

static int64_t classes(const struct graph *graph) {
    const struct param *last = &graph->params[graph->param_count - 1];
    return graph->values[last->value].type.shape.dim[0];
}

/* Entry `i` of sample `b` of an integer input; `word` is random. */
static int64_t integer(const struct graph *graph, const char *name, int64_t b, int64_t i,
                       uint32_t word) {
    if (strcmp(name, "label") == 0) return word % classes(graph);
    if (strcmp(name, "input_ids") == 0)
        return i < length(graph, b) ? 1 + word % (vocabulary(graph) - 1) : 0;
    if (strcmp(name, "next_ids") == 0) return word % vocabulary(graph);
    if (strcmp(name, "segment_ids") == 0) return i >= length(graph, b) / 2 && i < length(graph, b);
    if (strcmp(name, "input_mask") == 0) return i < length(graph, b);
    if (strcmp(name, "masked_positions") == 0) return (3 * i + b) % length(graph, b);
    if (strcmp(name, "masked_labels") == 0)
        return i > 2 * b ? LABEL_IGNORE : word % vocabulary(graph);
    if (strcmp(name, "next_sentence") == 0) return word % 2;
    CHECK(false, "golden tests cannot fill input %s", name);
}

bool golden_is_sample(const struct graph *graph, int value) {
    for (int i = 0; i < graph->loss_count; i++)
        if (graph->losses[i].seed == value) return false;
    return true;
}

static uint64_t key_of(uint64_t seed, const char *name, int step) {
    return rng_key(rng_key_text(seed, name), (uint64_t)step);
}

/* Pixel `i` of sample `b`. */
static float pixel(const struct graph *graph, uint64_t seed, int step, int64_t b, int64_t i,
                   int64_t pixels) {
    uint32_t word = rng_word(key_of(seed, "label", step), (uint64_t)b);
    int64_t label = integer(graph, "label", b, 0, word);
    float pattern = rng_normal(key_of(seed, "pattern", 0), (uint64_t)(label * pixels + i));
    return pattern + 0.5f * rng_normal(key_of(seed, "image", step), (uint64_t)(b * pixels + i));
}

void golden_fill(const struct graph *graph, int value, uint64_t seed, int step, void *out) {
    const struct value *input = &graph->values[value];
    const struct shape *shape = &input->type.shape;
    uint64_t key = key_of(seed, input->name, step);
    int64_t count = shape_count(shape), row = shape_span(shape, 1, shape->rank);
    for (int64_t i = 0; i < count; i++) {
        int64_t b = i / row, place = i % row;
        if (input->type.dtype == DTYPE_F32)
            ((float *)out)[i] = pixel(graph, seed, step, b, place, row);
        else
            ((int32_t *)out)[i] =
                (int32_t)integer(graph, input->name, b, place, rng_word(key, (uint64_t)i));
    }
}

int64_t golden_sample(int k, int64_t count) {
    return (int64_t)(rng_key(0, (uint64_t)k) % (uint64_t)count);
}

int golden_sign(int k, int64_t i) {
    return rng_key((uint64_t)k + 1, (uint64_t)i) & 1 ? 1 : -1;
}
