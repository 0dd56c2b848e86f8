/* Random traces of replicas that come for their averages, and what must hold of the groups: for the
 * unit tests and make bench-groups.
 *
 * A trace has replicas of different speeds, each a pipeline with a worker for each key. A worker
 * computes, comes, waits for its group and goes on; a mini-batch comes to the last key first, and a
 * pipeline holds so many mini-batches as it has keys. Replicas draw mini-batches until there are
 * none, and leave. */
#ifndef TRACES_H
#define TRACES_H

#include "sync/groups.h"

struct trace {
    struct groups_config config;
    int batches; /* mini-batches in all */
    uint64_t seed;
    double slowest; /* the first replica is so many times slower than the others; 1: speeds are
                       drawn */
    double step_ms,
        jitter;  /* of a mini-batch; the share of it that it may take longer or shorter */
    bool reload; /* the state is saved and loaded before each call */
};

enum { TRACE_MOST = 64 };
struct trace_result {
    char wrong[200]; /* what does not hold; empty: all does */
    int64_t groups, sizes[TRACE_MOST + 1], windows;
    uint64_t lists; /* a hash of all groups, their members and weights */
    double spread;  /* mean over groups */
};

/* Local. */
void trace_run(const struct trace *trace, struct trace_result *out);
/* Local. The trace of a number: another configuration for each. */
struct trace trace_draw(uint64_t number);

#endif
