/* Layers: what models say again and again, namely "create the parameters of a layer under the
 * ecosystem's names, then use them". Parameters appear in the graph in the order of torch's state
 * dicts: weight, then bias, then buffers.
 *
 * All calls are local. A layer given NO_VALUE makes no parameters and returns NO_VALUE, so models
 * need no checks. Names are copied. */
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include "graph/build.h"
#include "model/model.h"

/* NAME("layer%d.%d.conv1", l, b): a formatted name that lives until the end of the enclosing block.
 */
enum { LAYER_NAME_BYTES = 96 };
const char *layer_name(char text[LAYER_NAME_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define NAME(...) layer_name((char[LAYER_NAME_BYTES]){0}, __VA_ARGS__)

/* How the weights (and biases) of convolutions, linear layers and embeddings start. */
enum layer_init {
    LAYER_TORCH,  /* torch's default: both uniform within 1/sqrt(fan in) */
    LAYER_HE,     /* normal of deviation sqrt(2 / fan out), as torchvision's ResNets */
    LAYER_TRUNC,  /* truncated normal of deviation 0.02, bias 0, as timm's ViTs */
    LAYER_NORMAL, /* normal of deviation 0.02, bias 0, as HF's BERT */
};

struct layer_conv {
    int64_t out;
    int kernel, stride, pad;
    bool bias;
    enum layer_init init;
};
/* x[B,C,H,W]: NAME.weight, NAME.bias when asked for. */
int layer_conv2d(struct graph *graph, const char *name, int x, struct layer_conv conv);
/* x[...,I] to [...,out]: NAME.weight, NAME.bias. */
int layer_linear(struct graph *graph, const char *name, int x, int64_t out, enum layer_init init);
/* NAME.weight, NAME.bias, buffers NAME.running_mean, .running_var, .num_batches_tracked. */
int layer_batch_norm(struct graph *graph, const char *name, int x);
/* NAME.weight, NAME.bias over the last dimension. */
int layer_layer_norm(struct graph *graph, const char *name, int x, float epsilon);
/* ids[...] to [...,width]: NAME.weight [rows,width], normal of deviation 0.02. `padded`: row 0
 * starts at zero. */
int layer_embedding(struct graph *graph, const char *name, int ids, int64_t rows, int64_t width,
                    bool padded);

/* The first `sequence` of `rows` learned positions, [1,sequence,width]: NAME.weight [rows,width],
 * normal of deviation 0.02. */
int layer_positions(struct graph *graph, const char *name, int64_t rows, int64_t sequence,
                    int64_t width);

/* Both ends of a classifier of images: the input "image" [B,C,H,W]; the input "label" [B] and the
 * loss. */
int layer_image(struct graph *graph, const struct model_config *config);
void layer_classify(struct graph *graph, const struct model_config *config, int logits);

/* The dropout probability asked for, or the model's own. */
float layer_dropout(const struct model_config *config, float own);

#endif
