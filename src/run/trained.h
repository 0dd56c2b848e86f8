/* Options of who uses a trained model: those that say what it is, from the folder of its run, and
 * on top what is named now. */
#ifndef RUN_TRAINED_H
#define RUN_TRAINED_H

#include "base/option.h"
#include "data/dataset.h"

/* Local, blocking but for what `run` does. The first argument of `given` is the folder of a run or
 * of one of its checkpoints, whose config.yml tells model, data and numerics; or a weights file,
 * with --model. How ranks are laid out is not taken from there: a model is used on one rank unless
 * this command says otherwise. The size of micro-batches is, since the layouts of parameters follow
 * from it: so the kernels are those of the run's own evaluations. */
enum status trained_with(const struct options *given, enum status (*run)(const struct options *));

/* Local, blocking. With the options of trained_with: what the data look like that the model was
 * trained on, for inputs without labels. As the run noted it (data.json), or where there is no such
 * note, or --data is named now, the data set itself. Of weights without a run, where --data is not
 * named, pictures of --classes. The caller frees it. */
enum status trained_like(const struct options *options, struct dataset **out);
/* Local, blocking. Refuses data that the model of a run was not made for: see outline_check. */
enum status trained_check(const struct options *options, const struct dataset *data);

#endif
