/* data.json: what the samples of a data set look like, and none of them. A run keeps it, so that
 * its model can be used where its data are not: shapes, normalisation, names of classes. */
#ifndef DATA_OUTLINE_H
#define DATA_OUTLINE_H

#include "data/dataset.h"

/* Local, blocking. */
enum status outline_write(const struct dataset *dataset, const char *path);
/* Local, blocking. A data set with all but samples: `like` of input_open. The caller frees it. */
enum status outline_read(const char *path, struct dataset **out);
/* Local. The same of a data set that nobody names: pictures of three colours, `side` pixels square,
 * normalised as ImageNet's, of which the centre is taken. The caller frees it. */
struct dataset *outline_of_pictures(int64_t side, int64_t classes);
/* Local. Whether a model of the outline's data may be used on `data`: the inputs are of its shapes
 * (but rows of tokens of any length: positions are the model's matter), and classes that have names
 * on both sides have the same. Else STATUS_USAGE, logged. Another normalisation is warned of. */
enum status outline_check(const struct dataset *outline, const struct dataset *data);

#endif
