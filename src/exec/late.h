/* How many passes were late. The law `base` of --hetero gives each pass a time; a pass is late if
 * its computation takes longer. (The test device `late` is something else.) */
#ifndef EXEC_LATE_H
#define EXEC_LATE_H

#include "exec/engine.h"

struct engine_late {
    int64_t passes, late;
};
/* Local. Counts over the steps that this rank has run. */
struct engine_late engine_late(const struct engine *engine);

#endif
