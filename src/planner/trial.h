/* One candidate, planned and simulated. Private to src/planner. */
#ifndef PLANNER_TRIAL_H
#define PLANNER_TRIAL_H

#include "planner/planner.h"

/* What auto chose for some candidates, and what it was chosen for. */
struct planner_auto_key {
    int stages, micro_batches, replicas, balance, recompute;
};
struct planner_auto {
    struct planner_auto_key key;
    struct choice choice;
};
struct planner_autos {
    struct planner_auto **item;
    int count;
    size_t capacity;
};
/* Local. NULL: nothing was chosen for such a candidate yet. */
const struct planner_auto *planner_auto_find(const struct planner_autos *autos,
                                             const struct planner_input *input,
                                             const struct planner_choice *choice);
void planner_autos_free(struct planner_autos *autos);

/* Local. Says of the row's candidate what it takes: `row` gets another state than PLANNER_BOUNDED.
 * What a plan logs is not said. */
void planner_try(const struct planner_input *input, struct plan_pool *pool,
                 struct planner_autos *autos, struct planner_row *row);
/* Local. By how many bytes ranks of the run do not fit that need so much each, at least; 0: they
 * may.
 */
int64_t planner_over(const struct planner_input *input, const struct planner_choice *choice,
                     int64_t rank_bytes);

#endif
