/* stretto compare: what it finds, in which order, and the exit code. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/compare.h"
#include "tensor/safetensors.h"

static char folder[] = "/tmp/stretto-compare-XXXXXX";
static char *path_a, *path_b, *text;

static void make_folder(void) {
    cr_assert(mkdtemp(folder));
    path_a = mem_format("%s/a.safetensors", folder);
    path_b = mem_format("%s/b.safetensors", folder);
}

static void remove_folder(void) {
    cr_assert_eq(folder_remove(folder), STATUS_OK);
    free(path_a), free(path_b), free(text);
}

TestSuite(cli_compare, .init = make_folder, .fini = remove_folder);

static void write_items(const char *path, const struct tensor_item *items, size_t count) {
    struct safetensors_content content = {.items = items, .item_count = count};
    cr_assert_eq(safetensors_write(path, &content, NULL), STATUS_OK);
}

/* Compares the two files; what was printed is in `text`. */
static enum status compare(enum compare_form form) {
    size_t bytes;
    free(text);
    FILE *out = open_memstream(&text, &bytes);
    enum status status = compare_files(path_a, path_b, out, form);
    fclose(out);
    return status;
}

/* Compares two tensors of one type. */
static enum status compare_data(enum dtype dtype, int64_t count, const void *a, const void *b) {
    struct tensor_item one = {"x", dtype, {1, {count}}, a}, two = {"x", dtype, {1, {count}}, b};
    write_items(path_a, &one, 1);
    write_items(path_b, &two, 1);
    return compare(COMPARE_TEXT);
}

static const float ones[6] = {1, 1, 1, 1, 1, 1}, small[6] = {1, 1.5f, 1, 1, 1, 1},
                   large[6] = {1, 1, 1, 1, -3, 1.25f};
static const int64_t old_count = 1, new_count = 2;

static void write_two_models(void) {
    const struct tensor_item a[] = {
        {"same", DTYPE_F32, {1, {6}}, ones},     {"small", DTYPE_F32, {2, {2, 3}}, ones},
        {"large", DTYPE_F32, {2, {2, 3}}, ones}, {"shape", DTYPE_F32, {1, {6}}, ones},
        {"type", DTYPE_F32, {1, {2}}, ones},     {"counter", DTYPE_I64, {0, {0}}, &old_count},
        {"gone", DTYPE_F32, {1, {6}}, ones}};
    const struct tensor_item b[] = {
        {"same", DTYPE_F32, {1, {6}}, ones},      {"small", DTYPE_F32, {2, {2, 3}}, small},
        {"large", DTYPE_F32, {2, {2, 3}}, large}, {"shape", DTYPE_F32, {2, {6, 1}}, ones},
        {"type", DTYPE_I32, {1, {2}}, ones},      {"counter", DTYPE_I64, {0, {0}}, &new_count},
        {"new", DTYPE_F32, {1, {6}}, ones}};
    write_items(path_a, a, 7);
    write_items(path_b, b, 7);
}

Test(cli_compare, equal_files) {
    cr_assert_eq(compare_data(DTYPE_F32, 6, ones, ones), STATUS_OK);
    cr_assert_str_eq(text, "1 tensor, equal to the last bit\n");
    cr_assert_eq(compare(COMPARE_JSON), STATUS_OK);
    cr_assert(strstr(text, "\"equal\":true"), "%s", text);
    cr_assert_eq(compare(COMPARE_SILENT), STATUS_OK);
    cr_assert_str_eq(text, "");
}

Test(cli_compare, largest_difference_first) {
    write_two_models();
    cr_assert_eq(compare(COMPARE_TEXT), STATUS_NO);
    char *expected = mem_format(
        "only in %s:\n"
        "  gone  F32  [6]\n"
        "only in %s:\n"
        "  new  F32  [6]\n"
        "of another type or shape:\n"
        "  shape  F32 [6]  F32 [6,1]\n"
        "  type   F32 [2]  I32 [2]\n"
        "of other values, the largest difference first:\n"
        "  tensor   type  shape  differing  max abs  max rel  at     a    b\n"
        "  large    F32   [2,3]     2 of 6        4     1.33  [1,1]  1   -3\n"
        "  small    F32   [2,3]     1 of 6      0.5    0.333  [0,1]  1  1.5\n"
        "  counter  I64   []        1 of 1        1      0.5  []     1    2\n"
        "1 equal, 3 of other values (by up to 4), 2 of another type or shape, 1 only in the "
        "first, 1 only in the second\n",
        path_a, path_b);
    cr_assert_str_eq(text, expected);
    free(expected);
}

Test(cli_compare, json_is_one_object) {
    write_two_models();
    cr_assert_eq(compare(COMPARE_JSON), STATUS_NO);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    int equal, at[2];
    const char *gone, *new, *name;
    double max_abs;
    cr_assert_eq(json_unpack(root, "{s:b, s:[s!], s:[s!], s:[{s:s, s:F, s:[ii!]}]}", "equal",
                             &equal, "only_a", &gone, "only_b", &new, "differ", "name", &name,
                             "max_abs", &max_abs, "at", &at[0], &at[1]),
                 0, "%s", text);
    cr_assert(!equal && max_abs == 4 && at[0] == 1 && at[1] == 1);
    cr_assert_str_eq(gone, "gone");
    cr_assert_str_eq(new, "new");
    cr_assert_str_eq(name, "large");
    json_t *counter = json_array_get(json_object_get(root, "differ"), 2);
    cr_assert_eq(json_real_value(json_object_get(counter, "max_abs")), 1);
    cr_assert_eq(json_array_size(json_object_get(root, "other_type_or_shape")), 2);
    json_decref(root);
}

Test(cli_compare, equal_is_of_bits) {
    const float zero = 0, minus_zero = -0.0f, nan_value = NAN, infinite = INFINITY;
    cr_assert_eq(compare_data(DTYPE_F32, 1, &nan_value, &nan_value), STATUS_OK);
    cr_assert_eq(compare_data(DTYPE_F32, 1, &infinite, &infinite), STATUS_OK);
    cr_assert_eq(compare_data(DTYPE_F32, 1, &zero, &minus_zero), STATUS_NO);
    cr_assert(strstr(text, "(by up to 0)"), "%s", text);
    cr_assert_eq(compare_data(DTYPE_F32, 1, &zero, &nan_value), STATUS_NO);
    cr_assert(strstr(text, "(by up to inf)"), "%s", text);
}

Test(cli_compare, every_float_type_has_sizes) {
    const double f64[2] = {1, 1 + 0x1p-52};
    const uint16_t bf16[2] = {0x3F80, 0x3FC0}, f16[2] = {0x3C00, 0x3E00};
    cr_assert_eq(compare_data(DTYPE_F64, 1, &f64[0], &f64[1]), STATUS_NO);
    cr_assert(strstr(text, "(by up to 2.22e-16)"), "%s", text);
    cr_assert(strstr(text, "1.0000000000000002"), "%s", text);
    cr_assert_eq(compare_data(DTYPE_BF16, 1, &bf16[0], &bf16[1]), STATUS_NO);
    cr_assert(strstr(text, "(by up to 0.5)"), "%s", text);
    cr_assert_eq(compare_data(DTYPE_F16, 1, &f16[0], &f16[1]), STATUS_NO);
    cr_assert(strstr(text, "(by up to 0.5)"), "%s", text);
}

Test(cli_compare, differences_beyond_the_first_piece) {
    enum { COUNT = 700000 }; /* 2.8 MB: three pieces */
    float *a = MEM_ARRAY(float, COUNT), *b = MEM_ARRAY(float, COUNT);
    b[3] = 1;
    b[COUNT - 1] = 2;
    cr_assert_eq(compare_data(DTYPE_F32, COUNT, a, b), STATUS_NO);
    cr_assert(strstr(text, "2 of 700000        2        1  [699999]"), "%s", text);
    free(a), free(b);
}

/* A file by hand: types that the engine does not know are bytes. */
static void write_raw(const char *path, const char *header, const char *data, size_t data_bytes) {
    struct file_writer writer;
    uint64_t length = strlen(header);
    cr_assert_eq(file_begin(path, &writer), STATUS_OK);
    cr_assert_eq(file_write(&writer, &length, 8), STATUS_OK);
    cr_assert_eq(file_write(&writer, header, length), STATUS_OK);
    cr_assert_eq(file_write(&writer, data, data_bytes), STATUS_OK);
    cr_assert_eq(file_commit(&writer), STATUS_OK);
}

Test(cli_compare, unknown_types_are_bytes) {
    const char *header = "{\"w\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                         "\"q\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[4,6]}}";
    write_raw(path_a, header, "abcdef", 6);
    write_raw(path_b, header, "abcdef", 6);
    cr_assert_eq(compare(COMPARE_TEXT), STATUS_OK);
    write_raw(path_b, header, "abcxex", 6);
    cr_assert_eq(compare(COMPARE_TEXT), STATUS_NO);
    cr_assert(strstr(text, "I16   [2]       1 of 2        -        -  [1]"), "%s", text);
    cr_assert(strstr(text, "F4    [4]       1 of 2        -        -  [1]"), "%s", text);
}

Test(cli_compare, bad_files) {
    char said[512];
    cr_assert_eq(compare_data(DTYPE_F32, 6, ones, ones), STATUS_OK);
    cr_assert_eq(truncate(path_b, 40), 0);
    log_capture(said, sizeof said);
    cr_assert_eq(compare(COMPARE_TEXT), STATUS_DATA);
    cr_assert(strstr(said, path_b), "%s", said);
    cr_assert_str_eq(text, "");
    cr_assert_eq(unlink(path_a), 0);
    log_capture(said, sizeof said);
    cr_assert_eq(compare(COMPARE_TEXT), STATUS_DATA);
    cr_assert(strstr(said, path_a), "%s", said);
}

static int run(const char *option) {
    char *argv[] = {"stretto", "compare", path_a, path_b, (char *)(uintptr_t)option, NULL};
    return cli_main(option ? 5 : 4, argv);
}

Test(cli_compare, exit_codes) {
    char said[512];
    int null = open("/dev/null", O_WRONLY);
    cr_assert(dup2(null, STDOUT_FILENO) >= 0);
    close(null);
    cr_assert_eq(compare_data(DTYPE_F32, 6, ones, ones), STATUS_OK);
    cr_assert_eq(run(NULL), 0);
    cr_assert_eq(compare_data(DTYPE_F32, 6, ones, small), STATUS_NO);
    cr_assert_eq(run("--json"), 1);
    cr_assert_eq(run("--quiet"), 1);
    cr_assert_eq(truncate(path_b, 40), 0);
    log_capture(said, sizeof said);
    cr_assert_eq(run(NULL), 3);
    cr_assert_eq(run("--jsno"), 2);
}
