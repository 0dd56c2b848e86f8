/* cifar10:DIR: data_batch_1.bin to data_batch_5.bin, those that are there, and test_batch.bin. A
 * batch of other than 10,000 records is used with a warning: the format has no header that could
 * tell a subset made on purpose from a file cut at a record's end. */
#include "data/cifar.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/image.h"

/* The deviations everyone trains with; those of all pixels would be 0.2470 0.2435 0.2616. */
static const float mean[] = {0.4914f, 0.4822f, 0.4465f}, std[] = {0.2023f, 0.1994f, 0.2010f};
static const char *const names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                    "dog",      "frog",       "horse", "ship", "truck"};
enum { TRAIN_FILES = 5, FILE_LIMIT = 1 << 30 };

enum status cifar_parse(const char *name, const unsigned char *data, size_t count,
                        int64_t *out_records) {
    if (count == 0)
        return fail(STATUS_DATA, "%s: empty, expected records of %d bytes", name, CIFAR_RECORD);
    if (count % CIFAR_RECORD != 0)
        return fail(STATUS_DATA,
                    "%s: %zu bytes: %zu records of %d bytes and %zu bytes over\n  is it truncated?",
                    name, count, count / CIFAR_RECORD, CIFAR_RECORD, count % CIFAR_RECORD);
    for (size_t at = 0; at < count; at += CIFAR_RECORD)
        if (data[at] >= CIFAR_CLASSES)
            return fail(STATUS_DATA, "%s: byte %zu: label %d of record %zu, expected 0 to %d", name,
                        at, data[at], at / CIFAR_RECORD, CIFAR_CLASSES - 1);
    *out_records = (int64_t)(count / CIFAR_RECORD);
    return STATUS_OK;
}

/* Grown to the byte: five files would otherwise hold twice their size for a moment. */
static enum status append(const char *path, struct image_set *set, const unsigned char *data,
                          int64_t records) {
    size_t total = (size_t)(set->count + records);
    unsigned char *pixels = realloc(set->pixels, total * CIFAR_PIXELS);
    if (pixels) set->pixels = pixels;
    unsigned char *labels = realloc(set->labels, total);
    if (labels) set->labels = labels;
    if (!pixels || !labels)
        return fail(STATUS_MEMORY, "%s: out of memory: %zu images", path, total);
    for (int64_t i = set->count; i < (int64_t)total; i++, data += CIFAR_RECORD) {
        labels[i] = data[0];
        memcpy(pixels + i * CIFAR_PIXELS, data + 1, CIFAR_PIXELS);
    }
    *set = (struct image_set){pixels, labels, (int64_t)total, 3, 32, 32};
    return STATUS_OK;
}

static enum status add_file(const char *path, struct image_set *set) {
    struct bytes bytes;
    int64_t records;
    TRY(file_read(path, FILE_LIMIT, &bytes));
    enum status status = cifar_parse(path, bytes.data, bytes.count, &records);
    if (status == STATUS_OK) {
        if (records != CIFAR_FILE_RECORDS)
            log_warning("%s: %lld records where the original has %d", path, (long long)records,
                        CIFAR_FILE_RECORDS);
        status = append(path, set, bytes.data, records);
    }
    bytes_free(&bytes);
    return status;
}

static enum status train_open(const char *folder, struct image_set *set) {
    int files = 0;
    for (int i = 1; i <= TRAIN_FILES; i++) {
        char *path = mem_format("%s/data_batch_%d.bin", folder, i);
        enum status status = STATUS_OK;
        if (file_exists(path)) {
            status = add_file(path, set);
            files++;
        }
        free(path);
        TRY(status);
    }
    if (files == 0)
        return fail(STATUS_DATA,
                    "%s: none of data_batch_1.bin to data_batch_5.bin is there\n"
                    "  a folder with CIFAR-10's binary version is needed",
                    folder);
    log_note("cifar10: %d of %d training batches in %s, %lld images", files, TRAIN_FILES, folder,
             (long long)set->count);
    return STATUS_OK;
}

static enum status test_open(const char *folder, struct image_set *set) {
    char *path = mem_format("%s/test_batch.bin", folder);
    enum status status = add_file(path, set);
    free(path);
    return status;
}

static enum status split_open(const char *folder, enum split split, struct image_set *out) {
    return split == SPLIT_TRAIN ? train_open(folder, out) : test_open(folder, out);
}

static const struct image_recipe recipe = {.split = split_open,
                                           .classes = CIFAR_CLASSES,
                                           .names = names,
                                           .mean = mean,
                                           .std = std,
                                           .crop_pad = 4,
                                           .flip = true};

static enum status cifar10_open(const char *argument, const struct dataset_config *config,
                                struct dataset *out) {
    return image_open(argument, argument, &recipe, config, out);
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
