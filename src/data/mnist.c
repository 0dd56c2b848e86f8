/* mnist:DIR: the four IDX files of MNIST under their original names, each gzipped (with or without
 * .gz at the end) or not. Sets of the same form, such as Fashion-MNIST, are read too, as long as
 * they have ten classes. */
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/idx.h"

static const float mean[] = {0.1307f}, std[] = {0.3081f};
enum { CLASSES = 10 };
static const char *const names[CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

/* The path of DIR/name or DIR/name.gz, whichever is there. The caller frees *path, also on failure.
 */
static enum status find_and_read(const char *folder, const char *name, char **path,
                                 struct bytes *out) {
    *path = mem_format("%s/%s", folder, name);
    if (!file_exists(*path)) {
        free(*path);
        *path = mem_format("%s/%s.gz", folder, name);
        if (!file_exists(*path))
            return fail(
                STATUS_DATA,
                "%s: neither %s nor %s.gz is there\n"
                "  the folder with the four IDX files is needed; torchvision's is ROOT/MNIST/raw",
                folder, name, name);
    }
    return announced_read(*path, &idx_kind, out);
}

static enum status split_open(const char *folder, enum split split, struct image_set *out) {
    bool train = split == SPLIT_TRAIN;
    SCOPED_FREE char *image_path = NULL, *label_path = NULL;
    SCOPED(bytes_free) struct bytes image = {0}, label = {0};
    TRY(find_and_read(folder, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte",
                      &image_path, &image));
    TRY(find_and_read(folder, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte",
                      &label_path, &label));
    return idx_images(image_path, image, label_path, label, CLASSES, out);
}

static const struct image_recipe recipe = {.split = split_open,
                                           .classes = CLASSES,
                                           .names = names,
                                           .mean = mean,
                                           .std = std,
                                           .augment = AUGMENT_NONE};

static enum status mnist_open(const char *argument, const struct dataset_config *config,
                              struct dataset *out) {
    return image_open(argument, argument, &recipe, config, out);
}

extern const struct dataset_ops dataset_mnist;
const struct dataset_ops dataset_mnist = {
    .name = "mnist",
    .argument = "DIR",
    .help = "MNIST's four IDX files, gzipped or not",
    .open = mnist_open,
    .read = image_read,
    .close = image_close,
};
