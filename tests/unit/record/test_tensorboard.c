/* Event records against byte vectors of the stock writer. */
#include "folder.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/tensorboard.h"

TestSuite(record_tensorboard, .init = make_folder, .fini = remove_folder);

Test(record_tensorboard, scalar_bytes) {
    static const unsigned char expected[] = {
        0x18, 0,    0,    0,    0,    0,    0, 0,    0xA3, 0x7F, 0x4B, 0x22, /* length, its CRC */
        0x09, 0,    0,    0,    0,    0,    0, 0xF0, 0x3F, 0x10, 0x07, 0x2A,
        0x0B, 0x0A,                                              /* wall 1.0, step 7 */
        0x09, 0x0A, 0x02, 0x6C, 0x72, 0x15, 0, 0,    0,    0x3F, /* "lr" 0.5 */
        0x5D, 0x90, 0xAB, 0xB2};
    unsigned char record[TENSORBOARD_RECORD_BYTES];
    cr_assert_eq(tensorboard_encode_scalar(1.0, 7, "lr", 0.5f, record), sizeof expected);
    cr_assert_arr_eq(record, expected, sizeof expected);
}

/* As the fields of HistogramProto have it: five reals, then two packed lists of them. */
Test(record_tensorboard, histogram_bytes) {
    static const int64_t count[] = {0, 3, 1};
    static const double heads[] = {1, 2, 4, 5, 7}, ends[] = {0.5, 1.5, 2.5}, in[] = {0, 3, 1};
    unsigned char record[TENSORBOARD_RECORD_BYTES + 3 * 64];
    size_t bytes = tensorboard_encode_histogram(1.0, 7, "s", count, 3, record);
    const unsigned char *at = record + 12 + 9; /* wall time */
    static const unsigned char begins[] = {0x10, 7,    0x2A, 0x68, 0x0A, 0x66,
                                           0x0A, 0x01, 's',  0x2A, 0x61};
    cr_assert_arr_eq(at, begins, sizeof begins);
    at += sizeof begins;
    for (int h = 0; h < 5; h++, at += 9) {
        cr_expect_eq(at[0], (h + 1) << 3 | 1);
        cr_expect_eq(memcmp(at + 1, &heads[h], 8), 0, "head %d", h);
    }
    cr_assert_arr_eq(at, ((unsigned char[]){6 << 3 | 2, 24}), 2);
    cr_expect_eq(memcmp(at + 2, ends, sizeof ends), 0);
    cr_assert_arr_eq(at + 26, ((unsigned char[]){7 << 3 | 2, 24}), 2);
    cr_expect_eq(memcmp(at + 28, in, sizeof in), 0);
    cr_expect_eq(bytes, (size_t)(at + 52 + 4 - record));
}

Test(record_tensorboard, version_bytes) {
    static const unsigned char expected[] = {0x09, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0x1A, 0x0D};
    unsigned char record[TENSORBOARD_RECORD_BYTES];
    cr_assert_eq(tensorboard_encode_version(1.0, record), 12 + 24 + 4);
    cr_assert_arr_eq(record + 12, expected, sizeof expected);
    cr_assert_eq(memcmp(record + 23, "brain.Event:2", 13), 0);
    cr_assert_arr_eq(record + 36, ((unsigned char[]){0x86, 0xBF, 0x57, 0x7A}), 4);
}

Test(record_tensorboard, large_steps_and_long_tags_fit) {
    unsigned char record[TENSORBOARD_RECORD_BYTES + 8];
    char tag[400];
    memset(record, 0xEE, sizeof record);
    memset(tag, 'x', sizeof tag - 1);
    tag[sizeof tag - 1] = 0;
    size_t bytes = tensorboard_encode_scalar(1.0, INT64_MAX, tag, 1, record);
    cr_assert(bytes <= TENSORBOARD_RECORD_BYTES);
    cr_assert_eq(record[bytes], 0xEE);
    cr_assert_eq(record[21], 0x10);
    for (int i = 22; i < 30; i++) cr_assert_eq(record[i], 0xFF);
    cr_assert_eq(record[30], 0x7F);
}

/* The newest event file in the folder by name; the caller frees. */
static char *newest(int *count) {
    char *best = NULL;
    DIR *open_folder = opendir(folder);
    *count = 0;
    for (struct dirent *entry; (entry = readdir(open_folder));) {
        if (!strstr(entry->d_name, "tfevents")) continue;
        ++*count;
        if (best && strcmp(entry->d_name, best) < 0) continue;
        free(best);
        best = mem_text(entry->d_name);
    }
    closedir(open_folder);
    cr_assert(best);
    char *path = mem_format("%s/%s", folder, best);
    free(best);
    return path;
}

Test(record_tensorboard, version_is_on_disk_at_once) {
    struct tensorboard *board;
    struct bytes file;
    int count;
    cr_assert_eq(tensorboard_open(folder, 0, &board), STATUS_OK);
    char *path = newest(&count);
    cr_assert_eq(file_read(path, 1 << 20, &file), STATUS_OK);
    cr_assert_eq(file.count, 40);
    bytes_free(&file);
    cr_assert_eq(tensorboard_scalar(board, 1.0, 7, "lr", 0.5f), STATUS_OK);
    cr_assert_eq(tensorboard_close(&board), STATUS_OK);
    cr_assert_null(board);
    unsigned char expected[TENSORBOARD_RECORD_BYTES];
    size_t bytes = tensorboard_encode_scalar(1.0, 7, "lr", 0.5f, expected);
    cr_assert_eq(file_read(path, 1 << 20, &file), STATUS_OK);
    cr_assert_eq(file.count, 40 + bytes);
    cr_assert_arr_eq(file.data + 40, expected, bytes);
    bytes_free(&file);
    free(path);
}

Test(record_tensorboard, resumed_file_sorts_last_and_starts_at_its_step) {
    struct tensorboard *board;
    int count;
    char *ahead = mem_format("%s/events.out.tfevents.5000000000.zzz.99999.0", folder);
    cr_assert_eq(file_write_text(ahead, ""), STATUS_OK);
    cr_assert_eq(tensorboard_open(folder, 300, &board), STATUS_OK);
    char *path = newest(&count);
    cr_assert_eq(count, 2);
    cr_assert(strstr(path, "events.out.tfevents.5000000001."), "%s", path);
    struct bytes file;
    cr_assert_eq(file_read(path, 1 << 20, &file), STATUS_OK);
    static const unsigned char start[] = {0x10, 0xAC, 0x02, 0x3A, 0x02, 0x08, 0x01};
    cr_assert_eq(file.count, 40 + 12 + 9 + sizeof start + 4);
    cr_assert_arr_eq(file.data + 40 + 12 + 9, start, sizeof start);
    bytes_free(&file);
    cr_assert_eq(tensorboard_close(&board), STATUS_OK);
    free(path);
    free(ahead);
}

Test(record_tensorboard, folder_that_is_not_there) {
    char text[512];
    struct tensorboard *board = NULL;
    log_capture(text, sizeof text);
    cr_assert_eq(tensorboard_open("/nonexistent", 0, &board), STATUS_DATA);
    cr_assert_null(board);
    cr_assert(strstr(text, "/nonexistent/events.out.tfevents."), "%s", text);
}
