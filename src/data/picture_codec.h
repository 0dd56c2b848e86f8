/* The two decoders behind picture.h; private to the files picture_*.c. Each function has the
 * contract of its namesake there, for its own kind of file. */
#ifndef DATA_PICTURE_CODEC_H
#define DATA_PICTURE_CODEC_H

#include "data/picture.h"

struct picture_codec {
    const char *magic;
    size_t magic_bytes;
    bool (*probe)(const unsigned char *data, size_t count, size_t file_bytes,
                  struct picture_header *out, bool *more, char why[PICTURE_WHY_BYTES]);
    bool (*read)(struct picture_reading *reading);
    void (*library)(char *text, size_t bytes);
};
extern const struct picture_codec picture_jpeg, picture_png;

/* Local. Sets `why` and returns false. */
bool picture_wrong(char why[PICTURE_WHY_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Local. Whether a picture of this size is read at all. */
bool picture_size_check(int64_t height, int64_t width, char why[PICTURE_WHY_BYTES]);
/* Local. The size is known: chooses the view and begins the transform. */
bool picture_begin(struct picture_reading *reading, int64_t height, int64_t width);

#endif
