/* How old the parameters were that updates were computed with. */
#ifndef EXEC_STALE_H
#define EXEC_STALE_H

#include <stdint.h>

struct engine;

/* Updates of this rank, by how many others it made to the same parameters between the forward and
 * the update itself; the last one counts all that are more. */
enum { STALE_MOST = 63 };
struct engine_stale {
    int64_t updates[STALE_MOST + 1];
};
/* Local. Since it was opened. */
struct engine_stale engine_stale(const struct engine *engine);

#endif
