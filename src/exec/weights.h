/* --weights: parameters and buffers from a safetensors file, by name. */
#ifndef EXEC_WEIGHTS_H
#define EXEC_WEIGHTS_H

#include "exec/store.h"
#include "model/model.h"

/* Local, blocking. Takes what fits, by name; see checkpoint_load_weights. `shape` is what the model
 * was told of its images: positions are resized to them. */
enum status weights_load(struct store *store, const struct model_config *shape, const char *path);
/* Local, blocking. The same, of a file that has all of the model: else STATUS_DATA. Silent where
 * all is well. */
enum status weights_load_whole(struct store *store, const struct model_config *shape,
                               const char *path);
/* Local, blocking. Whether weights_load would refuse the file for a store of this layout, in the
 * same words; reads all of it, takes nothing, and is silent where it would not. */
enum status weights_check(const struct state_layout *layout, const struct model_config *shape,
                          const char *path);

/* Local, blocking. The side of the patches of a vision transformer whose weights are there; 0: it
 * is none. STATUS_DATA for a file that cannot be read. */
enum status weights_patch(const char *path, int64_t *out);

/* Local, blocking. The safetensors file that `path` names, or the index of several: itself, or for
 * the folder of a run or of a checkpoint the model in it; STATUS_DATA where such a folder has none.
 * The caller frees it. */
enum status weights_path(const char *path, char **out);

#endif
