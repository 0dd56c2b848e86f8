/* Grids resized: against torch's own numbers (resize.py). */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/mem.h"
#include "tensor/resize.h"

enum { CHANNELS = 2, MOST = 128 };

static const struct {
    struct resize_grid from, to;
    float want[MOST];
} cases[] = {
#define RESIZE(from_h, from_w, to_h, to_w, ...) {{from_h, from_w}, {to_h, to_w}, {__VA_ARGS__}},
#include "resize.def"
#undef RESIZE
};

Test(tensor_resize, as_torch_does) {
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct resize_grid from = cases[k].from, to = cases[k].to;
        float in[MOST], out[MOST];
        for (int64_t r = 0; r < from.height; r++)
            for (int64_t c = 0; c < from.width; c++)
                for (int64_t n = 0; n < CHANNELS; n++)
                    in[(r * from.width + c) * CHANNELS + n] =
                        (float)((r * 37 + c * 53 + n * 29 + 11) % 101 - 50) / 32;
        resize_bicubic(in, from, out, to, CHANNELS);
        for (int64_t i = 0; i < to.height * to.width * CHANNELS; i++)
            cr_expect_float_eq(out[i], cases[k].want[i], 1e-6, "case %d, element %d: %g, not %g",
                               (int)k, (int)i, out[i], cases[k].want[i]);
    }
}

Test(tensor_resize, the_same_size_changes_nothing) {
    float in[12], out[12];
    for (int i = 0; i < 12; i++) in[i] = (float)i * 1.25f;
    resize_bicubic(in, (struct resize_grid){2, 3}, out, (struct resize_grid){2, 3}, CHANNELS);
    cr_expect_arr_eq(in, out, sizeof in);
}
