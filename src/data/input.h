/* Inputs without labels: the rows of one .npy file as a data set, for who uses a trained model. */
#ifndef DATA_INPUT_H
#define DATA_INPUT_H

#include "data/dataset.h"

/* Local, blocking. A data set whose splits are both the rows of the file, in order, read one by one
 * as they are asked for: the file may be larger than memory. They stand for the input of a model
 * that was trained on `like` (its field "image", "features" or "input_ids"), whose shape they must
 * have; the other fields are labels, and ignored. Numbers are taken as the model sees them; bytes
 * of pixels are scaled and normalised as those of `like` are. Names of classes are like's. The
 * caller frees it, and keeps nothing of `like`. */
enum status input_open(const char *path, const struct dataset *like, struct dataset **out);

/* Local. Whether that is what a name is of. */
bool input_is_file(const char *name);

#endif
