/* See picture.h. */
#include "data/picture_codec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/shown.h"

static const struct picture_codec *const codecs[] = {&picture_jpeg, &picture_png};
enum { CODEC_COUNT = sizeof codecs / sizeof codecs[0], ALIGN = 64 };

bool picture_wrong(char why[PICTURE_WHY_BYTES], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    shown_vformat(why, PICTURE_WHY_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

void *picture_take(struct picture_memory *memory, size_t bytes) {
    if (bytes > memory->bytes - memory->used) return NULL;
    void *at = memory->base + memory->used;
    size_t whole = (bytes + ALIGN - 1) / ALIGN * ALIGN, left = memory->bytes - memory->used;
    memory->used += whole < left ? whole : left;
    return at;
}

bool picture_size_check(int64_t height, int64_t width, char why[PICTURE_WHY_BYTES]) {
    if (height < 1 || width < 1)
        return picture_wrong(why, "%lldx%lld pixels", (long long)width, (long long)height);
    if (height <= PICTURE_MAX_SIDE && width <= PICTURE_MAX_SIDE &&
        height * width <= PICTURE_MAX_PIXELS)
        return true;
    return picture_wrong(why, "%lldx%lld pixels, more than the limit of %d in all and %d a side",
                         (long long)width, (long long)height, PICTURE_MAX_PIXELS, PICTURE_MAX_SIDE);
}

bool picture_begin(struct picture_reading *reading, int64_t height, int64_t width) {
    if (!picture_size_check(height, width, reading->why)) return false;
    const struct augment *augment = reading->augment;
    reading->height = (int)height, reading->width = (int)width;
    if (transform_bytes(reading->height, reading->width, augment->out_height, augment->out_width) >
        reading->transform_bytes)
        return picture_wrong(reading->why, "it changed since the run began");
    struct view view = augment_view(augment, reading->height, reading->width, reading->key);
    transform_begin(&view, reading->height, reading->width, reading->transform_memory,
                    &reading->transform);
    return true;
}

/* What other files of pictures begin with; NULL: it is none that is known. */
static const char *other_format(const unsigned char *data, size_t count) {
    static const struct {
        const char *magic, *name;
        size_t bytes;
    } formats[] = {{"GIF8", "GIF", 4},          {"BM", "BMP", 2}, {"II*\0", "TIFF", 4},
                   {"MM\0*", "TIFF", 4},        {"P5", "PGM", 2}, {"P6", "PPM", 2},
                   {"\0\0\0\f", "JPEG 2000", 4}};
    if (count >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0)
        return "WebP";
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (count > formats[i].bytes && memcmp(data, formats[i].magic, formats[i].bytes) == 0)
            return formats[i].name;
    return NULL;
}

static const struct picture_codec *codec_of(const unsigned char *data, size_t count,
                                            char why[PICTURE_WHY_BYTES]) {
    for (int c = 0; c < CODEC_COUNT; c++)
        if (count >= codecs[c]->magic_bytes &&
            memcmp(data, codecs[c]->magic, codecs[c]->magic_bytes) == 0)
            return codecs[c];
    const char *other = other_format(data, count);
    if (count == 0)
        picture_wrong(why, "an empty file");
    else if (other)
        picture_wrong(why, "a %s file; JPEG and PNG are read", other);
    else
        picture_wrong(why, "it begins with byte %02x, as neither JPEG nor PNG does", data[0]);
    return NULL;
}

bool picture_probe(const unsigned char *data, size_t count, size_t file_bytes,
                   struct picture_header *out, bool *more, char why[PICTURE_WHY_BYTES]) {
    const struct picture_codec *codec = codec_of(data, count, why);
    *more = false;
    return codec && codec->probe(data, count, file_bytes, out, more, why) &&
           picture_size_check(out->height, out->width, why);
}

bool picture_read(struct picture_reading *reading) {
    const struct picture_codec *codec = codec_of(reading->data, reading->count, reading->why);
    return codec && codec->read(reading);
}

void picture_libraries(char *text, size_t bytes) {
    for (int c = 0; c < CODEC_COUNT; c++) {
        size_t used = c ? strlen(text) : 0;
        if (c) used += (size_t)snprintf(text + used, bytes - used, ", ");
        codecs[c]->library(text + used, bytes - used);
    }
}
