/* Malformed IDX and CIFAR files: each row damages a good folder in one way and says what the
 * message must name. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/cifar.h"
#include "data/dataset.h"
#include "data/idx.h"

static char message[8192];

static char *temporary_folder(void) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/stretto-bad-XXXXXX");
    cr_assert_not_null(mkdtemp(path));
    return path;
}

static void write_file(const char *folder, const char *name, const void *data, size_t bytes) {
    char *path = mem_format("%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
    free(path);
}

static void remove_file(const char *folder, const char *name) {
    char *path = mem_format("%s/%s", folder, name);
    cr_assert_eq(unlink(path), 0, "%s", path);
    free(path);
}

static enum status open_folder(const char *name, const char *folder) {
    char *spec = mem_format("%s:%s", name, folder);
    struct dataset *dataset = NULL;
    log_capture(message, sizeof message);
    enum status status = dataset_open(spec, &(struct dataset_config){0}, &dataset);
    log_capture(NULL, 0);
    dataset_free(&dataset);
    free(spec);
    return status;
}

static int line_count(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

static void expect_refused(enum status status, const char *say, const char *case_name) {
    cr_assert_eq(status, STATUS_DATA, "%s: status %d: %s", case_name, status, message);
    cr_assert(strstr(message, say), "%s: '%s' is not in: %s", case_name, say, message);
    cr_assert(line_count(message) <= 3, "%s: %s", case_name, message);
    cr_assert(strstr(message, "stretto-bad-"), "%s names no file: %s", case_name, message);
}

/* --- IDX --- */

enum { N = 6, SIDE = 4, IMAGE_BYTES = 16 + N * SIDE * SIDE, LABEL_BYTES = 8 + N };

static const unsigned char image_head[16] = {0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
static const unsigned char label_head[8] = {0, 0, 8, 1, 0, 0, 0, N};

static void write_good_mnist(const char *folder) {
    unsigned char image[IMAGE_BYTES] = {0}, label[LABEL_BYTES] = {0};
    memcpy(image, image_head, 16);
    memcpy(label, label_head, 8);
    for (int i = 0; i < N; i++) label[8 + i] = (unsigned char)i;
    write_file(folder, "train-images-idx3-ubyte", image, IMAGE_BYTES);
    write_file(folder, "train-labels-idx1-ubyte", label, LABEL_BYTES);
    write_file(folder, "t10k-images-idx3-ubyte", image, IMAGE_BYTES);
    write_file(folder, "t10k-labels-idx1-ubyte", label, LABEL_BYTES);
}

/* One byte of a file is set, then the file is cut or lengthened to `bytes` (-1: as it is). */
static const struct damage {
    const char *name, *file;
    int at, value, bytes;
    const char *say;
} idx_damages[] = {
    {"empty file", "train-images-idx3-ubyte", -1, 0, 0, "0 bytes, but the IDX magic alone has 4"},
    {"cut in the magic", "train-images-idx3-ubyte", -1, 0, 3, "3 bytes"},
    {"cut in the header", "t10k-images-idx3-ubyte", -1, 0, 15,
     "ends at byte 15, inside its header of 16"},
    {"cut after the header", "t10k-images-idx3-ubyte", -1, 0, 16,
     "announces 96 bytes of values, but 0 follow"},
    {"last byte missing", "train-images-idx3-ubyte", -1, 0, IMAGE_BYTES - 1,
     "96 bytes of values, but 95"},
    {"one byte over", "train-images-idx3-ubyte", -1, 0, IMAGE_BYTES + 1,
     "96 bytes of values, but 97"},
    {"first byte", "train-images-idx3-ubyte", 0, 1, -1, "byte 0: magic 0x01000803"},
    {"unknown type", "train-images-idx3-ubyte", 2, 0x0A, -1, "magic 0x00000A03"},
    {"type byte 255", "train-images-idx3-ubyte", 2, 0xFF, -1, "magic 0x0000FF03"},
    {"rank 0", "train-images-idx3-ubyte", 3, 0, -1, "byte 3: 0 dimensions"},
    {"rank 200", "train-images-idx3-ubyte", 3, 200, -1, "byte 3: 200 dimensions"},
    {"labels as images", "train-images-idx3-ubyte", 3, 1, -1, "announces 6 bytes"},
    {"signed labels", "train-labels-idx1-ubyte", 2, 9, -1, "magic 0x00000901, expected 0x00000801"},
    {"huge dimension", "train-images-idx3-ubyte", 4, 0xFF, -1, "announces"},
    {"image count", "train-images-idx3-ubyte", 7, N + 1, -1, "announces 112"},
    {"label count", "train-labels-idx1-ubyte", 7, N - 1, -1, "announces 5 bytes of values, but 6"},
    {"image height", "train-images-idx3-ubyte", 11, 5, -1, "announces 120"},
    {"label out of range", "train-labels-idx1-ubyte", 8 + 3, 10, -1,
     "byte 11: label 10 of sample 3, expected 0 to 9"},
    {"test label 255", "t10k-labels-idx1-ubyte", 8, 255, -1, "byte 8: label 255 of sample 0"},
    {"gzip magic, no gzip", "train-images-idx3-ubyte", 0, 0x1F, -1, "byte 0"},
};

static void apply(const char *folder, const struct damage *damage) {
    char *path = mem_format("%s/%s", folder, damage->file);
    struct bytes bytes;
    cr_assert_eq(file_read(path, 1 << 28, &bytes), STATUS_OK);
    size_t length = damage->bytes >= 0 ? (size_t)damage->bytes : bytes.count;
    unsigned char *data = mem_new(length > bytes.count ? length : bytes.count);
    memcpy(data, bytes.data, bytes.count);
    if (damage->at >= 0) data[damage->at] = (unsigned char)damage->value;
    write_file(folder, damage->file, data, length);
    free(data);
    bytes_free(&bytes);
    free(path);
}

Test(data_bad_files, damaged_idx) {
    char *folder = temporary_folder();
    write_good_mnist(folder);
    cr_assert_eq(open_folder("mnist", folder), STATUS_OK, "%s", message);
    for (size_t d = 0; d < sizeof idx_damages / sizeof idx_damages[0]; d++) {
        write_good_mnist(folder);
        apply(folder, &idx_damages[d]);
        expect_refused(open_folder("mnist", folder), idx_damages[d].say, idx_damages[d].name);
    }
    folder_remove(folder);
}

Test(data_bad_files, idx_files_that_do_not_fit_together) {
    char *folder = temporary_folder();
    unsigned char head[16], none[8] = {0, 0, 8, 1},
                            no_images[16] = {0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 4};
    unsigned char fewer[8 + 5] = {0, 0, 8, 1, 0, 0, 0, 5},
                            wide[16 + 96] = {0, 0, 8, 3, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0, 8};
    memcpy(head, image_head, 16);
    write_good_mnist(folder);
    write_file(folder, "train-labels-idx1-ubyte", fewer, sizeof fewer);
    expect_refused(open_folder("mnist", folder), "holds 6 images but", "images are not labels");
    write_good_mnist(folder);
    write_file(folder, "train-labels-idx1-ubyte", none, sizeof none);
    write_file(folder, "train-images-idx3-ubyte", no_images, sizeof no_images);
    expect_refused(open_folder("mnist", folder), "holds 0 samples", "empty data set");
    write_good_mnist(folder);
    write_file(folder, "t10k-images-idx3-ubyte", wide, sizeof wide);
    expect_refused(open_folder("mnist", folder), "training images are 4x4 but test images 2x8",
                   "two sizes");
    write_good_mnist(folder);
    no_images[7] = 6, no_images[11] = 0;
    write_file(folder, "t10k-images-idx3-ubyte", no_images, sizeof no_images);
    expect_refused(open_folder("mnist", folder), "images 0x4", "no pixels");
    write_good_mnist(folder);
    remove_file(folder, "t10k-labels-idx1-ubyte");
    expect_refused(open_folder("mnist", folder),
                   "neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz", "gone");
    char *path = mem_format("%s/t10k-labels-idx1-ubyte", folder);
    cr_assert_eq(mkdir(path, 0777), 0);
    expect_refused(open_folder("mnist", folder), "t10k-labels-idx1-ubyte", "a folder for a file");
    cr_assert(rmdir(path) == 0 && mkfifo(path, 0600) == 0);
    expect_refused(open_folder("mnist", folder), "not a regular file",
                   "a pipe that nobody writes to");
    free(path);
    folder_remove(folder);
}

static size_t gzip(const unsigned char *data, size_t bytes, unsigned char *out, size_t size) {
    z_stream stream = {0};
    deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    stream.next_in = (unsigned char *)data;
    stream.avail_in = (uInt)bytes;
    stream.next_out = out;
    stream.avail_out = (uInt)size;
    cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t packed = size - stream.avail_out;
    deflateEnd(&stream);
    return packed;
}

Test(data_bad_files, gzip_is_read_and_its_damage_seen) {
    char *folder = temporary_folder();
    unsigned char label[LABEL_BYTES] = {0, 0, 8, 1, 0, 0, 0, N, 1, 2, 3, 4, 5, 6}, packed[256];
    size_t bytes = gzip(label, sizeof label, packed, sizeof packed);
    write_good_mnist(folder);
    remove_file(folder, "train-labels-idx1-ubyte");
    write_file(folder, "train-labels-idx1-ubyte.gz", packed, bytes);
    cr_assert_eq(open_folder("mnist", folder), STATUS_OK, "%s", message);
    for (size_t cut = 2; cut < bytes; cut++) {
        write_file(folder, "train-labels-idx1-ubyte.gz", packed, cut);
        expect_refused(open_folder("mnist", folder),
                       "train-labels-idx1-ubyte.gz: gzip data is truncated", "cut");
    }
    packed[bytes - 6] ^= 1; /* in the checksum */
    write_file(folder, "train-labels-idx1-ubyte.gz", packed, bytes);
    expect_refused(open_folder("mnist", folder), "gzip data is corrupt", "checksum");
    folder_remove(folder);
}

/* A header, and so many zeros behind it. */
static struct bytes gzip_zeros(const unsigned char *head, size_t head_bytes, size_t zeros) {
    static unsigned char none[1 << 16];
    struct bytes out = {mem_new(zeros / 500 + 4096), zeros / 500 + 4096};
    z_stream stream = {.next_out = out.data, .avail_out = (uInt)out.count};
    deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    stream.next_in = (unsigned char *)head;
    stream.avail_in = (uInt)head_bytes;
    cr_assert_eq(deflate(&stream, Z_NO_FLUSH), Z_OK);
    for (size_t at = 0; at < zeros; at += sizeof none) {
        stream.next_in = none;
        stream.avail_in = (uInt)(zeros - at < sizeof none ? zeros - at : sizeof none);
        cr_assert_eq(deflate(&stream, Z_NO_FLUSH), Z_OK);
    }
    cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.count -= stream.avail_out;
    deflateEnd(&stream);
    return out;
}

/* Files of some kilobytes that unpack to 24 MiB, and whose headers announce less, or more than they
 * have: no more memory is taken than the header is worth. */
enum { ZEROS = 24 << 20 };
static const struct {
    const char *data, *file;
    size_t head_bytes, zeros;
    unsigned char head[32];
    const char *say;
} bombs[] = {
    {"mnist",
     "train-images-idx3-ubyte",
     16,
     ZEROS,
     {0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, SIDE, 0, 0, 0, SIDE},
     "announces 96 bytes of values, but it unpacks to more"},
    {"mnist", "t10k-labels-idx1-ubyte", 8, ZEROS, {0, 0, 8, 1, 0, 0, 0, N}, "announces 6 bytes"},
    {"mnist", "train-labels-idx1-ubyte", 8, ZEROS, {0, 0, 8, 1, 0, 0, 0, 0}, "announces 0 bytes"},
    {"mnist", "train-images-idx3-ubyte", 4, ZEROS, {0, 0, 8, 9}, "byte 3: 9 dimensions"},
    {"mnist",
     "train-images-idx3-ubyte",
     16,
     20000,
     {0, 0, 8, 3, 0x04, 0, 0, 0, 0, 0, 0, SIDE, 0, 0, 0, SIDE},
     "packed bytes cannot hold so many"},
    {"mnist",
     "train-images-idx3-ubyte",
     16,
     20000,
     {0, 0, 8, 3, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0},
     "more than the 4294967296 bytes"},
    {"mnist",
     "train-images-idx3-ubyte",
     16,
     120000,
     {0, 0, 8, 3, 0, 0, 0x20, 0, 0, 0, 0, SIDE, 0, 0, 0, SIDE},
     "131072 bytes of values, but 120000 follow"},
    {"tokens",
     "train.tokens",
     32,
     ZEROS,
     {'S', 'T', 'R', 'E', 'T', 'T', 'O', 'K', 1, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5},
     "announces 18 bytes of values, but it unpacks to more"},
    {"tokens", "train.tokens", 32, ZEROS, {'N', 'O', 'N', 'E'}, "byte 0: not a file of tokens"},
    {"tokens",
     "train.tokens",
     32,
     20000,
     {'S', 'T', 'R', 'E', 'T', 'T', 'O', 'K', 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5},
     "packed bytes cannot hold so many"},
    {"tokens",
     "train.tokens",
     32,
     20000,
     {'S', 'T', 'R', 'E', 'T', 'T', 'O', 'K', 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 5},
     "more bytes than can be counted"},
};

Test(data_bad_files, what_gzip_unpacks_to_is_bounded_by_the_header) {
    enum { MOST = 8 << 20 };
    for (size_t i = 0; i < sizeof bombs / sizeof bombs[0]; i++) {
        char *folder = temporary_folder();
        struct bytes bomb = gzip_zeros(bombs[i].head, bombs[i].head_bytes, bombs[i].zeros);
        write_good_mnist(folder);
        write_file(folder, bombs[i].file, bomb.data, bomb.count);
        bytes_free(&bomb);
        mem_give_back();
        mem_reset_peak();
        size_t before = mem_resident_bytes();
        expect_refused(open_folder(bombs[i].data, folder), bombs[i].say, bombs[i].file);
        size_t peak = mem_peak_bytes();
        cr_expect_lt(peak, before + MOST, "row %zu took %zu bytes", i, peak - before);
        folder_remove(folder);
    }
}

/* Ten thousand random damages of a small file: parsed or refused, never anything else. */
Test(data_bad_files, idx_parser_survives_anything) {
    unsigned char good[IMAGE_BYTES] = {0}, data[IMAGE_BYTES];
    memcpy(good, image_head, 16);
    int refused = 0;
    log_capture(message, sizeof message);
    for (uint64_t i = 0; i < 10000; i++) {
        size_t count = IMAGE_BYTES;
        memcpy(data, good, sizeof good);
        for (uint64_t k = 0; k <= i % 4; k++)
            data[rng_word(i, 2 * k) % 20] = (unsigned char)rng_word(i, 2 * k + 1);
        if (i % 5 == 0) count = rng_word(i, 99) % IMAGE_BYTES;
        unsigned char *exact =
            memcpy(mem_new(count), data, count); /* so that a sanitizer sees overruns */
        struct idx idx;
        message[0] = 0;
        if (idx_parse("fuzz", exact, count, &idx) != STATUS_OK)
            refused++;
        else
            cr_assert(idx.values + idx.value_bytes == exact + count);
        free(exact);
    }
    log_capture(NULL, 0);
    cr_assert(refused > 8000 && refused < 10000, "%d", refused);
}

/* --- CIFAR --- */

enum { CIFAR_RECORD = 1 + CIFAR_PIXELS, RECORDS = 3, CIFAR_BYTES = RECORDS * CIFAR_RECORD };

static void write_good_cifar(const char *folder) {
    unsigned char *data = mem_new(CIFAR_BYTES);
    for (int i = 0; i < RECORDS; i++) data[i * CIFAR_RECORD] = (unsigned char)i;
    write_file(folder, "data_batch_2.bin", data, CIFAR_BYTES);
    write_file(folder, "data_batch_5.bin", data, CIFAR_BYTES);
    write_file(folder, "test_batch.bin", data, CIFAR_BYTES);
    free(data);
}

static const struct damage cifar_damages[] = {
    {"empty", "data_batch_2.bin", -1, 0, 0, "data_batch_2.bin: empty"},
    {"cut in a record", "data_batch_5.bin", -1, 0, 7000,
     "7000 bytes: 2 records of 3073 bytes and 854 bytes over"},
    {"last byte missing", "test_batch.bin", -1, 0, CIFAR_BYTES - 1,
     "2 records of 3073 bytes and 3072 bytes over"},
    {"one byte over", "test_batch.bin", -1, 0, CIFAR_BYTES + 1,
     "3 records of 3073 bytes and 1 bytes over"},
    {"label out of range", "data_batch_2.bin", CIFAR_RECORD, 10, -1,
     "byte 3073: label 10 of record 1, expected 0 to 9"},
    {"test label", "test_batch.bin", 2 * CIFAR_RECORD, 255, -1, "byte 6146: label 255 of record 2"},
};

/* Records with a coarse and a fine label. */
Test(data_bad_files, damaged_cifar100) {
    enum { RECORD_100 = 2 + CIFAR_PIXELS, BYTES_100 = 2 * RECORD_100 };
    unsigned char data[BYTES_100] = {19, 99};
    static const struct damage damages[] = {
        {"cut", "train.bin", -1, 0, RECORD_100 + 5, "1 records of 3074 bytes and 5 bytes over"},
        {"coarse label", "test.bin", RECORD_100, 20, -1,
         "byte 3074: label 20 of record 1, expected 0 to 19"},
        {"fine label", "train.bin", 1, 100, -1, "byte 1: label 100 of record 0, expected 0 to 99"},
    };
    char *folder = temporary_folder();
    for (size_t d = 0; d < sizeof damages / sizeof damages[0]; d++) {
        write_file(folder, "train.bin", data, BYTES_100);
        write_file(folder, "test.bin", data, BYTES_100);
        cr_assert_eq(open_folder("cifar100", folder), STATUS_OK, "%s", message);
        cr_assert(strstr(message, "2 records where the original has 50000"), "%s", message);
        apply(folder, &damages[d]);
        enum status status = open_folder("cifar100-coarse", folder);
        cr_assert_eq(status, STATUS_DATA, "%s", damages[d].name);
        cr_assert(strstr(message, damages[d].say), "%s: %s", damages[d].name, message);
    }
    folder_remove(folder);
}

Test(data_bad_files, damaged_cifar) {
    char *folder = temporary_folder();
    write_good_cifar(folder);
    cr_assert_eq(open_folder("cifar10", folder), STATUS_OK, "%s", message);
    cr_assert(strstr(message, "2 of 5 training batches") && strstr(message, "6 images"), "%s",
              message);
    cr_assert(strstr(message, "3 records where the original has 10000"), "%s", message);
    for (size_t d = 0; d < sizeof cifar_damages / sizeof cifar_damages[0]; d++) {
        write_good_cifar(folder);
        apply(folder, &cifar_damages[d]);
        enum status status = open_folder("cifar10", folder);
        char *error =
            strstr(message, "stretto: error:"); /* warnings on short files come before it */
        cr_assert_not_null(error, "%s", cifar_damages[d].name);
        memmove(message, error, strlen(error) + 1);
        expect_refused(status, cifar_damages[d].say, cifar_damages[d].name);
    }
    write_good_cifar(folder);
    remove_file(folder, "test_batch.bin");
    cr_assert_eq(open_folder("cifar10", folder), STATUS_DATA);
    cr_assert(strstr(message, "test_batch.bin: cannot open"), "%s", message);
    remove_file(folder, "data_batch_2.bin");
    remove_file(folder, "data_batch_5.bin");
    expect_refused(open_folder("cifar10", folder), "none of data_batch_1.bin to data_batch_5.bin",
                   "no batch");
    folder_remove(folder);
}
