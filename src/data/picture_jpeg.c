/* JPEG by libjpeg-turbo, with its defaults (accurate DCT, smooth upsampling), which are Pillow's.
 *
 * Only the window that the transform reads is decoded in full: whole blocks around it, one more on
 * each side since upsampling looks at neighbours, so that its pixels are those of the whole
 * picture. What lies below it is not decoded at all where the file ends with the marker that ends
 * pictures; where it does not, the file may be cut, and the rest is decoded to find out. Data that
 * are damaged but long enough are used, as Pillow does. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "data/picture_codec.h"
#include "data/picture_jpeg.h"

/* --- the header --- */

enum { MOST_COMPONENTS = 4 };

struct frame_header {
    int64_t height, width;
    int components, most_h, most_v;
    int h[MOST_COMPONENTS], v[MOST_COMPONENTS]; /* sampling factors */
    bool progressive;
};

static int two_bytes(const unsigned char *at) {
    return at[0] << 8 | at[1];
}

/* Markers C0 to CF begin a frame, but for three that share the range. */
static bool begins_frame(int marker) {
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/* A frame's segment from its length on. */
static bool parse_frame(int marker, const unsigned char *at, int bytes, struct frame_header *out,
                        char why[PICTURE_WHY_BYTES]) {
    if (bytes < 8 || at[7] < 1 || at[7] > MOST_COMPONENTS || bytes < 8 + 3 * at[7])
        return picture_wrong(why, "a frame header of %d bytes and %d channels", bytes,
                             bytes < 8 ? 0 : at[7]);
    *out = (struct frame_header){.height = two_bytes(at + 3),
                                 .width = two_bytes(at + 5),
                                 .components = at[7],
                                 .progressive = (marker & 3) == 2}; /* C2; CA is arithmetic */
    for (int c = 0; c < out->components; c++) {
        int factors = at[8 + 3 * c + 1];
        out->h[c] = factors >> 4, out->v[c] = factors & 15;
        if (out->h[c] < 1 || out->h[c] > 4 || out->v[c] < 1 || out->v[c] > 4)
            return picture_wrong(why, "sampling factors of %dx%d", out->h[c], out->v[c]);
        if (out->h[c] > out->most_h) out->most_h = out->h[c];
        if (out->v[c] > out->most_v) out->most_v = out->v[c];
    }
    return true;
}

/* Coefficients of the whole picture where it comes in several scans; samples of two rows of blocks
 * and of their neighbours; rows of upsampled and of final pixels; and what the library takes
 * whatever the picture: tables, mostly. */
static size_t decoder_bytes(const struct frame_header *frame, bool several_scans) {
    size_t across = (size_t)(frame->width + 8 * frame->most_h - 1) / (8 * (size_t)frame->most_h);
    size_t down = (size_t)(frame->height + 8 * frame->most_v - 1) / (8 * (size_t)frame->most_v);
    size_t bytes = (size_t)64 << 10; /* a picture with all tables there are takes less than half */
    for (int c = 0; c < frame->components; c++) {
        size_t blocks = across * (size_t)frame->h[c], rows = (size_t)frame->v[c] * 8;
        if (several_scans)
            bytes += down * (size_t)frame->v[c] * (blocks * sizeof(JBLOCK) + 64 + sizeof(void *));
        bytes += (rows * 3 + 8) * (blocks * 8 + 192 + sizeof(void *));
    }
    size_t pixels = across * 8 * (size_t)frame->most_h + 192;
    return bytes + pixels * (size_t)(frame->most_v + 1) * (MOST_COMPONENTS + 1) +
           pixels * 2 * PIXEL_BYTES;
}

static bool incomplete(size_t at, size_t file_bytes, bool *more, char why[PICTURE_WHY_BYTES]) {
    *more = at < file_bytes;
    return picture_wrong(why, "it ends inside its headers, at byte %zu", at);
}

static bool jpeg_probe(const unsigned char *data, size_t count, size_t file_bytes,
                       struct picture_header *out, bool *more, char why[PICTURE_WHY_BYTES]) {
    struct frame_header frame = {0};
    size_t at = 2;
    while (at + 4 <= count) {
        if (data[at] != 0xFF || data[at + 1] == 0xFF || data[at + 1] == 0) {
            at++; /* stray bytes between segments are passed over, as libjpeg does */
            continue;
        }
        int marker = data[at + 1], bytes = two_bytes(data + at + 2);
        if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) { /* these have no content */
            at += 2;
            continue;
        }
        if (marker == 0xD9) return picture_wrong(why, "byte %zu: it ends before its pixels", at);
        bool scan = marker == 0xDA;
        if ((begins_frame(marker) || scan) && at + 2 + (size_t)bytes > count)
            return incomplete(count, file_bytes, more, why);
        if (begins_frame(marker) && !parse_frame(marker, data + at + 2, bytes, &frame, why))
            return false;
        if (scan) {
            if (frame.components == 0)
                return picture_wrong(why, "byte %zu: pixels before the header", at);
            if (!picture_size_check(frame.height, frame.width, why)) return false;
            bool several = frame.progressive || bytes < 3 || data[at + 4] < frame.components;
            *out = (struct picture_header){.height = (int)frame.height,
                                           .width = (int)frame.width,
                                           .decoder_bytes = decoder_bytes(&frame, several)};
            return true;
        }
        at += 2 + (size_t)bytes;
    }
    return incomplete(count, file_bytes, more, why);
}

/* --- decoding --- */

struct decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct picture_reading *reading;
    jmp_buf stop;
};

static void stop(struct decoder *decoder) {
    longjmp(decoder->stop, 1);
}

static void on_error(j_common_ptr info) {
    struct decoder *decoder = info->client_data;
    char message[JMSG_LENGTH_MAX];
    info->err->format_message(info, message);
    picture_wrong(decoder->reading->why, "%s", message);
    stop(decoder);
}

static void on_message(j_common_ptr info, int level) {
    if (level < 0) info->err->num_warnings++;
}

static void on_begin(j_decompress_ptr info) {
    (void)info;
}

static boolean on_end_of_data(j_decompress_ptr info) {
    struct decoder *decoder = info->client_data;
    picture_wrong(decoder->reading->why, "the file ends in the middle of the picture");
    stop(decoder);
    return FALSE;
}

static void on_skip(j_decompress_ptr info, long bytes) {
    if (bytes <= 0) return;
    if ((size_t)bytes > info->src->bytes_in_buffer) on_end_of_data(info);
    info->src->next_input_byte += bytes;
    info->src->bytes_in_buffer -= (size_t)bytes;
}

static void set_source(struct decoder *decoder) {
    decoder->source = (struct jpeg_source_mgr){.next_input_byte = decoder->reading->data,
                                               .bytes_in_buffer = decoder->reading->count,
                                               .init_source = on_begin,
                                               .fill_input_buffer = on_end_of_data,
                                               .skip_input_data = on_skip,
                                               .resync_to_restart = jpeg_resync_to_restart,
                                               .term_source = on_begin};
    decoder->info.src = &decoder->source;
}

/* Four inks, stored inverted, as everybody does since Adobe did. The arithmetic is Pillow's. */
static void inks_to_colours(unsigned char *row, JDIMENSION width) {
    for (JDIMENSION x = 0; x < width; x++, row += PIXEL_BYTES) {
        int light = row[3];
        for (int c = 0; c < PICTURE_CHANNELS; c++) {
            int product = (255 - row[c]) * light + 128;
            row[c] = (unsigned char)(light - (((product >> 8) + product) >> 8));
        }
    }
}

/* Whole blocks around what is wanted; *left becomes where they begin. */
static void crop(struct decoder *decoder, JDIMENSION *left) {
    struct jpeg_decompress_struct *info = &decoder->info;
    const struct transform *transform = &decoder->reading->transform;
    JDIMENSION block = (JDIMENSION)info->max_h_samp_factor * DCTSIZE;
    JDIMENSION from = (JDIMENSION)transform->first_column, to = (JDIMENSION)transform->end_column;
    *left = from > block ? from - block : 0;
    JDIMENSION width = (to + block < info->output_width ? to + block : info->output_width) - *left;
    jpeg_crop_scanline(info, left, &width);
}

static bool ends_whole(const struct picture_reading *reading) {
    return reading->count >= 4 && reading->data[reading->count - 2] == 0xFF &&
           reading->data[reading->count - 1] == JPEG_EOI;
}

/* Skipping to the very end would skip the data too: the last row is read. */
static void read_rest(struct jpeg_decompress_struct *info, unsigned char *row) {
    JDIMENSION left = info->output_height - info->output_scanline;
    if (left > 1) jpeg_skip_scanlines(info, left - 1);
    if (left > 0) jpeg_read_scanlines(info, &row, 1);
}

static void read_rows(struct decoder *decoder) {
    struct jpeg_decompress_struct *info = &decoder->info;
    struct picture_reading *reading = decoder->reading;
    struct transform *transform = &reading->transform;
    JDIMENSION left = 0;
    jpeg_start_decompress(info);
    crop(decoder, &left);
    unsigned char *row =
        info->mem->alloc_large((j_common_ptr)info, JPOOL_IMAGE, info->output_width * PIXEL_BYTES);
    if (transform->first_row > 0) jpeg_skip_scanlines(info, (JDIMENSION)transform->first_row);
    for (int y = transform->first_row; y < transform->end_row; y++) {
        jpeg_read_scanlines(info, &row, 1);
        if (info->out_color_space == JCS_CMYK) inks_to_colours(row, info->output_width);
        transform_row(transform, row + ((JDIMENSION)transform->first_column - left) * PIXEL_BYTES);
    }
    if (!ends_whole(reading)) read_rest(info, row);
}

static void read_all(struct decoder *decoder) {
    struct jpeg_decompress_struct *info = &decoder->info;
    struct picture_reading *reading = decoder->reading;
    set_source(decoder);
    jpeg_read_header(info, TRUE);
    if (!picture_begin(reading, info->image_height, info->image_width)) stop(decoder);
    bool inks = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    info->out_color_space = inks ? JCS_CMYK : JCS_EXT_RGBX;
    read_rows(decoder);
}

/* libjpeg's own memory serves the handful of small objects that it makes at once. */
static bool jpeg_read(struct picture_reading *reading) {
    struct decoder decoder;
    struct picture_jpeg_memory memory;
    memset(&decoder.info, 0, sizeof decoder.info);
    decoder.reading = reading;
    decoder.info.client_data = &decoder;
    decoder.info.err = jpeg_std_error(&decoder.errors);
    decoder.errors.error_exit = on_error;
    decoder.errors.emit_message = on_message;
    struct jpeg_memory_mgr *volatile own = NULL;
    bool failed = setjmp(decoder.stop) != 0;
    if (!failed) {
        jpeg_create_decompress(&decoder.info);
        own = decoder.info.mem;
        decoder.info.mem = picture_jpeg_memory(&memory, &reading->memory);
        read_all(&decoder);
    }
    if (own) decoder.info.mem = own;
    jpeg_destroy_decompress(&decoder.info);
    return !failed;
}

static void jpeg_library(char *text, size_t bytes) {
#define TEXT_OF(x) #x
#define VERSION_TEXT(x) TEXT_OF(x)
    snprintf(text, bytes, "libjpeg-turbo %s", VERSION_TEXT(LIBJPEG_TURBO_VERSION));
}

const struct picture_codec picture_jpeg = {.magic = "\xFF\xD8\xFF",
                                           .magic_bytes = 3,
                                           .probe = jpeg_probe,
                                           .read = jpeg_read,
                                           .library = jpeg_library};
