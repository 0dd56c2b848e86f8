/* What becomes of one picture: a window of it, resized, a part of that, perhaps mirrored, and the
 * step to normalised reals.
 *
 * Pictures come in row by row, four bytes a pixel, the fourth unused where there are three
 * channels: a decoder needs no whole picture in memory, and one pixel is one word. Every transform
 * of augment.h is a view. The resize is bilinear with antialiasing, to the bit what PIL does to
 * 8-bit images: when shrinking, the triangle is widened by the scale; weights are fixed-point;
 * along the rows first, each pass rounded to 8 bits. (Pillow 13 takes the cheaper pass first, which
 * differs for some pictures that are not square.) */
#ifndef DATA_TRANSFORM_H
#define DATA_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PIXEL_BYTES = 4 };

/* The window may reach outside of the picture, where pixels are 0. It becomes full_height x
 * full_width, of which the part of the given size at out_top, out_left is the result. */
struct view {
    int top, left, height, width;
    int full_height, full_width;
    int out_top, out_left, out_height, out_width;
    bool flip; /* left to right, at last */
};

/* One direction: output i is the sum over k < count[i] of in[first[i] + k] * weight[i * taps + k].
 */
struct resized_axis {
    int out, taps;
    int *first, *count;
    int32_t *weight;
    bool same; /* nothing is resized: output i is in[first[i]] */
};

struct transform {
    struct view view;
    struct resized_axis x, y;
    /* Rows and columns of the picture that are read: [first_row, end_row), [first_column,
     * end_column).
     */
    int first_row, end_row, first_column, end_column;
    int next_row;
    unsigned char *middle; /* rows after the first pass, those from middle_row of the window on */
    int middle_row;
    size_t middle_stride;
    unsigned char *padded; /* a row of the window, where that is wider than the picture */
    int32_t *line, *wide;  /* a row of sums, and one of the window as words */
};

/* Local. Bytes that transform_begin lays out, at most, for any view of `out_height` x `out_width`
 * whose window is no larger than height x width. */
size_t transform_bytes(int height, int width, int out_height, int out_width);

/* Local. A view of a picture of height x width. `memory` is the caller's, 64-byte aligned, of
 * transform_bytes; *out points into it. */
void transform_begin(const struct view *view, int height, int width, void *memory,
                     struct transform *out);
/* Local. The next row of the picture, of first_row to end_row - 1 in this order. `pixels` begins
 * with the pixel of first_column. */
void transform_row(struct transform *transform, const unsigned char *pixels);
/* Local. After the last row: writes [channels, out_height, out_width], value v of channel c as
 * table[c][v]. */
void transform_end(const struct transform *transform, float (*table)[256], int channels,
                   float *out);

/* Local. table[v] = (v / 255 - mean) / std in float32, in the order of ToTensor and Normalize. */
void transform_table(float mean, float std, float table[256]);

#endif
