/* cifar10:DIR: data_batch_1.bin to data_batch_5.bin, those that are there, and test_batch.bin.
 * cifar100:DIR and cifar100-coarse:DIR: train.bin and test.bin, with the fine labels or the coarse
 * ones. A file of another number of records than the original is used with a warning: the format
 * has no header that could tell a subset made on purpose from a file cut at a record's end. */
#include "data/cifar.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/image.h"

/* The deviations everyone trains CIFAR-10 with; those of all pixels would be 0.2470 0.2435 0.2616.
 */
static const float mean_10[] = {0.4914f, 0.4822f, 0.4465f}, std_10[] = {0.2023f, 0.1994f, 0.2010f};
static const float mean_100[] = {0.5071f, 0.4865f, 0.4409f},
                   std_100[] = {0.2673f, 0.2564f, 0.2762f};
static const char *const names_10[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                       "dog",      "frog",       "horse", "ship", "truck"};
static const char *const names_coarse[] = {"aquatic_mammals",
                                           "fish",
                                           "flowers",
                                           "food_containers",
                                           "fruit_and_vegetables",
                                           "household_electrical_devices",
                                           "household_furniture",
                                           "insects",
                                           "large_carnivores",
                                           "large_man-made_outdoor_things",
                                           "large_natural_outdoor_scenes",
                                           "large_omnivores_and_herbivores",
                                           "medium_mammals",
                                           "non-insect_invertebrates",
                                           "people",
                                           "reptiles",
                                           "small_mammals",
                                           "trees",
                                           "vehicles_1",
                                           "vehicles_2"};
/* clang-format off */
static const char *const names_fine[] = {
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
    "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
    "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup",
    "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house",
    "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard", "lobster", "man",
    "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy",
    "porcupine", "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal",
    "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar",
    "sunflower", "sweet_pepper", "table", "tank", "telephone", "television", "tiger", "tractor",
    "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf", "woman",
    "worm"};
/* clang-format on */

enum {
    TRAIN_FILES = 5,
    FILE_LIMIT = 1 << 30,
    COUNT_10 = sizeof names_10 / sizeof names_10[0],
    COUNT_COARSE = sizeof names_coarse / sizeof names_coarse[0],
    COUNT_FINE = sizeof names_fine / sizeof names_fine[0]
};
_Static_assert(COUNT_10 == 10 && COUNT_COARSE == 20 && COUNT_FINE == 100, "the names of CIFAR");

const struct cifar_form cifar_10 = {1, {COUNT_10}};
const struct cifar_form cifar_100 = {2, {COUNT_COARSE, COUNT_FINE}};

size_t cifar_record(const struct cifar_form *form) {
    return (size_t)form->labels + CIFAR_PIXELS;
}

enum status cifar_parse(const char *name, const struct cifar_form *form, const unsigned char *data,
                        size_t count, int64_t *out_records) {
    size_t record = cifar_record(form);
    if (count == 0)
        return fail(STATUS_DATA, "%s: empty, expected records of %zu bytes", name, record);
    if (count % record != 0)
        return fail(
            STATUS_DATA,
            "%s: %zu bytes: %zu records of %zu bytes and %zu bytes over\n  is it truncated?", name,
            count, count / record, record, count % record);
    for (size_t at = 0; at < count; at += record)
        for (int l = 0; l < form->labels; l++)
            if (data[at + (size_t)l] >= form->classes[l])
                return fail(STATUS_DATA, "%s: byte %zu: label %d of record %zu, expected 0 to %d",
                            name, at + (size_t)l, data[at + (size_t)l], at / record,
                            form->classes[l] - 1);
    *out_records = (int64_t)(count / record);
    return STATUS_OK;
}

/* What is read of a file: `label` is the byte of a record that becomes the label. */
struct reading {
    const struct cifar_form *form;
    int label;
    int64_t records; /* of the original file */
};

/* Grown to the byte: five files would otherwise hold twice their size for a moment. */
static enum status append(const char *path, const struct reading *reading,
                          const unsigned char *data, int64_t records, struct image_set *set) {
    size_t total = (size_t)(set->count + records);
    unsigned char *pixels = realloc(set->pixels, total * CIFAR_PIXELS);
    if (pixels) set->pixels = pixels;
    unsigned char *labels = realloc(set->labels, total);
    if (labels) set->labels = labels;
    if (!pixels || !labels)
        return fail(STATUS_MEMORY, "%s: out of memory: %zu images", path, total);
    for (int64_t i = set->count; i < (int64_t)total; i++, data += cifar_record(reading->form)) {
        labels[i] = data[reading->label];
        memcpy(pixels + i * CIFAR_PIXELS, data + reading->form->labels, CIFAR_PIXELS);
    }
    *set = (struct image_set){pixels, labels, (int64_t)total, 3, 32, 32};
    return STATUS_OK;
}

static enum status add_file(const char *path, const struct reading *reading,
                            struct image_set *set) {
    SCOPED(bytes_free) struct bytes bytes = {0};
    int64_t records;
    TRY(file_read(path, FILE_LIMIT, &bytes));
    TRY(cifar_parse(path, reading->form, bytes.data, bytes.count, &records));
    if (records != reading->records)
        log_warning("%s: %lld records where the original has %lld", path, (long long)records,
                    (long long)reading->records);
    return append(path, reading, bytes.data, records, set);
}

static enum status add_named(const char *folder, const char *name, const struct reading *reading,
                             struct image_set *set) {
    SCOPED_FREE char *path = mem_format("%s/%s", folder, name);
    return add_file(path, reading, set);
}

/* --- CIFAR-10 --- */

static const struct reading batch = {&cifar_10, 0, 10000};

static enum status train_10(const char *folder, struct image_set *set) {
    int files = 0;
    for (int i = 1; i <= TRAIN_FILES; i++) {
        char *path = mem_format("%s/data_batch_%d.bin", folder, i);
        enum status status = STATUS_OK;
        if (file_exists(path)) {
            status = add_file(path, &batch, set);
            files++;
        }
        free(path);
        TRY(status);
    }
    if (files == 0)
        return fail(
            STATUS_DATA,
            "%s: none of data_batch_1.bin to data_batch_5.bin is there\n"
            "  CIFAR-10's binary version is needed (cifar-10-binary.tar.gz); torchvision's\n"
            "  files are the Python version, which needs pickle to read",
            folder);
    log_note("cifar10: %d of %d training batches in %s, %lld images", files, TRAIN_FILES, folder,
             (long long)set->count);
    return STATUS_OK;
}

static enum status split_10(const char *folder, enum split split, struct image_set *out) {
    return split == SPLIT_TRAIN ? train_10(folder, out)
                                : add_named(folder, "test_batch.bin", &batch, out);
}

static const struct image_recipe recipe_10 = {.split = split_10,
                                              .classes = COUNT_10,
                                              .names = names_10,
                                              .mean = mean_10,
                                              .std = std_10,
                                              .augment = AUGMENT_CROP};

static enum status cifar10_open(const char *argument, const struct dataset_config *config,
                                struct dataset *out) {
    return image_open(argument, argument, &recipe_10, config, out);
}

extern const struct dataset_ops dataset_cifar10;
const struct dataset_ops dataset_cifar10 = {
    .name = "cifar10",
    .argument = "DIR",
    .help = "CIFAR-10's binary files: the data_batch files present, and test_batch.bin",
    .open = cifar10_open,
    .read = image_read,
    .close = image_close,
};

/* --- CIFAR-100 --- */

static enum status split_100(const char *folder, enum split split, int label,
                             struct image_set *out) {
    struct reading reading = {&cifar_100, label, split == SPLIT_TRAIN ? 50000 : 10000};
    return add_named(folder, split == SPLIT_TRAIN ? "train.bin" : "test.bin", &reading, out);
}

static enum status split_coarse(const char *folder, enum split split, struct image_set *out) {
    return split_100(folder, split, 0, out);
}

static enum status split_fine(const char *folder, enum split split, struct image_set *out) {
    return split_100(folder, split, 1, out);
}

static const struct image_recipe recipe_fine = {.split = split_fine,
                                                .classes = COUNT_FINE,
                                                .names = names_fine,
                                                .mean = mean_100,
                                                .std = std_100,
                                                .augment = AUGMENT_CROP};
static const struct image_recipe recipe_coarse = {.split = split_coarse,
                                                  .classes = COUNT_COARSE,
                                                  .names = names_coarse,
                                                  .mean = mean_100,
                                                  .std = std_100,
                                                  .augment = AUGMENT_CROP};

static enum status cifar100_open(const char *argument, const struct dataset_config *config,
                                 struct dataset *out) {
    return image_open(argument, argument, &recipe_fine, config, out);
}

static enum status coarse_open(const char *argument, const struct dataset_config *config,
                               struct dataset *out) {
    return image_open(argument, argument, &recipe_coarse, config, out);
}

extern const struct dataset_ops dataset_cifar100, dataset_cifar100_coarse;
const struct dataset_ops dataset_cifar100 = {
    .name = "cifar100",
    .argument = "DIR",
    .help = "CIFAR-100's binary files, train.bin and test.bin; its 100 fine labels",
    .open = cifar100_open,
    .read = image_read,
    .close = image_close,
};
const struct dataset_ops dataset_cifar100_coarse = {
    .name = "cifar100-coarse",
    .argument = "DIR",
    .help = "the same with the 20 coarse labels",
    .open = coarse_open,
    .read = image_read,
    .close = image_close,
};
