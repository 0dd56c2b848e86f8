/* Folders of pictures: order and labels as ImageFolder's, lists, sizes and transforms, damage. */
#ifdef HAVE_PICTURES
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "data/image_folder_list.h"

static char root[] = "/tmp/stretto-folder-XXXXXX";
static char message[8192];

static void make_root(void) {
    cr_assert_not_null(mkdtemp(root));
}

static void remove_root(void) {
    folder_remove(root);
}

TestSuite(data_folder, .init = make_root, .fini = remove_root);

static void put(const char *path, const void *data, size_t bytes) {
    char *full = mem_format("%s/%s", root, path), *folder = folder_of(full);
    cr_assert_eq(folder_make(folder), STATUS_OK);
    FILE *file = fopen(full, "wb");
    cr_assert(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0, "%s", full);
    free(folder);
    free(full);
}

static void put_text(const char *path, const char *text) {
    put(path, text, strlen(text));
}

/* A picture of the fuzz target's corpus under another name. */
static void put_picture(const char *path, const char *name) {
    struct bytes bytes;
    char *from = mem_format("tests/fuzz/corpus/picture/%s", name);
    cr_assert_eq(file_read(from, 1 << 20, &bytes), STATUS_OK);
    put(path, bytes.data, bytes.count);
    bytes_free(&bytes);
    free(from);
}

static void put_link(const char *path, const char *target) {
    char *full = mem_format("%s/%s", root, path);
    cr_assert_eq(symlink(target, full), 0);
    free(full);
}

static enum status open_as(const char *keys, struct dataset_config config, struct dataset **out) {
    char *spec = mem_format("folder:%s%s", root, keys);
    message[0] = 0;
    log_capture(message, sizeof message);
    enum status status = dataset_open(spec, &config, out);
    log_capture(NULL, 0);
    free(spec);
    return status;
}

static struct dataset *open_good(const char *keys, struct dataset_config config) {
    struct dataset *dataset = NULL;
    cr_assert_eq(open_as(keys, config, &dataset), STATUS_OK, "%s", message);
    return dataset;
}

static void refuse(const char *keys, enum status want, const char *say) {
    struct dataset *dataset = NULL;
    enum status status = open_as(keys, (struct dataset_config){0}, &dataset);
    cr_assert_eq(status, want, "%s", message);
    cr_assert(strstr(message, say), "%s", message);
}

static int32_t label_of(const struct dataset *dataset, enum split split, int64_t index) {
    float *image = mem_new(dataset_field_bytes(dataset, 0));
    int32_t label;
    log_capture(message, sizeof message);
    cr_assert_eq(dataset_read(dataset, split, index, 7, (void *[]){image, &label}), STATUS_OK);
    log_capture(NULL, 0);
    free(image);
    return label;
}

static void make_two_classes(void) {
    put_picture("train/cat/b.JPG", "420.jpg");
    put_picture("train/cat/a.png", "rgb8.png");
    put_picture("train/dog/x.jpeg", "grey.jpg");
    put_text("train/dog/notes.txt", "not a picture");
    put_picture("val/dog/1.png", "palette.png");
    put_picture("val/cat/2.jpg", "progressive.jpg");
}

/* The order of ImageFolder: folders before the files of later ones, names by bytes. */
Test(data_folder, order_is_imagefolders) {
    static const char *const want[] = {"c/B.jpg", "c/z.jpg", "c/in/a.jpg", "c/in-2/a.jpg",
                                       "c/in/up/a.jpg"};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        char *path = mem_format("train/%s", want[i]);
        put_text(path, "x");
        free(path);
    }
    struct image_folder_classes classes;
    struct image_folder_files files;
    cr_assert_eq(image_folder_classes_read(root, "train", &classes), STATUS_OK);
    cr_assert_eq(image_folder_files_read(root, "train", &classes, &files), STATUS_OK);
    cr_assert_eq(files.count, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < files.count; i++)
        cr_assert_str_eq(files.file[i].path, want[i], "%zu: %s", i, files.file[i].path);
    image_folder_files_free(&files);
    image_folder_classes_free(&classes);
}

Test(data_folder, classes_labels_and_size) {
    make_two_classes();
    struct dataset *dataset = open_good("", (struct dataset_config){0});
    cr_assert(dataset->count[SPLIT_TRAIN] == 3 && dataset->count[SPLIT_TEST] == 2);
    cr_assert_eq(dataset->classes, 2);
    cr_assert_str_eq(dataset->names[0], "cat");
    cr_assert_str_eq(dataset->names[1], "dog");
    cr_assert(dataset->field[0].shape.dim[1] == 13 && dataset->field[0].shape.dim[2] == 19,
              "pictures of one size keep it");
    static const int32_t labels[] = {0, 0, 1};
    for (int i = 0; i < 3; i++) cr_assert_eq(label_of(dataset, SPLIT_TRAIN, i), labels[i]);
    cr_assert_eq(label_of(dataset, SPLIT_TEST, 1), 1);
    cr_assert_eq(dataset->damaged, 0);
    uint64_t hash = dataset->content_hash;
    dataset_free(&dataset);
    dataset = open_good("", (struct dataset_config){.image_size = 16});
    cr_assert_eq(dataset->field[0].shape.dim[1], 16);
    cr_assert_neq(dataset->content_hash, hash);
    dataset_free(&dataset);
    dataset = open_good("", (struct dataset_config){.augment = AUGMENT_NONE});
    float *train = mem_new(dataset_field_bytes(dataset, 0)),
          *eval = mem_new(dataset_field_bytes(dataset, 0));
    int32_t label;
    dataset_read(dataset, SPLIT_TRAIN, 0, 99, (void *[]){train, &label});
    dataset_read(dataset, SPLIT_TRAIN, 0, 0, (void *[]){eval, &label});
    cr_assert_eq(memcmp(train, eval, dataset_field_bytes(dataset, 0)), 0);
    free(train), free(eval);
    dataset_free(&dataset);
}

/* valid is evaluated on, test only when asked for. */
Test(data_folder, three_splits) {
    make_two_classes();
    put_picture("test/dog/t.png", "rgb8.png");
    struct dataset *dataset = open_good(",test=test", (struct dataset_config){0});
    cr_assert_eq(dataset->count[SPLIT_TEST], 1);
    dataset_free(&dataset);
    dataset = open_good("", (struct dataset_config){0});
    cr_assert_eq(dataset->count[SPLIT_TEST], 2);
    dataset_free(&dataset);
    refuse(",tset=test", STATUS_USAGE, "'tset' is not known");
    refuse(",test=none", STATUS_DATA, "none: no pictures");
}

/* Without a folder to test on every tenth picture is for that; without "train" the folders are the
 * classes. What is given or found otherwise comes first. */
Test(data_folder, one_level_is_divided) {
    for (int i = 0; i < 20; i++) {
        char *path = mem_format("%s/%02d.png", i < 14 ? "cat" : "dog", i);
        put_picture(path, "rgb8.png");
        free(path);
    }
    struct dataset *dataset = open_good("", (struct dataset_config){0});
    cr_assert(dataset->count[SPLIT_TRAIN] == 18 && dataset->count[SPLIT_TEST] == 2);
    cr_assert(strstr(message, "every tenth picture is kept for testing, 2 of 20"), "%s", message);
    cr_assert(strstr(message, ",test=NAME"), "%s", message);
    cr_assert_eq(dataset->classes, 2);
    cr_assert_str_eq(dataset->names[1], "dog");
    static const char *const tests[] = {"cat/09.png", "dog/19.png"};
    for (int i = 0; i < 2; i++) {
        char *file = dataset_file(dataset, SPLIT_TEST, i),
             *want = mem_format("%s/%s", root, tests[i]);
        cr_assert_str_eq(file, want);
        cr_assert_eq(label_of(dataset, SPLIT_TEST, i), i);
        free(file), free(want);
    }
    for (int i = 0; i < 18; i++)
        cr_assert_eq(label_of(dataset, SPLIT_TRAIN, i), i >= 13, "training picture %d", i);
    uint64_t hash = dataset->content_hash;
    dataset_free(&dataset);
    dataset = open_good(",train=.,test=.", (struct dataset_config){0});
    cr_assert(dataset->count[SPLIT_TRAIN] == 20 && dataset->count[SPLIT_TEST] == 20);
    cr_assert_neq(dataset->content_hash, hash);
    dataset_free(&dataset);
}

Test(data_folder, train_alone_is_divided) {
    put_picture("train/cat/1.png", "rgb8.png");
    refuse("", STATUS_DATA, "train: one picture, and none to test with");
    put_picture("train/dog/2.png", "rgb8.png");
    struct dataset *dataset = open_good("", (struct dataset_config){0});
    cr_assert(dataset->count[SPLIT_TRAIN] == 1 && dataset->count[SPLIT_TEST] == 1);
    cr_assert(strstr(message, "the last picture is kept for testing, 1 of 2"), "%s", message);
    cr_assert_eq(label_of(dataset, SPLIT_TEST, 0), 1);
    dataset_free(&dataset);
}

/* Folders of folders are no classes: they may be splits of other names. */
Test(data_folder, other_layouts_are_told_how) {
    put_picture("pictures/cat/1.png", "rgb8.png");
    put_picture("held-out/cat/2.png", "rgb8.png");
    refuse("", STATUS_DATA, "no folder in it holds pictures, one is needed for each class");
    refuse("", STATUS_DATA, "stretto predict RUN --input");
    struct dataset *dataset =
        open_good(",train=pictures,test=held-out", (struct dataset_config){0});
    cr_assert(dataset->count[SPLIT_TRAIN] == 1 && dataset->count[SPLIT_TEST] == 1);
    dataset_free(&dataset);
}

/* CINIC-10 is known by its classes, and normalised by its own figures. */
Test(data_folder, cinic) {
    static const char *const names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                        "dog",      "frog",       "horse", "ship", "truck"};
    for (int c = 0; c < 10; c++)
        for (int s = 0; s < 3; s++) {
            static const char *const splits[] = {"train", "valid", "test"};
            char *path = mem_format("%s/%s/cifar10-%s-%d.png", splits[s], names[c], splits[s], c);
            put_picture(path, "rgb8.png");
            free(path);
        }
    struct dataset *dataset = open_good("", (struct dataset_config){0});
    cr_assert(dataset->classes == 10 && dataset->count[SPLIT_TRAIN] == 10 &&
              dataset->count[SPLIT_TEST] == 10);
    cr_assert_eq(dataset->mean[0], 0.47889522f);
    cr_assert_eq(label_of(dataset, SPLIT_TEST, 9), 9);
    dataset_free(&dataset);
    put_picture("train/zebra/1.png", "rgb8.png");
    dataset = open_good("", (struct dataset_config){0});
    cr_assert_eq(dataset->mean[0], 0.485f);
    dataset_free(&dataset);
}

Test(data_folder, whole_where_nothing_divides_it) {
    const struct dataset_config whole = {.whole = true};
    for (int i = 0; i < 6; i++) {
        char *path = mem_format("%s/%d.png", i < 4 ? "cat" : "dog", i);
        put_picture(path, "rgb8.png");
        free(path);
    }
    struct dataset *dataset = open_good("", whole);
    cr_assert(strstr(message, "all 6 pictures are used"), "%s", message);
    cr_assert(dataset->undivided && dataset->count[SPLIT_TRAIN] == 6 &&
              dataset->count[SPLIT_TEST] == 6);
    for (int i = 0; i < 6; i++) cr_assert_eq(label_of(dataset, SPLIT_TEST, i), i >= 4);
    dataset_free(&dataset);
    dataset = open_good(",train=.,test=.", whole);
    cr_assert(!dataset->undivided && dataset->count[SPLIT_TEST] == 6);
    dataset_free(&dataset);
}

Test(data_folder, class_and_file_lists) {
    make_two_classes();
    put_text("classes.txt", "dog  a loyal one, dog\ncat\nemu\n");
    put_picture("flat/one.jpg", "grey.jpg");
    put_picture("flat/two.jpg", "grey.jpg");
    put_text("flat.txt", "two.jpg 2\r\none.jpg dog\n\n");
    struct dataset *dataset = open_good(",test=flat", (struct dataset_config){0});
    cr_assert_eq(dataset->classes, 3);
    cr_assert_str_eq(dataset->names[0], "a loyal one, dog");
    cr_assert_str_eq(dataset->names[1], "cat");
    cr_assert_eq(label_of(dataset, SPLIT_TRAIN, 0), 0);
    cr_assert_eq(label_of(dataset, SPLIT_TEST, 0), 2);
    cr_assert_eq(label_of(dataset, SPLIT_TEST, 1), 0);
    dataset_free(&dataset);
    put_text("flat.txt", "two.jpg 3\n");
    refuse(",test=flat", STATUS_DATA, "flat.txt: line 1: class '3' is not known");
    put_text("classes.txt", "dog\ndog\n");
    refuse("", STATUS_DATA, "class 'dog' is there twice");
    put_text("classes.txt", "dog\n");
    refuse("", STATUS_DATA, "train/cat: no class of the training pictures is called so");
}

/* All of it is named, in one order; with skip the rest is used. */
Test(data_folder, damaged_pictures) {
    make_two_classes();
    put("train/cat/empty.jpg", "", 0);
    put_text("train/cat/text.png", "hello");
    put_text("train/cat/web.webp", "RIFF____WEBP");
    put_text("train/dog/dir.jpg/inner.txt", "");
    put_link("train/cat/loop.png", "loop.png");
    put_link("train/dog/up", "..");
    put_picture("train/cat/gone.jpg", "420.jpg");
    char *gone = mem_format("%s/train/cat/gone.jpg", root);
    static const char *const named[] = {
        "train/cat/empty.jpg: damaged picture, skipped: an empty file",
        "train/cat/loop.png: damaged picture, skipped: Too many levels of symbolic links",
        "train/cat/text.png: damaged picture, skipped: it begins with byte 68",
        "train/cat/web.webp: damaged picture, skipped: a WebP file; JPEG and PNG are read",
        "train/dog/dir.jpg: damaged picture, skipped: a folder",
        "train/dog/up: damaged picture, skipped: a link to a folder that it is in"};
    refuse("", STATUS_DATA, "train/cat/empty.jpg: damaged picture: an empty file");
    struct dataset *dataset = open_good("", (struct dataset_config){.skip_damaged = true});
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        cr_assert(strstr(message, named[i]), "%s\n%s", named[i], message);
    cr_assert(dataset->count[SPLIT_TRAIN] == 4 && dataset->damaged == 6);
    cr_assert_eq(unlink(gone), 0);
    message[0] = 0;
    cr_assert_eq(label_of(dataset, SPLIT_TRAIN, 2), LABEL_IGNORE, "a file that went away");
    cr_assert(strstr(message, "gone.jpg: damaged picture, skipped: No such file"), "%s", message);
    dataset_free(&dataset);
    free(gone);
}

/* A cut shows only when the picture is read. */
Test(data_folder, a_cut_picture_has_no_label) {
    make_two_classes();
    char *path = mem_format("%s/train/cat/b.JPG", root);
    struct stat info;
    cr_assert(stat(path, &info) == 0 && truncate(path, info.st_size - 40) == 0);
    float image[3 * 13 * 19];
    int32_t label;
    for (int skip = 0; skip < 2; skip++) {
        struct dataset *dataset = open_good("", (struct dataset_config){.skip_damaged = skip});
        image[5] = 9;
        for (int again = 0; again < 2; again++) {
            message[0] = 0;
            log_capture(message, sizeof message);
            enum status status =
                dataset_read(dataset, SPLIT_TRAIN, 1, 0, (void *[]){image, &label});
            log_capture(NULL, 0);
            cr_assert_eq(status, skip ? STATUS_OK : STATUS_DATA);
            cr_assert_eq(strstr(message, "b.JPG: damaged picture") != NULL, !again, "%s", message);
        }
        if (skip) cr_assert(label == LABEL_IGNORE && image[5] == 0);
        dataset_free(&dataset);
    }
    free(path);
}

Test(data_folder, what_is_missing_is_said) {
    refuse("", STATUS_DATA, "no folder in it holds pictures, one is needed for each class");
    refuse("", STATUS_DATA, "or train/cat/1.jpg, val/cat/2.jpg");
    put_picture("val/dog/1.png", "rgb8.png");
    refuse("", STATUS_DATA, "train: the folder to train on is not there");
    put_text("train/readme", "x");
    refuse("", STATUS_DATA, "train: no folders in it");
    put_text("train/dog/readme", "x");
    refuse("", STATUS_DATA, "train: no pictures");
    put_picture("train/dog/1.png", "rgb8.png");
    put_picture("val/cat/1.png", "rgb8.png");
    refuse("", STATUS_DATA, "val/cat: no class of the training pictures is called so");
}
#endif
