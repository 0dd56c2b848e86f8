/* Residual networks under torchvision's names.
 *
 * One builder for all: the networks of He et al. for small images (three groups from width 16),
 * torchvision's own with their stem for large ones, and torchvision's resnet18 with the stem of the
 * small ones. What a network is made of is a plan. */
#include "base/log.h"
#include "model/layer.h"

enum { GROUPS = 4, BOTTLENECK_EXPANSION = 4 };

struct plan {
    int groups, blocks[GROUPS];
    int64_t width; /* of the first group; doubled from group to group */
    bool bottleneck;
    bool large; /* a stem that makes images four times smaller */
};

static int conv(struct graph *graph, const char *name, int x, int64_t width, int kernel,
                int stride) {
    struct layer_conv conv = {width, kernel, stride, .pad = kernel / 2, .init = LAYER_HE};
    return layer_conv2d(graph, name, x, conv);
}

/* A convolution and its batch norm: NAME.convI, NAME.bnI. */
static int conv_norm(struct graph *graph, const char *name, int i, int x, int64_t width, int kernel,
                     int stride) {
    x = conv(graph, NAME("%s.conv%d", name, i), x, width, kernel, stride);
    return layer_batch_norm(graph, NAME("%s.bn%d", name, i), x);
}

/* What is added at a block's end: its input, or where shapes change a 1x1 convolution of it. */
static int shortcut(struct graph *graph, const char *name, int x, int64_t width, int stride) {
    if (stride == 1 && graph_shape(graph, x).dim[1] == width) return x;
    x = conv(graph, NAME("%s.downsample.0", name), x, width, 1, stride);
    return layer_batch_norm(graph, NAME("%s.downsample.1", name), x);
}

static int basic_block(struct graph *graph, const char *name, int x, int64_t width, int stride) {
    int y = conv_norm(graph, name, 1, x, width, 3, stride);
    y = graph_relu(graph, NAME("%s.relu1", name), y);
    y = conv_norm(graph, name, 2, y, width, 3, 1);
    y = graph_add(graph, NAME("%s.add", name), y, shortcut(graph, name, x, width, stride));
    return graph_relu(graph, NAME("%s.relu2", name), y);
}

/* The stride is that of the 3x3 convolution, as in torchvision. */
static int bottleneck(struct graph *graph, const char *name, int x, int64_t width, int stride) {
    int64_t wide = BOTTLENECK_EXPANSION * width;
    int y = conv_norm(graph, name, 1, x, width, 1, 1);
    y = graph_relu(graph, NAME("%s.relu1", name), y);
    y = conv_norm(graph, name, 2, y, width, 3, stride);
    y = graph_relu(graph, NAME("%s.relu2", name), y);
    y = conv_norm(graph, name, 3, y, wide, 1, 1);
    y = graph_add(graph, NAME("%s.add", name), y, shortcut(graph, name, x, wide, stride));
    return graph_relu(graph, NAME("%s.relu3", name), y);
}

static int stem(struct graph *graph, int x, const struct plan *plan) {
    x = conv(graph, "conv1", x, plan->width, plan->large ? 7 : 3, plan->large ? 2 : 1);
    x = layer_batch_norm(graph, "bn1", x);
    x = graph_relu(graph, "relu", x);
    return plan->large ? graph_max_pool(graph, "maxpool", x, 3, 2, 1) : x;
}

static void head(struct graph *graph, const struct model_config *config, int x) {
    x = graph_avg_pool_to(graph, "avgpool", x, 1, 1);
    x = graph_reshape(graph, "flatten", x, SHAPE(config->batch, graph_shape(graph, x).dim[1]));
    x = graph_dropout(graph, "dropout", x, layer_dropout(config, 0));
    x = layer_linear(graph, "fc", x, config->classes, LAYER_TORCH);
    layer_classify(graph, config, x);
}

static void build(struct graph *graph, const struct model_config *config, const struct plan *plan) {
    graph_stem(graph);
    int x = stem(graph, layer_image(graph, config), plan);
    for (int group = 0; group < plan->groups; group++) {
        for (int block = 0; block < plan->blocks[group]; block++) {
            graph_next_block(graph);
            int stride = group > 0 && block == 0 ? 2 : 1;
            int64_t width = plan->width << group;
            const char *name = NAME("layer%d.%d", group + 1, block);
            x = plan->bottleneck ? bottleneck(graph, name, x, width, stride)
                                 : basic_block(graph, name, x, width, stride);
        }
    }
    graph_next_block(graph);
    head(graph, config, x);
}

static struct plan plan_of(const struct model *model, int groups) {
    struct plan plan = {.groups = groups, .width = model->width};
    for (int group = 0; group < groups; group++) plan.blocks[group] = model->depth;
    return plan;
}

/* `depth` blocks in each of three groups. */
void resnet_small_build(struct graph *graph, const struct model_config *config,
                        const struct model *model) {
    struct plan plan = plan_of(model, 3);
    build(graph, config, &plan);
}

/* `depth` blocks in each of torchvision's four groups, behind the stem for small images. */
void resnet_cifar_build(struct graph *graph, const struct model_config *config,
                        const struct model *model) {
    struct plan plan = plan_of(model, GROUPS);
    build(graph, config, &plan);
}

/* torchvision's own; `depth` is the number in the name. */
void resnet_build(struct graph *graph, const struct model_config *config,
                  const struct model *model) {
    static const struct {
        int depth;
        struct plan plan;
    } networks[] = {
        {18, {GROUPS, {2, 2, 2, 2}, 64, .large = true}},
        {34, {GROUPS, {3, 4, 6, 3}, 64, .large = true}},
        {50, {GROUPS, {3, 4, 6, 3}, 64, .bottleneck = true, .large = true}},
        {101, {GROUPS, {3, 4, 23, 3}, 64, .bottleneck = true, .large = true}},
        {152, {GROUPS, {3, 8, 36, 3}, 64, .bottleneck = true, .large = true}},
    };
    size_t i = 0, count = sizeof networks / sizeof networks[0];
    while (i < count && networks[i].depth != model->depth) i++;
    CHECK(i < count, "no residual network of %d layers", model->depth);
    build(graph, config, &networks[i].plan);
}
