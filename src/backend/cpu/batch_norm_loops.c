/* See batch_norm_loops.h.
 *
 * oneDNN reads x three times forward; one pass is enough for the moments when each image's sums are
 * taken about its own first pixel, so that nothing cancels, and put together in double. Sums are
 * per image and channel block first, then over images in order: the bits do not depend on the
 * team's size. */
#include "backend/cpu/batch_norm_loops.h"

#include <math.h>
#include <omp.h>
#include <string.h>

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

/* Coefficients of a chunk's channels, repeated to 16; `lanes` divides 16. */
static void repeat(const float *from, int64_t lanes, float to[WIDE]) {
    for (int64_t i = 0; i < WIDE; i++) to[i] = from[i & (lanes - 1)];
}

static void fold(const float from[WIDE], int64_t lanes, float *to) {
    memcpy(to, from, (size_t)lanes * sizeof *to);
    for (int64_t i = lanes; i < WIDE; i++) to[i & (lanes - 1)] += from[i];
}

static float *room_of(const struct cpu_norm_chunks *chunks) {
    return chunks->room + omp_get_thread_num() * chunks->size;
}

static const float *chunk_read(const struct cpu_norm_chunks *chunks, int64_t i) {
    return cpu_read(chunks->type, chunks->data, i * chunks->size, chunks->size, room_of(chunks));
}

static float *chunk_room(const struct cpu_norm_chunks *chunks, int64_t i) {
    return cpu_room(chunks->type, chunks->data, i * chunks->size, room_of(chunks));
}

static void chunk_write(const struct cpu_norm_chunks *chunks, int64_t i, const float *from) {
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

void cpu_norm_moments(const struct cpu_image *image, const struct cpu_norm_chunks *x, float *means,
                      float *mean, float *var) {
    int64_t chunks = image->batch * image->blocks, step = cpu_norm_padded_channels(image);
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

void cpu_norm_affine_of(const struct cpu_image *image, const float *scale, const float *shift,
                        const float *mean, const float *var, float epsilon, float *a, float *b) {
    memset(a, 0, (size_t)cpu_norm_padded_channels(image) * sizeof *a);
    memset(b, 0, (size_t)cpu_norm_padded_channels(image) * sizeof *b);
    for (int64_t c = 0; c < image->channels; c++) {
        double factor = scale[c] / sqrt((double)var[c] + epsilon);
        a[c] = (float)factor;
        b[c] = (float)(shift[c] - mean[c] * factor);
    }
}

/* Of elements from i on, which begin a row of 16: the words of their line, and their bit. */
static inline int64_t stop_line(int64_t i) {
    return i / (32 * WIDE) * WIDE;
}

static inline int32_t stop_bit(int64_t row) {
    return (int32_t)(1u << row % 32);
}

int64_t cpu_norm_stop_words(const struct cpu_image *image) {
    int64_t width = is_stream(image) ? WIDE : image->lanes,
            rows = (image->pixels * image->lanes + width - 1) / width;
    return (rows + 31) / 32 * width;
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

/* The same with another tensor added. */
VECTOR_CLONES static void sum_stream(const float *x, const float *added, int64_t count,
                                     const float *coefficients, bool relu, int32_t *stopped,
                                     float *y) {
    vec a = *(const vec *)coefficients, b = *(const vec *)(coefficients + WIDE), zero = {0};
    int64_t i = 0;
    for (; i + WIDE <= count; i += WIDE) {
        vec v = a * *(const vec *)(x + i) + b + *(const vec *)(added + i);
        ivec off = v <= zero;
        *(vec *)(y + i) = relu ? (vec)((ivec)v & ~off) : v;
        if (stopped) *(ivec *)(stopped + stop_line(i)) |= off & stop_bit(i / WIDE);
    }
    for (; i < count; i++) {
        float v = coefficients[i % WIDE] * x[i] + coefficients[WIDE + i % WIDE] + added[i];
        bool off = relu && v <= 0.0f;
        y[i] = off ? 0.0f : v;
        if (stopped && off) stopped[stop_line(i) + i % WIDE] |= stop_bit(i / WIDE);
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

VECTOR_CLONES static void sum_channels_last(const float *x, const float *added, int64_t pixels,
                                            int64_t lanes, const float *a, const float *b,
                                            bool relu, int32_t *stopped, float *y) {
    for (int64_t p = 0; p < pixels; p++, x += lanes, added += lanes, y += lanes) {
#pragma omp simd
        for (int64_t l = 0; l < lanes; l++) y[l] = a[l] * x[l] + b[l] + added[l];
        if (!relu) continue;
        int32_t *words = stopped ? stopped + p / 32 * lanes : NULL, bit = stop_bit(p);
        if (words)
#pragma omp simd
            for (int64_t l = 0; l < lanes; l++) words[l] |= y[l] <= 0.0f ? bit : 0;
#pragma omp simd
        for (int64_t l = 0; l < lanes; l++) y[l] = y[l] <= 0.0f ? 0.0f : y[l];
    }
}

static void affine_chunk(const struct cpu_image *image, const float *x, const float *a,
                         const float *b, bool relu, float *y) {
    float coefficients[2 * WIDE];
    if (is_stream(image)) {
        repeat(a, image->lanes, coefficients);
        repeat(b, image->lanes, coefficients + WIDE);
        affine_stream(x, image->pixels * image->lanes, coefficients, relu, y);
    } else {
        affine_channels_last(x, image->pixels, image->lanes, a, b, relu, y);
    }
}

static void sum_chunk(const struct cpu_image *image, const float *x, const float *added,
                      const float *a, const float *b, bool relu, int32_t *stopped, float *y) {
    float coefficients[2 * WIDE];
    if (stopped) memset(stopped, 0, (size_t)cpu_norm_stop_words(image) * sizeof *stopped);
    if (is_stream(image)) {
        repeat(a, image->lanes, coefficients);
        repeat(b, image->lanes, coefficients + WIDE);
        sum_stream(x, added, image->pixels * image->lanes, coefficients, relu, stopped, y);
    } else {
        sum_channels_last(x, added, image->pixels, image->lanes, a, b, relu, stopped, y);
    }
}

void cpu_norm_affine(const struct cpu_image *image, const struct cpu_norm_chunks *from,
                     const struct cpu_norm_chunks *added, const float *a, const float *b, bool relu,
                     int32_t *stopped, const struct cpu_norm_chunks *to) {
    int64_t chunks = image->batch * image->blocks, words = cpu_norm_stop_words(image);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; i++) {
        int64_t c = i % image->blocks * image->lanes;
        float *y = chunk_room(to, i);
        const float *x = chunk_read(from, i);
        if (added)
            sum_chunk(image, x, chunk_read(added, i), a + c, b + c, relu,
                      stopped ? stopped + i * words : NULL, y);
        else
            affine_chunk(image, x, a + c, b + c, relu, y);
        chunk_write(to, i, y);
    }
}

/* --- backward --- */

/* Leaves of the gradients of a row of 16 what passes. */
__attribute__((always_inline)) static inline void let_pass(vec *g, const int32_t *stopped,
                                                           int64_t i) {
    ivec passes = (*(const ivec *)(stopped + stop_line(i)) & stop_bit(i / WIDE)) == 0;
    *g = (vec)((ivec)*g & passes);
}

static inline float pass_one(float g, const int32_t *stopped, int64_t i) {
    return stopped[stop_line(i) + i % WIDE] & stop_bit(i / WIDE) ? 0.0f : g;
}

VECTOR_CLONES static void sums_stream(const float *dy, const float *x, int64_t count,
                                      const float *row, bool relu, const int32_t *stopped,
                                      float *sums) {
    vec a = *(const vec *)(row + CPU_NORM_ROW_A * WIDE),
        b = *(const vec *)(row + CPU_NORM_ROW_B * WIDE);
    vec mean = *(const vec *)(row + CPU_NORM_ROW_MEAN * WIDE), zero = {0}, s0 = {0}, s1 = {0},
        d0 = {0}, d1 = {0};
    int64_t i = 0;
    for (; i + 2 * WIDE <= count; i += 2 * WIDE) {
        vec x0 = *(const vec *)(x + i), x1 = *(const vec *)(x + i + WIDE);
        vec g0 = *(const vec *)(dy + i), g1 = *(const vec *)(dy + i + WIDE);
        if (stopped) {
            let_pass(&g0, stopped, i);
            let_pass(&g1, stopped, i + WIDE);
        } else if (relu) {
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
        float g = stopped                                         ? pass_one(dy[i], stopped, i)
                  : relu && row[l] * x[i] + row[WIDE + l] <= 0.0f ? 0.0f
                                                                  : dy[i];
        sums[l] += g;
        sums[WIDE + l] += g * (x[i] - row[CPU_NORM_ROW_MEAN * WIDE + l]);
    }
}

VECTOR_CLONES static void dx_stream(const float *dy, const float *x, int64_t count,
                                    const float *row, bool relu, const int32_t *stopped, float *dx,
                                    float *rest) {
    vec a = *(const vec *)(row + CPU_NORM_ROW_A * WIDE),
        b = *(const vec *)(row + CPU_NORM_ROW_B * WIDE);
    vec mean = *(const vec *)(row + CPU_NORM_ROW_MEAN * WIDE),
        p = *(const vec *)(row + CPU_NORM_ROW_P * WIDE);
    vec q = *(const vec *)(row + CPU_NORM_ROW_Q * WIDE),
        r = *(const vec *)(row + CPU_NORM_ROW_R * WIDE), zero = {0};
    int64_t i = 0;
    for (; i + WIDE <= count; i += WIDE) {
        vec v = *(const vec *)(x + i), g = *(const vec *)(dy + i);
        if (stopped)
            let_pass(&g, stopped, i);
        else if (relu)
            g = (vec)((ivec)g & ~(a * v + b <= zero));
        if (rest) *(vec *)(rest + i) = g;
        *(vec *)(dx + i) = p * g + q * (v - mean) + r;
    }
    for (; i < count; i++) {
        int64_t l = i % WIDE;
        float g = stopped                                         ? pass_one(dy[i], stopped, i)
                  : relu && row[l] * x[i] + row[WIDE + l] <= 0.0f ? 0.0f
                                                                  : dy[i];
        if (rest) rest[i] = g;
        dx[i] = row[CPU_NORM_ROW_P * WIDE + l] * g +
                row[CPU_NORM_ROW_Q * WIDE + l] * (x[i] - row[CPU_NORM_ROW_MEAN * WIDE + l]) +
                row[CPU_NORM_ROW_R * WIDE + l];
    }
}

VECTOR_CLONES static void sums_channels_last(const float *dy, const float *x, int64_t pixels,
                                             int64_t lanes, const float *const row[], bool relu,
                                             const int32_t *stopped, float *sum, float *dot) {
    memset(sum, 0, (size_t)lanes * sizeof *sum);
    memset(dot, 0, (size_t)lanes * sizeof *dot);
    const float *a = row[CPU_NORM_ROW_A], *b = row[CPU_NORM_ROW_B], *mean = row[CPU_NORM_ROW_MEAN];
    if (stopped) {
        for (int64_t p = 0; p < pixels; p++, x += lanes, dy += lanes) {
            const int32_t *words = stopped + p / 32 * lanes, bit = stop_bit(p);
#pragma omp simd
            for (int64_t l = 0; l < lanes; l++) {
                float g = words[l] & bit ? 0.0f : dy[l];
                sum[l] += g;
                dot[l] += g * (x[l] - mean[l]);
            }
        }
        return;
    }
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
                                           const int32_t *stopped, float *dx, float *rest) {
    const float *a = row[CPU_NORM_ROW_A], *b = row[CPU_NORM_ROW_B], *mean = row[CPU_NORM_ROW_MEAN];
    const float *p = row[CPU_NORM_ROW_P], *q = row[CPU_NORM_ROW_Q], *r = row[CPU_NORM_ROW_R];
    if (stopped) {
        for (int64_t i = 0; i < pixels; i++, x += lanes, dy += lanes, dx += lanes, rest += lanes) {
            const int32_t *words = stopped + i / 32 * lanes, bit = stop_bit(i);
#pragma omp simd
            for (int64_t l = 0; l < lanes; l++) {
                float g = words[l] & bit ? 0.0f : dy[l];
                rest[l] = g;
                dx[l] = p[l] * g + q[l] * (x[l] - mean[l]) + r[l];
            }
        }
        return;
    }
    for (int64_t i = 0; i < pixels; i++, x += lanes, dy += lanes, dx += lanes)
#pragma omp simd
        for (int64_t l = 0; l < lanes; l++) {
            float g = relu && a[l] * x[l] + b[l] <= 0.0f ? 0.0f : dy[l];
            dx[l] = p[l] * g + q[l] * (x[l] - mean[l]) + r[l];
        }
}

/* Points at a chunk's channels; `repeated` is filled for streams. */
static void chunk_rows(const struct cpu_image *image, const struct cpu_norm_coefficients *all,
                       int64_t chunk, int rows, const float *row[CPU_NORM_ROWS], float *repeated) {
    for (int i = 0; i < rows; i++) {
        row[i] = all->row[i] + chunk % image->blocks * image->lanes;
        if (is_stream(image)) repeat(row[i], image->lanes, repeated + i * WIDE);
    }
}

void cpu_norm_backward_sums(const struct cpu_image *image, const struct cpu_norm_chunks *dys,
                            const struct cpu_norm_chunks *xs,
                            const struct cpu_norm_coefficients *all, float *sums, float *dots) {
    int64_t chunks = image->batch * image->blocks, lanes = image->lanes,
            size = image->pixels * lanes, words = cpu_norm_stop_words(image);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; i++) {
        const float *row[CPU_NORM_ROWS];
        float repeated[CPU_NORM_ROWS * WIDE], both[2 * WIDE];
        const float *dy = chunk_read(dys, i), *x = chunk_read(xs, i);
        const int32_t *stopped = all->stopped ? all->stopped + i * words : NULL;
        chunk_rows(image, all, i, CPU_NORM_ROW_P, row, repeated);
        if (is_stream(image)) {
            sums_stream(dy, x, size, repeated, all->relu, stopped, both);
            fold(both, lanes, sums + i * lanes);
            fold(both + WIDE, lanes, dots + i * lanes);
        } else {
            sums_channels_last(dy, x, image->pixels, lanes, row, all->relu, stopped,
                               sums + i * lanes, dots + i * lanes);
        }
    }
}

void cpu_norm_backward_dx(const struct cpu_image *image, const struct cpu_norm_chunks *dys,
                          const struct cpu_norm_chunks *xs, const struct cpu_norm_coefficients *all,
                          const struct cpu_norm_chunks *to, const struct cpu_norm_chunks *rest) {
    int64_t chunks = image->batch * image->blocks, lanes = image->lanes,
            size = image->pixels * lanes, words = cpu_norm_stop_words(image);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; i++) {
        const float *row[CPU_NORM_ROWS];
        float repeated[CPU_NORM_ROWS * WIDE], *dx = chunk_room(to, i);
        const float *dy = chunk_read(dys, i), *x = chunk_read(xs, i);
        const int32_t *stopped = all->stopped ? all->stopped + i * words : NULL;
        float *g = rest ? chunk_room(rest, i) : NULL;
        chunk_rows(image, all, i, CPU_NORM_ROWS, row, repeated);
        if (is_stream(image))
            dx_stream(dy, x, size, repeated, all->relu, stopped, dx, g);
        else
            dx_channels_last(dy, x, image->pixels, lanes, row, all->relu, stopped, dx, g);
        chunk_write(to, i, dx);
        if (rest) chunk_write(rest, i, g);
    }
}
