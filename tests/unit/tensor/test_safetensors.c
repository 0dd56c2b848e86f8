/* safetensors: what the writer writes the reader reads; every rule of the format has a file that
 * breaks it. */
#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "tensor/safetensors.h"

static char folder[] = "/tmp/stretto-safetensors-XXXXXX";

static void make_folder(void) {
    cr_assert(mkdtemp(folder));
}

static void remove_folder(void) {
    cr_assert_eq(folder_remove(folder), STATUS_OK);
}

static const float weight[6] = {1, -2, 3.5f, 0, 5, 6};
static const int64_t tracked[1] = {42};
static const uint16_t half[3] = {0x3F80, 0xBF80, 0};
static const struct tensor_item items[] = {
    {"fc.weight", DTYPE_F32, {2, {2, 3}}, weight},
    {"bn.num_batches_tracked", DTYPE_I64, {0, {0}}, tracked},
    {"half", DTYPE_BF16, {1, {3}}, half},
    {"bias", DTYPE_F32, {1, {2}}, weight},
    {"empty", DTYPE_F32, {2, {0, 7}}, weight},
};
static const struct safetensors_pair metadata[] = {{"format", "pt"}};
static const struct safetensors_content content = {items, 5, metadata, 1, NULL, NULL};

TestSuite(tensor_safetensors, .init = make_folder, .fini = remove_folder);

static char *write_content(const struct safetensors_content *what, struct safetensors_mark *mark) {
    char *path = mem_format("%s/a.safetensors", folder);
    cr_assert_eq(safetensors_write(path, what, mark), STATUS_OK);
    return path;
}

Test(tensor_safetensors, header_is_the_reference_librarys) {
    char *path = write_content(&content, NULL);
    struct bytes file;
    cr_assert_eq(file_read(path, 1 << 20, &file), STATUS_OK);
    const char *header =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"bn.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
        "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[16,16]},"
        "\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[16,40]},"
        "\"half\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[40,46]}}";
    uint64_t length;
    memcpy(&length, file.data, 8);
    cr_assert_eq(length % 8, 0);
    cr_assert(length >= strlen(header) && length < strlen(header) + 8);
    cr_assert_eq(memcmp(file.data + 8, header, strlen(header)), 0);
    for (size_t i = strlen(header); i < length; i++) cr_assert_eq(file.data[8 + i], ' ');
    cr_assert_eq(file.count, 8 + length + 46);
    cr_assert_eq(memcmp(file.data + 8 + length + 16, weight, 24), 0);
    bytes_free(&file);
    free(path);
}

Test(tensor_safetensors, what_was_written_is_read) {
    char *path = write_content(&content, NULL);
    struct safetensors *file;
    cr_assert_eq(safetensors_open(path, &file), STATUS_OK);
    cr_assert_eq(safetensors_count(file), 5);
    for (size_t i = 0; i < 5; i++) {
        size_t index;
        cr_assert(safetensors_find(file, items[i].name, &index), "%s", items[i].name);
        const struct safetensors_entry *entry = safetensors_at(file, index);
        cr_assert_str_eq(entry->name, items[i].name);
        cr_assert(entry->native);
        cr_assert_eq(entry->dtype, items[i].dtype);
        cr_assert(shape_equal(&entry->shape, &items[i].shape));
        unsigned char *buffer = mem_new(entry->bytes + 1);
        cr_assert_eq(safetensors_read(file, index, buffer, entry->bytes), STATUS_OK);
        cr_assert_eq(memcmp(buffer, items[i].data, entry->bytes), 0);
        free(buffer);
    }
    size_t index;
    cr_assert_not(safetensors_find(file, "fc", &index));
    cr_assert(safetensors_find(file, "fc.weight", &index));
    float part[2];
    cr_assert_eq(safetensors_read_part(file, index, 8, part, sizeof part), STATUS_OK);
    cr_assert_eq(part[0], 3.5f);
    safetensors_close(&file);
    cr_assert_null(file);
    safetensors_close(&file);
    free(path);
}

Test(tensor_safetensors, mark_is_the_files) {
    struct safetensors_mark mark, again;
    char *path = write_content(&content, &mark);
    struct bytes file;
    cr_assert_eq(file_read(path, 1 << 20, &file), STATUS_OK);
    cr_assert_eq(mark.bytes, file.count);
    cr_assert_eq(mark.crc32c, crc32c(0, file.data, file.count));
    cr_assert_eq(safetensors_checksum(path, &again), STATUS_OK);
    cr_assert(again.bytes == mark.bytes && again.crc32c == mark.crc32c);
    bytes_free(&file);
    free(path);
}

/* Hands out each item in pieces of at most 5 bytes. */
static enum status in_pieces(void *context, size_t item, struct safetensors_sink *sink) {
    const struct tensor_item *from = (const struct tensor_item *)context + item;
    size_t left = (size_t)shape_count(&from->shape) * dtype_bytes(from->dtype);
    for (const unsigned char *cursor = from->data; left > 0;) {
        size_t piece = left < 5 ? left : 5;
        TRY(safetensors_emit(sink, cursor, piece));
        cursor += piece;
        left -= piece;
    }
    return STATUS_OK;
}

Test(tensor_safetensors, streamed_items_give_the_same_file) {
    struct safetensors_mark whole, streamed;
    free(write_content(&content, &whole));
    struct tensor_item without[5];
    memcpy(without, items, sizeof items);
    for (int i = 0; i < 5; i++) without[i].data = NULL;
    struct safetensors_content stream = {without, 5, metadata, 1, in_pieces, (void *)items};
    free(write_content(&stream, &streamed));
    cr_assert(whole.bytes == streamed.bytes && whole.crc32c == streamed.crc32c);
}

static enum status give_up(void *context, size_t item, struct safetensors_sink *sink) {
    (void)context, (void)item, (void)sink;
    return STATUS_PEER;
}

Test(tensor_safetensors, failed_write_leaves_the_old_file) {
    struct safetensors_mark before, after;
    char *path = write_content(&content, &before);
    struct tensor_item missing = {"x", DTYPE_F32, {1, {2}}, NULL};
    struct safetensors_content failing = {&missing, 1, NULL, 0, give_up, NULL};
    cr_assert_eq(safetensors_write(path, &failing, NULL), STATUS_PEER);
    cr_assert_eq(safetensors_checksum(path, &after), STATUS_OK);
    cr_assert(before.bytes == after.bytes && before.crc32c == after.crc32c);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rmdir(folder), 0, "a temporary file was left behind");
    free(path);
}

/* A limit on file sizes stands in for a full disk. */
Test(tensor_safetensors, full_disk_leaves_the_old_file) {
    struct safetensors_mark before, after;
    char *path = write_content(&content, &before), text[512];
    struct tensor_item big = {"x", DTYPE_F32, {1, {1 << 20}}, mem_new(4 << 20)};
    struct safetensors_content too_big = {&big, 1, NULL, 0, NULL, NULL};
    struct rlimit old, limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = (struct rlimit){1 << 20, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    log_capture(text, sizeof text);
    cr_assert_eq(safetensors_write(path, &too_big, NULL), STATUS_DATA);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    cr_assert(strstr(text, "write failed: File too large"), "%s", text);
    cr_assert_eq(safetensors_checksum(path, &after), STATUS_OK);
    cr_assert(before.bytes == after.bytes && before.crc32c == after.crc32c);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rmdir(folder), 0, "a temporary file was left behind");
    free((void *)(uintptr_t)big.data);
    free(path);
}

Test(tensor_safetensors, writer_refuses_names_that_cannot_be_read_back) {
    static const char *const pairs[][2] = {{"a", "a"}, {"a", "__metadata__"}, {"a", "\xFF"}};
    char *path = mem_format("%s/a.safetensors", folder), text[512];
    for (size_t i = 0; i < 3; i++) {
        struct tensor_item two[2] = {{pairs[i][0], DTYPE_F32, {0, {0}}, weight},
                                     {pairs[i][1], DTYPE_F32, {0, {0}}, weight}};
        struct safetensors_content bad = {two, 2, NULL, 0, NULL, NULL};
        log_capture(text, sizeof text);
        cr_assert_eq(safetensors_write(path, &bad, NULL), STATUS_DATA, "%s", pairs[i][1]);
        cr_assert_not(file_exists(path));
    }
    free(path);
}

Test(tensor_safetensors, file_without_tensors) {
    struct safetensors_content none = {0};
    char *path = write_content(&none, NULL);
    struct safetensors *file;
    cr_assert_eq(safetensors_open(path, &file), STATUS_OK);
    cr_assert_eq(safetensors_count(file), 0);
    size_t index;
    cr_assert_not(safetensors_find(file, "x", &index));
    safetensors_close(&file);
    free(path);
}

/* Builds a file of `header` and `data_bytes` zero bytes, and parses it from memory. */
static enum status parse(const char *header, size_t data_bytes, char *text, size_t size,
                         struct safetensors **out) {
    static unsigned char memory[4096];
    uint64_t length = strlen(header);
    memset(memory, 0, sizeof memory);
    memcpy(memory, &length, 8);
    memcpy(memory + 8, header, length);
    log_capture(text, size);
    enum status status = safetensors_parse("m", memory, 8 + length + data_bytes, out);
    log_capture(NULL, 0);
    return status;
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *says; /* part of the message */
} broken[] = {
    {"", 0, "byte 8"},
    {"[]", 0, "byte 8"},
    {"{", 0, "header, byte"},
    {"{}x", 0, "header, byte"},
    {"{} ", 1, "end at byte 11, the file at byte 12"},
    {"{\"a\":1}", 0, "not an object"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8, "uplicate"},
    {"{" T("a", "F33", "[1]", "[0,4]") "}", 4, "'F33' is not one"},
    {"{\"a\":{\"dtype\":5,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "is not one"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "\"shape\" is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "\"data_offsets\" is missing"},
    {"{" T("a", "F32", "1", "[0,4]") "}", 4, "not an array"},
    {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "dimension 0"},
    {"{" T("a", "F32", "[1.0]", "[0,4]") "}", 4, "dimension 0"},
    {"{" T("a", "F32", "[1,99999999999999999999]", "[0,4]") "}", 4, "header, byte"},
    {"{" T("a", "F32", "[1]", "[0]") "}", 4, "two whole numbers"},
    {"{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, "two whole numbers"},
    {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, "[4,0] do not lie in the 4 bytes"},
    {"{" T("a", "F32", "[1]", "[-4,0]") "}", 4, "[-4,0] do not lie in the 4 bytes"},
    {"{" T("a", "F32", "[2]", "[0,8]") "}", 4, "[0,8] do not lie in the 4 bytes"},
    {"{" T("a", "F32", "[2]", "[0,4]") "}", 4, "needs 8 bytes, its data_offsets give 4"},
    {"{" T("a", "F32", "[4611686018427387904,4]", "[0,0]") "}", 0, "too large"},
    {"{" T("a", "F32", "[2305843009213693952,8]", "[0,0]") "}", 0, "too large"},
    {"{" T("a", "F4", "[3]", "[0,1]") "}", 1, "not a whole number of bytes"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[8,12]") "}", 12, "at byte 8 of"},
    {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[1]", "[4,8]") "}", 8, "at byte 4 of"},
    {"{" T("a", "F32", "[1]", "[4,8]") "}", 8, "expected 0"},
    {"{" T("a", "F32", "[1]", "[0,4]") "}", 5, "the file at byte"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "not a string"},
    {"{\"__metadata__\":[]}", 0, "not an object"},
    {"{" T("a\\u0000b", "F32", "[1]", "[0,4]") "}", 4, "header, byte"},
    {"{" T("a\\n\\n\\u001b[2J", "F32", "[1]", "[0,4]") "}", 8, "the file at byte"},
};

Test(tensor_safetensors, every_rule_is_enforced) {
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char text[1024];
        struct safetensors *file = NULL;
        enum status status =
            parse(broken[i].header, broken[i].data_bytes, text, sizeof text, &file);
        cr_expect_eq(status, STATUS_DATA, "%s was accepted", broken[i].header);
        cr_expect_null(file);
        cr_expect(strstr(text, broken[i].says), "%s: %s", broken[i].header, text);
        int lines = 0;
        for (const char *c = text; *c; c++) lines += *c == '\n';
        cr_expect(lines >= 1 && lines <= 3, "%d lines: %s", lines, text);
    }
}

/* Its length then begins as a pickle of PyTorch's does. */
Test(tensor_safetensors, header_may_have_640_bytes) {
    char header[641], text[512];
    struct safetensors *file = NULL;
    snprintf(header, sizeof header, "%-640s", "{" T("a", "F32", "[1]", "[0,4]") "}");
    cr_expect_eq(parse(header, 4, text, sizeof text, &file), STATUS_OK, "%s", text);
    safetensors_close(&file);
}

Test(tensor_safetensors, names_in_messages_hold_no_control_characters) {
    char text[1024];
    struct safetensors *file;
    cr_assert_eq(
        parse("{" T("a\\n\\u001b[2J", "F32", "[2]", "[0,4]") "}", 4, text, sizeof text, &file),
        STATUS_DATA);
    cr_assert(strstr(text, "tensor 'a\\x0a\\x1b[2J': "), "%s", text);
}

Test(tensor_safetensors, lengths_are_checked) {
    char text[512];
    struct safetensors *file = NULL;
    unsigned char memory[16] = {0};
    for (size_t count = 0; count < 8; count++) {
        log_capture(text, sizeof text);
        cr_assert_eq(safetensors_parse("m", memory, count, &file), STATUS_DATA);
    }
    memory[0] = 9; /* a header of 9 bytes where 8 are left */
    log_capture(text, sizeof text);
    cr_assert_eq(safetensors_parse("m", memory, 16, &file), STATUS_DATA);
    cr_assert(strstr(text, "ends at byte 17, the file at byte 16"), "%s", text);
    memset(memory, 0xFF, 8);
    log_capture(text, sizeof text);
    cr_assert_eq(safetensors_parse("m", memory, 16, &file), STATUS_DATA);
    cr_assert(strstr(text, "18446744073709551615"), "%s", text);
    log_capture(text, sizeof text);
    cr_assert_eq(safetensors_open("/", &file), STATUS_DATA);
    cr_assert_eq(safetensors_open("/nonexistent", &file), STATUS_DATA);
}

Test(tensor_safetensors, every_truncation_is_refused) {
    char *path = write_content(&content, NULL), text[1024];
    struct bytes whole;
    cr_assert_eq(file_read(path, 1 << 20, &whole), STATUS_OK);
    for (size_t count = 0; count < whole.count; count++) {
        struct safetensors *file = NULL;
        log_capture(text, sizeof text);
        cr_expect_eq(safetensors_parse("m", whole.data, count, &file), STATUS_DATA, "%zu", count);
    }
    bytes_free(&whole);
    free(path);
}

Test(tensor_safetensors, unknown_types_and_ranks_are_bytes) {
    char text[512], shape[SHAPE_TEXT_BYTES];
    struct safetensors *file;
    cr_assert_eq(parse("{" T("a", "I16", "[2]", "[0,4]") "," T("b", "F4", "[2]", "[4,5]") "," T(
                           "c", "F32", "[1,1,1,1,1,2]", "[5,13]") "}  ",
                       13, text, sizeof text, &file),
                 STATUS_OK, "%s", text);
    cr_assert_eq(safetensors_count(file), 3);
    for (size_t i = 0; i < 3; i++) cr_assert_not(safetensors_at(file, i)->native);
    cr_assert_str_eq(safetensors_at(file, 0)->type, "I16");
    cr_assert_eq(safetensors_at(file, 1)->bytes, 1);
    cr_assert_str_eq(safetensors_shape_text(safetensors_at(file, 2), shape), "[1,1,1,1,1,2]");
    int16_t values[2] = {1, 1};
    cr_assert_eq(safetensors_read(file, 0, values, sizeof values), STATUS_OK);
    cr_assert(values[0] == 0 && values[1] == 0);
    safetensors_close(&file);
}
