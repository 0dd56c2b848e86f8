/* Specs, the embedded digits, synthetic samples, augmentation, and real data where it is at hand.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/dataset.h"

static const struct dataset_config as_is;
static char message[4096];

static enum status open_captured(const char *spec, const struct dataset_config *config,
                                 struct dataset **out) {
    log_capture(message, sizeof message);
    enum status status = dataset_open(spec, config, out);
    log_capture(NULL, 0);
    return status;
}

static struct dataset *open_or_fail(const char *spec, const struct dataset_config *config) {
    struct dataset *dataset = NULL;
    cr_assert_eq(open_captured(spec, config, &dataset), STATUS_OK, "%s: %s", spec, message);
    return dataset;
}

/* Every value of every sample of a split is within the limits its field declares. */
static void check_limits(const struct dataset *dataset, enum split split, int64_t samples) {
    void *out[DATASET_MAX_FIELDS];
    for (int f = 0; f < dataset->field_count; f++)
        out[f] = mem_new(dataset_field_bytes(dataset, f));
    for (int64_t i = 0; i < samples; i++) {
        cr_assert_eq(dataset_read(dataset, split, i, 0, out), STATUS_OK);
        for (int f = 0; f < dataset->field_count; f++) {
            const struct field *field = &dataset->field[f];
            if (field->dtype != DTYPE_I32) continue;
            for (int64_t k = 0; k < shape_count(&field->shape); k++) {
                int32_t value = ((int32_t *)out[f])[k];
                bool ignored = field->is_label && value == LABEL_IGNORE;
                cr_assert(ignored || (value >= 0 && value < field->limit), "%s of sample %lld: %d",
                          field->name, (long long)i, value);
            }
        }
    }
    for (int f = 0; f < dataset->field_count; f++) free(out[f]);
}

Test(data_dataset, bad_specs_say_what_is_wrong) {
    static const struct {
        const char *spec;
        enum status status;
        const char *say;
    } rows[] = {
        {"nope", STATUS_USAGE, "unknown data set 'nope'"},
        {"", STATUS_USAGE, "known: digits"},
        {"nope", STATUS_USAGE, "\n         folder:DIR"}, /* lines of 80 columns */
        {"digits:x", STATUS_USAGE, "takes no argument"},
        {"mnist", STATUS_USAGE, "mnist:DIR"},
        {"mnist:", STATUS_USAGE, "mnist:DIR"},
        {"mnist:/nonexistent", STATUS_DATA, "/nonexistent: cannot open"},
        {"cifar10:/dev/null", STATUS_DATA, "/dev/null: not a folder"},
        {"synthetic:size", STATUS_USAGE, "size=..."},
        {"synthetic:size=0", STATUS_USAGE, "size '0', expected 1 to"},
        {"synthetic:size=9x", STATUS_USAGE, "'9x'"},
        {"synthetic:size=99999999999999999999", STATUS_USAGE, "expected 1 to"},
        {"synthetic:width=3", STATUS_USAGE, "unknown key 'width'"},
        {"synthetic:kind=sound", STATUS_USAGE, "images, tokens or text"},
        {"synthetic:kind=tokens,seq=16,predictions=14", STATUS_USAGE, "at most 13"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct dataset *dataset = NULL;
        cr_assert_eq(open_captured(rows[r].spec, &as_is, &dataset), rows[r].status, "'%s': %s",
                     rows[r].spec, message);
        cr_assert(strstr(message, rows[r].say), "'%s' says: %s", rows[r].spec, message);
        cr_assert_null(dataset);
    }
    struct dataset *dataset = NULL;
    cr_assert_eq(open_captured("digits", &(struct dataset_config){.image_size = 5000}, &dataset),
                 STATUS_USAGE);
    cr_assert(strstr(message, "5000") && strstr(message, "4096"), "%s", message);
}

Test(data_dataset, table_is_listed) {
    int count = 0;
    for (; dataset_at(count); count++) {
        cr_assert_not_null(dataset_at(count)->help);
        cr_assert(dataset_at(count)->open || dataset_at(count)->needs, "%s",
                  dataset_at(count)->name);
    }
    cr_assert_gt(count, 0);
    cr_assert_str_eq(dataset_at(0)->name, "digits");
    cr_assert_null(dataset_at(-1));
}

Test(data_dataset, digits_are_whole_and_normalised) {
    struct dataset *dataset = open_or_fail("digits", &as_is);
    char text[SHAPE_TEXT_BYTES];
    cr_assert(dataset->count[SPLIT_TRAIN] == 1500 && dataset->count[SPLIT_TEST] == 297 &&
              dataset->classes == 10);
    cr_assert_str_eq(shape_text(&dataset->field[dataset_field(dataset, "image")].shape, text),
                     "[1,8,8]");
    cr_assert_eq(dataset_field(dataset, "label"), 1);
    cr_assert_eq(dataset_field(dataset, "nothing"), -1);
    double sum = 0, squares = 0;
    int per_class[10] = {0};
    float image[64];
    int32_t label;
    for (int64_t i = 0; i < 1500; i++) {
        dataset_read(dataset, SPLIT_TRAIN, i, 1, (void *[]){image, &label});
        per_class[label]++;
        for (int p = 0; p < 64; p++) sum += image[p], squares += (double)image[p] * image[p];
    }
    double mean = sum / 96000, deviation = sqrt(squares / 96000 - mean * mean);
    cr_assert(fabs(mean) < 1e-4 && fabs(deviation - 1) < 1e-4, "mean %g, deviation %g", mean,
              deviation);
    for (int c = 0; c < 10; c++)
        cr_assert(per_class[c] > 120, "class %d has %d samples", c, per_class[c]);
    check_limits(dataset, SPLIT_TEST, 297);
    dataset_free(&dataset);
    cr_assert_null(dataset);
}

Test(data_dataset, image_size_resizes) {
    struct dataset *plain = open_or_fail("digits", &as_is);
    struct dataset *large = open_or_fail("digits", &(struct dataset_config){.image_size = 32});
    struct dataset *same = open_or_fail("digits", &(struct dataset_config){.image_size = 8});
    float small[64], big[1024], again[64];
    int32_t label, large_label;
    cr_assert_eq(large->field[0].shape.dim[1], 32);
    cr_assert(large->content_hash != plain->content_hash &&
              same->content_hash == plain->content_hash);
    dataset_read(plain, SPLIT_TEST, 5, 0, (void *[]){small, &label});
    dataset_read(same, SPLIT_TEST, 5, 0, (void *[]){again, &label});
    dataset_read(large, SPLIT_TEST, 5, 0, (void *[]){big, &large_label});
    cr_assert_eq(memcmp(small, again, sizeof small), 0);
    cr_assert_eq(label, large_label);
    double small_mean = 0, big_mean = 0;
    for (int i = 0; i < 64; i++) small_mean += small[i] / 64;
    for (int i = 0; i < 1024; i++) big_mean += big[i] / 1024;
    cr_assert(fabs(small_mean - big_mean) < 0.1, "%g and %g", small_mean, big_mean);
    dataset_free(&plain);
    dataset_free(&large);
    dataset_free(&same);
}

/* One hash that must come out on every machine and compiler. */
Test(data_dataset, synthetic_is_the_same_everywhere) {
    static const struct {
        const char *spec;
        uint64_t hash;
    } rows[] = {
        {"synthetic:channels=3,size=9,classes=7,count=50", 0xd7c3f5fba9abb940},
        {"synthetic:kind=tokens,seq=48,predictions=6,vocab=500,count=50", 0xfeace0ceb3f66ba0},
    };
    for (size_t r = 0; r < 2; r++) {
        struct dataset *dataset = open_or_fail(rows[r].spec, &as_is);
        void *out[DATASET_MAX_FIELDS];
        uint64_t hash = HASH64_START;
        for (int f = 0; f < dataset->field_count; f++)
            out[f] = mem_new(dataset_field_bytes(dataset, f));
        for (int64_t i = 0; i < 50; i++) {
            dataset_read(dataset, SPLIT_TRAIN, i, 99, out);
            for (int f = 0; f < dataset->field_count; f++)
                hash = hash64(hash, out[f], dataset_field_bytes(dataset, f));
        }
        cr_assert_eq(hash, rows[r].hash, "%s: 0x%016llx", rows[r].spec, (unsigned long long)hash);
        for (int f = 0; f < dataset->field_count; f++) free(out[f]);
        dataset_free(&dataset);
    }
}

/* Class means of 500 training images classify test images: the label is in the image. */
Test(data_dataset, synthetic_labels_can_be_learnt) {
    enum { CLASSES = 5, PIXELS = 3 * 8 * 8 };
    struct dataset *dataset =
        open_or_fail("synthetic:count=500,test_count=200,size=8,classes=5", &as_is);
    static double mean[CLASSES][PIXELS];
    int count[CLASSES] = {0}, right = 0;
    float image[PIXELS];
    int32_t label;
    for (int64_t i = 0; i < 500; i++) {
        dataset_read(dataset, SPLIT_TRAIN, i, 0, (void *[]){image, &label});
        count[label]++;
        for (int p = 0; p < PIXELS; p++) mean[label][p] += image[p];
    }
    for (int64_t i = 0; i < 200; i++) {
        dataset_read(dataset, SPLIT_TEST, i, 0, (void *[]){image, &label});
        int best = 0;
        double least = INFINITY;
        for (int c = 0; c < CLASSES; c++) {
            double distance = 0;
            for (int p = 0; p < PIXELS; p++) distance += pow(image[p] - mean[c][p] / count[c], 2);
            if (distance < least) least = distance, best = c;
        }
        right += best == label;
    }
    cr_assert(right >= 190, "%d of 200", right);
    dataset_free(&dataset);
}

Test(data_dataset, synthetic_tokens_have_wikis_layout) {
    enum { SEQ = 32, K = 5 };
    struct dataset *dataset = open_or_fail("synthetic:kind=tokens,seq=99,predictions=5,vocab=100",
                                           &(struct dataset_config){.seq = SEQ});
    int32_t ids[SEQ], segment[SEQ], mask[SEQ], position[K], masked[K], next;
    void *out[] = {ids, segment, mask, position, masked, &next};
    int following = 0, ignored = 0;
    cr_assert(dataset->vocab == 100 && dataset->classes == 2 && dataset->field_count == 6);
    check_limits(dataset, SPLIT_TRAIN, 300);
    for (int64_t i = 0; i < 300; i++) {
        dataset_read(dataset, SPLIT_TRAIN, i, 0, out);
        following += next == 0;
        cr_assert(ids[0] == 1 && mask[0] == 1 && position[0] > 0 && masked[0] >= 4);
        for (int t = 1; t < SEQ; t++) {
            cr_assert_leq(mask[t], mask[t - 1]);
            cr_assert_eq(mask[t] == 0, ids[t] == 0);
        }
        for (int k = 0; k < K; k++) {
            cr_assert_eq(masked[k] == LABEL_IGNORE, position[k] == 0);
            if (position[k])
                cr_assert(ids[position[k]] == 3 && masked[k] >= 4,
                          "a mask stands where a word was");
            ignored += position[k] == 0;
        }
    }
    cr_assert(following > 100 && following < 200, "%d of 300", following);
    cr_assert_gt(ignored, 0);
    dataset_free(&dataset);
}

/* One white pixel tells where an image was shifted to: every shift of -4..4 must come, mirrored and
 * not. */
Test(data_dataset, cifar_augmentation_covers_all_shifts) {
    enum { PIXELS = 3 * 32 * 32, ROW = 16, COLUMN = 10 };
    char folder[] = "/tmp/stretto-crop-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    static const char *const files[] = {"data_batch_1.bin", "test_batch.bin"};
    static unsigned char record[1 + PIXELS];
    for (int c = 0; c < 3; c++) record[1 + c * 1024 + ROW * 32 + COLUMN] = 255;
    for (int i = 0; i < 2; i++) {
        char *path = mem_format("%s/%s", folder, files[i]);
        FILE *file = fopen(path, "wb");
        cr_assert(file && fwrite(record, 1, sizeof record, file) == sizeof record &&
                  fclose(file) == 0);
        free(path);
    }
    char *spec = mem_format("cifar10:%s", folder);
    struct dataset *dataset = open_or_fail(spec, &as_is);
    static float image[PIXELS];
    int32_t label;
    int seen[2][9][9] = {{{0}}}, kinds = 0;
    for (uint64_t key = 1; key <= 4000; key++) {
        dataset_read(dataset, SPLIT_TRAIN, 0, key, (void *[]){image, &label});
        int at = 0;
        while (at < 1024 && image[at] < 0) at++; /* black is below 0 */
        cr_assert(at < 1024 && image[1024 + at] > 0 && image[2048 + at] > 0,
                  "all channels move together");
        bool flipped = at % 32 >= 31 - COLUMN - 4; /* 6..14 as it is, 17..25 mirrored */
        int left = flipped ? 31 - at % 32 - COLUMN : at % 32 - COLUMN;
        cr_assert(abs(at / 32 - ROW) <= 4 && abs(left) <= 4, "%d %d", at / 32, at % 32);
        kinds += seen[flipped][at / 32 - ROW + 4][left + 4]++ == 0;
    }
    cr_assert_eq(kinds, 2 * 81);
    dataset_free(&dataset);
    free(spec);
    folder_remove(folder);
}

/* A folder of shared data, or NULL after saying that the test is skipped. */
static const char *shared(const char *name) {
    static char path[512];
    const char *root = getenv("STRETTO_SHARED");
    snprintf(path, sizeof path, "%s/data/%s", root ? root : "../shared", name);
    return file_exists(path) ? path : NULL;
}

static struct dataset *open_shared(const char *name, const char *folder) {
    const char *path = shared(folder);
    if (!path) cr_skip_test("../shared/data/%s is not there", folder);
    char *spec = mem_format("%s:%s", name, path);
    struct dataset *dataset = open_or_fail(spec, &as_is);
    free(spec);
    return dataset;
}

static double mean_of(const struct dataset *dataset, int64_t samples) {
    int64_t pixels = shape_count(&dataset->field[0].shape);
    float *image = MEM_ARRAY(float, pixels);
    int32_t label;
    double sum = 0;
    for (int64_t i = 0; i < samples; i++) {
        dataset_read(dataset, SPLIT_TRAIN, i, 0, (void *[]){image, &label});
        for (int64_t p = 0; p < pixels; p++) sum += image[p];
    }
    free(image);
    return sum / (double)(samples * pixels);
}

Test(data_dataset, real_mnist) {
    struct dataset *dataset = open_shared("mnist", "mnist");
    cr_assert(dataset->count[SPLIT_TRAIN] == 60000 && dataset->count[SPLIT_TEST] == 10000);
    float image[784];
    int32_t label;
    static const int first[] = {5, 0, 4, 1, 9};
    for (int i = 0; i < 5; i++) {
        dataset_read(dataset, SPLIT_TRAIN, i, 0, (void *[]){image, &label});
        cr_assert_eq(label, first[i]);
    }
    cr_assert(fabs(mean_of(dataset, 60000)) < 1e-3, "%g", mean_of(dataset, 60000));
    dataset_free(&dataset);
}

Test(data_dataset, real_cifar10_with_augmentation) {
    struct dataset *dataset = open_shared("cifar10", "cifar10");
    enum { PIXELS = 3 * 32 * 32 };
    static float plain[PIXELS], one[PIXELS], again[PIXELS];
    int32_t label, same;
    cr_assert(strstr(message, "of 5 training batches"), "%s", message);
    cr_assert_eq(dataset->count[SPLIT_TEST], 10000);
    cr_assert_eq(dataset->count[SPLIT_TRAIN] % 10000, 0);
    cr_assert(fabs(mean_of(dataset, 5000)) < 0.05, "%g", mean_of(dataset, 5000));
    dataset_read(dataset, SPLIT_TRAIN, 3, 0, (void *[]){plain, &label});
    int changed = 0;
    for (uint64_t key = 1; key <= 50; key++) {
        dataset_read(dataset, SPLIT_TRAIN, 3, key, (void *[]){one, &same});
        dataset_read(dataset, SPLIT_TRAIN, 3, key, (void *[]){again, &same});
        cr_assert_eq(memcmp(one, again, sizeof one), 0);
        cr_assert_eq(label, same);
        changed += memcmp(one, plain, sizeof one) != 0;
    }
    cr_assert_geq(changed, 45);
    dataset_free(&dataset);
}

Test(data_dataset, real_wiki) {
    for (int i = 0; dataset_at(i); i++)
        if (strcmp(dataset_at(i)->name, "wiki") == 0 && dataset_at(i)->needs)
            cr_skip_test("built without HDF5");
    struct dataset *dataset = open_shared("wiki", "wiki-mini");
    int32_t ids[128], segment[128], mask[128], position[20], masked[20], next;
    static const int32_t first[] = {101, 1998, 11542, 1000, 4721, 4905};
    cr_assert(dataset->count[SPLIT_TRAIN] == 5304 && dataset->count[SPLIT_TEST] == 1564);
    cr_assert(dataset->vocab == 30522 && dataset->field[3].shape.dim[0] == 20);
    check_limits(dataset, SPLIT_TRAIN, 5304);
    dataset_read(dataset, SPLIT_TRAIN, 0, 0,
                 (void *[]){ids, segment, mask, position, masked, &next});
    cr_assert_eq(memcmp(ids, first, sizeof first), 0);
    cr_assert(position[0] == 16 && masked[0] == 100 && position[19] == 0 &&
              masked[19] == LABEL_IGNORE);
    dataset_free(&dataset);
}
