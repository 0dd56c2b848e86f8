/* Batch norm, with or without ReLU, in loops of our own.
 *
 * oneDNN reads x three times forward; one pass is enough for the moments when each image's sums are
 * taken about its own first pixel, so that nothing cancels, and put together in double. Forward
 * then reads x twice and writes y, backward reads dy and x twice and writes dx. Sums are per image
 * and channel block first, then over images in order: the bits do not depend on the team's size.
 *
 * No mask is kept for ReLU: forward leaves each channel's factor and offset (y = a x + b) in the
 * mask's place, and backward evaluates the same expression to see where y was positive (or a NaN,
 * which passes as in torch). That costs no bytes worth counting.
 *
 * The operations of batch norm over several ranks (op/sync_norm.c) are the same loops, cut where
 * the ranks meet. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/clones.h"

/* Sixteen floats; the compiler splits them where registers are shorter. A chunk (one image, one
 * channel block) is a stream of floats whose channels repeat every `lanes`, which divides 16 in
 * every layout but channels-last. */
enum { WIDE = 16 };
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(64), aligned(4), may_alias));

static bool is_stream(const struct cpu_image *image) {
    return WIDE % image->lanes == 0;
}

static int64_t padded_channels(const struct cpu_image *image) {
    return image->blocks * image->lanes;
}

/* Coefficients of a chunk's channels, repeated to 16; `lanes` divides 16. */
static void repeat(const float *from, int64_t lanes, float to[WIDE]) {
    for (int64_t i = 0; i < WIDE; i++) to[i] = from[i & (lanes - 1)];
}

static void fold(const float from[WIDE], int64_t lanes, float *to) {
    memcpy(to, from, (size_t)lanes * sizeof *to);
    for (int64_t i = lanes; i < WIDE; i++) to[i & (lanes - 1)] += from[i];
}

/* A tensor chunk by chunk. A bf16 one is widened into the room of the thread that reads it, and
 * rounded from there. */
struct chunks {
    enum dtype type;
    void *data;
    float *room;
    int64_t size; /* of a chunk */
};

static float *room_of(const struct chunks *chunks) {
    return chunks->room + omp_get_thread_num() * chunks->size;
}

static const float *chunk_read(const struct chunks *chunks, int64_t i) {
    return cpu_read(chunks->type, chunks->data, i * chunks->size, chunks->size, room_of(chunks));
}

static float *chunk_room(const struct chunks *chunks, int64_t i) {
    return cpu_room(chunks->type, chunks->data, i * chunks->size, room_of(chunks));
}

static void chunk_write(const struct chunks *chunks, int64_t i, const float *from) {
    cpu_write(chunks->type, from, chunks->data, i * chunks->size, chunks->size);
}

/* --- moments --- */

/* Sums of x - origin and of its square; `sums` is two rows of 16. */
VECTOR_CLONES static void moments_stream(const float *x, int64_t count, const float origin[WIDE],
                                         float *sums) {
    vec o = *(const vec *)origin, s0 = {0}, s1 = {0}, q0 = {0}, q1 = {0};
    int64_t i = 0;
    for (; i + 2 * WIDE <= count; i += 2 * WIDE) {
        vec d0 = *(const vec *)(x + i) - o, d1 = *(const vec *)(x + i + WIDE) - o;
        s0 += d0, q0 += d0 * d0;
        s1 += d1, q1 += d1 * d1;
    }
    *(vec *)sums = s0 + s1;
    *(vec *)(sums + WIDE) = q0 + q1;
    for (; i < count; i++) {
        float d = x[i] - origin[i % WIDE];
        sums[i % WIDE] += d;
        sums[WIDE + i % WIDE] += d * d;
    }
}

VECTOR_CLONES static void moments_channels_last(const float *x, int64_t pixels, int64_t lanes,
                                                float *sum, float *square) {
    memset(sum, 0, (size_t)lanes * sizeof *sum);
    memset(square, 0, (size_t)lanes * sizeof *square);
    for (int64_t p = 1; p < pixels; p++)
#pragma omp simd
        for (int64_t l = 0; l < lanes; l++) {
            float d = x[p * lanes + l] - x[l];
            sum[l] += d;
            square[l] += d * d;
        }
}

/* Mean and sum of squared deviations of each channel of a chunk. */
static void chunk_moments(const struct cpu_image *image, const float *x, float *mean,
                          float *spread) {
    float origin[WIDE], sums[2 * WIDE], n = (float)image->pixels;
    if (is_stream(image)) {
        repeat(x, image->lanes, origin);
        moments_stream(x, image->pixels * image->lanes, origin, sums);
        fold(sums, image->lanes, mean);
        fold(sums + WIDE, image->lanes, spread);
    } else {
        moments_channels_last(x, image->pixels, image->lanes, mean, spread);
    }
    for (int64_t l = 0; l < image->lanes; l++) {
        spread[l] -= mean[l] * mean[l] / n;
        mean[l] = x[l] + mean[l] / n;
    }
}

/* All images' moments of one channel; `step` floats lie between two images. */
static void combine(const float *means, const float *spreads, int64_t batch, int64_t step,
                    double pixels, float *mean, float *var) {
    double sum = 0, square = 0;
    for (int64_t n = 0; n < batch; n++) sum += means[n * step];
    double middle = sum / (double)batch;
    for (int64_t n = 0; n < batch; n++) {
        double d = means[n * step] - middle, spread = spreads[n * step];
        square += (spread < 0 ? 0 : spread) + pixels * d * d; /* rounding, but a NaN stays */
    }
    *mean = (float)middle;
    *var = (float)(square / (pixels * (double)batch));
}

static void moments(const struct cpu_image *image, const struct chunks *x, float *means,
                    float *mean, float *var) {
    int64_t chunks = image->batch * image->blocks, step = padded_channels(image);
    float *spreads = means + image->batch * step;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; i++)
        chunk_moments(image, chunk_read(x, i), means + i * image->lanes,
                      spreads + i * image->lanes);
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < image->channels; c++)
        combine(means + c, spreads + c, image->batch, step, (double)image->pixels, &mean[c],
                &var[c]);
}

/* --- y = a x + b --- */

/* Padding channels get zero for both, so that they stay zero. */
static void affine_of(const struct cpu_image *image, const float *scale, const float *shift,
                      const float *mean, const float *var, float epsilon, float *a, float *b) {
    memset(a, 0, (size_t)padded_channels(image) * sizeof *a);
    memset(b, 0, (size_t)padded_channels(image) * sizeof *b);
    for (int64_t c = 0; c < image->channels; c++) {
        double factor = scale[c] / sqrt((double)var[c] + epsilon);
        a[c] = (float)factor;
        b[c] = (float)(shift[c] - mean[c] * factor);
    }
}

VECTOR_CLONES static void affine_stream(const float *x, int64_t count, const float *coefficients,
                                        bool relu, float *y) {
    vec a = *(const vec *)coefficients, b = *(const vec *)(coefficients + WIDE), zero = {0};
    int64_t i = 0;
    if (relu)
        for (; i + WIDE <= count; i += WIDE) {
            vec v = a * *(const vec *)(x + i) + b;
            *(vec *)(y + i) = (vec)((ivec)v & ~(v <= zero));
        }
    else
        for (; i + WIDE <= count; i += WIDE) *(vec *)(y + i) = a * *(const vec *)(x + i) + b;
    for (; i < count; i++) {
        float v = coefficients[i % WIDE] * x[i] + coefficients[WIDE + i % WIDE];
        y[i] = relu && v <= 0.0f ? 0.0f : v;
    }
}

VECTOR_CLONES static void affine_channels_last(const float *x, int64_t pixels, int64_t lanes,
                                               const float *a, const float *b, bool relu,
                                               float *y) {
    for (int64_t p = 0; p < pixels; p++)
#pragma omp simd
        for (int64_t l = 0; l < lanes; l++) {
            float v = a[l] * x[p * lanes + l] + b[l];
            y[p * lanes + l] = relu && v <= 0.0f ? 0.0f : v;
        }
}

static void affine(const struct cpu_image *image, const struct chunks *from, const float *a,
                   const float *b, bool relu, const struct chunks *to) {
    int64_t chunks = image->batch * image->blocks, size = image->pixels * image->lanes,
            lanes = image->lanes;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; i++) {
        int64_t c = i % image->blocks * lanes;
        float coefficients[2 * WIDE], *y = chunk_room(to, i);
        const float *x = chunk_read(from, i);
        if (is_stream(image)) {
            repeat(a + c, lanes, coefficients);
            repeat(b + c, lanes, coefficients + WIDE);
            affine_stream(x, size, coefficients, relu, y);
        } else {
            affine_channels_last(x, image->pixels, lanes, a + c, b + c, relu, y);
        }
        chunk_write(to, i, y);
    }
}

/* --- backward --- */

/* Rows of 16 (or pointers to channels): a, b, then mean, then what dx is made of. With g = dy where
 * y was positive: dx = p g + q (x - mean) + r. */
enum { ROW_A, ROW_B, ROW_MEAN, ROW_P, ROW_Q, ROW_R, ROWS };

VECTOR_CLONES static void sums_stream(const float *dy, const float *x, int64_t count,
                                      const float *row, bool relu, float *sums) {
    vec a = *(const vec *)(row + ROW_A * WIDE), b = *(const vec *)(row + ROW_B * WIDE);
    vec mean = *(const vec *)(row + ROW_MEAN * WIDE), zero = {0}, s0 = {0}, s1 = {0}, d0 = {0},
        d1 = {0};
    int64_t i = 0;
    for (; i + 2 * WIDE <= count; i += 2 * WIDE) {
        vec x0 = *(const vec *)(x + i), x1 = *(const vec *)(x + i + WIDE);
        vec g0 = *(const vec *)(dy + i), g1 = *(const vec *)(dy + i + WIDE);
        if (relu) {
            g0 = (vec)((ivec)g0 & ~(a * x0 + b <= zero));
            g1 = (vec)((ivec)g1 & ~(a * x1 + b <= zero));
        }
        s0 += g0, d0 += g0 * (x0 - mean);
        s1 += g1, d1 += g1 * (x1 - mean);
    }
    *(vec *)sums = s0 + s1;
    *(vec *)(sums + WIDE) = d0 + d1;
    for (; i < count; i++) {
        int64_t l = i % WIDE;
        float g = relu && row[l] * x[i] + row[WIDE + l] <= 0.0f ? 0.0f : dy[i];
        sums[l] += g;
        sums[WIDE + l] += g * (x[i] - row[ROW_MEAN * WIDE + l]);
    }
}

VECTOR_CLONES static void dx_stream(const float *dy, const float *x, int64_t count,
                                    const float *row, bool relu, float *dx) {
    vec a = *(const vec *)(row + ROW_A * WIDE), b = *(const vec *)(row + ROW_B * WIDE);
    vec mean = *(const vec *)(row + ROW_MEAN * WIDE), p = *(const vec *)(row + ROW_P * WIDE);
    vec q = *(const vec *)(row + ROW_Q * WIDE), r = *(const vec *)(row + ROW_R * WIDE), zero = {0};
    int64_t i = 0;
    for (; i + WIDE <= count; i += WIDE) {
        vec v = *(const vec *)(x + i), g = *(const vec *)(dy + i);
        if (relu) g = (vec)((ivec)g & ~(a * v + b <= zero));
        *(vec *)(dx + i) = p * g + q * (v - mean) + r;
    }
    for (; i < count; i++) {
        int64_t l = i % WIDE;
        float g = relu && row[l] * x[i] + row[WIDE + l] <= 0.0f ? 0.0f : dy[i];
        dx[i] = row[ROW_P * WIDE + l] * g +
                row[ROW_Q * WIDE + l] * (x[i] - row[ROW_MEAN * WIDE + l]) + row[ROW_R * WIDE + l];
    }
}

VECTOR_CLONES static void sums_channels_last(const float *dy, const float *x, int64_t pixels,
                                             int64_t lanes, const float *const row[], bool relu,
                                             float *sum, float *dot) {
    memset(sum, 0, (size_t)lanes * sizeof *sum);
    memset(dot, 0, (size_t)lanes * sizeof *dot);
    const float *a = row[ROW_A], *b = row[ROW_B], *mean = row[ROW_MEAN];
    for (int64_t p = 0; p < pixels; p++, x += lanes, dy += lanes)
#pragma omp simd
        for (int64_t l = 0; l < lanes; l++) {
            float g = relu && a[l] * x[l] + b[l] <= 0.0f ? 0.0f : dy[l];
            sum[l] += g;
            dot[l] += g * (x[l] - mean[l]);
        }
}

VECTOR_CLONES static void dx_channels_last(const float *dy, const float *x, int64_t pixels,
                                           int64_t lanes, const float *const row[], bool relu,
                                           float *dx) {
    const float *a = row[ROW_A], *b = row[ROW_B], *mean = row[ROW_MEAN];
    const float *p = row[ROW_P], *q = row[ROW_Q], *r = row[ROW_R];
    for (int64_t i = 0; i < pixels; i++, x += lanes, dy += lanes, dx += lanes)
#pragma omp simd
        for (int64_t l = 0; l < lanes; l++) {
            float g = relu && a[l] * x[l] + b[l] <= 0.0f ? 0.0f : dy[l];
            dx[l] = p[l] * g + q[l] * (x[l] - mean[l]) + r[l];
        }
}

/* The channels' coefficients of backward, each an array over the padded channels. */
struct coefficients {
    const float *row[ROWS];
};

/* Points at a chunk's channels; `repeated` is filled for streams. */
static void chunk_rows(const struct cpu_image *image, const struct coefficients *all, int64_t chunk,
                       int rows, const float *row[ROWS], float *repeated) {
    for (int i = 0; i < rows; i++) {
        row[i] = all->row[i] + chunk % image->blocks * image->lanes;
        if (is_stream(image)) repeat(row[i], image->lanes, repeated + i * WIDE);
    }
}

static void backward_sums(const struct cpu_image *image, const struct chunks *dys,
                          const struct chunks *xs, const struct coefficients *all, bool relu,
                          float *sums, float *dots) {
    int64_t chunks = image->batch * image->blocks, lanes = image->lanes,
            size = image->pixels * lanes;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; i++) {
        const float *row[ROWS];
        float repeated[ROWS * WIDE], both[2 * WIDE];
        const float *dy = chunk_read(dys, i), *x = chunk_read(xs, i);
        chunk_rows(image, all, i, ROW_P, row, repeated);
        if (is_stream(image)) {
            sums_stream(dy, x, size, repeated, relu, both);
            fold(both, lanes, sums + i * lanes);
            fold(both + WIDE, lanes, dots + i * lanes);
        } else {
            sums_channels_last(dy, x, image->pixels, lanes, row, relu, sums + i * lanes,
                               dots + i * lanes);
        }
    }
}

static void backward_dx(const struct cpu_image *image, const struct chunks *dys,
                        const struct chunks *xs, const struct coefficients *all, bool relu,
                        const struct chunks *to) {
    int64_t chunks = image->batch * image->blocks, lanes = image->lanes,
            size = image->pixels * lanes;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; i++) {
        const float *row[ROWS];
        float repeated[ROWS * WIDE], *dx = chunk_room(to, i);
        const float *dy = chunk_read(dys, i), *x = chunk_read(xs, i);
        chunk_rows(image, all, i, ROWS, row, repeated);
        if (is_stream(image))
            dx_stream(dy, x, size, repeated, relu, dx);
        else
            dx_channels_last(dy, x, image->pixels, lanes, row, relu, dx);
        chunk_write(to, i, dx);
    }
}

/* Gradients over the whole (local or of all ranks): per channel the sums of g and of g (x - mean).
 */
static void channel_sums(const struct cpu_image *image, const float *sums, const float *dots,
                         int64_t c, double *sum, double *dot) {
    int64_t step = padded_channels(image);
    *sum = *dot = 0;
    for (int64_t i = 0; i < image->batch; i++)
        *sum += sums[i * step + c], *dot += dots[i * step + c];
}

/* What dx of channel c is made of, given the sums over all n values of the channel. */
static void dx_rows(float scale, double inverse, double sum, double dot, double n, int64_t c,
                    float *const row[ROWS]) {
    row[ROW_P][c] = (float)(scale * inverse);
    row[ROW_Q][c] = (float)(-scale * inverse * inverse * inverse * dot / n);
    row[ROW_R][c] = (float)(-scale * inverse * sum / n);
}

static double inverse_of(const struct cpu_kernel *kernel, const float *var, int64_t c) {
    return 1 / sqrt((double)var[c] + kernel->call.attrs.norm.epsilon);
}

/* From the images' sums to both gradients and the coefficients of dx. */
static void finish_sums(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        const float *sums, const float *dots, float *const row[ROWS]) {
    const struct cpu_image *image = &kernel->image;
    const float *scale = in[2], *var = in[4];
    float *dscale = out[1], *dshift = out[2];
    double n = (double)(image->batch * image->pixels);
    for (int64_t c = 0; c < image->channels; c++) {
        double sum, dot, inverse = inverse_of(kernel, var, c);
        channel_sums(image, sums, dots, c, &sum, &dot);
        dscale[c] = (float)(dot * inverse);
        dshift[c] = (float)sum;
        dx_rows(scale[c], inverse, sum, dot, n, c, row);
    }
}

/* --- kernels --- */

/* Inputs (or output 0) as chunks; `place` counts those of a kernel. Their rooms are behind the
 * sums, kernel->count bytes. */
static struct chunks chunks_of(const struct cpu_kernel *kernel, const struct tensor_type *type,
                               void *data, void *scratch, int place) {
    int64_t size = kernel->image.pixels * kernel->image.lanes;
    float *rooms = (float *)((char *)scratch + kernel->count);
    return (struct chunks){type->dtype, data, rooms + place * kernel->base.device->threads * size,
                           size};
}

static void run_forward(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        void *scratch) {
    const struct cpu_image *image = &kernel->image;
    bool relu = kernel->call.attrs.activation == ACTIVATION_RELU;
    float *a = relu ? out[3] : scratch, *b = a + padded_channels(image);
    float *means = (float *)scratch + 2 * padded_channels(image);
    struct chunks x = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0),
                  y = chunks_of(kernel, &kernel->call.out[0], out[0], scratch, 1);
    moments(image, &x, means, out[1], out[2]);
    affine_of(image, in[1], in[2], out[1], out[2], kernel->call.attrs.norm.epsilon, a, b);
    affine(image, &x, a, b, relu, &y);
}

static void run_eval(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                     void *scratch) {
    const struct cpu_image *image = &kernel->image;
    float *a = scratch, *b = a + padded_channels(image);
    affine_of(image, in[1], in[2], in[3], in[4], kernel->call.attrs.norm.epsilon, a, b);
    struct chunks x = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0),
                  y = chunks_of(kernel, &kernel->call.out[0], out[0], scratch, 1);
    affine(image, &x, a, b, kernel->call.attrs.activation == ACTIVATION_RELU, &y);
}

/* Rows of zeros in scratch for what backward computes, the mean padded, and for relu the factors
 * that forward left; returns what lies behind them. */
static float *backward_rows(const struct cpu_kernel *kernel, const float *mean, float *affine,
                            float *scratch, float *row[ROWS]) {
    const struct cpu_image *image = &kernel->image;
    int64_t padded = padded_channels(image);
    float *zero = scratch;
    memset(scratch, 0, 5 * (size_t)padded * sizeof(float));
    row[ROW_A] = affine ? affine : zero;
    row[ROW_B] = affine ? affine + padded : zero;
    for (int i = ROW_MEAN; i < ROWS; i++) row[i] = zero + (i - ROW_MEAN + 1) * padded;
    memcpy(row[ROW_MEAN], mean, (size_t)image->channels * sizeof *mean);
    return scratch + 5 * padded;
}

static struct coefficients coefficients_of(float *const row[ROWS]) {
    struct coefficients all;
    for (int i = 0; i < ROWS; i++) all.row[i] = row[i];
    return all;
}

static void run_backward(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                         void *scratch) {
    const struct cpu_image *image = &kernel->image;
    bool relu = kernel->call.attrs.activation == ACTIVATION_RELU;
    float *row[ROWS], *sums = backward_rows(kernel, in[3], relu ? in[5] : NULL, scratch, row),
                      *dots = sums + image->batch * padded_channels(image);
    struct coefficients all = coefficients_of(row);
    struct chunks dy = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0),
                  x = chunks_of(kernel, &kernel->call.in[1], in[1], scratch, 1),
                  dx = chunks_of(kernel, &kernel->call.out[0], out[0], scratch, 2);
    backward_sums(image, &dy, &x, &all, relu, sums, dots);
    finish_sums(kernel, in, out, sums, dots, row);
    backward_dx(image, &dy, &x, &all, relu, &dx);
}

/* --- over several ranks --- */

static void run_stats(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                      void *scratch) {
    const struct cpu_image *image = &kernel->image;
    float *mean = out[0], *var = mean + image->channels;
    struct chunks x = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0);
    moments(image, &x, scratch, mean, var);
    var[image->channels] = (float)(image->batch * image->pixels);
}

static void run_apply(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                      void *scratch) {
    const struct cpu_image *image = &kernel->image;
    bool relu = kernel->call.attrs.activation == ACTIVATION_RELU;
    float *a = relu ? out[1] : scratch, *b = a + padded_channels(image);
    struct chunks x = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0),
                  y = chunks_of(kernel, &kernel->call.out[0], out[0], scratch, 1);
    affine_of(image, in[1], in[2], in[3], in[4], kernel->call.attrs.norm.epsilon, a, b);
    affine(image, &x, a, b, relu, &y);
}

static void run_bwd_stats(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                          void *scratch) {
    const struct cpu_image *image = &kernel->image;
    bool relu = kernel->call.attrs.activation == ACTIVATION_RELU;
    float *row[ROWS], *sums = backward_rows(kernel, in[2], relu ? in[4] : NULL, scratch, row),
                      *dots = sums + image->batch * padded_channels(image);
    float *both = out[0], *dscale = out[1], *dshift = out[2];
    struct coefficients all = coefficients_of(row);
    struct chunks dy = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0),
                  x = chunks_of(kernel, &kernel->call.in[1], in[1], scratch, 1);
    backward_sums(image, &dy, &x, &all, relu, sums, dots);
    for (int64_t c = 0; c < image->channels; c++) {
        double sum, dot;
        channel_sums(image, sums, dots, c, &sum, &dot);
        both[c] = dshift[c] = (float)sum;
        both[image->channels + c] = (float)dot;
        dscale[c] = (float)(dot * inverse_of(kernel, in[3], c));
    }
}

static void run_bwd_apply(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                          void *scratch) {
    const struct cpu_image *image = &kernel->image;
    bool relu = kernel->call.attrs.activation == ACTIVATION_RELU;
    const float *scale = in[2], *count = in[5], *sums = in[6];
    int64_t ranks = kernel->call.in[6].shape.dim[0], channels = image->channels;
    float *row[ROWS];
    backward_rows(kernel, in[3], relu ? in[7] : NULL, scratch, row);
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0, dot = 0;
        for (int64_t r = 0; r < ranks; r++)
            sum += sums[2 * r * channels + c], dot += sums[(2 * r + 1) * channels + c];
        dx_rows(scale[c], inverse_of(kernel, in[4], c), sum, dot, *count, c, row);
    }
    struct coefficients all = coefficients_of(row);
    struct chunks dy = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0),
                  x = chunks_of(kernel, &kernel->call.in[1], in[1], scratch, 1),
                  dx = chunks_of(kernel, &kernel->call.out[0], out[0], scratch, 2);
    backward_dx(image, &dy, &x, &all, relu, &dx);
}

/* --- making kernels --- */

/* x, input `at`, decides the layout of all inputs up to it and of an output as large; where it has
 * none we understand, it is asked for plain. Those are of one type, and all others f32. */
static enum status follow(struct cpu_kernel *kernel, const struct layout *x, int at) {
    const struct op_call *call = &kernel->call;
    for (int i = 0; i < call->in_count; i++)
        if (i > at ? call->in[i].dtype == DTYPE_BF16 : call->in[i].dtype != call->in[at].dtype)
            return STATUS_NO;
    if (shape_equal(&call->out[0].shape, &call->in[at].shape) &&
        call->out[0].dtype != call->in[at].dtype)
        return STATUS_NO;
    const struct layout *layout = x && cpu_image(x, &kernel->image) ? x : NULL;
    if (!layout) {
        layout = kernel->base.in[at];
        cpu_image(layout, &kernel->image);
    }
    for (int i = 0; i <= at; i++) kernel->base.in[i] = layout;
    if (tensor_type_equal(&kernel->call.out[0], &layout->type)) kernel->base.out[0] = layout;
    cpu_name(kernel, "loop:batch_norm");
    return STATUS_OK;
}

static const struct layout *affine_layout(struct cpu_kernel *kernel,
                                          const struct tensor_type *mask) {
    int64_t padded = padded_channels(&kernel->image);
    char text[DNN_TEXT_BYTES];
    snprintf(text, sizeof text, "affine%lld", (long long)padded);
    return cpu_layout_private(cpu_device_of(kernel), mask, 2 * (size_t)padded * sizeof(float),
                              text);
}

static size_t sums_bytes(const struct cpu_image *image, int64_t rows) {
    return (size_t)(padded_channels(image) * (rows + 2 * image->batch)) * sizeof(float);
}

/* Forward and backward of one kind: a mask is output or input `mask`, when there is one. */
static void forward_mask(struct cpu_kernel *kernel, int mask) {
    if (kernel->call.out_count > mask)
        kernel->base.out[mask] = affine_layout(kernel, &kernel->call.out[mask]);
}

static enum status backward_mask(struct cpu_kernel *kernel, const struct layout *const in[],
                                 int mask) {
    if (kernel->call.in_count <= mask) return STATUS_OK;
    kernel->base.in[mask] = affine_layout(kernel, &kernel->call.in[mask]);
    bool foreign = in[mask] && in[mask] != kernel->base.in[mask];
    return foreign ? STATUS_NO : STATUS_OK; /* a mask of another maker: the reference reads it */
}

static enum status finish(struct cpu_kernel *kernel, int64_t rows, cpu_loop *loop) {
    const struct cpu_image *image = &kernel->image;
    size_t sums = cpu_padded(sums_bytes(image, rows)),
           room = (size_t)(image->pixels * image->lanes) * sizeof(float);
    kernel->count = (int64_t)sums;
    bool narrow = kernel->call.in[0].dtype == DTYPE_BF16;
    cpu_scratch(kernel, sums + (narrow ? 3 * room * (size_t)kernel->base.device->threads : 0));
    cpu_step_loop(kernel, loop);
    return STATUS_OK;
}

enum status cpu_batch_norm(struct cpu_kernel *kernel, const struct layout *const in[]) {
    TRY(follow(kernel, in[0], 0));
    forward_mask(kernel, 3);
    return finish(kernel, 2, run_forward);
}

enum status cpu_batch_norm_bwd(struct cpu_kernel *kernel, const struct layout *const in[]) {
    TRY(follow(kernel, in[1], 1));
    TRY(backward_mask(kernel, in, 5));
    return finish(kernel, 5, run_backward);
}

enum status cpu_batch_norm_eval(struct cpu_kernel *kernel, const struct layout *const in[]) {
    if (kernel->call.attrs.activation == ACTIVATION_TANH) return STATUS_NO;
    TRY(follow(kernel, in[0], 0));
    return finish(kernel, 2, run_eval);
}

enum status cpu_batch_norm_stats(struct cpu_kernel *kernel, const struct layout *const in[]) {
    TRY(follow(kernel, in[0], 0));
    return finish(kernel, 0, run_stats);
}

enum status cpu_batch_norm_apply(struct cpu_kernel *kernel, const struct layout *const in[]) {
    TRY(follow(kernel, in[0], 0));
    forward_mask(kernel, 1);
    return finish(kernel, 2, run_apply);
}

enum status cpu_batch_norm_bwd_stats(struct cpu_kernel *kernel, const struct layout *const in[]) {
    TRY(follow(kernel, in[1], 1));
    TRY(backward_mask(kernel, in, 4));
    return finish(kernel, 5, run_bwd_stats);
}

enum status cpu_batch_norm_bwd_apply(struct cpu_kernel *kernel, const struct layout *const in[]) {
    TRY(follow(kernel, in[1], 1));
    TRY(backward_mask(kernel, in, 7));
    return finish(kernel, 5, run_bwd_apply);
}
