/* Where a tensor of the model is in a file of weights, and its elements in our order. Private to
 * src/exec. */
#ifndef EXEC_WEIGHTS_PLACE_H
#define EXEC_WEIGHTS_PLACE_H

#include "model/alias.h"
#include "plan/state_layout.h"
#include "tensor/resize.h"
#include "tensor/shards.h"

/* One tensor of the file, or several whose elements follow one another in ours. */
struct weights_place {
    const struct shards *file;
    const struct state_item *item;
    enum alias_form form;
    int part_count;
    size_t part[ALIAS_MAX_PARTS];
    struct resize_grid from, to; /* of positions that are resized; else 0 */
};

/* Local. Finds the tensor under one of its names; false: the file does not have it. `positions` is
 * the grid of a vision transformer's patches. */
bool weights_find(const struct shards *file, const struct state_item *item,
                  struct resize_grid positions, struct weights_place *out);
/* Local. Whether it has the type and shape of the model's, or can be brought to them. */
bool weights_fits(const struct weights_place *place);
/* Local, blocking. All elements in the model's order into `plain`, which the caller owns.
 * STATUS_DATA where one is not finite. */
enum status weights_read(const struct weights_place *place, const char *path, void *plain);

#endif
