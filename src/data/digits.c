/* digits: 1,797 handwritten digits of 8x8 pixels, embedded in the binary (digits_files/, with its
 * attribution): the default data set, since it needs no file. Training applies no augmentation:
 * shifting 8x8 pixels destroys more than it teaches. */
#include "base/file.h"
#include "base/mem.h"
#include "data/idx.h"

/* Mean and standard deviation of the 96,000 training pixels, as of numpy's mean() and std(). */
static const float mean[] = {0.30461f}, std[] = {0.37596f};

enum { CLASSES = 10 };
static const char *const names[CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

extern const unsigned char digits_train_images[], digits_train_images_end[], digits_train_labels[],
    digits_train_labels_end[], digits_test_images[], digits_test_images_end[], digits_test_labels[],
    digits_test_labels_end[];

static enum status unpack(const char *name, const unsigned char *from, const unsigned char *to,
                          struct bytes *out) {
    return announced_gunzip(name, from, (size_t)(to - from), &idx_kind, out);
}

static enum status split_open(const char *argument, enum split split, struct image_set *out) {
    (void)argument; /* it takes none */
    bool train = split == SPLIT_TRAIN;
    SCOPED(bytes_free) struct bytes image = {0}, label = {0};
    TRY(unpack("embedded digits images", train ? digits_train_images : digits_test_images,
               train ? digits_train_images_end : digits_test_images_end, &image));
    TRY(unpack("embedded digits labels", train ? digits_train_labels : digits_test_labels,
               train ? digits_train_labels_end : digits_test_labels_end, &label));
    return idx_images("embedded digits images", image, "embedded digits labels", label, CLASSES,
                      out);
}

static const struct image_recipe recipe = {.split = split_open,
                                           .classes = CLASSES,
                                           .names = names,
                                           .mean = mean,
                                           .std = std,
                                           .augment = AUGMENT_NONE};

static enum status digits_open(const char *argument, const struct dataset_config *config,
                               struct dataset *out) {
    return image_open("digits", argument, &recipe, config, out);
}

extern const struct dataset_ops dataset_digits;
const struct dataset_ops dataset_digits = {
    .name = "digits",
    .help = "1,797 handwritten digits, 8x8 grey, built in",
    .open = digits_open,
    .read = image_read,
    .close = image_close,
};
