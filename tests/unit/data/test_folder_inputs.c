/* Pictures without labels as inputs: the images that the training data's own pictures give. */
#ifdef HAVE_PICTURES
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/input.h"

static char root[] = "/tmp/stretto-inputs-XXXXXX";
static char message[4096];

static void make_root(void) {
    cr_assert_not_null(mkdtemp(root));
}

static void remove_root(void) {
    folder_remove(root);
}

TestSuite(data_folder_inputs, .init = make_root, .fini = remove_root);

/* A picture of the fuzz target's corpus under another name, of at most `most` bytes. */
static void put_part(const char *path, const char *name, size_t most) {
    struct bytes bytes;
    char *from = mem_format("tests/fuzz/corpus/picture/%s", name),
         *full = mem_format("%s/%s", root, path), *folder = folder_of(full);
    cr_assert_eq(file_read(from, 1 << 20, &bytes), STATUS_OK);
    cr_assert_eq(folder_make(folder), STATUS_OK);
    size_t count = bytes.count < most ? bytes.count : most;
    FILE *file = fopen(full, "wb");
    cr_assert(file && fwrite(bytes.data, 1, count, file) == count && fclose(file) == 0);
    bytes_free(&bytes);
    free(from);
    free(full);
    free(folder);
}

static void put_picture(const char *path, const char *name) {
    put_part(path, name, SIZE_MAX);
}

static struct dataset *data(const char *spec) {
    struct dataset *dataset = NULL;
    struct dataset_config config = {0};
    log_capture(message, sizeof message);
    cr_assert_eq(dataset_open(spec, &config, &dataset), STATUS_OK, "%s", message);
    log_capture(NULL, 0);
    return dataset;
}

static struct dataset *data_of_root(void) {
    char *spec = mem_format("folder:%s", root);
    struct dataset *dataset = data(spec);
    free(spec);
    return dataset;
}

static enum status open_inputs(const char *paths, const struct dataset *like, bool skip,
                               struct dataset **out) {
    message[0] = 0;
    log_capture(message, sizeof message);
    enum status status = input_open(paths, like, skip, out);
    log_capture(NULL, 0);
    return status;
}

static struct dataset *inputs_of(const char *paths, const struct dataset *like) {
    struct dataset *input = NULL;
    cr_assert_eq(open_inputs(paths, like, false, &input), STATUS_OK, "%s", message);
    return input;
}

static float *image_of(const struct dataset *dataset, int64_t index) {
    float *image = mem_new(dataset_field_bytes(dataset, 0));
    int32_t label;
    cr_assert_eq(dataset_read(dataset, SPLIT_TEST, index, 0, (void *[]){image, &label}), STATUS_OK);
    return image;
}

static void expect_same(const struct dataset *a, int64_t i, const struct dataset *b, int64_t j) {
    float *one = image_of(a, i), *other = image_of(b, j);
    cr_expect_arr_eq(one, other, dataset_field_bytes(a, 0));
    free(one);
    free(other);
}

/* All of a folder by path, or files in the order they are named. */
static void expect_own_images(void) {
    struct dataset *like = data_of_root();
    char *folder = mem_format("%s/val/", root),
         *files = mem_format("%s/val/dog/1.png,%s/val/cat/2.jpg", root, root),
         *second = mem_format("%s/val/dog/1.png", root);
    cr_assert(input_is_file(folder) && input_is_file(files) && !input_is_file("folder:x"));
    struct dataset *all = inputs_of(folder, like), *named = inputs_of(files, like);
    cr_assert_eq(all->count[SPLIT_TEST], 2);
    cr_assert_str_eq(all->names[1], "dog");
    for (int i = 0; i < 2; i++) {
        expect_same(like, i, all, i);
        expect_same(like, i, named, 1 - i);
    }
    char *file = dataset_file(all, SPLIT_TEST, 1);
    cr_expect_str_eq(file, second);
    free(file);
    dataset_free(&all);
    dataset_free(&named);
    dataset_free(&like);
    free(folder);
    free(files);
    free(second);
}

Test(data_folder_inputs, of_several_sizes) {
    put_picture("train/cat/a.png", "rgb8.png");
    put_picture("train/dog/x.jpeg", "grey.jpg");
    put_picture("val/dog/1.png", "palette.png");
    put_picture("val/cat/2.jpg", "progressive.jpg");
    expect_own_images();
}

Test(data_folder_inputs, of_one_size) {
    put_picture("train/cat/a.png", "rgb8.png");
    put_picture("train/dog/b.png", "rgb8.png");
    put_picture("val/dog/1.png", "rgb8.png");
    put_picture("val/cat/2.jpg", "rgb8.png");
    expect_own_images();
}

/* Grey is one of three equal colours. */
Test(data_folder_inputs, grey) {
    put_picture("1.jpg", "grey.jpg");
    struct dataset *colours = data("synthetic:count=2,test_count=2,size=8"),
                   *greys = data("synthetic:count=2,test_count=2,size=8,channels=1");
    struct dataset *three = inputs_of(root, colours), *one = inputs_of(root, greys);
    cr_expect(strstr(message, "not trained on pixels"), "%s", message);
    float *want = image_of(three, 0), *have = image_of(one, 0), sum = 0;
    cr_expect_arr_eq(have, want, 64 * sizeof *have);
    for (int i = 0; i < 64; i++) sum += have[i];
    cr_expect(sum > 0, "a black picture");
    free(want);
    free(have);
    dataset_free(&three);
    dataset_free(&one);
    dataset_free(&colours);
    dataset_free(&greys);
}

static void expect_refused(const char *paths, const struct dataset *like, enum status want,
                           const char *say) {
    struct dataset *input = NULL;
    cr_expect_eq(open_inputs(paths, like, false, &input), want, "%s", message);
    cr_expect(strstr(message, say), "%s", message);
}

Test(data_folder_inputs, refused) {
    struct dataset *like = data("digits"),
                   *words = data("synthetic:kind=text,count=2,test_count=2,seq=8,vocab=64");
    expect_refused("/nowhere/1.jpg", like, STATUS_DATA, "/nowhere/1.jpg: No such file");
    expect_refused(root, like, STATUS_DATA, "no pictures: no file in it is called");
    put_picture("1.png", "rgb8.png");
    expect_refused(root, words, STATUS_USAGE, "the model takes input_ids [8]");
    char *trailing = mem_format("%s/1.png,", root);
    expect_refused(trailing, like, STATUS_USAGE, "a name is empty: a comma too many?");
    free(trailing);
    dataset_free(&words);
    dataset_free(&like);
}

/* Files that are named have no folder that a message could name. */
Test(data_folder_inputs, all_damaged) {
    struct dataset *like = data("digits"), *input = NULL;
    put_part("1.png", "rgb8.png", 0);
    char *file = mem_format("%s/1.png", root);
    cr_expect_eq(open_inputs(file, like, true, &input), STATUS_DATA);
    cr_expect(strstr(message, "--input: all 1 pictures are damaged"), "%s", message);
    dataset_free(&like);
    free(file);
}

/* One that is damaged is an error, or has no label; the others have one. */
Test(data_folder_inputs, damaged) {
    struct dataset *like = data("digits"), *input = NULL;
    float image[64];
    int32_t label;
    put_part("1.jpg", "420.jpg", 700);
    put_picture("2.png", "rgb8.png");
    cr_assert_eq(open_inputs(root, like, true, &input), STATUS_OK, "%s", message);
    log_capture(message, sizeof message);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dataset_read(input, SPLIT_TEST, i, 0, (void *[]){image, &label}), STATUS_OK);
        cr_expect_eq(label == LABEL_IGNORE, i == 0, "%d: label %d", i, label);
    }
    log_capture(NULL, 0);
    cr_expect(strstr(message, "1.jpg: damaged picture, skipped"), "%s", message);
    dataset_free(&input);
    input = inputs_of(root, like);
    log_capture(message, sizeof message);
    cr_expect_eq(dataset_read(input, SPLIT_TEST, 0, 0, (void *[]){image, &label}), STATUS_DATA);
    log_capture(NULL, 0);
    dataset_free(&input);
    dataset_free(&like);
}
#endif
