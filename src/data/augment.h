/* Augmentation: the policies of --augment, and the view (transform.h) that one makes of a picture.
 *
 * What is drawn depends on the sample's key alone, never on who reads it or when. */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include <stdint.h>

#include "data/transform.h"

enum augment_policy {
#define AUGMENT(id, name, window, flip, help) AUGMENT_##id,
#include "data/augment.def"
    AUGMENT_COUNT
};

/* Local. Of the options' words; -1: no policy is called so. */
const char *augment_name(enum augment_policy policy);
const char *augment_help(enum augment_policy policy);
int augment_find(const char *name);

/* How a whole picture becomes an image of the model's size. */
enum frame {
    FRAME_STRETCH, /* both sides are resized: for data sets whose pictures are of one size */
    FRAME_CENTRE   /* the shorter side is resized to 8/7 of the size, and the centre taken */
};

struct augment {
    enum augment_policy policy; /* not AUGMENT_STANDARD: that is the data set's to replace */
    enum frame frame;
    int out_height, out_width;
};

/* Local. The view of a picture of height x width; key 0: of evaluation, nothing is drawn. */
struct view augment_view(const struct augment *augment, int height, int width, uint64_t key);

/* Local. torchvision's RandomResizedCrop: the first of ten drawn windows that fits, else the
 * largest one in the centre whose aspect is allowed. `draw` gives uniform numbers in [0,1): area,
 * aspect, top and left of try 0, then of try 1, and so on. */
void augment_resized_crop(int height, int width, double (*draw)(void *context, int index),
                          void *context, struct view *out);

#endif
