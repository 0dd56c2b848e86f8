/* See resize.h. One side after the other. Where a side shrinks the kernel is as much wider, so that
 * every number counts; at the border its weights are those of the numbers that are there, scaled to
 * the sum 1. */
#include "tensor/resize.h"

#include <math.h>

#include "base/mem.h"

/* Keys' cubic with a = -1/2, the one that torch takes with antialiasing. */
static double cubic(double x) {
    x = fabs(x);
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    if (x < 2) return ((-0.5 * x + 2.5) * x - 4) * x + 2;
    return 0;
}

static double clamp(double x, double low, double high) {
    return fmin(fmax(x, low), high);
}

/* [outer,from,inner] to [outer,to,inner]. */
static void resize_side(const float *in, int64_t outer, int64_t from, int64_t to, int64_t inner,
                        float *out) {
    double scale = (double)from / (double)to, wide = scale > 1 ? scale : 1;
    for (int64_t i = 0; i < to; i++) {
        double centre = scale * ((double)i + 0.5), total = 0;
        int64_t first = (int64_t)clamp(floor(centre - 2 * wide + 0.5), 0, (double)from),
                end = (int64_t)clamp(floor(centre + 2 * wide + 0.5), 0, (double)from);
        for (int64_t k = first; k < end; k++) total += cubic(((double)k - centre + 0.5) / wide);
        for (int64_t row = 0; row < outer * inner; row++) {
            int64_t o = row / inner, n = row % inner;
            double sum = 0;
            for (int64_t k = first; k < end; k++)
                sum += cubic(((double)k - centre + 0.5) / wide) / total *
                       (double)in[(o * from + k) * inner + n];
            out[(o * to + i) * inner + n] = (float)sum;
        }
    }
}

void resize_bicubic(const float *in, struct resize_grid from, float *out, struct resize_grid to,
                    int64_t channels) {
    SCOPED_FREE float *wide = MEM_ARRAY(float, from.height *to.width *channels);
    resize_side(in, from.height, from.width, to.width, channels, wide);
    resize_side(wide, 1, from.height, to.height, to.width * channels, out);
}
