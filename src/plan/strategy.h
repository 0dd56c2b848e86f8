/* Strategies: names that users know, each a preset of independent choices. One row in strategy.def.
 */
#ifndef PLAN_STRATEGY_H
#define PLAN_STRATEGY_H

#include <stdbool.h>

struct strategy {
    const char *name, *schedule, *sync, *help;
    bool threads;   /* its ranks are threads of one process */
    int zero_stage; /* of sync policy zero; 0: another one */
};

/* Local. By name, NULL when there is none; the whole table for lists. */
const struct strategy *strategy_find(const char *name);
const struct strategy *strategy_all(int *count);

#endif
