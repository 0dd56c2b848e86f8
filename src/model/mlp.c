/* A multi-layer perceptron: 128, 64, classes. The smallest model, for first runs and tests; it
 * reads images and rows of numbers. */
#include "model/layer.h"

static int hidden(struct graph *graph, const char *name, int x, int64_t width, float dropout) {
    x = layer_linear(graph, name, x, width, LAYER_TORCH);
    x = graph_relu(graph, NAME("%s.relu", name), x);
    return graph_dropout(graph, NAME("%s.dropout", name), x, dropout);
}

static int features(struct graph *graph, const struct model_config *config) {
    return graph_input(graph, "features", DTYPE_F32, SHAPE(config->batch, config->features));
}

static int pixels(struct graph *graph, const struct model_config *config) {
    int64_t count = config->channels * config->height * config->width;
    int x = layer_image(graph, config);
    return graph_reshape(graph, "flatten", x, SHAPE(config->batch, count));
}

void mlp_build(struct graph *graph, const struct model_config *config, const struct model *model) {
    (void)model;
    float dropout = layer_dropout(config, 0);
    int x = config->features ? features(graph, config) : pixels(graph, config);
    x = hidden(graph, "fc1", x, 128, dropout);
    graph_next_block(graph);
    x = hidden(graph, "fc2", x, 64, dropout);
    graph_next_block(graph);
    x = layer_linear(graph, "fc3", x, config->classes, LAYER_TORCH);
    layer_classify(graph, config, x);
}
