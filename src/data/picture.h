/* Compressed pictures, JPEG and PNG: what their headers say, and their decoding row by row into a
 * transform (transform.h).
 *
 * Which of the two a file is, its first bytes say, not its name. Decoders take their memory from a
 * block that the caller gives, whose size follows from the header: nothing is allocated for a
 * picture, and a header that announces more than PICTURE_MAX_PIXELS is refused. Pixels are RGB as
 * Pillow's convert("RGB") makes them: grey becomes three equal channels, a palette its colours,
 * alpha is dropped, CMYK is converted; orientation and colour profiles are not looked at. Of 16
 * bits the upper 8 are taken (Pillow does the same but for grey, which it cuts off at 255). */
#ifndef DATA_PICTURE_H
#define DATA_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/augment.h"
#include "data/transform.h"

enum {
    PICTURE_MAX_PIXELS = 89478485, /* a quarter of 1 GiB as RGB, Pillow's limit too */
    PICTURE_MAX_SIDE = 65500,
    PICTURE_CHANNELS = 3,
    PICTURE_WHY_BYTES = 160
};

struct picture_header {
    int height, width;
    size_t decoder_bytes; /* memory that the decoder needs */
};

/* Local. Reads the header out of the first `count` bytes of a file of `file_bytes`. On failure
 * `why` says in a few words what is wrong; *more: only that `count` is too small. */
bool picture_probe(const unsigned char *data, size_t count, size_t file_bytes,
                   struct picture_header *out, bool *more, char why[PICTURE_WHY_BYTES]);

/* Memory of a decoder: pieces of a block one behind the other, none given back. */
struct picture_memory {
    char *base;
    size_t bytes, used;
};
/* Local. 64-byte aligned; NULL: the block has no room. */
void *picture_take(struct picture_memory *memory, size_t bytes);

/* One picture being read. The caller sets all but the last three. */
struct picture_reading {
    const unsigned char *data;
    size_t count;
    const struct augment *augment;
    uint64_t key;
    struct picture_memory memory; /* of decoder_bytes */
    void *transform_memory;       /* of transform_bytes for this picture */
    size_t transform_bytes;
    struct transform transform;
    int height, width;
    char why[PICTURE_WHY_BYTES];
};

/* Local. Gives the transform all its rows; the caller then ends it. On failure `why` is set. Rows
 * that the transform does not need are not decoded where that leaves the others as they are;
 * whether a file is cut is found out all the same. */
bool picture_read(struct picture_reading *reading);

/* Local. Names and versions of the libraries. */
void picture_libraries(char *text, size_t bytes);

#endif
