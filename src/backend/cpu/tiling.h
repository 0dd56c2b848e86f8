/* Counts of tiles, panels and strips. */
#ifndef BACKEND_CPU_TILING_H
#define BACKEND_CPU_TILING_H

#include <stdint.h>

/* How many parts of this size make up the total; the last may be smaller. */
static inline int64_t parts(int64_t total, int64_t part) {
    return (total + part - 1) / part;
}

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#endif
