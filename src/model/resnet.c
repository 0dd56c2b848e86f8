/* Residual networks of basic blocks, under torchvision's names.
 *
 * Two stems of parameters share the blocks: the networks of He et al. for small images (three
 * groups from width 16: resnet8, 20, 56) and torchvision's resnet18 with the stem cut down to a 3x3
 * convolution (four groups from width 64). */
#include "model/layer.h"

static int conv(struct graph *graph, const char *name, int x, int64_t width, int kernel,
                int stride) {
    struct layer_conv conv = {width, kernel, stride, .pad = kernel / 2, .init = LAYER_HE};
    return layer_conv2d(graph, name, x, conv);
}

static int basic_block(struct graph *graph, const char *name, int x, int64_t width, int stride) {
    int skip = x;
    x = conv(graph, NAME("%s.conv1", name), x, width, 3, stride);
    x = layer_batch_norm(graph, NAME("%s.bn1", name), x);
    x = graph_relu(graph, NAME("%s.relu1", name), x);
    x = conv(graph, NAME("%s.conv2", name), x, width, 3, 1);
    x = layer_batch_norm(graph, NAME("%s.bn2", name), x);
    if (stride != 1 || graph_shape(graph, skip).dim[1] != width) {
        skip = conv(graph, NAME("%s.downsample.0", name), skip, width, 1, stride);
        skip = layer_batch_norm(graph, NAME("%s.downsample.1", name), skip);
    }
    x = graph_add(graph, NAME("%s.add", name), x, skip);
    return graph_relu(graph, NAME("%s.relu2", name), x);
}

static int stem(struct graph *graph, int x, int64_t width) {
    x = conv(graph, "conv1", x, width, 3, 1);
    x = layer_batch_norm(graph, "bn1", x);
    return graph_relu(graph, "relu", x);
}

static void head(struct graph *graph, const struct model_config *config, int x) {
    x = graph_avg_pool_to(graph, "avgpool", x, 1, 1);
    x = graph_reshape(graph, "flatten", x, SHAPE(config->batch, graph_shape(graph, x).dim[1]));
    x = graph_dropout(graph, "dropout", x, layer_dropout(config, 0));
    x = layer_linear(graph, "fc", x, config->classes, LAYER_TORCH);
    layer_classify(graph, config, x);
}

static void build(struct graph *graph, const struct model_config *config, int groups, int blocks,
                  int64_t width) {
    int x = stem(graph, layer_image(graph, config), width);
    for (int group = 1; group <= groups; group++, width *= 2) {
        for (int block = 0; block < blocks; block++) {
            graph_next_block(graph);
            int stride = group > 1 && block == 0 ? 2 : 1;
            x = basic_block(graph, NAME("layer%d.%d", group, block), x, width, stride);
        }
    }
    graph_next_block(graph);
    head(graph, config, x);
}

void resnet_small_build(struct graph *graph, const struct model_config *config,
                        const struct model *model) {
    build(graph, config, 3, model->depth, model->width);
}

void resnet_build(struct graph *graph, const struct model_config *config,
                  const struct model *model) {
    build(graph, config, 4, model->depth, model->width);
}
