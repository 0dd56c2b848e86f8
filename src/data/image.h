/* What data sets of small images in memory share: the samples, the recipe of transforms, and the
 * reading. */
#ifndef DATA_IMAGE_H
#define DATA_IMAGE_H

#include <stdint.h>

#include "data/augment.h"
#include "data/dataset.h"

enum { IMAGE_MAX_CHANNELS = 4, IMAGE_MAX_SIZE = 4096 };

/* Of the colours of ImageNet's pictures. */
extern const float image_imagenet_mean[3], image_imagenet_std[3];

struct image_set {
    unsigned char *pixels; /* [count, channels, height, width], owned */
    unsigned char *labels; /* [count], owned */
    int64_t count;
    int channels, height, width;
};

/* How a data set is made from two sets of images. */
struct image_recipe {
    /* Reads one split; `argument` is what stood behind the data set's name. What it leaves in `out`
     * on failure is freed. */
    enum status (*split)(const char *argument, enum split split, struct image_set *out);
    int classes;
    const char *const *names;    /* static or NULL */
    const float *mean, *std;     /* static, per channel */
    enum augment_policy augment; /* what --augment standard is for it */
};

/* Local, blocking. Reads both splits, which must be of one geometry, and fills `out`: an open of
 * dataset_ops but for the recipe. `name` is for messages. */
enum status image_open(const char *name, const char *argument, const struct image_recipe *recipe,
                       const struct dataset_config *config, struct dataset *out);
/* Local. The two fields of a data set of images, "image" and "label", and its classes. */
void image_fields(int64_t channels, int64_t height, int64_t width, int64_t classes,
                  struct dataset *out);
/* The read and close of such a data set's ops. */
enum status image_read(const struct dataset *dataset, enum split split, int64_t index, uint64_t key,
                       void *scratch, void *const out[]);
void image_close(struct dataset *dataset);

/* Local. One picture of a set as the model sees it: augmented by the key, resized, normalised by
 * the table of each channel. `scratch` is the caller's, 64-byte aligned, of image_scratch_bytes. */
size_t image_scratch_bytes(const struct image_set *set, const struct augment *augment);
void image_transform(const struct image_set *set, int64_t index, const struct augment *augment,
                     float (*table)[256], uint64_t key, void *scratch, float *out);

/* Local. Gives both sets' memory back. */
void image_sets_free(struct image_set set[SPLIT_COUNT]);

/* Local. The size images are resized to, or an error for one out of range. */
enum status image_size_check(const char *name, int64_t size);

#endif
