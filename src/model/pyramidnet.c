/* The additive pyramidal residual network for small images: each block is a little wider than the
 * one before.
 *
 * A block normalises before its convolutions and has no activation at its end. Its shortcut has no
 * parameters: where the image becomes smaller a mean of 2x2 pixels, and zeros for the channels that
 * are new. */
#include "model/layer.h"

enum { PYRAMID_GROUPS = 3, PYRAMID_STEM = 16, PYRAMID_GROWTH = 5 };

static int conv(struct graph *graph, const char *name, int x, int64_t width, int stride) {
    struct layer_conv conv = {width, 3, stride, .pad = 1, .init = LAYER_HE};
    return layer_conv2d(graph, name, x, conv);
}

static int shortcut(struct graph *graph, const char *name, int x, int64_t width, int stride) {
    if (stride == 2) x = graph_avg_pool(graph, NAME("%s.pool", name), x, 2, 2, 0);
    return graph_pad(graph, NAME("%s.pad", name), x, 1, width);
}

static int block(struct graph *graph, const char *name, int x, int64_t width, int stride) {
    int y = layer_batch_norm(graph, NAME("%s.bn1", name), x);
    y = conv(graph, NAME("%s.conv1", name), y, width, stride);
    y = layer_batch_norm(graph, NAME("%s.bn2", name), y);
    y = graph_relu(graph, NAME("%s.relu", name), y);
    y = conv(graph, NAME("%s.conv2", name), y, width, 1);
    x = shortcut(graph, name, x, width, stride); /* ahead of the norm, which adds it then */
    y = layer_batch_norm(graph, NAME("%s.bn3", name), y);
    return graph_add(graph, NAME("%s.add", name), y, x);
}

static void head(struct graph *graph, const struct model_config *config, int x) {
    x = layer_batch_norm(graph, "bn_out", x);
    x = graph_relu(graph, "relu_out", x);
    x = graph_avg_pool_to(graph, "avgpool", x, 1, 1);
    x = graph_reshape(graph, "flatten", x, SHAPE(config->batch, graph_shape(graph, x).dim[1]));
    x = graph_dropout(graph, "dropout", x, layer_dropout(config, 0));
    x = layer_linear(graph, "fc_out", x, config->classes, LAYER_TORCH);
    layer_classify(graph, config, x);
}

void pyramidnet_build(struct graph *graph, const struct model_config *config,
                      const struct model *model) {
    if (config->height % 4 || config->width % 4) {
        graph_misfit(graph, model->name,
                     "images of %ldx%ld cannot be halved twice\n"
                     "  choose an --image-size that is a multiple of 4",
                     (long)config->height, (long)config->width);
        return;
    }
    int64_t width = PYRAMID_STEM;
    graph_stem(graph);
    int x = conv(graph, "conv1", layer_image(graph, config), width, 1);
    x = layer_batch_norm(graph, "bn1", x);
    for (int group = 1; group <= PYRAMID_GROUPS; group++) {
        for (int i = 0; i < model->depth; i++) {
            graph_next_block(graph);
            width += PYRAMID_GROWTH;
            x = block(graph, NAME("layer%d.%d", group, i), x, width, group > 1 && i == 0 ? 2 : 1);
        }
    }
    graph_next_block(graph);
    head(graph, config, x);
}
