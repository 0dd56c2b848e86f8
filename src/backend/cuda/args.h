/* What our kernels are told: one struct a kernel, filled in C, read on the device. Plain data
 * alone, since a C compiler and a C++ compiler must lay it out alike. A tensor of real numbers
 * carries its element type: kernels read and write f32, bf16 and f16 through it and compute in f32.
 */
#ifndef BACKEND_CUDA_ARGS_H
#define BACKEND_CUDA_ARGS_H

#include <stdint.h>

#include "op/activation.h"
#include "tensor/tensor.h"

enum { CUDA_ROW_THREADS = 128 }; /* of a block that has a row */

struct cuda_reals {
    void *data;
    int dtype; /* enum dtype: f32, bf16, f16 */
};

/* x[B,C,...] in memory: [B,C,plane], or [B,plane,C] where the channels come last. */
struct cuda_planes {
    int64_t batch, channels, plane;
    int last;
};

/* --- activation.cu --- */

struct cuda_map {
    struct cuda_reals x, y;
    int64_t count;
    int activation;
};
struct cuda_map_bwd {
    struct cuda_reals dy, saved, dx;
    int64_t count;
    int activation;
};
struct cuda_dropout {
    struct cuda_reals x, y;
    const uint64_t *key;
    struct cuda_planes planes;
    uint64_t place;
    float probability, scale;
};
struct cuda_add {
    struct cuda_reals a, b, y;
    int64_t count, period;
    int activation;
};
/* y = activation(x + bias of the column); `saved` gets the sum (data NULL: nobody). */
struct cuda_bias {
    struct cuda_reals x, saved, y;
    const float *bias; /* NULL: none */
    int64_t count, columns;
    int activation;
};

/* --- arrays.cu --- */

struct cuda_fill {
    struct cuda_reals to;
    int64_t count;
    float value;
};
struct cuda_array_add {
    struct cuda_reals into, from;
    int64_t count;
};
/* into = keep * into + share * from; from.data NULL: keep * into. */
struct cuda_array_blend {
    struct cuda_reals into, from;
    int64_t count;
    float keep, share;
};
struct cuda_array_swap {
    struct cuda_reals one, other;
    int64_t count;
};
struct cuda_squares {
    struct cuda_reals of;
    int64_t count, block; /* NORM_BLOCK */
    double *sums;
};
/* Of struct exact_sum: see base/exact.h. */
struct cuda_exact_sum {
    const double *sums;
    int64_t count, *limb, *terms;
    double *special;
};
/* Of struct optim_decision. */
struct cuda_decide {
    const int64_t *limb;
    const double *special, *losses; /* of the squares; of the losses, NULL: of none */
    double clip, unscale, *norm;
    float *scale;
    int32_t *skip, *stop, leaves;
};
struct cuda_check {
    struct cuda_reals of;
    int64_t count;
    int32_t *bad;
};
struct cuda_sgd {
    float *param, *buffer;
    const float *gradient, *decided; /* the scale; NULL: the one below */
    const int32_t *skip;             /* with it */
    int32_t *bad;
    int64_t count;
    float mu, lr, scale, decay, direct, through;
};
struct cuda_adam {
    float *param, *m, *v;
    const float *gradient, *decided; /* as above */
    const int32_t *skip;
    int32_t *bad;
    int64_t count;
    float beta1, beta2, rest1, rest2, epsilon, rate, root, scale, l2, shrink;
};

/* As struct tree_terms of backend/reach.h, which has the same TREE_MOST. */
enum { CUDA_TREE_MOST = 64 };
struct cuda_tree {
    int32_t dtype, terms, outs;
    int64_t count;
    const void *term[CUDA_TREE_MOST];
    void *out[CUDA_TREE_MOST];
};

/* --- shape.cu --- */

/* to[at . to_step] = from[at . from_step] for all `at` below dim. */
struct cuda_copy {
    struct cuda_reals from, to;
    int64_t dim[SHAPE_MAX_RANK], from_step[SHAPE_MAX_RANK], to_step[SHAPE_MAX_RANK];
    int64_t count;
    int rank, wide;
};
/* Sums of the columns of x[rows,columns], in chunks of rows, then of the chunks in order. */
struct cuda_column_sums {
    struct cuda_reals x, y;
    double *partial; /* [chunks,columns] */
    int64_t rows, columns, chunk_rows, chunks;
};

/* --- index.cu --- */

struct cuda_rows {
    struct cuda_reals from, to;
    const int32_t *index;
    int64_t count, columns;   /* indices, elements of a row */
    int64_t per_sample, rows; /* indices and rows of a sample; one sample for a table */
};

/* --- pool.cu --- */

struct cuda_pool {
    struct cuda_reals x, y; /* or dx, dy */
    int32_t *where;
    int64_t batch, channels, in[2], out[2];
    int64_t x_step[4], y_step[4]; /* of b, c, h, w */
    int kernel[2], stride[2], pad[2], adaptive;
};

/* --- convolution.cu: channels last --- */

struct cuda_conv {
    struct cuda_reals x, w, y; /* or dx, dw, dy: the one that is made is told by the kernel */
    int64_t batch, in_channels, in[2], out_channels, out[2], kernel[2];
    int64_t group_in, group_out;
    int stride[2], pad[2], dilation[2];
};

#endif
