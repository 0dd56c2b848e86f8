/* What data sets of small images in memory share: the samples, the recipe of transforms, and the
 * reading. */
#ifndef DATA_IMAGE_H
#define DATA_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "data/dataset.h"

enum { IMAGE_MAX_CHANNELS = 4, IMAGE_MAX_SIZE = 4096 };

struct image_set {
    unsigned char *pixels; /* [count, channels, height, width], owned */
    unsigned char *labels; /* [count], owned */
    int64_t count;
    int channels, height, width;
};

struct image_recipe {
    int classes;
    const char *const *names; /* static or NULL */
    const float *mean, *std;  /* static, per channel */
    int crop_pad; /* training shifts by -crop_pad..crop_pad in both directions; 0: not at all */
    bool flip;    /* training mirrors every other sample */
};

/* Local. Fills `out` from two sets of one geometry, which become the data set's on success and stay
 * the caller's on failure. `name` is for messages. */
enum status image_dataset(const char *name, const struct image_recipe *recipe,
                          const struct image_set set[SPLIT_COUNT],
                          const struct dataset_config *config, struct dataset *out);
/* The read and close of such a data set's ops. */
enum status image_read(const struct dataset *dataset, enum split split, int64_t index, uint64_t key,
                       void *const out[]);
void image_close(struct dataset *dataset);

/* Local. Gives both sets' memory back. */
void image_sets_free(struct image_set set[SPLIT_COUNT]);

/* Local. The size images are resized to, or an error for one out of range. */
enum status image_size_check(const char *name, int64_t size);

#endif
