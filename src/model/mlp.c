/* A multi-layer perceptron: 128, 64, classes. The smallest model, for first runs and tests. */
#include "model/layer.h"

static int hidden(struct graph *graph, const char *name, int x, int64_t width, float dropout) {
    x = layer_linear(graph, name, x, width, LAYER_TORCH);
    x = graph_relu(graph, NAME("%s.relu", name), x);
    return graph_dropout(graph, NAME("%s.dropout", name), x, dropout);
}

void mlp_build(struct graph *graph, const struct model_config *config, const struct model *model) {
    (void)model;
    float dropout = layer_dropout(config, 0);
    int64_t pixels = config->channels * config->height * config->width;
    int x = layer_image(graph, config);
    x = graph_reshape(graph, "flatten", x, SHAPE(config->batch, pixels));
    x = hidden(graph, "fc1", x, 128, dropout);
    graph_next_block(graph);
    x = hidden(graph, "fc2", x, 64, dropout);
    graph_next_block(graph);
    x = layer_linear(graph, "fc3", x, config->classes, LAYER_TORCH);
    layer_classify(graph, config, x);
}
