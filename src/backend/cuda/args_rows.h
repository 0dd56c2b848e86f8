/* The rest of args.h: kernels that see rows or channels and sum over them. */
#ifndef BACKEND_CUDA_ARGS_ROWS_H
#define BACKEND_CUDA_ARGS_ROWS_H

#include "backend/cuda/args.h"

/* --- norm.cu --- */

/* Two sums a channel, in chunks of the rows (samples times plane): of x and its square; or, where
 * there is dy, of g and g (x - mean), g being dy behind the mask. */
struct cuda_moments {
    struct cuda_reals x, dy;
    const float *mean;
    const unsigned char *mask;
    struct cuda_planes planes;
    double *partial; /* [chunks,2,C] */
    int64_t chunk_rows, chunks;
};
struct cuda_moments_end {
    const double *partial;
    int64_t channels, chunks;
    double rows;
    float *mean, *var;
    float *count; /* NULL: not asked for */
};
/* The sums of backward: dshift, dscale, `sums` [2C] for other ranks, and what dx needs of them:
 * pull[c] = sum / n, pull[C + c] = dot inverse^2 / n. Each may be NULL. */
struct cuda_norm_bwd_end {
    const double *partial;
    const float *var;
    int64_t channels, chunks;
    double rows;
    float epsilon;
    float *dscale, *dshift, *sums, *pull;
};
struct cuda_norm_pull {
    const float *sums, *var, *count; /* sums[ranks,2C] */
    float *pull;
    int64_t ranks, channels;
    float epsilon;
};
struct cuda_norm_apply {
    struct cuda_reals x, residual, y;
    const float *scale, *shift, *mean, *var;
    unsigned char *mask;
    struct cuda_planes planes;
    float epsilon;
    int activation;
};
struct cuda_norm_bwd {
    struct cuda_reals dy, x, dx, dresidual;
    const float *scale, *mean, *var, *pull;
    const unsigned char *mask;
    struct cuda_planes planes;
    float epsilon;
};
struct cuda_norm_merge {
    const float *stats;
    float *mean, *var, *count;
    int64_t ranks, channels;
};
struct cuda_norm_track {
    float *running_mean, *running_var;
    int64_t *batches;
    const float *mean, *var, *count;
    int64_t channels;
    double values; /* a channel, where there is no count */
    float momentum;
};
struct cuda_layer_norm {
    struct cuda_reals x, y;
    const float *scale, *shift;
    float *mean, *var;
    int64_t rows, columns;
    float epsilon;
};
struct cuda_layer_norm_bwd {
    struct cuda_reals dy, x, dx;
    const float *scale, *mean, *var;
    float *dscale, *dshift;
    double *partial; /* [chunks,2,columns] */
    int64_t rows, columns, chunk_rows, chunks;
    float epsilon;
};

/* --- softmax.cu --- */

struct cuda_softmax {
    struct cuda_reals x, y;
    int64_t rows, columns;
    int logarithm;
};
struct cuda_softmax_bwd {
    struct cuda_reals dy, y, dx;
    int64_t rows, columns;
    int logarithm;
};
struct cuda_loss {
    struct cuda_reals x, dx;
    const int32_t *label;
    const float *seed;
    float *most, *sum; /* of the rows; NULL: x are log-probabilities */
    double *row;       /* [rows]: the loss of each */
    int64_t rows, columns;
    float smoothing;
};
struct cuda_sum_rows {
    const double *row;
    double *sum;
    int64_t rows;
};
struct cuda_top_k {
    struct cuda_reals x;
    const int32_t *label;
    int32_t *right; /* [rows]: 0 not counted, 1 counted, 2 right at 5, 3 right at 1 */
    double *counts; /* [3] */
    int64_t rows, columns;
};

/* --- attention.cu --- */

struct cuda_attention {
    struct cuda_reals scores, p, kept; /* kept: behind dropout; data NULL: as p */
    int64_t step;                      /* from row to row of scores and kept */
    const int32_t *mask;
    const uint64_t *key;
    uint64_t place;
    int64_t batch, heads, tokens;
    int causal;
    float dropout;
};
struct cuda_attention_bwd {
    struct cuda_reals dp, p, ds, kept;
    int64_t step; /* from row to row of all but p */
    const int32_t *mask;
    const uint64_t *key;
    uint64_t place;
    int64_t batch, heads, tokens;
    int causal;
    float dropout;
};

#endif
