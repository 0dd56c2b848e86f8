/* The table of strategies. */
#include "plan/strategy.h"

#include <stddef.h>
#include <string.h>

enum { PROCESSES, THREADS };

static const struct strategy strategies[] = {
#define STRATEGY(NAME, schedule_, sync_, spawn, ...)                                               \
    {.name = NAME,                                                                                 \
     .schedule = schedule_,                                                                        \
     .sync = sync_,                                                                                \
     .threads = spawn == THREADS,                                                                  \
     .help = __VA_ARGS__},
#include "plan/strategy.def"
#undef STRATEGY
};

const struct strategy *strategy_all(int *count) {
    *count = (int)(sizeof strategies / sizeof strategies[0]);
    return strategies;
}

const struct strategy *strategy_find(const char *name) {
    int count;
    const struct strategy *all = strategy_all(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(all[i].name, name) == 0) return &all[i];
    return NULL;
}
