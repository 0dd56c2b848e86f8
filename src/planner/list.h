/* All candidates of a search. Private to src/planner. */
#ifndef PLANNER_LIST_H
#define PLANNER_LIST_H

#include "planner/planner.h"

struct planner_rows {
    struct planner_row *item;
    int64_t count;
    size_t capacity;
};

/* Local. What the options leave open, of a model with so many layers. The caller frees `item`.
 * STATUS_USAGE where they leave nothing. */
enum status planner_list(const struct planner_input *input, int layers, struct planner_rows *out);
/* Local. A batch near the input's with which some candidate would have all ranks; 0: none. */
int64_t planner_nearest_batch(const struct planner_input *input, int layers);

#endif
