/* IDX files, MNIST's format: 0 0 type rank, then the dimensions as big-endian 32-bit numbers, then
 * the values. */
#ifndef DATA_IDX_H
#define DATA_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "base/announced.h"
#include "base/status.h"
#include "data/image.h"

enum { IDX_MAX_RANK = 4, IDX_U8 = 0x08 };

struct idx {
    int type; /* IDX_U8, or one of 09 i8, 0B i16, 0C i32, 0D f32, 0E f64 */
    int rank;
    int64_t dim[IDX_MAX_RANK];
    const unsigned char *values; /* inside the parsed bytes, big-endian */
    size_t value_bytes;
};

/* IDX files of any type and rank, gzipped or not, of at most 4 GiB: for announced_read. */
extern const struct announced_kind idx_kind;

/* Local. Parses a whole file held in memory; *out points into `data`. `name` is for messages.
 * STATUS_DATA when magic, dimensions and length do not agree to the byte. */
enum status idx_parse(const char *name, const unsigned char *data, size_t count, struct idx *out);

/* Local. An image file [N,H,W] and a label file [N], both of bytes, to one checked set; labels are
 * below `classes`. The caller owns the copies in *out. */
enum status idx_images(const char *image_name, struct bytes image, const char *label_name,
                       struct bytes label, int classes, struct image_set *out);

#endif
