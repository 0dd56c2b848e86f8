/* Pictures against Pillow's pixels (picture_values.py); parts of JPEGs against the whole; damage.
 */
#ifdef HAVE_PICTURES
#include <criterion/criterion.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/picture.h"

static float values[PICTURE_CHANNELS][256];

static void make_values(void) {
    for (int c = 0; c < PICTURE_CHANNELS; c++)
        for (int v = 0; v < 256; v++) values[c][v] = (float)v;
}

TestSuite(data_picture, .init = make_values);

/* Through a view of out_height x out_width into planes of values; false: refused, `why` says why.
 * The memory is exactly what the header announces. */
static bool view_of(const unsigned char *data, size_t count, const struct augment *augment,
                    uint64_t key, float *out, char why[PICTURE_WHY_BYTES]) {
    struct picture_header header;
    bool more;
    if (!picture_probe(data, count, count, &header, &more, why)) return false;
    size_t bytes =
        transform_bytes(header.height, header.width, augment->out_height, augment->out_width);
    struct picture_reading reading = {
        .data = data,
        .count = count,
        .augment = augment,
        .key = key,
        .memory = {aligned_alloc(64, (header.decoder_bytes + 63) / 64 * 64), header.decoder_bytes,
                   0},
        .transform_memory = aligned_alloc(64, bytes),
        .transform_bytes = bytes};
    bool good = picture_read(&reading);
    if (good) transform_end(&reading.transform, values, PICTURE_CHANNELS, out);
    if (!good) memcpy(why, reading.why, PICTURE_WHY_BYTES);
    free(reading.memory.base);
    free(reading.transform_memory);
    return good;
}

/* As numpy orders them: pixel after pixel. */
static uint32_t weighted(const float *planes, int height, int width) {
    uint32_t sum = 0, place = 0;
    for (int i = 0; i < height * width; i++)
        for (int c = 0; c < PICTURE_CHANNELS; c++)
            sum += ++place * (uint32_t)planes[c * height * width + i];
    return sum;
}

static struct bytes corpus(const char *name) {
    struct bytes bytes;
    char *path = mem_format("tests/fuzz/corpus/picture/%s", name);
    cr_assert_eq(file_read(path, 1 << 20, &bytes), STATUS_OK, "%s", path);
    free(path);
    return bytes;
}

static void expect_pillow(const char *name, int height, int width, uint32_t whole, uint32_t half) {
    struct bytes bytes = corpus(name);
    float *out = malloc((size_t)(PICTURE_CHANNELS * height * width) * sizeof *out);
    char why[PICTURE_WHY_BYTES] = "";
    struct augment augment = {AUGMENT_NONE, FRAME_STRETCH, height, width};
    cr_assert(view_of(bytes.data, bytes.count, &augment, 0, out, why), "%s: %s", name, why);
    cr_expect_eq(weighted(out, height, width), whole, "%s", name);
    augment.out_height /= 2, augment.out_width /= 2;
    cr_assert(view_of(bytes.data, bytes.count, &augment, 0, out, why), "%s: %s", name, why);
    cr_expect_eq(weighted(out, height / 2, width / 2), half, "%s halved", name);
    free(out);
    bytes_free(&bytes);
}

Test(data_picture, pixels_are_pillows) {
#define PICTURE(name, height, width, whole, half) expect_pillow(name, height, width, whole, half);
#include "picture_values.def"
}

/* Whatever is cut off, the picture is refused with a reason, whole views and parts alike. Only
 * bytes behind the last pixel may be missing. */
Test(data_picture, cut_files_are_found) {
    static const char *const names[] = {"420.jpg", "progressive.jpg", "cmyk.jpg", "palette.png",
                                        "interlaced.png"};
    static float out[PICTURE_CHANNELS * 8 * 8];
    struct augment augment = {AUGMENT_RESIZED_CROP, FRAME_CENTRE, 8, 8};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct bytes bytes = corpus(names[n]);
        for (size_t count = 0; count + 3 < bytes.count; count++)
            for (uint64_t key = 0; key < 4; key++) {
                char why[PICTURE_WHY_BYTES] = "";
                bool good = view_of(bytes.data, count, &augment, key, out, why);
                cr_assert(!good && why[0], "%s cut at %zu of %zu, key %d", names[n], count,
                          bytes.count, (int)key);
            }
        bytes_free(&bytes);
    }
}

/* --- parts of JPEGs --- */

struct form {
    int height, width, h, v; /* sampling factors of the brightness */
    bool progressive;
    int restart; /* blocks between restart markers; 0: none */
};

/* Noise over a gradient, so that neighbours differ. */
static unsigned char *encode(const struct form *form, unsigned long *count) {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL, *row = malloc((size_t)form->width * 3);
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &data, count);
    info.image_width = (JDIMENSION)form->width, info.image_height = (JDIMENSION)form->height;
    info.input_components = 3, info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 90, TRUE);
    info.comp_info[0].h_samp_factor = form->h, info.comp_info[0].v_samp_factor = form->v;
    info.restart_interval = (unsigned)form->restart;
    if (form->progressive) jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    for (int y = 0; y < form->height; y++) {
        for (int i = 0; i < form->width * 3; i++)
            row[i] = (unsigned char)(y * 2 + i + (y * 7919 + i * 104729) % 61);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    free(row);
    return data;
}

/* The same view of the pixels of the whole picture. */
static void through_whole(const float *whole, const struct form *form,
                          const struct augment *augment, uint64_t key, float *out) {
    struct view view = augment_view(augment, form->height, form->width, key);
    size_t bytes =
        transform_bytes(form->height, form->width, augment->out_height, augment->out_width);
    void *memory = aligned_alloc(64, bytes);
    unsigned char *row = calloc((size_t)form->width, PIXEL_BYTES);
    struct transform transform;
    transform_begin(&view, form->height, form->width, memory, &transform);
    for (int y = transform.first_row; y < transform.end_row; y++) {
        for (int x = 0; x < form->width; x++)
            for (int c = 0; c < PICTURE_CHANNELS; c++)
                row[x * PIXEL_BYTES + c] =
                    (unsigned char)whole[(c * form->height + y) * form->width + x];
        transform_row(&transform, row + transform.first_column * PIXEL_BYTES);
    }
    transform_end(&transform, values, PICTURE_CHANNELS, out);
    free(memory);
    free(row);
}

Test(data_picture, parts_have_the_pixels_of_the_whole) {
    enum { SIDE = 24, KEYS = 60 };
    static const struct form forms[] = {
        {97, 131, 2, 2, false, 0}, {97, 131, 2, 1, false, 0}, {97, 131, 1, 1, false, 0},
        {97, 131, 1, 2, false, 0}, {97, 131, 4, 1, false, 0}, {160, 64, 2, 2, true, 0},
        {131, 97, 2, 2, false, 5}, {16, 16, 2, 2, false, 0},  {1, 200, 2, 2, false, 0},
        {200, 1, 2, 2, false, 0},  {33, 90, 2, 2, true, 3},
    };
    struct augment crop = {AUGMENT_RESIZED_CROP, FRAME_CENTRE, SIDE, SIDE};
    static float part[PICTURE_CHANNELS * SIDE * SIDE], same[PICTURE_CHANNELS * SIDE * SIDE];
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        const struct form *form = &forms[f];
        unsigned long count = 0;
        unsigned char *data = encode(form, &count);
        float *whole =
            malloc((size_t)(PICTURE_CHANNELS * form->height * form->width) * sizeof *whole);
        struct augment as_is = {AUGMENT_NONE, FRAME_STRETCH, form->height, form->width};
        char why[PICTURE_WHY_BYTES] = "";
        cr_assert(view_of(data, count, &as_is, 0, whole, why), "form %zu: %s", f, why);
        for (uint64_t key = 0; key < KEYS; key++) {
            cr_assert(view_of(data, count, &crop, key, part, why), "form %zu: %s", f, why);
            through_whole(whole, form, &crop, key, same);
            cr_assert_eq(memcmp(part, same, sizeof part), 0, "form %zu, key %d", f, (int)key);
        }
        free(whole);
        free(data);
    }
}

/* --- memory --- */

/* The smallest picture that makes libjpeg take all its tables: four channels, each with its own of
 * every kind, in several scans or in one. */
static unsigned char *encode_tables(bool progressive, bool arithmetic, unsigned long *count) {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL, row[16 * 4], *rows[] = {row};
    unsigned table[64];
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &data, count);
    info.image_width = info.image_height = 16;
    info.input_components = 4, info.in_color_space = JCS_CMYK;
    jpeg_set_defaults(&info);
    for (int c = 0; c < 4; c++) {
        for (int i = 0; i < 64; i++) table[i] = (unsigned)(1 + i + c);
        jpeg_add_quant_table(&info, c, table, 100, TRUE);
        info.comp_info[c].quant_tbl_no = info.comp_info[c].dc_tbl_no = c;
        info.comp_info[c].ac_tbl_no = c;
    }
    info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 2;
    if (progressive) jpeg_simple_progression(&info);
    info.optimize_coding = !arithmetic;
    info.arith_code = arithmetic;
    jpeg_start_compress(&info, TRUE);
    for (int y = 0; y < 16; y++) {
        for (int i = 0; i < 16 * 4; i++) row[i] = (unsigned char)(y * 31 + i * 17);
        jpeg_write_scanlines(&info, rows, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    return data;
}

#ifdef C_ARITH_CODING_SUPPORTED
enum { CODINGS = 2 };
#else
enum { CODINGS = 1 };
#endif

/* What libjpeg takes whatever the picture has room in what the header announces, with a margin for
 * other versions of it: half, of the smallest picture that uses all of it; but no more than that
 * needs. */
Test(data_picture, tables_of_jpegs_have_room) {
    struct augment as_is = {AUGMENT_NONE, FRAME_STRETCH, 16, 16};
    size_t bytes = transform_bytes(16, 16, 16, 16);
    for (int form = 0; form < 2 * CODINGS; form++) {
        unsigned long count = 0;
        unsigned char *data = encode_tables(form & 1, form & 2, &count);
        struct picture_header header;
        char why[PICTURE_WHY_BYTES] = "";
        bool more;
        cr_assert(picture_probe(data, count, count, &header, &more, why), "%s", why);
        struct picture_reading reading = {
            .data = data,
            .count = count,
            .augment = &as_is,
            .memory = {aligned_alloc(64, (header.decoder_bytes + 63) / 64 * 64),
                       header.decoder_bytes, 0},
            .transform_memory = aligned_alloc(64, bytes),
            .transform_bytes = bytes};
        cr_assert(picture_read(&reading), "%s", reading.why);
        cr_expect_lt(reading.memory.used, header.decoder_bytes / 2, "%zu of %zu bytes",
                     reading.memory.used, header.decoder_bytes);
        cr_expect_gt(reading.memory.used, header.decoder_bytes / 8, "%zu of %zu bytes",
                     reading.memory.used, header.decoder_bytes);
        free(reading.memory.base);
        free(reading.transform_memory);
        free(data);
    }
}

/* A part that lies above the cut is refused no less: what is damaged does not depend on what is
 * drawn.
 */
Test(data_picture, cuts_are_found_below_the_part) {
    enum { SIDE = 24, KEYS = 20, CUTS = 12 };
    static const struct form forms[] = {
        {197, 131, 2, 2, false, 0}, {197, 131, 1, 1, false, 7}, {160, 64, 2, 2, true, 0}};
    struct augment crop = {AUGMENT_RESIZED_CROP, FRAME_CENTRE, SIDE, SIDE};
    static float part[PICTURE_CHANNELS * SIDE * SIDE];
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        unsigned long count = 0;
        unsigned char *data = encode(&forms[f], &count);
        for (size_t cut = 1; cut <= CUTS; cut++)
            for (uint64_t key = 0; key < KEYS; key++) {
                char why[PICTURE_WHY_BYTES] = "";
                size_t gone = cut > 2 ? count * cut / 20 : 20 * cut;
                bool good = view_of(data, count - gone, &crop, key, part, why);
                cr_assert(!good && strstr(why, "the file ends in the middle"), "form %zu: %s", f,
                          why);
            }
        free(data);
    }
}

/* Memory follows from the header: a larger picture than was planned for is refused. */
Test(data_picture, limits) {
    static const struct {
        const char *say;
        unsigned char bytes[40];
        size_t count;
    } rows[] = {
        {"an empty file", {0}, 0},
        {"byte 47, as neither", {'G', 'I', 'F'}, 3},
        {"ends inside its headers, at byte 3", {0xFF, 0xD8, 0xFF}, 3},
        {"65535x65535 pixels",
         {0xFF, 0xD8, 0xFF, 0xC0, 0, 11, 8, 255, 255, 255, 255, 1, 1,
          0x11, 0,    0xFF, 0xDA, 0, 8,  1, 1,   0,   0,   63,  0},
         25},
        {"0x0 pixels",
         {0xFF, 0xD8, 0xFF, 0xC0, 0, 11, 8, 0, 0, 0, 0,  1, 1,
          0x11, 0,    0xFF, 0xDA, 0, 8,  1, 1, 0, 0, 63, 0},
         25},
        {"1000000x1000000 pixels",
         {0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0,
          15,   66,  64,  0,   15, 66, 64, 8,  2, 0, 0, 0,  0,   0,   0,   0},
         33},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct picture_header header;
        char why[PICTURE_WHY_BYTES] = "";
        bool more;
        cr_assert_not(
            picture_probe(rows[r].bytes, rows[r].count, rows[r].count, &header, &more, why));
        cr_assert(strstr(why, rows[r].say) && !more, "%zu: %s", r, why);
    }
}
#endif
