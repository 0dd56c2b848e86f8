/* See layer.h. One function a layer: parameters first, then the operation that uses them. */
#include "model/layer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"

static const float transformer_deviation = 0.02f;

const char *layer_name(char text[LAYER_NAME_BYTES], const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, LAYER_NAME_BYTES, format, args);
    va_end(args);
    CHECK(length >= 0 && length < LAYER_NAME_BYTES, "a layer's name is too long: %s...", text);
    return text;
}

static int weight_param(struct graph *graph, const char *name, struct shape shape, int64_t fan_in,
                        int64_t fan_out, enum layer_init init) {
    static const enum init_kind kinds[] = {[LAYER_TORCH] = INIT_UNIFORM,
                                           [LAYER_HE] = INIT_NORMAL,
                                           [LAYER_TRUNC] = INIT_TRUNC_NORMAL,
                                           [LAYER_NORMAL] = INIT_NORMAL};
    float scale = transformer_deviation;
    if (init == LAYER_TORCH) scale = (float)(1 / sqrt((double)fan_in));
    if (init == LAYER_HE) scale = (float)sqrt(2 / (double)fan_out);
    return graph_param(graph, NAME("%s.weight", name), shape, PARAM_WEIGHT, kinds[init], scale);
}

static int bias_param(struct graph *graph, const char *name, int64_t out, int64_t fan_in,
                      enum layer_init init) {
    bool torch = init == LAYER_TORCH;
    return graph_param(graph, NAME("%s.bias", name), SHAPE(out), PARAM_BIAS,
                       torch ? INIT_UNIFORM : INIT_ZERO,
                       torch ? (float)(1 / sqrt((double)fan_in)) : 0);
}

int layer_conv2d(struct graph *graph, const char *name, int x, struct layer_conv conv) {
    if (x == NO_VALUE) return NO_VALUE;
    int64_t in = graph_shape(graph, x).dim[1], window = (int64_t)conv.kernel * conv.kernel;
    int weight = weight_param(graph, name, SHAPE(conv.out, in, conv.kernel, conv.kernel),
                              in * window, conv.out * window, conv.init);
    int bias = conv.bias ? bias_param(graph, name, conv.out, in * window, conv.init) : NO_VALUE;
    return graph_conv2d(graph, name, x, weight, bias, conv.stride, conv.pad, 1);
}

int layer_linear(struct graph *graph, const char *name, int x, int64_t out, enum layer_init init) {
    if (x == NO_VALUE) return NO_VALUE;
    struct shape shape = graph_shape(graph, x);
    int64_t in = shape.dim[shape.rank - 1];
    int weight = weight_param(graph, name, SHAPE(out, in), in, out, init);
    int bias = bias_param(graph, name, out, in, init);
    return graph_linear(graph, name, x, weight, bias);
}

/* Scale and shift of a normalisation over `channels`. */
static void norm_params(struct graph *graph, const char *name, int64_t channels, int *scale,
                        int *shift) {
    struct shape shape = SHAPE(channels);
    *scale = graph_param(graph, NAME("%s.weight", name), shape, PARAM_NORM, INIT_ONE, 0);
    *shift = graph_param(graph, NAME("%s.bias", name), shape, PARAM_NORM, INIT_ZERO, 0);
}

int layer_batch_norm(struct graph *graph, const char *name, int x) {
    if (x == NO_VALUE) return NO_VALUE;
    struct shape channels = SHAPE(graph_shape(graph, x).dim[1]);
    int scale, shift;
    norm_params(graph, name, channels.dim[0], &scale, &shift);
    int mean = graph_buffer(graph, NAME("%s.running_mean", name), DTYPE_F32, channels, 0);
    int var = graph_buffer(graph, NAME("%s.running_var", name), DTYPE_F32, channels, 1);
    int batches =
        graph_buffer(graph, NAME("%s.num_batches_tracked", name), DTYPE_I64, SHAPE_SCALAR, 0);
    return graph_batch_norm(graph, name, x, scale, shift, mean, var, batches, 1e-5f, 0.1f);
}

int layer_layer_norm(struct graph *graph, const char *name, int x, float epsilon) {
    if (x == NO_VALUE) return NO_VALUE;
    struct shape shape = graph_shape(graph, x);
    int scale, shift;
    norm_params(graph, name, shape.dim[shape.rank - 1], &scale, &shift);
    if (graph->layer_norm_epsilon > 0) epsilon = graph->layer_norm_epsilon;
    return graph_layer_norm(graph, name, x, scale, shift, epsilon);
}

int layer_embedding(struct graph *graph, const char *name, int ids, int64_t rows, int64_t width,
                    bool padded) {
    if (ids == NO_VALUE) return NO_VALUE;
    int weight = graph_param(graph, NAME("%s.weight", name), SHAPE(rows, width), PARAM_WEIGHT,
                             padded ? INIT_NORMAL_PADDED : INIT_NORMAL, transformer_deviation);
    return graph_embedding(graph, name, weight, ids);
}

int layer_positions(struct graph *graph, const char *name, int64_t rows, int64_t sequence,
                    int64_t width) {
    int all = graph_param(graph, NAME("%s.weight", name), SHAPE(rows, width), PARAM_WEIGHT,
                          INIT_NORMAL, transformer_deviation);
    int used = graph_slice(graph, name, all, 0, 0, sequence);
    return graph_reshape(graph, NAME("%s.reshape", name), used, SHAPE(1, sequence, width));
}

int layer_image(struct graph *graph, const struct model_config *config) {
    return graph_input(graph, "image", DTYPE_F32,
                       SHAPE(config->batch, config->channels, config->height, config->width));
}

void layer_classify(struct graph *graph, const struct model_config *config, int logits) {
    int label = graph_input(graph, "label", DTYPE_I32, SHAPE(config->batch));
    graph_cross_entropy(graph, "loss", logits, label, config->smoothing, true);
}

float layer_dropout(const struct model_config *config, float own) {
    return config->dropout < 0 ? own : config->dropout;
}
