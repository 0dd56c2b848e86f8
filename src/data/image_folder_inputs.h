/* Pictures without labels as the inputs of a trained model. */
#ifndef DATA_IMAGE_FOLDER_INPUTS_H
#define DATA_IMAGE_FOLDER_INPUTS_H

#include "data/dataset.h"

/* Local, blocking. `paths` is a folder or files with commas between; see `inputs` of struct
 * dataset_ops. The first field of `out` is the image; all else but
 * fields, classes and spec is filled. */
enum status image_folder_inputs_open(const char *paths, const struct dataset *like, bool skip,
                                     struct dataset *out);

#endif
