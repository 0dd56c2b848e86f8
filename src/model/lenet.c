/* LeNet-5 in its usual modern form: ReLU and max pooling, the first convolution padded so that
 * 28x28 (MNIST) fits as well as 32x32 does. */
#include "model/layer.h"

static int conv_pool(struct graph *graph, int index, int x, int64_t width, int pad) {
    struct layer_conv conv = {width, .kernel = 5, .stride = 1, .pad = pad, .bias = true};
    x = layer_conv2d(graph, NAME("conv%d", index), x, conv);
    x = graph_relu(graph, NAME("conv%d.relu", index), x);
    return graph_max_pool(graph, NAME("pool%d", index), x, 2, 2, 0);
}

static int hidden(struct graph *graph, const char *name, int x, int64_t width, float dropout) {
    x = layer_linear(graph, name, x, width, LAYER_TORCH);
    x = graph_relu(graph, NAME("%s.relu", name), x);
    return graph_dropout(graph, NAME("%s.dropout", name), x, dropout);
}

void lenet_build(struct graph *graph, const struct model_config *config,
                 const struct model *model) {
    enum { SMALLEST = 12 }; /* halved, less 4, halved again leaves one pixel */
    if (config->height < SMALLEST || config->width < SMALLEST) {
        graph_misfit(graph, model->name,
                     "images are %ldx%ld, at least %dx%d are needed\n"
                     "  use --model mlp or resnet8, or --image-size 28",
                     (long)config->height, (long)config->width, SMALLEST, SMALLEST);
        return;
    }
    float dropout = layer_dropout(config, 0);
    int x = layer_image(graph, config);
    x = conv_pool(graph, 1, x, 6, 2);
    graph_next_block(graph);
    x = conv_pool(graph, 2, x, 16, 0);
    struct shape map = graph_shape(graph, x);
    x = graph_reshape(graph, "flatten", x, SHAPE(config->batch, shape_span(&map, 1, map.rank)));
    graph_next_block(graph);
    x = hidden(graph, "fc1", x, 120, dropout);
    x = hidden(graph, "fc2", x, 84, dropout);
    x = layer_linear(graph, "fc3", x, config->classes, LAYER_TORCH);
    layer_classify(graph, config, x);
}
