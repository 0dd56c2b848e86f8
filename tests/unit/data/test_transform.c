/* Transforms against PIL's resize and torch's normalisation, bit for bit. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/transform.h"

/* The same plane the reference values were made of. */
static unsigned char *plane(int height, int width) {
    unsigned char *pixels = malloc((size_t)(height * width));
    for (int i = 0; i < height * width; i++)
        pixels[i] =
            (unsigned char)(((unsigned)i * (unsigned)i * 37u + (unsigned)i * 11u + 5u) % 256u);
    return pixels;
}

static uint32_t weighted_sum(const unsigned char *pixels, int count) {
    uint32_t sum = 0;
    for (int i = 0; i < count; i++) sum += (uint32_t)(i + 1) * pixels[i];
    return sum;
}

/* A grey picture through a view, values as they are. */
static unsigned char *through(const struct view *view, const unsigned char *in, int height,
                              int width) {
    int count = view->out_height * view->out_width;
    size_t bytes = transform_bytes(height, width, view->out_height, view->out_width);
    void *memory = aligned_alloc(64, bytes);
    unsigned char *row = malloc((size_t)width * PIXEL_BYTES), *out = malloc((size_t)count);
    float *reals = malloc((size_t)count * sizeof *reals), table[PIXEL_BYTES][256];
    struct transform transform;
    for (int v = 0; v < 256; v++) table[0][v] = (float)v;
    transform_begin(view, height, width, memory, &transform);
    for (int y = transform.first_row; y < transform.end_row; y++) {
        for (int x = 0; x < width; x++) row[x * PIXEL_BYTES] = in[y * width + x];
        transform_row(&transform, row + transform.first_column * PIXEL_BYTES);
    }
    transform_end(&transform, table, 1, reals);
    for (int i = 0; i < count; i++) out[i] = (unsigned char)reals[i];
    free(memory);
    free(row);
    free(reals);
    return out;
}

static struct view stretched(int height, int width, int out_height, int out_width) {
    return (struct view){.height = height,
                         .width = width,
                         .full_height = out_height,
                         .full_width = out_width,
                         .out_height = out_height,
                         .out_width = out_width};
}

/* Sums of PIL.Image.resize(..., BILINEAR), Pillow 11.3. */
Test(data_transform, resize_is_pils) {
    static const struct {
        int height, width, out_height, out_width;
        uint32_t sum;
    } rows[] = {
        {5, 7, 3, 4, 0x2a53},       {4, 4, 9, 9, 0x67be7},          {8, 8, 8, 5, 0x1a075},
        {28, 28, 17, 17, 0x518b17}, {32, 32, 224, 224, 0x7d253498}, {8, 8, 32, 32, 0x4121260},
        {100, 60, 7, 50, 0x77ee33}, {32, 32, 31, 33, 0x3fe8f2d},    {3, 3, 1, 1, 0x79},
        {1, 1, 4, 4, 0x2a8},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        unsigned char *in = plane(rows[r].height, rows[r].width);
        struct view view =
            stretched(rows[r].height, rows[r].width, rows[r].out_height, rows[r].out_width);
        unsigned char *out = through(&view, in, rows[r].height, rows[r].width);
        cr_assert_eq(weighted_sum(out, view.out_height * view.out_width), rows[r].sum, "row %zu",
                     r);
        free(in);
        free(out);
    }
}

Test(data_transform, resize_values_are_pils) {
    static const unsigned char want[] = {72, 124, 173, 116, 157, 132, 141, 106, 178, 119, 116, 171};
    unsigned char *in = plane(5, 7);
    struct view view = stretched(5, 7, 3, 4);
    unsigned char *out = through(&view, in, 5, 7);
    for (int i = 0; i < 12; i++)
        cr_assert_eq(out[i], want[i], "pixel %d: %d, not %d", i, out[i], want[i]);
    free(in);
    free(out);
}

/* The part of a resized picture is the resized picture's part; a window is a picture of its own. */
Test(data_transform, windows_and_parts) {
    enum { H = 40, W = 30, FH = 17, FW = 23, OH = 9, OW = 8 };
    unsigned char *in = plane(H, W);
    struct view whole = stretched(H, W, FH, FW), part = whole;
    part.out_top = 5, part.out_left = 11, part.out_height = OH, part.out_width = OW;
    unsigned char *all = through(&whole, in, H, W), *some = through(&part, in, H, W);
    for (int y = 0; y < OH; y++)
        for (int x = 0; x < OW; x++)
            cr_assert_eq(some[y * OW + x], all[(y + 5) * FW + x + 11], "%d,%d", y, x);
    struct view window = stretched(20, 14, OH, OW);
    window.top = 12, window.left = 7;
    unsigned char cut[20 * 14];
    for (int y = 0; y < 20; y++) memcpy(cut + y * 14, in + (y + 12) * W + 7, 14);
    struct view alone = stretched(20, 14, OH, OW);
    unsigned char *a = through(&window, in, H, W), *b = through(&alone, cut, 20, 14);
    cr_assert_eq(memcmp(a, b, OH * OW), 0);
    free(in), free(all), free(some), free(a), free(b);
}

/* Weighted sums of the bits of torch's ToTensor and Normalize over all 256 values, torch 2.15. */
Test(data_transform, normalisation_is_torchs) {
    static const struct {
        float mean, std;
        uint64_t sum;
    } rows[] = {
        {0.1307f, 0.3081f, 0x212817b6c6d4},
        {0.4914f, 0.2023f, 0x2f761014017f},
        {0.4822f, 0.1994f, 0x2ebce9122e60},
        {0.4465f, 0.2010f, 0x2cac039bd622},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        float table[256];
        uint64_t sum = 0;
        transform_table(rows[r].mean, rows[r].std, table);
        for (int v = 0; v < 256; v++) {
            uint32_t bits;
            memcpy(&bits, &table[v], 4);
            sum += (uint64_t)(v + 1) * bits;
        }
        cr_assert_eq(sum, rows[r].sum, "row %zu", r);
    }
}

Test(data_transform, shift_pads_with_zeros_and_mirrors) {
    enum { H = 5, W = 6 };
    unsigned char *in = plane(H, W);
    for (int i = 0; i < H * W; i++) in[i] |= 1; /* so that only padding is 0 */
    for (int top = -6; top <= 6; top++)
        for (int left = -7; left <= 7; left++)
            for (int flip = 0; flip < 2; flip++) {
                struct view view = stretched(H, W, H, W);
                view.top = top, view.left = left, view.flip = flip;
                unsigned char *out = through(&view, in, H, W);
                for (int y = 0; y < H; y++)
                    for (int x = 0; x < W; x++) {
                        int from_y = y + top, from_x = (flip ? W - 1 - x : x) + left;
                        bool inside = from_y >= 0 && from_y < H && from_x >= 0 && from_x < W;
                        cr_assert_eq(out[y * W + x], inside ? in[from_y * W + from_x] : 0,
                                     "%d %d %d at %d,%d", top, left, flip, y, x);
                    }
                free(out);
            }
    free(in);
}
