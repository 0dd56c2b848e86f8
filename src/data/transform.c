/* Transforms stay in 8 bits until the last step, as PIL's do, so that results equal torchvision's
 * on PIL images exactly; the last step is a table lookup per pixel, which is also the fastest way.
 */
#include "data/transform.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void transform_shift(const unsigned char *in, int height, int width, int top, int left, bool flip,
                     unsigned char *out) {
    int from = left < 0 ? -left : 0,
        to = left > 0 ? width - left : width; /* columns that exist in `in` */
    for (int y = 0; y < height; y++, out += width) {
        memset(out, 0, (size_t)width);
        if (y + top < 0 || y + top >= height || from >= to) continue;
        const unsigned char *row = in + (int64_t)(y + top) * width;
        if (!flip)
            memcpy(out + from, row + from + left, (size_t)(to - from));
        else
            for (int x = from; x < to; x++) out[width - 1 - x] = row[x + left];
    }
}

void transform_table(float mean, float std, float table[256]) {
    for (int v = 0; v < 256; v++) table[v] = ((float)v / 255.0f - mean) / std;
}

/* One direction: output i is the sum over k < count[i] of in[first[i] + k] * weight[i * taps + k].
 */
struct axis {
    int in, out, taps;
    int *first, *count;
    int32_t *weight;
};

struct resize {
    struct axis x, y;
};

enum { WEIGHT_BITS = 22 }; /* 8 bits of pixel, 22 of weight and 2 to spare */

static double triangle(double x) {
    return fabs(x) < 1.0 ? 1.0 - fabs(x) : 0.0;
}

static void axis_fill(struct axis *axis, int i, double scale, double stretch, double *weight) {
    double centre = (i + 0.5) * scale, sum = 0;
    int first = (int)(centre - stretch + 0.5), last = (int)(centre + stretch + 0.5);
    if (first < 0) first = 0;
    if (last > axis->in) last = axis->in;
    for (int k = 0; k < last - first; k++) {
        weight[k] = triangle((k + first - centre + 0.5) * (1.0 / stretch));
        sum += weight[k];
    }
    axis->first[i] = first;
    axis->count[i] = last - first;
    for (int k = 0; k < last - first; k++)
        axis->weight[i * axis->taps + k] = (int32_t)(0.5 + weight[k] / sum * (1 << WEIGHT_BITS));
}

static struct axis axis_make(int in, int out) {
    double scale = (double)in / out, stretch = scale > 1 ? scale : 1;
    int taps = (int)ceil(stretch) * 2 + 1;
    struct axis axis = {in,
                        out,
                        taps,
                        MEM_ARRAY(int, out),
                        MEM_ARRAY(int, out),
                        MEM_ARRAY(int32_t, (size_t)out * (size_t)taps)};
    double *weight = MEM_ARRAY(double, taps);
    for (int i = 0; i < out; i++) axis_fill(&axis, i, scale, stretch, weight);
    free(weight);
    return axis;
}

struct resize *resize_new(int in_height, int in_width, int out_height, int out_width) {
    struct resize *plan = MEM_NEW(struct resize);
    plan->x = axis_make(in_width, out_width);
    plan->y = axis_make(in_height, out_height);
    return plan;
}

/* Applies one axis to one line whose elements lie `step` apart, in input and output. */
static void axis_run(const struct axis *axis, const unsigned char *in, unsigned char *out,
                     int step) {
    for (int i = 0; i < axis->out; i++) {
        const int32_t *weight = axis->weight + (int64_t)i * axis->taps;
        const unsigned char *source = in + (int64_t)axis->first[i] * step;
        int64_t sum = 1 << (WEIGHT_BITS - 1);
        for (int k = 0; k < axis->count[i]; k++)
            sum += (int64_t)source[(int64_t)k * step] * weight[k];
        sum >>= WEIGHT_BITS;
        out[(int64_t)i * step] = sum > 255 ? 255 : (unsigned char)sum;
    }
}

void resize_run(const struct resize *plan, const unsigned char *in, unsigned char *scratch,
                unsigned char *out) {
    int width = plan->x.out;
    for (int y = 0; y < plan->y.in; y++)
        axis_run(&plan->x, in + (int64_t)y * plan->x.in, scratch + (int64_t)y * width, 1);
    for (int x = 0; x < width; x++) axis_run(&plan->y, scratch + x, out + x, width);
}

static void axis_free(struct axis *axis) {
    free(axis->first);
    free(axis->count);
    free(axis->weight);
}

void resize_free(struct resize **plan) {
    if (!*plan) return;
    axis_free(&(*plan)->x);
    axis_free(&(*plan)->y);
    free(*plan);
    *plan = NULL;
}
