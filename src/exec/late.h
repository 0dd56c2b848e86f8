/* Passes that --hetero base has a time for, and those that computed longer than that. */
#ifndef EXEC_LATE_H
#define EXEC_LATE_H

#include "exec/engine.h"

struct engine_late {
    int64_t passes, late;
};
/* Local. Of the steps that this rank has run. */
struct engine_late engine_late(const struct engine *engine);

#endif
