/* Strategies: names that users know, each a preset of independent choices. One row in strategy.def.
 */
#ifndef PLAN_STRATEGY_H
#define PLAN_STRATEGY_H

#include <stdbool.h>

#include "base/option.h"

struct strategy {
    const char *name, *schedule, *sync, *help;
    bool threads;   /* its ranks are threads of one process */
    bool one_rank;  /* nothing would keep several equal */
    int zero_stage; /* of sync policy zero; 0: another one */
};

/* Local. By name, NULL when there is none; the whole table for lists. */
const struct strategy *strategy_find(const char *name);
const struct strategy *strategy_all(int *count);

/* Local. "1f1b - pipeline: ..."; with another schedule than its own, which it is then not, that
 * one's; with another stage of ZeRO (0: none) that stage. Returns `text`. */
enum { STRATEGY_TEXT_BYTES = 256 };
const char *strategy_text(const struct strategy *strategy, const char *schedule, int zero_stage,
                          char text[STRATEGY_TEXT_BYTES]);

/* Local. Whether the options say that ranks are threads of one process: by --strategy or --spawn.
 */
bool strategy_uses_threads(const struct options *options);
/* Local. Refuses options that contradict the strategy, for a run of `ranks` ranks. */
enum status strategy_check(const struct options *options, int64_t ranks);

#endif
