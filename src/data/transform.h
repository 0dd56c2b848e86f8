/* Image transforms on 8-bit planes [H,W]: a shifted window, a mirror image, a resize, and the step
 * to reals. */
#ifndef DATA_TRANSFORM_H
#define DATA_TRANSFORM_H

#include <stdbool.h>

/* Local. out[y,x] = in[y + top, x + left], 0 outside of `in`; then mirrored left to right if
 * `flip`. Both planes are [height,width] and do not overlap: with offsets drawn from -4..4 this is
 * torchvision's RandomCrop(size, padding=4). */
void transform_shift(const unsigned char *in, int height, int width, int top, int left, bool flip,
                     unsigned char *out);

/* Local. table[v] = (v / 255 - mean) / std in float32, in the order of ToTensor and Normalize. */
void transform_table(float mean, float std, float table[256]);

/* Bilinear resize with antialiasing, to the bit what PIL does to 8-bit images: when shrinking, the
 * triangle is widened by the scale; weights are fixed-point; along the rows first, each pass
 * rounded to 8 bits. (Pillow 13 takes the cheaper pass first, which differs for images that are not
 * square.) */
struct resize;
/* Local. A plan from [in_height,in_width] to [out_height,out_width]; the caller owns it. */
struct resize *resize_new(int in_height, int in_width, int out_height, int out_width);
/* Local. `scratch` holds in_height * out_width bytes. Thread safe for one plan. */
void resize_run(const struct resize *plan, const unsigned char *in, unsigned char *scratch,
                unsigned char *out);
void resize_free(struct resize **plan);

#endif
