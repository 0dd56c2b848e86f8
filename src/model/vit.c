/* Vision transformers under timm's names: patches, a class token, learned positions, pre-norm
 * blocks, exact GELU. */
#include "model/layer.h"

static const float vit_epsilon = 1e-6f;

/* [B,C,H,W] to a row of `width` numbers a patch, [B,N,width]. */
static int patches(struct graph *graph, int x, int64_t width, int patch) {
    struct layer_conv conv = {width, .kernel = patch, .stride = patch, .bias = true};
    x = layer_conv2d(graph, "patch_embed.proj", x, conv);
    struct shape map = graph_shape(graph, x);
    x = graph_reshape(graph, "patch_embed.flatten", x,
                      SHAPE(map.dim[0], width, shape_span(&map, 2, 4)));
    return graph_transpose(graph, "patch_embed.rows", x, (int[]){0, 2, 1});
}

static int embed(struct graph *graph, int x, int64_t width, int patch, float dropout) {
    struct shape image = graph_shape(graph, x);
    int64_t tokens = 1 + (image.dim[2] / patch) * (image.dim[3] / patch);
    int class_token =
        graph_param(graph, "cls_token", SHAPE(1, 1, width), PARAM_WEIGHT, INIT_NORMAL, 1e-6f);
    int positions = graph_param(graph, "pos_embed", SHAPE(1, tokens, width), PARAM_WEIGHT,
                                INIT_TRUNC_NORMAL, 0.02f);
    x = patches(graph, x, width, patch);
    x = graph_concat(graph, "tokens", 1, graph_expand(graph, "cls_token", class_token), x);
    x = graph_add(graph, "pos_embed", x, positions);
    return graph_dropout(graph, "pos_drop", x, dropout);
}

static int attention(struct graph *graph, const char *name, int x, int heads, float dropout) {
    int64_t width = graph_shape(graph, x).dim[2];
    x = layer_linear(graph, NAME("%s.qkv", name), x, 3 * width, LAYER_TRUNC);
    x = graph_attention(graph, name, x, NO_VALUE, NO_VALUE, NO_VALUE, heads, false, 0);
    x = layer_linear(graph, NAME("%s.proj", name), x, width, LAYER_TRUNC);
    return graph_dropout(graph, NAME("%s.proj_drop", name), x, dropout);
}

static int mlp(struct graph *graph, const char *name, int x, int64_t hidden, float dropout) {
    int64_t width = graph_shape(graph, x).dim[2];
    x = layer_linear(graph, NAME("%s.fc1", name), x, hidden, LAYER_TRUNC);
    x = graph_gelu(graph, NAME("%s.gelu", name), x, false);
    x = graph_dropout(graph, NAME("%s.drop1", name), x, dropout);
    x = layer_linear(graph, NAME("%s.fc2", name), x, width, LAYER_TRUNC);
    return graph_dropout(graph, NAME("%s.drop2", name), x, dropout);
}

static int block(struct graph *graph, const char *name, int x, const struct model *model,
                 float dropout) {
    int y = layer_layer_norm(graph, NAME("%s.norm1", name), x, vit_epsilon);
    y = attention(graph, NAME("%s.attn", name), y, model->heads, dropout);
    x = graph_add(graph, NAME("%s.add1", name), x, y);
    y = layer_layer_norm(graph, NAME("%s.norm2", name), x, vit_epsilon);
    y = mlp(graph, NAME("%s.mlp", name), y, model->hidden, dropout);
    return graph_add(graph, NAME("%s.add2", name), x, y);
}

/* The class token alone goes on. It is cut out before the last norm, not after as in timm: a norm
 * looks at one token at a time, so the result is the same and the other tokens need none. */
static void head(struct graph *graph, const struct model_config *config, int x) {
    int64_t width = graph_shape(graph, x).dim[2];
    x = graph_slice(graph, "class", x, 1, 0, 1);
    x = graph_reshape(graph, "class.flatten", x, SHAPE(config->batch, width));
    x = layer_layer_norm(graph, "norm", x, vit_epsilon);
    x = layer_linear(graph, "head", x, config->classes, LAYER_TRUNC);
    layer_classify(graph, config, x);
}

/* The side of a patch where none is asked for: 16 as in timm, or less, so that small images too
 * have 7 patches and more in each direction; the largest such that divides both sides. */
static int usual_patch(int64_t height, int64_t width) {
    enum { MOST = 16, LEAST_PATCHES = 7 };
    int64_t shorter = height < width ? height : width, patch = shorter / LEAST_PATCHES;
    if (patch > MOST) patch = MOST;
    while (patch > 1 && (height % patch || width % patch)) patch--;
    return patch > 1 ? (int)patch : 1;
}

static void build(struct graph *graph, const struct model_config *config, const struct model *model,
                  int patch) {
    if (config->height % patch || config->width % patch) {
        graph_misfit(graph, model->name,
                     "images of %ldx%ld cannot be cut into patches of %dx%d\n"
                     "  --patch must divide both sides; or choose another --image-size",
                     (long)config->height, (long)config->width, patch, patch);
        return;
    }
    float dropout = layer_dropout(config, 0);
    graph_stem(graph);
    int x = embed(graph, layer_image(graph, config), model->width, patch, dropout);
    for (int i = 0; i < model->depth; i++) {
        graph_next_block(graph);
        x = block(graph, NAME("blocks.%d", i), x, model, dropout);
    }
    graph_next_block(graph);
    head(graph, config, x);
}

void vit_build(struct graph *graph, const struct model_config *config, const struct model *model) {
    int usual = usual_patch(config->height, config->width);
    build(graph, config, model, config->patch > 0 ? (int)config->patch : usual);
}

/* A patch is a quarter of the image. */
void vit_micro_build(struct graph *graph, const struct model_config *config,
                     const struct model *model) {
    int usual = (int)(config->height + 3) / 4;
    build(graph, config, model, config->patch > 0 ? (int)config->patch : usual);
}
