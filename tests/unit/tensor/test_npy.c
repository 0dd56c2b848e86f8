/* .npy and .npz files: NumPy's own are read (numpy_files.py wrote them), ours are NumPy's to the
 * byte, and every damage is named. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "npy_whole.h"

#define FOLDER "tests/fuzz/corpus/npy/"

static char message[4096];

static struct bytes content(const char *name) {
    struct bytes bytes;
    char *path = mem_format(FOLDER "%s", name);
    cr_assert_eq(file_read(path, 1 << 20, &bytes), STATUS_OK);
    free(path);
    return bytes;
}

static size_t content_bytes(const char *name) {
    struct bytes bytes = content(name);
    size_t count = bytes.count;
    bytes_free(&bytes);
    return count;
}

static struct npy *opened(const char *name) {
    struct npy *file = NULL;
    char *path = mem_format(FOLDER "%s", name);
    cr_assert_eq(npy_open(path, &file), STATUS_OK);
    free(path);
    return file;
}

/* The shape (2, 3, 2) with 0 to 11, as reals and as whole numbers. */
static void expect_count(const struct npy *file, size_t index, const char *what) {
    struct npy_array array;
    float real[12];
    int64_t whole[12];
    cr_assert_eq(npy_describe(file, index, &array), STATUS_OK, "%s", what);
    cr_assert(shape_equal(&array.shape, &SHAPE(2, 3, 2)), "%s", what);
    cr_assert_eq(npy_read(file, index, DTYPE_F32, real, sizeof real), STATUS_OK);
    for (int i = 0; i < 12; i++) cr_assert_eq(real[i], (float)i, "%s: %d: %g", what, i, real[i]);
    if (array.real) return;
    cr_assert_eq(npy_read(file, index, DTYPE_I64, whole, sizeof whole), STATUS_OK);
    for (int i = 0; i < 12; i++) cr_assert_eq(whole[i], i, "%s: %d", what, i);
}

Test(tensor_npy, formats_and_orders) {
    static const char *const names[] = {"v1.npy",      "v2.npy",  "v3.npy",
                                        "columns.npy", "big.npy", "big_columns.npy"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct npy *file = opened(names[i]);
        cr_assert_eq(npy_count(file), 1);
        cr_assert_str_eq(npy_name(file, 0), "");
        expect_count(file, 0, names[i]);
        npy_close(&file);
    }
}

Test(tensor_npy, every_type_in_archives_of_each_kind) {
    static const char *const names[] = {"stored.npz", "packed.npz"};
    static const char *const types[] = {"f2", "f4", "f8", "i1", "i2", "i4",
                                        "i8", "u1", "u2", "u4", "u8"};
    for (int n = 0; n < 2; n++) {
        struct npy *file = opened(names[n]);
        cr_assert_eq(npy_count(file), 11);
        for (int t = 0; t < 11; t++) {
            size_t index;
            struct npy_array array;
            cr_assert(npy_find(file, types[t], &index), "%s", types[t]);
            expect_count(file, index, types[t]);
            cr_assert_eq(npy_describe(file, index, &array), STATUS_OK);
            cr_assert_str_eq(array.type, types[t]);
        }
        cr_assert_not(npy_find(file, "f16", &(size_t){0}));
        npy_close(&file);
    }
}

Test(tensor_npy, zip64) {
    struct npy *file = opened("zip64.npz");
    cr_assert_eq(npy_count(file), 1);
    expect_count(file, 0, "zip64.npz");
    npy_close(&file);
}

Test(tensor_npy, flags_scalars_and_nothing) {
    unsigned char flags[12];
    float scalar = 0;
    struct npy *file = opened("flags.npy");
    cr_assert_eq(npy_read(file, 0, DTYPE_U8, flags, sizeof flags), STATUS_OK);
    for (int i = 0; i < 12; i++) cr_assert_eq(flags[i], i % 2);
    npy_close(&file);
    file = opened("scalar.npy");
    cr_assert_eq(npy_read(file, 0, DTYPE_F32, &scalar, sizeof scalar), STATUS_OK);
    cr_assert_eq(scalar, 3.5f);
    npy_close(&file);
    file = opened("empty.npy");
    cr_assert_eq(npy_read(file, 0, DTYPE_F32, &scalar, 0), STATUS_OK);
    npy_close(&file);
}

/* More values than one chunk, so that the parts meet. */
Test(tensor_npy, long_arrays) {
    enum { COUNT = 100000 };
    int64_t *values = MEM_ARRAY(int64_t, COUNT), *back = MEM_ARRAY(int64_t, COUNT);
    for (int64_t i = 0; i < COUNT; i++) values[i] = i * i - 7;
    char path[] = "/tmp/stretto-npy-XXXXXX";
    cr_assert(mkstemp(path) >= 0);
    cr_assert_eq(npy_write(path, DTYPE_I64, &SHAPE(1000, 100), values), STATUS_OK);
    struct npy *file = NULL;
    cr_assert_eq(npy_open(path, &file), STATUS_OK);
    cr_assert_eq(npy_read(file, 0, DTYPE_I64, back, COUNT * sizeof *back), STATUS_OK);
    cr_assert_arr_eq(back, values, COUNT * sizeof *back);
    npy_close(&file);
    remove(path);
    free(values);
    free(back);
}

static void expect_same_file(const char *name, enum dtype dtype, struct shape shape,
                             const void *data) {
    char path[] = "/tmp/stretto-npy-XXXXXX";
    struct bytes theirs = content(name), ours;
    cr_assert(mkstemp(path) >= 0);
    cr_assert_eq(npy_write(path, dtype, &shape, data), STATUS_OK);
    cr_assert_eq(file_read(path, 1 << 20, &ours), STATUS_OK);
    remove(path);
    cr_assert_eq(ours.count, theirs.count, "%s: %zu bytes, NumPy %zu", name, ours.count,
                 theirs.count);
    cr_assert_arr_eq(ours.data, theirs.data, ours.count, "%s", name);
    bytes_free(&ours);
    bytes_free(&theirs);
}

Test(tensor_npy, writes_numpys_bytes) {
    float values[12];
    for (int i = 0; i < 12; i++) values[i] = (float)i;
    expect_same_file("v1.npy", DTYPE_F32, SHAPE(2, 3, 2), values);
    expect_same_file("scalar.npy", DTYPE_F32, SHAPE_SCALAR, &(float){3.5f});
    expect_same_file("row.npy", DTYPE_I64, SHAPE(3), (int64_t[]){0, 1, 2});
    expect_same_file("empty.npy", DTYPE_F32, SHAPE(0, 4), values);
}

Test(tensor_npy, a_type_that_numpy_lacks_is_refused) {
    log_capture(message, sizeof message);
    cr_assert_eq(npy_write("/nowhere/a.npy", DTYPE_BF16, &SHAPE(1), message), STATUS_USAGE);
    cr_assert(strstr(message, "bf16"));
}

/* Every read of every array, until something is refused. */
static enum status read_all(const void *data, size_t count, enum dtype dtype) {
    struct npy *file = NULL;
    log_capture(message, sizeof message);
    message[0] = 0;
    enum status status = npy_parse("file", data, count, &file);
    for (size_t i = 0; status == STATUS_OK && i < npy_count(file); i++) {
        struct npy_array array;
        status = npy_describe(file, i, &array);
        if (status != STATUS_OK) break;
        size_t bytes = (size_t)shape_count(&array.shape) * dtype_bytes(dtype);
        void *values = mem_new(bytes + 1);
        status = npy_read(file, i, dtype, values, bytes);
        free(values);
    }
    npy_close(&file);
    log_capture(NULL, 0);
    return status;
}

static void expect_refused(const char *name, enum dtype dtype, const char *say) {
    struct bytes bytes = content(name);
    cr_assert_eq(read_all(bytes.data, bytes.count, dtype), STATUS_DATA, "%s", name);
    cr_assert(strstr(message, say), "%s: \"%s\" is not in: %s", name, say, message);
    bytes_free(&bytes);
}

Test(tensor_npy, what_is_no_array_of_numbers_is_named) {
    expect_refused("objects.npy", DTYPE_F32, "Python objects, which would need pickle");
    expect_refused("texts.npy", DTYPE_F32, "type '<U2', expected one of f2");
    expect_refused("texts.npy", DTYPE_F32, "b1\n  of texts: numpy.unique(");
    expect_refused("records.npy", DTYPE_F32, "an array of records");
    expect_refused("rank6.npy", DTYPE_F32, "more than 5 dimensions");
    expect_refused("large.npy", DTYPE_I64, "element 1 is above");
    expect_refused("v1.npy", DTYPE_I64, "type f4, expected whole numbers");
    expect_refused("v1.npy", DTYPE_U8, "type f4, expected u1");
}

/* A .npy file of this header and these values. */
static enum status with_header(const char *header, size_t value_bytes) {
    unsigned char file[512] = "\x93NUMPY\1";
    size_t length = strlen(header);
    file[8] = (unsigned char)length;
    memcpy(file + 10, header, length);
    return read_all(file, 10 + length + value_bytes, DTYPE_F32);
}

Test(tensor_npy, headers_are_read_strictly) {
    static const struct {
        const char *header;
        size_t bytes;
        const char *say; /* NULL: taken */
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, NULL},
        {"{\"shape\":(2L,1L),\"fortran_order\":True,\"descr\":\"<f4\"}\n", 8, NULL},
        {"{'descr': '=f4', 'fortran_order': False, 'shape': (), }", 4, NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 8,
         "is 12 bytes, but 8 bytes follow the header\n  is it truncated?"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 8,
         "is 4 bytes, but 8 bytes follow the header\n  something was appended"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 1), }", 0,
         "more bytes than can be counted"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0), }", 0,
         "more bytes than can be counted"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8, "no list of whole"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, }", 8, "no list of whole"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", 8, "no tuple"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", 8, "neither True nor"},
        {"{'descr': '<f4', 'fortran_order': False, }", 8, "lacks descr"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (2,), }", 8, "one twice"},
        {"{'descr': '<f4', 'order': False, 'shape': (2,), }", 8, "unknown key"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", 8, "goes on after"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", 8, "does not end with }"},
        {"'descr': '<f4'", 8, "does not begin with {"},
        {"{'descr': '<f3', 'fortran_order': False, 'shape': (2,), }", 6, "type '<f3'"},
        {"{'descr': '', 'fortran_order': False, 'shape': (2,), }", 6, "type ''"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8, "type '<c8'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum status status = with_header(cases[i].header, cases[i].bytes);
        cr_assert_eq(status, cases[i].say ? STATUS_DATA : STATUS_OK, "%s: %s", cases[i].header,
                     message);
        if (cases[i].say)
            cr_assert(strstr(message, cases[i].say), "%s: %s", cases[i].header, message);
    }
}

/* A copy of a file with one byte changed, or cut. */
static void expect_damage(const char *name, size_t at, unsigned char value, size_t count,
                          const char *say) {
    struct bytes bytes = content(name);
    if (at < bytes.count) bytes.data[at] = value;
    cr_assert_eq(read_all(bytes.data, count ? count : bytes.count, DTYPE_F32), STATUS_DATA,
                 "%s: %s", name, say);
    cr_assert(strstr(message, say), "%s: \"%s\" is not in: %s", name, say, message);
    bytes_free(&bytes);
}

Test(tensor_npy, damage_is_named) {
    const size_t nowhere = SIZE_MAX;
    size_t size = content_bytes("stored.npz"), zip64 = content_bytes("zip64.npz");
    expect_damage("v1.npy", 0, 'x', 0, "byte 0: not a NumPy array");
    expect_damage("v1.npy", 6, 4, 0, "format 4.0, expected 1.0, 2.0 or 3.0");
    expect_damage("v1.npy", nowhere, 0, 5,
                  "5 bytes: not a NumPy array (.npy), which has at least 10");
    expect_damage("v1.npy", nowhere, 0, 40, "a header of 118 bytes, expected at most 30");
    expect_damage("v1.npy", nowhere, 0, 170, "but 42 bytes follow the header");
    expect_damage("v2.npy", 11, 9, 0, "a header of 150995060 bytes");
    expect_damage("stored.npz", nowhere, 0, size - 1, "no end of a ZIP archive");
    expect_damage("stored.npz", size - 4, 0xFF, 0, "outside of the file");
    expect_damage("stored.npz", 200, 9, 0, "its checksum is");
    expect_damage("zip64.npz", zip64 - 30, 0xFF, 0, "not a ZIP64 locator");
    expect_damage("zip64.npz", 0, 'P', zip64 - 2, "no end of a ZIP archive");
}

/* No cut and no changed byte of an archive is read as if nothing were, but where it only renames.
 */
Test(tensor_npy, every_changed_byte_of_packed_values_is_noticed) {
    struct bytes bytes = content("packed.npz");
    for (size_t at = 60; at < 110; at++) {
        bytes.data[at] ^= 0x55;
        cr_assert_eq(read_all(bytes.data, bytes.count, DTYPE_F32), STATUS_DATA, "byte %zu", at);
        bytes.data[at] ^= 0x55;
    }
    for (size_t count = 0; count < bytes.count; count++)
        cr_assert_neq(read_all(bytes.data, count, DTYPE_F32), STATUS_OK, "cut to %zu", count);
    bytes_free(&bytes);
}

Test(tensor_npy, missing_files_and_folders) {
    struct npy *file = NULL;
    log_capture(message, sizeof message);
    cr_assert_eq(npy_open("/nowhere/a.npy", &file), STATUS_DATA);
    cr_assert(strstr(message, "/nowhere/a.npy: cannot open"));
    cr_assert_eq(npy_open("/tmp", &file), STATUS_DATA);
    cr_assert(strstr(message, "/tmp: not a regular file"));
}
