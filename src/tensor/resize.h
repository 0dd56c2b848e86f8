/* Grids of rows of numbers made larger or smaller. Local, pure. */
#ifndef TENSOR_RESIZE_H
#define TENSOR_RESIZE_H

#include <stdint.h>

struct resize_grid {
    int64_t height, width;
};

/* Bicubic, with antialiasing where a side shrinks, as torch's interpolate(mode="bicubic",
 * antialias=True, align_corners=False): `in` is [from.height,from.width,channels], `out`
 * [to.height,to.width,channels]; all sides are at least 1. */
void resize_bicubic(const float *in, struct resize_grid from, float *out, struct resize_grid to,
                    int64_t channels);

#endif
