/* Inputs without labels as a data set, for who uses a trained model: the rows of one .npy file, or
 * pictures. */
#ifndef DATA_INPUT_H
#define DATA_INPUT_H

#include "data/dataset.h"

/* Local, blocking. A data set whose splits are both the rows of a .npy file, in order, read one by
 * one as they are asked for: the file may be larger than memory; or pictures, all of a folder or
 * files with commas between. They stand for the input of a model that was trained on `like` (its
 * field "image", "features" or "input_ids"), whose shape rows must have; the other fields are
 * labels, and ignored. Numbers are taken as the model sees them; bytes of pixels are scaled and
 * normalised as those of `like` are, pictures cut to its size, too. Names of classes are like's.
 * `skip`: damaged pictures get no answer, else they are an error. The caller frees it, before
 * `like`. */
enum status input_open(const char *path, const struct dataset *like, bool skip,
                       struct dataset **out);

/* Local. Whether that is what a name is of; else it is the spec of a data set. */
bool input_is_file(const char *name);

#endif
