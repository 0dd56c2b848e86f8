/* People's own arrays, npy: and hdf5: alike: what is read, what the keys do, and a table of ways to
 * be wrong. Every test writes the same arrays in each kind of file. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HAVE_HDF5
#include <hdf5.h>
#endif

#include "../tensor/npy_whole.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/dataset.h"

static char folder[64], message[4096];

struct values {
    const char *name;
    enum dtype dtype;
    struct shape shape;
    const void *data;
};

static void npy_put(const struct values *values) {
    char *path = mem_format("%s/%s.npy", folder, values->name);
    cr_assert_eq(npy_write(path, values->dtype, &values->shape, values->data), STATUS_OK);
    free(path);
}

#ifdef HAVE_HDF5
static void hdf5_put(const struct values *values) {
    char *path = mem_format("%s/data.h5", folder);
    const hid_t types[DTYPE_COUNT] = {[DTYPE_F32] = H5T_NATIVE_FLOAT,
                                      [DTYPE_F64] = H5T_NATIVE_DOUBLE,
                                      [DTYPE_I32] = H5T_NATIVE_INT32,
                                      [DTYPE_I64] = H5T_NATIVE_INT64,
                                      [DTYPE_U8] = H5T_NATIVE_UINT8};
    hsize_t dims[SHAPE_MAX_RANK];
    for (int d = 0; d < values->shape.rank; d++) dims[d] = (hsize_t)values->shape.dim[d];
    hid_t file = file_exists(path) ? H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT)
                                   : H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
          links = H5Pcreate(H5P_LINK_CREATE), type = types[values->dtype];
    H5Pset_create_intermediate_group(links, 1);
    if (!strchr(values->name, '/') && H5Lexists(file, values->name, H5P_DEFAULT) > 0)
        H5Ldelete(file, values->name, H5P_DEFAULT);
    hid_t space = H5Screate_simple(values->shape.rank, dims, NULL),
          set = H5Dcreate2(file, values->name, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
    cr_assert(set >= 0 && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values->data) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(links);
    H5Fclose(file);
    free(path);
}
#endif

static const struct kind {
    const char *name, *path;
    void (*put)(const struct values *values);
} kinds[] = {
    {"npy", "", npy_put},
#ifdef HAVE_HDF5
    {"hdf5", "/data.h5", hdf5_put},
#endif
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/stretto-arrays-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void) {
    cr_assert_eq(folder_remove(folder), STATUS_OK);
}

TestSuite(data_arrays, .init = make_folder, .fini = remove_folder);

static void put(const struct kind *kind, const char *name, enum dtype dtype, struct shape shape,
                const void *data) {
    kind->put(&(struct values){name, dtype, shape, data});
}

static enum status open_as(const struct kind *kind, const char *keys, struct dataset_config config,
                           struct dataset **out) {
    char *spec = mem_format("%s:%s%s%s", kind->name, folder, kind->path, keys);
    message[0] = 0;
    log_capture(message, sizeof message);
    enum status status = dataset_open(spec, &config, out);
    log_capture(NULL, 0);
    free(spec);
    return status;
}

static enum status open_sized(const struct kind *kind, const char *keys, int64_t size,
                              struct dataset **out) {
    return open_as(kind, keys, (struct dataset_config){.image_size = size}, out);
}

static struct dataset *opened(const struct kind *kind, const char *keys) {
    struct dataset *dataset = NULL;
    cr_assert_eq(open_sized(kind, keys, 0, &dataset), STATUS_OK, "%s%s: %s", kind->name, keys,
                 message);
    return dataset;
}

static int32_t label_of(const struct dataset *dataset, enum split split, int64_t index,
                        float *values) {
    int32_t label = -1;
    cr_assert_eq(dataset_read(dataset, split, index, 7, (void *[]){values, &label}), STATUS_OK);
    return label;
}

static const int64_t labels[4] = {2, 0, 1, 2};
static double rows[4][3] = {{1, 2, 3}, {4, 5, 6}, {-1, 0.5, 0}, {7, 8, 9}};

static void put_rows(const struct kind *kind) {
    put(kind, "x_train", DTYPE_F64, SHAPE(4, 3), rows);
    put(kind, "y_train", DTYPE_I64, SHAPE(4), labels);
    put(kind, "x_test", DTYPE_F64, SHAPE(2, 3), rows[1]);
    put(kind, "y_test", DTYPE_I64, SHAPE(2, 1), labels + 1);
}

Test(data_arrays, rows_of_numbers) {
    for (int k = 0; k < KINDS; k++) {
        put_rows(&kinds[k]);
        struct dataset *dataset = opened(&kinds[k], "");
        cr_assert_eq(dataset_field(dataset, "features"), 0);
        cr_assert(shape_equal(&dataset->field[0].shape, &SHAPE(3)));
        cr_assert(dataset->count[SPLIT_TRAIN] == 4 && dataset->count[SPLIT_TEST] == 2);
        cr_assert_eq(dataset->classes, 3);
        for (int i = 0; i < 4; i++) {
            float values[3];
            cr_assert_eq(label_of(dataset, SPLIT_TRAIN, i, values), labels[i]);
            for (int j = 0; j < 3; j++) cr_assert_eq(values[j], (float)rows[i][j]);
        }
        float values[3];
        cr_assert_eq(label_of(dataset, SPLIT_TEST, 1, values), 1);
        cr_assert_eq(values[1], 0.5f);
        uint64_t hash = dataset->content_hash;
        dataset_free(&dataset);
        dataset = opened(&kinds[k], ",mean=1:2:3,std=2,classes=7");
        cr_assert_eq(dataset->classes, 7);
        cr_assert_neq(dataset->content_hash, hash, "another normalisation is other data");
        label_of(dataset, SPLIT_TRAIN, 1, values);
        for (int j = 0; j < 3; j++) cr_assert_eq(values[j], 1.5f);
        dataset_free(&dataset);
    }
}

/* Bytes are pixels in images, and numbers in rows. */
Test(data_arrays, bytes) {
    unsigned char pixels[2][2][3][3]; /* [N,H,W,C] */
    for (int i = 0; i < 36; i++) (&pixels[0][0][0][0])[i] = (unsigned char)(i * 7);
    for (int k = 0; k < KINDS; k++) {
        put(&kinds[k], "x_train", DTYPE_U8, SHAPE(2, 2, 3, 3), pixels);
        put(&kinds[k], "y_train", DTYPE_U8, SHAPE(2), (unsigned char[]){1, 0});
        struct dataset *dataset = opened(&kinds[k], ",layout=nhwc,test_x=x_train,test_y=y_train");
        cr_assert(shape_equal(&dataset->field[0].shape, &SHAPE(3, 2, 3)));
        for (int i = 0; i < 2; i++) {
            float out[3][2][3];
            label_of(dataset, SPLIT_TEST, i, &out[0][0][0]);
            for (int at = 0; at < 18; at++) {
                int c = at / 6, y = at / 3 % 2, x = at % 3;
                float expected = ((float)pixels[i][y][x][c] / 255 - 0.5f) / 0.5f;
                cr_assert_eq(out[c][y][x], expected, "%d: %g", at, out[c][y][x]);
            }
        }
        dataset_free(&dataset);
        put(&kinds[k], "x_train", DTYPE_U8, SHAPE(2, 18), pixels);
        dataset = opened(&kinds[k], "");
        float row[18];
        label_of(dataset, SPLIT_TRAIN, 0, row);
        for (int i = 0; i < 18; i++) cr_assert_eq(row[i], (float)(i * 7));
        dataset_free(&dataset);
    }
}

static void expect_sample(const char *keys, struct shape x, struct shape sample) {
    float *values = mem_array((size_t)shape_count(&x), sizeof *values);
    put(&kinds[0], "x_train", DTYPE_F32, x, values);
    put(&kinds[0], "y_train", DTYPE_I64, SHAPE(2), labels + 1);
    struct dataset *dataset = opened(&kinds[0], keys);
    cr_expect(shape_equal(&dataset->field[0].shape, &sample), "%s%s became %s",
              shape_text(&x, (char[SHAPE_TEXT_BYTES]){0}), keys,
              shape_text(&dataset->field[0].shape, (char[SHAPE_TEXT_BYTES]){0}));
    dataset_free(&dataset);
    free(values);
}

Test(data_arrays, layouts) {
    expect_sample("", SHAPE(2, 5, 6), SHAPE(1, 5, 6));
    expect_sample("", SHAPE(2, 3, 5, 6), SHAPE(3, 5, 6));
    expect_sample("", SHAPE(2, 5, 6, 3), SHAPE(3, 5, 6));
    expect_sample("", SHAPE(2, 3, 3, 3), SHAPE(3, 3, 3));
    expect_sample("", SHAPE(2, 12, 5, 6), SHAPE(12, 5, 6));
    expect_sample(",layout=nchw", SHAPE(2, 5, 6, 3), SHAPE(5, 6, 3));
    expect_sample(",layout=nhwc", SHAPE(2, 3, 5, 6), SHAPE(6, 3, 5));
}

Test(data_arrays, images_are_resized_where_they_are_bytes) {
    unsigned char pixels[2][4][4] = {{{255}}};
    put(&kinds[0], "x_train", DTYPE_U8, SHAPE(2, 4, 4), pixels);
    put(&kinds[0], "y_train", DTYPE_I64, SHAPE(2), labels);
    struct dataset *dataset = NULL;
    cr_assert_eq(open_sized(&kinds[0], "", 2, &dataset), STATUS_OK, "%s", message);
    cr_assert(shape_equal(&dataset->field[0].shape, &SHAPE(1, 2, 2)));
    float out[4];
    label_of(dataset, SPLIT_TRAIN, 0, out);
    cr_assert(out[0] > -1 && out[3] == -1);
    dataset_free(&dataset);
    put(&kinds[0], "x_train", DTYPE_F32, SHAPE(2, 4, 4), (float[32]){0});
    cr_assert_eq(open_sized(&kinds[0], "", 2, &dataset), STATUS_USAGE);
    cr_assert(strstr(message, "only images of 8 bits are resized"), "%s", message);
    cr_assert_eq(open_sized(&kinds[0], "", 4, &dataset), STATUS_OK, "%s", message);
    dataset_free(&dataset);
}

/* Of two images that mirror one another a key draws either; evaluation sees what was written. */
Test(data_arrays, pixels_are_augmented) {
    const unsigned char pixels[2][1][2] = {{{0, 255}}, {{255, 0}}};
    put(&kinds[0], "x_train", DTYPE_U8, SHAPE(2, 1, 2), pixels);
    put(&kinds[0], "y_train", DTYPE_I64, SHAPE(2), labels);
    struct dataset *dataset = NULL;
    char *spec = mem_format("npy:%s,test_x=x_train,test_y=y_train", folder);
    const struct dataset_config flip = {.augment = AUGMENT_FLIP};
    cr_assert_eq(dataset_open(spec, &flip, &dataset), STATUS_OK);
    int mirrored = 0;
    for (uint64_t key = 0; key <= 100; key++) {
        float out[2];
        int32_t label;
        dataset_read(dataset, SPLIT_TRAIN, 0, key, (void *[]){out, &label});
        cr_assert(out[0] == -out[1] && fabsf(out[0]) == 1);
        cr_assert(key > 0 || out[0] == -1);
        mirrored += out[0] == 1;
    }
    cr_assert(mirrored > 20 && mirrored < 80, "%d of 100", mirrored);
    dataset_free(&dataset);
    put_rows(&kinds[0]);
    log_capture(message, sizeof message);
    cr_assert_eq(dataset_open(spec, &flip, &dataset), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_assert(strstr(message, "rows of numbers, only images of 8 bits are augmented"), "%s",
              message);
    free(spec);
}

Test(data_arrays, pixels_of_many_channels) {
    unsigned char pixels[2][6][2][2];
    memset(pixels, 51, sizeof pixels);
    put(&kinds[0], "x_train", DTYPE_U8, SHAPE(2, 6, 2, 2), pixels);
    put(&kinds[0], "y_train", DTYPE_I64, SHAPE(2), labels);
    struct dataset *dataset = opened(&kinds[0], "");
    float out[24];
    label_of(dataset, SPLIT_TRAIN, 0, out);
    for (int i = 0; i < 24; i++) cr_assert_float_eq(out[i], -0.6f, 1e-6f);
    dataset_free(&dataset);
}

Test(data_arrays, pixels_of_another_type_are_warned_of) {
    static const struct {
        float most;
        const char *keys;
        bool warned;
    } rows_of[] = {{200, "", true},
                   {1, "", false},
                   {200.5f, "", false},
                   {256, "", false},
                   {200, ",std=9", false}};
    put(&kinds[0], "y_train", DTYPE_I64, SHAPE(2), labels);
    for (size_t i = 0; i < sizeof rows_of / sizeof rows_of[0]; i++) {
        const float values[2][1][2] = {{{0, 1}}, {{0, rows_of[i].most}}};
        put(&kinds[0], "x_train", DTYPE_F32, SHAPE(2, 1, 2), values);
        struct dataset *dataset = opened(&kinds[0], rows_of[i].keys);
        cr_assert_eq(strstr(message, "0 to 200 look like pixels") != NULL, rows_of[i].warned,
                     "%zu: %s", i, message);
        dataset_free(&dataset);
    }
}

/* Every sample is in one split and in one only. */
Test(data_arrays, a_test_split_is_made) {
    float x[25];
    int64_t y[25];
    for (int i = 0; i < 25; i++) x[i] = (float)i, y[i] = i;
    for (int count = 2; count <= 25; count++) {
        int seen[25] = {0};
        put(&kinds[0], "x_train", DTYPE_F32, SHAPE(count, 1), x);
        put(&kinds[0], "y_train", DTYPE_I64, SHAPE(count), y);
        struct dataset *dataset = opened(&kinds[0], "");
        cr_assert_eq(dataset->count[SPLIT_TEST], count < 10 ? 1 : count / 10);
        for (int s = 0; s < SPLIT_COUNT; s++)
            for (int64_t i = 0; i < dataset->count[s]; i++) {
                float value;
                int32_t label = label_of(dataset, (enum split)s, i, &value);
                cr_assert_eq(value, (float)label);
                seen[label] += s == SPLIT_TEST ? 100 : 1;
            }
        for (int i = 0; i < count; i++) {
            bool test = count < 10 ? i == count - 1 : i % 10 == 9;
            cr_assert_eq(seen[i], test ? 100 : 1, "sample %d of %d: %d", i, count, seen[i]);
        }
        dataset_free(&dataset);
    }
}

/* For who uses a model: all samples where nothing divides them, and none needs a label. */
Test(data_arrays, whole_and_unlabelled) {
    const struct dataset_config whole = {.whole = true},
                                unlabelled = {.whole = true, .unlabelled = true};
    for (int k = 0; k < KINDS; k++) {
        struct dataset *dataset = NULL;
        float values[3];
        put(&kinds[k], "x_train", DTYPE_F64, SHAPE(4, 3), rows);
        cr_assert_eq(open_as(&kinds[k], "", whole, &dataset), STATUS_DATA, "%s", message);
        cr_assert_eq(open_as(&kinds[k], "", unlabelled, &dataset), STATUS_OK, "%s", message);
        cr_assert(strstr(message, "no labels") && strstr(message, "all 4 samples are used"), "%s",
                  message);
        cr_assert(dataset->undivided && dataset->count[SPLIT_TRAIN] == 4 &&
                  dataset->count[SPLIT_TEST] == 4);
        for (int i = 0; i < 4; i++) {
            cr_assert_eq(label_of(dataset, SPLIT_TEST, i, values), LABEL_IGNORE);
            cr_assert_eq(values[2], (float)rows[i][2]);
        }
        dataset_free(&dataset);
        put(&kinds[k], "x_test", DTYPE_F64, SHAPE(1, 3), rows);
        cr_assert_eq(open_as(&kinds[k], "", unlabelled, &dataset), STATUS_OK, "%s", message);
        cr_assert(!dataset->undivided && dataset->count[SPLIT_TEST] == 1);
        cr_assert_eq(label_of(dataset, SPLIT_TEST, 0, values), LABEL_IGNORE);
        dataset_free(&dataset);
        put(&kinds[k], "y_test", DTYPE_I64, SHAPE(1), (int64_t[]){2});
        cr_assert_eq(open_as(&kinds[k], "", unlabelled, &dataset), STATUS_OK, "%s", message);
        cr_assert(dataset->classes == 3 && label_of(dataset, SPLIT_TEST, 0, values) == 2);
        dataset_free(&dataset);
        cr_assert_eq(open_as(&kinds[k], ",y=named", unlabelled, &dataset), STATUS_DATA);
        put_rows(&kinds[k]);
        cr_assert_eq(open_as(&kinds[k], "", unlabelled, &dataset), STATUS_OK, "%s", message);
        cr_assert(!dataset->undivided && dataset->count[SPLIT_TEST] == 2);
        cr_assert_eq(label_of(dataset, SPLIT_TEST, 1, values), labels[2]);
        dataset_free(&dataset);
    }
}

Test(data_arrays, groups_and_names) {
    for (int k = 1; k < KINDS; k++) {
        put(&kinds[k], "train/x", DTYPE_F64, SHAPE(4, 3), rows);
        put(&kinds[k], "train/y", DTYPE_I64, SHAPE(4), labels);
        struct dataset *dataset = opened(&kinds[k], ",x=train/x,y=train/y");
        cr_assert_eq(dataset->count[SPLIT_TRAIN], 3);
        dataset_free(&dataset);
    }
}

static void expect_refused(const struct kind *kind, const char *keys, enum status wanted,
                           const char *say) {
    struct dataset *dataset = NULL;
    enum status status = open_sized(kind, keys, 0, &dataset);
    cr_assert_eq(status, wanted, "%s%s: expected '%s', got %d: %s", kind->name, keys, say, status,
                 message);
    cr_assert(strstr(message, say), "%s: '%s' is not in: %s", kind->name, say, message);
    int lines = 0;
    for (const char *c = message; *c; c++) lines += *c == '\n';
    cr_assert(lines <= 3, "%s", message);
}

Test(data_arrays, what_is_wrong_is_named) {
    const double bad[2][3] = {{0, 1, 2}, {3, NAN, 5}}, wide[2][3] = {{0, 1, 2}, {3, 1e300, 5}};
    const int64_t negative[4] = {0, 1, -1, 0}, large[4] = {0, 1, 1 << 20, 0}, above[2] = {0, 3};
    const struct {
        struct values values; /* replaces one of the good arrays */
        const char *say;
    } cases[] = {
        {{"y_train", DTYPE_I64, SHAPE(3), labels}, "4 samples but"},
        {{"y_train", DTYPE_I64, SHAPE(2, 2), labels}, "shape [2,2], expected [N]"},
        {{"y_train", DTYPE_I64, SHAPE(4), negative},
         "label -1 of sample 2, expected 0 to 1048575\n  classes are numbered from 0"},
        {{"y_train", DTYPE_I64, SHAPE(4), large}, "label 1048576 of sample 2"},
        {{"y_test", DTYPE_I64, SHAPE(2), above}, "label 3 of sample 1, expected 0 to 2"},
        {{"x_test", DTYPE_F64, SHAPE(2, 3), bad}, "sample 1: value 1 is nan"},
        {{"x_test", DTYPE_F64, SHAPE(2, 3), wide}, "beyond the range of f32"},
        {{"x_test", DTYPE_F64, SHAPE(3, 2), rows}, "3 samples but"},
        {{"x_test", DTYPE_F64, SHAPE(2, 2), rows}, "must be alike"},
    };
    for (int k = 0; k < KINDS; k++) {
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            put_rows(&kinds[k]);
            kinds[k].put(&cases[c].values);
            expect_refused(&kinds[k], "", STATUS_DATA, cases[c].say);
        }
        put_rows(&kinds[k]);
        expect_refused(&kinds[k], ",classes=2", STATUS_DATA,
                       "label 2 of sample 0, expected 0 to 1");
        expect_refused(&kinds[k], ",x=none", STATUS_DATA, "none");
        expect_refused(&kinds[k], ",test_x=none", STATUS_DATA, "none");
        expect_refused(&kinds[k], ",classes=0", STATUS_USAGE, "classes '0', expected 1 to 1048576");
        expect_refused(&kinds[k], ",layout=hwc", STATUS_USAGE, "expected nchw or nhwc");
        expect_refused(&kinds[k], ",std=0", STATUS_USAGE, "expected a number above 0");
        expect_refused(&kinds[k], ",mean=1:x:3", STATUS_USAGE, "mean '1:x:3', expected a number");
        expect_refused(&kinds[k], ",mean=1:2", STATUS_USAGE, "mean has 2 numbers for 3 channels");
        expect_refused(&kinds[k], ",mean", STATUS_USAGE, "'mean' has no value");
        expect_refused(&kinds[k], ",size=3", STATUS_USAGE, "unknown key 'size'");
    }
}

Test(data_arrays, shapes_that_are_no_samples) {
    put_rows(&kinds[0]);
    put(&kinds[0], "x_train", DTYPE_F32, SHAPE(4), rows);
    expect_refused(&kinds[0], "", STATUS_DATA, "shape [4], expected [N,D]");
    put(&kinds[0], "x_train", DTYPE_F32, SHAPE(0, 3), rows);
    expect_refused(&kinds[0], "", STATUS_DATA, "shape [0,3], expected one sample or more");
    put(&kinds[0], "y_train", DTYPE_F32, SHAPE(4), rows);
    put(&kinds[0], "x_train", DTYPE_F64, SHAPE(4, 3), rows);
    expect_refused(&kinds[0], "", STATUS_DATA,
                   "y_train.npy: labels of type f4, expected whole numbers");
    for (int k = 0; k < KINDS; k++) {
        put_rows(&kinds[k]);
        put(&kinds[k], "y_train", DTYPE_F32, SHAPE(4), rows);
        expect_refused(&kinds[k], "", STATUS_DATA, "(regression) take a loss of your own");
    }
}

Test(data_arrays, test_arrays_come_in_pairs) {
    put_rows(&kinds[0]);
    char *path = mem_format("%s/y_test.npy", folder);
    unlink(path);
    free(path);
    expect_refused(&kinds[0], "", STATUS_DATA, "but not the labels of the test split");
}

#ifdef HAVE_HDF5
Test(data_arrays, a_dataset_that_is_missing_can_be_named) {
    put(&kinds[1], "train/rows", DTYPE_F64, SHAPE(4, 3), rows);
    expect_refused(&kinds[1], "", STATUS_DATA, "x=NAME and y=NAME choose others");
    put_rows(&kinds[1]);
    put(&kinds[1], "group/x", DTYPE_F64, SHAPE(4, 3), rows);
    expect_refused(
        &kinds[1], ",x=none", STATUS_DATA,
        "none is missing; it has group/x, train/rows, x_test, x_train, y_test, y_train\n");
}

/* Neither a dataset nor a group on the way to one may lie in another file. */
Test(data_arrays, links_to_other_files_are_refused) {
    put_rows(&kinds[1]);
    char *path = mem_format("%s/data.h5", folder);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    cr_assert(H5Lcreate_external("other.h5", "/", file, "train", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    cr_assert(H5Lcreate_soft("x_train", file, "soft", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Fclose(file);
    free(path);
    expect_refused(&kinds[1], ",x=train/x", STATUS_DATA, "data.h5: train is a link");
    expect_refused(&kinds[1], ",x=soft", STATUS_DATA, "data.h5: soft is a link");
}
#endif

/* The .npz archive of a folder, or one that is named. */
Test(data_arrays, archives) {
    struct bytes archive;
    cr_assert_eq(file_read("tests/fuzz/corpus/npy/packed.npz", 1 << 20, &archive), STATUS_OK);
    expect_refused(&kinds[0], "", STATUS_DATA, "neither x_train.npy nor a .npz file");
    for (int i = 0; i < 2; i++) {
        char *path = mem_format("%s/%d.npz", folder, i);
        FILE *file = fopen(path, "wb");
        cr_assert(file && fwrite(archive.data, 1, archive.count, file) == archive.count);
        fclose(file);
        free(path);
        if (i > 0) break;
        expect_refused(&kinds[0], "", STATUS_DATA, "no array x_train in it");
        expect_refused(&kinds[0], ",x=f4,y=i4", STATUS_DATA, "i4: shape [2,3,2], expected [N]");
    }
    expect_refused(&kinds[0], "", STATUS_DATA, "2 .npz files");
    bytes_free(&archive);
}
