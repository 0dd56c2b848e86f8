/* Images and weights to Winograd's six by six points and back (winograd.h).
 *
 * The transforms may join a multiplication and an addition, other than all else here: one rounding
 * less each, which keeps the error under four times that of the direct method where padding makes
 * up much of a tile (4x4 images). */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif
#include <string.h>

#include "backend/cpu/winograd.h"
#include "base/clones.h"

#define A 0.75f
#define B 1.5f
#define AA (A * A)
#define BB (B * B)
#define GA (1.0f / (2.0f * AA * (AA - BB)))
#define GB (1.0f / (2.0f * BB * (BB - AA)))
#define G0 (1.0f / (AA * BB))

/* Sixteen channels of one pixel; with blocks of eight, those of two neighbouring blocks. */
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));

/* --- one-dimensional transforms: n vectors of 6, 4 or 3 elements a step apart --- */

/* Arrays of vectors stay in registers where the loops over them are unrolled. */
#define UNROLLED _Pragma("GCC unroll 16")

#define LINE static inline __attribute__((always_inline)) void

/* B': window to points; may be done in place. */
LINE to_points(const vec *d, int step, vec *p, int64_t p_step) {
    vec even = d[4 * step] - BB * d[2 * step], odd = A * (d[3 * step] - BB * d[step]);
    vec even_b = d[4 * step] - AA * d[2 * step], odd_b = B * (d[3 * step] - AA * d[step]);
    vec first = AA * BB * d[0] - (AA + BB) * d[2 * step] + d[4 * step];
    vec last = AA * BB * d[step] - (AA + BB) * d[3 * step] + d[5 * step];
    p[0] = first;
    p[p_step] = even + odd;
    p[2 * p_step] = even - odd;
    p[3 * p_step] = even_b + odd_b;
    p[4 * p_step] = even_b - odd_b;
    p[5 * p_step] = last;
}

/* A': points to the four outputs. */
LINE from_points(const vec *p, int64_t step, vec *y, int y_step) {
    vec sum = p[step] + p[2 * step], difference = p[step] - p[2 * step];
    vec sum_b = p[3 * step] + p[4 * step], difference_b = p[3 * step] - p[4 * step];
    y[0] = p[0] + sum + sum_b;
    y[y_step] = A * difference + B * difference_b;
    y[2 * y_step] = AA * sum + BB * sum_b;
    y[3 * y_step] = AA * A * difference + BB * B * difference_b + p[5 * step];
}

/* A, its transpose: four outputs' gradients to points. */
LINE spread(const vec *y, int y_step, vec *p, int64_t step) {
    vec even = y[0] + AA * y[2 * y_step], odd = A * (y[y_step] + AA * y[3 * y_step]);
    vec even_b = y[0] + BB * y[2 * y_step], odd_b = B * (y[y_step] + BB * y[3 * y_step]);
    vec last = y[3 * y_step];
    p[0] = y[0];
    p[step] = even + odd;
    p[2 * step] = even - odd;
    p[3 * step] = even_b + odd_b;
    p[4 * step] = even_b - odd_b;
    p[5 * step] = last;
}

/* G: three weights to points. */
LINE weights_to_points(const vec *w, int w_step, vec *p, int64_t step) {
    vec even = GA * (w[0] + AA * w[2 * w_step]), odd = GA * A * w[w_step];
    vec even_b = GB * (w[0] + BB * w[2 * w_step]), odd_b = GB * B * w[w_step];
    p[0] = G0 * w[0];
    p[step] = even + odd;
    p[2 * step] = even - odd;
    p[3 * step] = even_b + odd_b;
    p[4 * step] = even_b - odd_b;
    p[5 * step] = w[2 * w_step];
}

/* G': points' gradients to those of the three weights. */
LINE points_to_weights(const vec *p, int64_t step, vec *w, int w_step) {
    vec sum = GA * (p[step] + p[2 * step]), sum_b = GB * (p[3 * step] + p[4 * step]);
    vec difference = GA * A * (p[step] - p[2 * step]);
    vec difference_b = GB * B * (p[3 * step] - p[4 * step]);
    w[0] = G0 * p[0] + sum + sum_b;
    w[w_step] = difference + difference_b;
    w[2 * w_step] = AA * sum + BB * sum_b + p[5 * step];
}

/* --- images --- */

/* Sixteen channels; the second eight lie half_step floats behind the first. */
LINE load(const float *at, int64_t half_step, vec *out) {
    memcpy(out, at, 32);
    memcpy((char *)out + 32, at + half_step, 32);
}

LINE store(float *at, int64_t half_step, const vec *value) {
    memcpy(at, value, 32);
    memcpy(at + half_step, (const char *)value + 32, 32);
}

/* Floats from the first eight of sixteen channels to the second eight. */
static int64_t half_step(const struct cpu_image *image) {
    return image->lanes == 16 ? 8 : image->pixels * 8;
}

/* Where a tile lies: image and upper left output pixel. */
struct corner {
    int64_t image, row, column;
};

static struct corner corner_of(const struct winograd *w, int64_t tile) {
    int64_t inside = tile % (w->rows * w->columns);
    return (struct corner){tile / (w->rows * w->columns), inside / w->columns * TILE,
                           inside % w->columns * TILE};
}

/* Where sixteen channels of an image begin. */
static int64_t channels_at(const struct cpu_image *image, int64_t number, int64_t block) {
    return (number * image->channels + block * WIDE) * image->pixels;
}

/* Reads size by size pixels of sixteen channels, zero outside the image. */
LINE read_square(const struct cpu_image *image, const float *from, int64_t row, int64_t column,
                 int size, vec *d) {
    int64_t half = half_step(image), lanes = image->lanes, H = image->height, W = image->width;
    from += (row * W + column) * lanes;
    if (row >= 0 && column >= 0 && row + size <= H && column + size <= W) {
        if (lanes == WIDE)
            for (int i = 0; i < size; i++)
                memcpy(d + i * size, from + i * W * WIDE, (size_t)size * sizeof *d);
        else
            for (int i = 0; i < size; i++)
                for (int j = 0; j < size; j++)
                    load(from + (i * W + j) * lanes, half, &d[i * size + j]);
        return;
    }
    memset(d, 0, (size_t)(size * size) * sizeof *d);
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size && row + i >= 0 && row + i < H; j++)
            if (column + j >= 0 && column + j < W)
                load(from + (i * W + j) * lanes, half, &d[i * size + j]);
}

FUSED_CLONES void winograd_windows_to_points(const struct winograd *w, const float *source,
                                             int64_t block, int64_t first, int64_t count,
                                             float *v) {
    for (int64_t t = 0; t < count; t++) {
        vec d[POINTS], *p = (vec *)v + t;
        struct corner at = corner_of(w, first + t);
        read_square(&w->from, source + channels_at(&w->from, at.image, block), at.row - w->pad[0],
                    at.column - w->pad[1], WINDOW, d);
        UNROLLED
        for (int j = 0; j < WINDOW; j++) to_points(d + j, WINDOW, d + j, WINDOW);
        UNROLLED
        for (int i = 0; i < WINDOW; i++)
            to_points(d + i * WINDOW, 1, p + i * WINDOW * w->pitch, w->pitch);
    }
}

FUSED_CLONES void winograd_points_to_outputs(const struct winograd *w, float *target,
                                             const struct finish *finish, int64_t block,
                                             int64_t first, int64_t count, const float *m) {
    const struct cpu_image *image = &w->to;
    int64_t half = half_step(image);
    vec add = finish->bias ? *(const vec *)(finish->bias + block * WIDE) : (vec){0};
    for (int64_t t = 0; t < count; t++) {
        const vec *p = (const vec *)m + t;
        vec turned[TILE * WINDOW], y[TILE * TILE];
        struct corner at = corner_of(w, first + t);
        float *to = target + channels_at(image, at.image, block);
        UNROLLED
        for (int j = 0; j < WINDOW; j++)
            from_points(p + j * w->pitch, WINDOW * w->pitch, turned + j, WINDOW);
        UNROLLED
        for (int i = 0; i < TILE; i++) from_points(turned + i * WINDOW, 1, y + i * TILE, 1);
        for (int64_t i = 0; i < TILE && at.row + i < image->height; i++)
            for (int64_t j = 0; j < TILE && at.column + j < image->width; j++) {
                vec value = y[i * TILE + j] + add;
                for (int l = 0; finish->relu && l < WIDE; l++)
                    value[l] = value[l] < 0.0f ? 0.0f : value[l];
                store(to + ((at.row + i) * image->width + at.column + j) * image->lanes, half,
                      &value);
            }
    }
}

FUSED_CLONES void winograd_outputs_to_points(const struct winograd *w, const float *source,
                                             int64_t block, int64_t first, int64_t count,
                                             float *m) {
    for (int64_t t = 0; t < count; t++) {
        vec y[TILE * TILE], turned[WINDOW * TILE], *p = (vec *)m + t;
        struct corner at = corner_of(w, first + t);
        read_square(&w->to, source + channels_at(&w->to, at.image, block), at.row, at.column, TILE,
                    y);
        UNROLLED
        for (int j = 0; j < TILE; j++) spread(y + j, TILE, turned + j, TILE);
        UNROLLED
        for (int i = 0; i < WINDOW; i++)
            spread(turned + i * TILE, 1, p + i * WINDOW * w->pitch, w->pitch);
    }
}

/* --- weights: blocks [3][3][16 of C][16 of O], those of one sixteen of O together --- */

FUSED_CLONES void winograd_weights_to_block(const float *weights, float *u) {
    for (int c = 0; c < WIDE; c++) {
        vec w[TAPS], t[WINDOW * 3], *p = (vec *)u + c;
        UNROLLED
        for (int k = 0; k < TAPS; k++) w[k] = ((const vec *)(weights + k * BLOCK))[c];
        UNROLLED
        for (int j = 0; j < 3; j++) weights_to_points(w + j, 3, t + j, 3);
        UNROLLED
        for (int i = 0; i < WINDOW; i++)
            weights_to_points(t + i * 3, 1, p + i * WINDOW * U_PITCH, U_PITCH);
    }
}

FUSED_CLONES void winograd_block_to_weights(const float *u, float *weights) {
    for (int c = 0; c < WIDE; c++) {
        const vec *p = (const vec *)u + c;
        vec w[TAPS], t[3 * WINDOW];
        UNROLLED
        for (int j = 0; j < WINDOW; j++)
            points_to_weights(p + j * U_PITCH, WINDOW * U_PITCH, t + j, WINDOW);
        UNROLLED
        for (int i = 0; i < 3; i++) points_to_weights(t + i * WINDOW, 1, w + i * 3, 1);
        UNROLLED
        for (int k = 0; k < TAPS; k++) ((vec *)(weights + k * BLOCK))[c] = w[k];
    }
}

/* Four rounds of interleaving rows i and i + 8 transpose 16 by 16. */
LINE interleave(const vec *from, vec *to) {
    UNROLLED
    for (int i = 0; i < WIDE / 2; i++) {
        vec a = from[i], b = from[i + WIDE / 2];
        to[2 * i] =
            __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        to[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                14, 30, 15, 31);
    }
}

FUSED_CLONES void winograd_turn_block(const float *weights, float *turned) {
    for (int k = 0; k < TAPS; k++) {
        vec a[WIDE], b[WIDE];
        interleave((const vec *)(weights + (TAPS - 1 - k) * BLOCK), a);
        interleave(a, b);
        interleave(b, a);
        interleave(a, (vec *)(turned + k * BLOCK));
    }
}
