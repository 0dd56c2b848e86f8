/* What a program adds to Stretto: data sets, models, operations and losses of its own. stretto.h
 * includes this. Rows stand beside the built-in ones, for the rest of the process: all that they
 * point to stays valid. */
#ifndef STRETTO_OWN_H
#define STRETTO_OWN_H

#include "stretto.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- own data sets --- */

enum { STRETTO_F32 = 0, STRETTO_F64 = 1, STRETTO_I32 = 4, STRETTO_I64 = 5 };
enum { STRETTO_TRAIN = 0, STRETTO_TEST = 1 };
enum { STRETTO_IGNORE = -100 }; /* a label that no loss counts */

/* A part of a sample. */
struct stretto_field {
    const char *name;
    int dtype;     /* STRETTO_F32 or STRETTO_I32 */
    int label;     /* 1: what a loss is compared with; its count divides that loss */
    int64_t limit; /* of i32: values are in [0, limit), or STRETTO_IGNORE in labels */
    int rank;      /* of one sample; 0: a single value */
    int64_t dim[STRETTO_MAX_RANK];
    int64_t reserved[2];
};

struct stretto_data {
    size_t size;
    const char *name; /* what --data takes */
    const struct stretto_field *fields;
    int field_count;                          /* 1 to 8 */
    int64_t train_count, test_count, classes; /* 1 at least, each; classes: 0 is 1 */
    uint64_t version; /* of the contents: ranks and checkpoints must agree on it */
    /* Writes a sample, field f to out[f]. From many threads at once. A key that is not 0 is for
     * random changes of training samples, the same key for the same ones. Not 0: it cannot be
     * read. */
    int (*read)(void *context, int split, int64_t index, uint64_t key, void *const out[]);
    void *context;
};
/* STRETTO_USAGE for one that is not whole, or whose name another one has. */
STRETTO_API int stretto_add_data(const struct stretto_data *data);

/* --- own models --- */
struct stretto_graph;
typedef int stretto_value; /* of a graph; below 0: none, after a misfit */

struct stretto_model {
    size_t size;
    const char *name; /* what --model takes */
    /* Builds the forward graph by the calls below, and its losses; once for each size of
     * micro-batches, in training and evaluation, on any rank's thread. */
    void (*build)(struct stretto_graph *graph, void *context);
    void *context;
    /* What holds where the options do not say: "sgd" (NULL), "adam", "adamw"; 0.01; 0; none (0). */
    const char *optimizer;
    double lr, weight_decay, clip;
    const struct stretto_data *data; /* where --data does not say, added with it; NULL: no such */
};
STRETTO_API int stretto_add_model(const struct stretto_model *model); /* as stretto_add_data */

/* What a graph is for. Below 0: it is NULL. */
STRETTO_API int64_t stretto_batch(const struct stretto_graph *graph); /* samples */
STRETTO_API int stretto_training(const struct stretto_graph *graph);
STRETTO_API int64_t
stretto_classes(const struct stretto_graph *graph); /* --classes, or the data's */

/* Values. After a misfit (a shape that does not fit, say) they are below 0, later calls on them do
 * nothing, and opening the run fails with the reason. Names are those of layers in `stretto
 * explain`, of parameters NAME.weight, NAME.bias. They are copied. No two layers have the same. */
STRETTO_API stretto_value stretto_input(struct stretto_graph *graph, const char *field);
enum { STRETTO_ZERO, STRETTO_ONE, STRETTO_UNIFORM, STRETTO_NORMAL };
STRETTO_API stretto_value stretto_param(struct stretto_graph *graph, const char *name, int rank,
                                        const int64_t *dim, int init, float scale);
/* The rank of a value, its dimensions in dim (NULL: not wanted); below 0: none. */
STRETTO_API int stretto_shape(const struct stretto_graph *graph, stretto_value value,
                              int64_t dim[STRETTO_MAX_RANK]);
/* A misfit that the model finds itself. */
STRETTO_API void stretto_refuse(struct stretto_graph *graph, const char *name, const char *why);
/* What follows belongs to the next block: what --recompute, ZeRO and --freeze treat as one. */
STRETTO_API void stretto_next_block(struct stretto_graph *graph);

/* Layers, with parameters of torch's names, shapes and initial distributions. */
STRETTO_API stretto_value stretto_linear(struct stretto_graph *graph, const char *name,
                                         stretto_value x, int64_t out);
STRETTO_API stretto_value stretto_conv2d(struct stretto_graph *graph, const char *name,
                                         stretto_value x, int64_t out, int kernel, int stride,
                                         int pad, int bias);
STRETTO_API stretto_value stretto_batch_norm(struct stretto_graph *graph, const char *name,
                                             stretto_value x);
STRETTO_API stretto_value stretto_layer_norm(struct stretto_graph *graph, const char *name,
                                             stretto_value x, float epsilon);
STRETTO_API stretto_value stretto_embedding(struct stretto_graph *graph, const char *name,
                                            stretto_value ids, int64_t rows, int64_t width);

/* Operations without parameters. */
STRETTO_API stretto_value stretto_relu(struct stretto_graph *graph, const char *name,
                                       stretto_value x);
STRETTO_API stretto_value stretto_gelu(struct stretto_graph *graph, const char *name,
                                       stretto_value x);
STRETTO_API stretto_value stretto_tanh(struct stretto_graph *graph, const char *name,
                                       stretto_value x);
STRETTO_API stretto_value stretto_silu(struct stretto_graph *graph, const char *name,
                                       stretto_value x);
STRETTO_API stretto_value stretto_softmax(struct stretto_graph *graph, const char *name,
                                          stretto_value x);
STRETTO_API stretto_value stretto_dropout(struct stretto_graph *graph, const char *name,
                                          stretto_value x, float probability);
/* q, k, v [B,T,C], or packed in q [B,T,3C] where k and v are -1. */
STRETTO_API stretto_value stretto_attention(struct stretto_graph *graph, const char *name,
                                            stretto_value q, stretto_value k, stretto_value v,
                                            int heads, int causal);
STRETTO_API stretto_value stretto_max_pool(struct stretto_graph *graph, const char *name,
                                           stretto_value x, int kernel, int stride, int pad);
STRETTO_API stretto_value stretto_avg_pool(struct stretto_graph *graph, const char *name,
                                           stretto_value x, int kernel, int stride, int pad);
STRETTO_API stretto_value stretto_global_pool(struct stretto_graph *graph, const char *name,
                                              stretto_value x); /* [B,C,H,W] to [B,C] */
STRETTO_API stretto_value stretto_add(struct stretto_graph *graph, const char *name,
                                      stretto_value a, stretto_value b);
STRETTO_API stretto_value stretto_matmul(struct stretto_graph *graph, const char *name,
                                         stretto_value a, stretto_value b, float scale);
STRETTO_API stretto_value stretto_concat(struct stretto_graph *graph, const char *name, int axis,
                                         stretto_value a, stretto_value b);
STRETTO_API stretto_value stretto_slice(struct stretto_graph *graph, const char *name,
                                        stretto_value x, int axis, int64_t begin, int64_t end);
STRETTO_API stretto_value stretto_reshape(struct stretto_graph *graph, const char *name,
                                          stretto_value x, int rank, const int64_t *dim);
STRETTO_API stretto_value stretto_flatten(struct stretto_graph *graph, const char *name,
                                          stretto_value x); /* [B,...] to [B,n] */
STRETTO_API stretto_value stretto_transpose(struct stretto_graph *graph, const char *name,
                                            stretto_value x, const int *order);

/* Ends of a model: a term of the loss, which is divided by the labels of a step that count; and
 * what stretto_forward gives, where that is not what the first loss compares with its labels
 * (logits, or the first input of an own loss). The labels are an input of a label's field. */
STRETTO_API void stretto_cross_entropy(struct stretto_graph *graph, const char *name,
                                       stretto_value logits, stretto_value labels, float smoothing);
STRETTO_API void stretto_loss(struct stretto_graph *graph, const char *name, stretto_value sum,
                              stretto_value labels); /* sum: f64, of an own operation */
STRETTO_API void stretto_output(struct stretto_graph *graph, stretto_value value);

/* --- own operations --- */

enum { STRETTO_OP_MAX_IN = 4, STRETTO_OP_MAX_OUT = 2 };

struct stretto_type {
    int dtype, rank;
    int64_t dim[STRETTO_MAX_RANK];
};

/* Elements of a tensor of this type. */
STRETTO_API int64_t stretto_elements(const struct stretto_type *type);

/* One use of an operation. The first dimension is the batch, which differs from graph to graph. */
struct stretto_call {
    void *context; /* as given to stretto_apply */
    int in_count, out_count;
    struct stretto_type in[STRETTO_OP_MAX_IN], out[STRETTO_OP_MAX_OUT];
};

enum { STRETTO_READS_IN = 1, STRETTO_READS_OUT = 2 };

/* Everything that it does must follow from its inputs alone: it runs on any rank, and again where
 * activations are recomputed. Tensors are row major. */
struct stretto_op {
    size_t size;
    const char *name;
    /* Sets out_count and out[] from in[]. Not 0: the inputs do not fit, and why[] (of `bytes`) says
     * so. NULL: one output like the first input. An own loss has one output of STRETTO_F64, rank 0:
     * the sum over the samples. */
    int (*shape)(struct stretto_call *call, char *why, size_t bytes);
    void (*forward)(const struct stretto_call *call, const void *const in[], void *const out[]);
    /* Gradients of the inputs (f32), written, not added; those that nobody wants are NULL in d_in.
     * d_out[i] is NULL where none flows. Of an own loss d_out[0] is one f32, the factor of all
     * gradients. NULL: no gradient passes. */
    void (*backward)(const struct stretto_call *call, const void *const in[],
                     const void *const out[], const void *const d_out[], void *const d_in[]);
    unsigned backward_reads; /* STRETTO_READS_...: what is kept for it; others are NULL. 0: both */
    double (*flops)(const struct stretto_call *call); /* of forward; NULL: one an element */
};
/* Applies an operation, valid as rows are. Its first output; all in out[] (NULL: not wanted). */
STRETTO_API stretto_value stretto_apply(struct stretto_graph *graph, const char *name,
                                        const struct stretto_op *op, void *context, int in_count,
                                        const stretto_value *in, stretto_value *out);

/* Operations on numbers need less: f of every element, which also gives its slope. A loss is the
 * sum of f, its slope that by x; `wanted` is an input of a label of f32, of as many elements. */
STRETTO_API stretto_value stretto_map(struct stretto_graph *graph, const char *name,
                                      stretto_value x, float (*f)(float x, float *slope));
STRETTO_API void stretto_map_loss(struct stretto_graph *graph, const char *name, stretto_value x,
                                  stretto_value wanted,
                                  float (*f)(float x, float wanted, float *slope));

#ifdef __cplusplus
}
#endif
#endif
