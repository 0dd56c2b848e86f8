/* Memory for libjpeg out of a block of ours; private to picture_jpeg*.c.
 *
 * libjpeg asks a table of functions for memory. Its own ones allocate, for every picture and
 * without a limit; these take from the block, and end the decoding where it has no room. */
#ifndef DATA_PICTURE_JPEG_H
#define DATA_PICTURE_JPEG_H

#include <stdio.h>

#include <jpeglib.h>

#include "data/picture.h"

struct picture_jpeg_memory {
    struct jpeg_memory_mgr table; /* first: libjpeg hands its address back */
    struct picture_memory *block;
    struct jvirt_barray_control *coefficients; /* asked for, not yet made; a list */
    struct jvirt_sarray_control *samples;
};

/* Local. Fills *memory, which serves one picture; both live longer than the decoding. */
struct jpeg_memory_mgr *picture_jpeg_memory(struct picture_jpeg_memory *memory,
                                            struct picture_memory *block);

#endif
