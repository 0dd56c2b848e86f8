/* PNG by libpng. Everything becomes four bytes a pixel by libpng's own transforms. Chunks that do
 * not change pixels (texts, profiles) are passed over unread: some may unpack to megabytes. */
#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "data/picture_codec.h"

static uint32_t big_endian(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Two rows of at most 8 bytes a pixel inside libpng and one of ours, and what the library and zlib
 * take whatever the picture; all of an interlaced picture, which comes in seven passes. */
static size_t decoder_bytes(int64_t height, int64_t width, bool interlaced) {
    size_t row = ((size_t)width + 16) * PIXEL_BYTES, fixed = (size_t)256 << 10;
    size_t whole = interlaced ? (size_t)height * (row + sizeof(png_bytep) + 64) : 0;
    return fixed + 8 * row + whole;
}

static bool png_probe(const unsigned char *data, size_t count, size_t file_bytes,
                      struct picture_header *out, bool *more, char why[PICTURE_WHY_BYTES]) {
    enum { END = 33 }; /* of IHDR, its checksum included */
    if (count < END) {
        *more = count < file_bytes;
        return picture_wrong(why, "it ends inside its header, at byte %zu", count);
    }
    if (memcmp(data + 12, "IHDR", 4) != 0 || big_endian(data + 8) != 13)
        return picture_wrong(why, "byte 8: no IHDR chunk");
    int64_t width = big_endian(data + 16), height = big_endian(data + 20);
    if (!picture_size_check(height, width, why)) return false;
    *out = (struct picture_header){.height = (int)height,
                                   .width = (int)width,
                                   .decoder_bytes = decoder_bytes(height, width, data[28] != 0)};
    return true;
}

struct decoder {
    struct picture_reading *reading;
    size_t at; /* of the next byte */
};

static void on_error(png_structp png, png_const_charp message) {
    struct decoder *decoder = png_get_error_ptr(png);
    picture_wrong(decoder->reading->why, "%s", message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png, (void)message;
}

static void on_read(png_structp png, png_bytep out, png_size_t bytes) {
    struct decoder *decoder = png_get_io_ptr(png);
    if (bytes > decoder->reading->count - decoder->at)
        png_error(png, "the file ends in the middle of the picture");
    memcpy(out, decoder->reading->data + decoder->at, bytes);
    decoder->at += bytes;
}

static png_voidp on_take(png_structp png, png_alloc_size_t bytes) {
    struct decoder *decoder = png_get_mem_ptr(png);
    return picture_take(&decoder->reading->memory, bytes);
}

static void on_give_back(png_structp png, png_voidp at) {
    (void)png, (void)at; /* the block is given back as a whole */
}

static void ignore_chunks(png_structp png) {
    static const png_byte names[] = "iCCP\0sPLT\0tEXt\0zTXt\0iTXt\0eXIf\0hIST\0pCAL\0sCAL\0tIME";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, names, (int)(sizeof names / 5));
}

/* Of alpha nothing is left, but its byte stays where the unused one is. */
static void to_four_bytes(png_structp png, png_infop info) {
    int type = png_get_color_type(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
    if (!(type & PNG_COLOR_MASK_ALPHA) && !png_get_valid(png, info, PNG_INFO_tRNS))
        png_set_filler(png, 0xFF, PNG_FILLER_AFTER);
}

static void *take_or_fail(png_structp png, struct picture_reading *reading, size_t bytes) {
    void *at = picture_take(&reading->memory, bytes);
    if (!at) png_error(png, "it needs more memory than its header announced");
    return at;
}

static void give_row(struct picture_reading *reading, int y, const unsigned char *row) {
    struct transform *transform = &reading->transform;
    if (y >= transform->first_row && y < transform->end_row)
        transform_row(transform, row + (size_t)transform->first_column * PIXEL_BYTES);
}

static void read_plain(png_structp png, struct picture_reading *reading, size_t row_bytes) {
    unsigned char *row = take_or_fail(png, reading, row_bytes);
    for (int y = 0; y < reading->height; y++) {
        png_read_row(png, row, NULL);
        give_row(reading, y, row);
    }
}

static void read_interlaced(png_structp png, struct picture_reading *reading, size_t row_bytes) {
    png_bytep *rows = take_or_fail(png, reading, (size_t)reading->height * sizeof *rows);
    for (int y = 0; y < reading->height; y++) rows[y] = take_or_fail(png, reading, row_bytes);
    png_read_image(png, rows);
    for (int y = 0; y < reading->height; y++) give_row(reading, y, rows[y]);
}

static void read_all(png_structp png, png_infop info, struct decoder *decoder) {
    struct picture_reading *reading = decoder->reading;
    png_set_read_fn(png, decoder, on_read);
    ignore_chunks(png);
    png_set_user_limits(png, PICTURE_MAX_SIDE, PICTURE_MAX_SIDE);
    png_read_info(png, info);
    if (!picture_begin(reading, png_get_image_height(png, info), png_get_image_width(png, info)))
        png_longjmp(png, 1);
    to_four_bytes(png, info);
    bool interlaced = png_set_interlace_handling(png) > 1;
    png_read_update_info(png, info);
    size_t row_bytes = png_get_rowbytes(png, info);
    if (row_bytes != (size_t)reading->width * PIXEL_BYTES)
        png_error(png, "a form of pixels that is not known");
    (interlaced ? read_interlaced : read_plain)(png, reading, row_bytes);
    png_read_end(png, NULL);
}

static bool png_read(struct picture_reading *reading) {
    struct decoder decoder = {.reading = reading};
    png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &decoder, on_error,
                                               on_warning, &decoder, on_take, on_give_back);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) return picture_wrong(reading->why, "it needs more memory than was planned");
    bool failed = setjmp(png_jmpbuf(png)) != 0;
    if (!failed) read_all(png, info, &decoder);
    png_destroy_read_struct(&png, &info, NULL);
    return !failed;
}

static void png_library(char *text, size_t bytes) {
    snprintf(text, bytes, "libpng %s", png_get_libpng_ver(NULL));
}

const struct picture_codec picture_png = {.magic = "\x89PNG\r\n\x1a\n",
                                          .magic_bytes = 8,
                                          .probe = png_probe,
                                          .read = png_read,
                                          .library = png_library};
