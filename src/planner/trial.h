/* One candidate, planned and simulated. Private to src/planner. */
#ifndef PLANNER_TRIAL_H
#define PLANNER_TRIAL_H

#include "planner/planner.h"

/* Local. Says of the row's candidate what it takes: `row` gets another state than PLANNER_BOUNDED.
 * What a plan logs is not said. */
void planner_try(const struct planner_input *input, struct plan_pool *pool,
                 struct planner_row *row);
/* Local. By how many bytes ranks of the run do not fit that need so much each, at least; 0: they may.
 */
int64_t planner_over(const struct planner_input *input, const struct planner_choice *choice,
                     int64_t rank_bytes);

#endif
