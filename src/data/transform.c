/* Transforms stay in 8 bits until the last step, as PIL's do, so that results equal torchvision's
 * on PIL images exactly; the last step is a table lookup per pixel, which is also the fastest way.
 *
 * The first pass takes a row as it comes, so that only rows of the result's width are kept. A pixel
 * of four channels is one vector there; in the second pass the lanes are a whole row. */
#include "data/transform.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/log.h"

enum { WEIGHT_BITS = 22 }; /* 8 bits of pixel, 22 of weight and 2 to spare: sums fit in 32 */
enum { ALIGN = 64, LANES = 64 };

void transform_table(float mean, float std, float table[256]) {
    for (int v = 0; v < 256; v++) table[v] = ((float)v / 255.0f - mean) / std;
}

/* --- memory --- */

struct piece {
    char *base;
    size_t used;
};

static void *take(struct piece *piece, size_t bytes) {
    void *at = piece->base ? piece->base + piece->used : NULL;
    piece->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static int axis_taps(int in, int full) {
    double scale = (double)in / full;
    return scale > 1 ? (int)ceil(scale) * 2 + 1 : 3;
}

static void axis_take(struct piece *piece, struct resized_axis *axis) {
    size_t out = (size_t)axis->out;
    axis->first = take(piece, out * sizeof *axis->first);
    axis->count = take(piece, out * sizeof *axis->count);
    axis->weight = take(piece, out * (size_t)axis->taps * sizeof *axis->weight);
}

static size_t row_stride(int width) {
    return ((size_t)width * PIXEL_BYTES + LANES - 1) / LANES * LANES;
}

/* The one description of the layout: counts while `piece` is without a base. */
static void take_all(struct piece *piece, struct transform *t, int window_width, int middle_rows) {
    axis_take(piece, &t->x);
    axis_take(piece, &t->y);
    t->middle_stride = row_stride(t->x.out);
    t->middle = take(piece, (size_t)middle_rows * t->middle_stride);
    t->padded = take(piece, (size_t)(window_width + 1) * PIXEL_BYTES);
    t->line = take(piece, t->middle_stride * sizeof *t->line);
    t->wide = take(piece, (size_t)window_width * PIXEL_BYTES * sizeof *t->wide);
}

/* The part of a resized window has the scale of the whole: never a greater one than if the whole
 * had the size of the part. */
size_t transform_bytes(int height, int width, int out_height, int out_width) {
    struct transform most = {.x = {.out = out_width, .taps = axis_taps(width, out_width)},
                             .y = {.out = out_height, .taps = axis_taps(height, out_height)}};
    struct piece piece = {0};
    take_all(&piece, &most, width, height);
    return piece.used;
}

/* --- weights --- */

static double triangle(double x) {
    return fabs(x) < 1.0 ? 1.0 - fabs(x) : 0.0;
}

/* PIL's arithmetic, in its order. Sums are taken twice rather than kept. */
static void axis_fill(struct resized_axis *axis, int in, int at, int i, double scale) {
    double stretch = scale > 1 ? scale : 1, centre = (at + 0.5) * scale, sum = 0;
    int first = (int)(centre - stretch + 0.5), last = (int)(centre + stretch + 0.5);
    if (first < 0) first = 0;
    if (last > in) last = in;
    int32_t *weight = axis->weight + (int64_t)i * axis->taps;
    for (int k = 0; k < last - first; k++)
        sum += triangle((k + first - centre + 0.5) * (1.0 / stretch));
    for (int k = 0; k < axis->taps; k++) {
        double part = triangle((k + first - centre + 0.5) * (1.0 / stretch)) / sum;
        weight[k] = k < last - first ? (int32_t)(0.5 + part * (1 << WEIGHT_BITS)) : 0;
    }
    axis->first[i] = first;
    axis->count[i] = last - first;
}

static void axis_make(struct resized_axis *axis, int in, int full, int from) {
    axis->same = in == full;
    for (int i = 0; i < axis->out; i++) {
        if (axis->same)
            axis->first[i] = from + i, axis->count[i] = 1;
        else
            axis_fill(axis, in, from + i, i, (double)in / full);
    }
}

static int axis_end(const struct resized_axis *axis) {
    return axis->first[axis->out - 1] + axis->count[axis->out - 1];
}

/* --- the two passes --- */

static int clamp(int value, int least, int most) {
    return value < least ? least : value > most ? most : value;
}

void transform_begin(const struct view *view, int height, int width, void *memory,
                     struct transform *out) {
    struct piece piece = {memory, 0};
    struct transform t = {
        .view = *view,
        .x = {.out = view->out_width, .taps = axis_taps(view->width, view->full_width)},
        .y = {.out = view->out_height, .taps = axis_taps(view->height, view->full_height)}};
    take_all(&piece, &t, view->width, view->height);
    axis_make(&t.x, view->width, view->full_width, view->out_left);
    axis_make(&t.y, view->height, view->full_height, view->out_top);
    t.first_column = clamp(view->left + t.x.first[0], 0, width);
    t.end_column = clamp(view->left + axis_end(&t.x), t.first_column, width);
    t.middle_row = t.y.first[0];
    t.first_row = clamp(view->top + t.middle_row, 0, height);
    t.end_row = clamp(view->top + axis_end(&t.y), t.first_row, height);
    if (t.end_column == t.first_column) t.end_row = t.first_row;
    t.next_row = t.first_row;
    int rows = axis_end(&t.y) - t.middle_row;
    if (t.end_row - t.first_row < rows) memset(t.middle, 0, (size_t)rows * t.middle_stride);
    memset(t.padded, 0, (size_t)(view->width + 1) * PIXEL_BYTES);
    *out = t;
}

typedef int32_t words4 __attribute__((vector_size(16)));

/* `in` are `count` pixels of the window from the first that is needed on, `wide` room for them as
 * words: widened once, a pixel is one load of every sum that it is in. */
VECTOR_CLONES
static void resize_row(const struct resized_axis *axis, const unsigned char *in, int count,
                       int32_t *wide, int32_t *sums, unsigned char *out) {
#pragma omp simd
    for (int i = 0; i < count * PIXEL_BYTES; i++) wide[i] = in[i];
    for (int i = 0; i < axis->out; i++) {
        const int32_t *weight = axis->weight + (int64_t)i * axis->taps;
        const int32_t *source = wide + (int64_t)(axis->first[i] - axis->first[0]) * PIXEL_BYTES;
        words4 sum = (words4){0} + (1 << (WEIGHT_BITS - 1));
        for (int k = 0; k < axis->count[i]; k++) {
            words4 pixel;
            memcpy(&pixel, source + k * PIXEL_BYTES, sizeof pixel);
            sum += pixel * weight[k];
        }
        memcpy(sums + i * PIXEL_BYTES, &sum, sizeof sum);
    }
    int bytes = axis->out * PIXEL_BYTES;
#pragma omp simd
    for (int i = 0; i < bytes; i++) {
        int32_t value = sums[i] >> WEIGHT_BITS;
        out[i] = (unsigned char)(value > 255 ? 255 : value);
    }
}

void transform_row(struct transform *t, const unsigned char *pixels) {
    const struct view *view = &t->view;
    CHECK(t->next_row < t->end_row, "row %d of a picture, of which %d to %d are wanted",
          t->next_row, t->first_row, t->end_row - 1);
    int row = t->next_row++ - view->top - t->middle_row;
    unsigned char *out = t->middle + (size_t)row * t->middle_stride;
    int begin = t->first_column - view->left, count = t->end_column - t->first_column;
    const unsigned char *window = pixels - (int64_t)begin * PIXEL_BYTES;
    if (begin > t->x.first[0] || begin + count < axis_end(&t->x)) {
        memcpy(t->padded + (int64_t)begin * PIXEL_BYTES, pixels, (size_t)count * PIXEL_BYTES);
        window = t->padded;
    }
    if (t->x.same)
        memcpy(out, window + (int64_t)t->x.first[0] * PIXEL_BYTES, (size_t)t->x.out * PIXEL_BYTES);
    else
        resize_row(&t->x, window + (int64_t)t->x.first[0] * PIXEL_BYTES,
                   axis_end(&t->x) - t->x.first[0], t->wide, t->line, out);
}

/* Adds up `taps` rows that lie `stride` apart; LANES at a time stay in registers. */
VECTOR_CLONES
static void resize_lines(const unsigned char *in, size_t stride, const int32_t *weight, int taps,
                         int32_t *out) {
    for (size_t at = 0; at < stride; at += LANES) {
        int32_t sum[LANES];
        for (int j = 0; j < LANES; j++) sum[j] = 1 << (WEIGHT_BITS - 1);
        for (int k = 0; k < taps; k++) {
            const unsigned char *row = in + (size_t)k * stride + at;
            for (int j = 0; j < LANES; j++) sum[j] += row[j] * weight[k];
        }
        for (int j = 0; j < LANES; j++) {
            int32_t value = sum[j] >> WEIGHT_BITS;
            out[at + (size_t)j] = value > 255 ? 255 : value;
        }
    }
}

static void copy_line(const unsigned char *in, size_t count, int32_t *out) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) out[i] = in[i];
}

void transform_end(const struct transform *t, float (*table)[256], int channels, float *out) {
    CHECK(t->next_row == t->end_row, "row %d of a picture is missing, of %d to %d", t->next_row,
          t->first_row, t->end_row - 1);
    int width = t->x.out, height = t->y.out;
    for (int y = 0; y < height; y++) {
        const unsigned char *rows =
            t->middle + (size_t)(t->y.first[y] - t->middle_row) * t->middle_stride;
        if (t->y.same)
            copy_line(rows, t->middle_stride, t->line);
        else
            resize_lines(rows, t->middle_stride, t->y.weight + (int64_t)y * t->y.taps,
                         t->y.count[y], t->line);
        for (int c = 0; c < channels; c++) {
            float *to = out + ((int64_t)c * height + y) * width;
            const int32_t *from = t->line + c;
            if (t->view.flip)
                for (int x = 0; x < width; x++) to[width - 1 - x] = table[c][from[x * PIXEL_BYTES]];
            else
                for (int x = 0; x < width; x++) to[x] = table[c][from[x * PIXEL_BYTES]];
        }
    }
}
