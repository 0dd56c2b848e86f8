/* What a device that is apart was given, so that a failure that comes later names the kernel;
 * private to src/exec.
 *
 * Each kernel has a number. The device writes down numbers as it comes to them
 * (backend/watch.h): behind each of the first TRAIL_EACH kernels, where most failures are, and
 * behind every TRAIL_STRIDE-th later, since a mark takes the device about a microsecond. */
#ifndef EXEC_TRAIL_H
#define EXEC_TRAIL_H

#include "graph/graph.h"

struct engine;

enum { TRAIL_EACH = 1 << 14, TRAIL_STRIDE = 16, TRAIL_ROOM = 1 << 13 };

struct trail {
    struct trail_entry *entry; /* a ring of TRAIL_ROOM; NULL: the device marks nothing */
    uint32_t count;            /* kernels so far */
    bool told;
};

/* Local. trail_close accepts what is not open. */
void trail_open(struct engine *engine);
void trail_close(struct engine *engine);

/* Local. What is enqueued now: the kernel of a node; without one, what else the instruction
 * enqueues. Then, asynchronous: it was enqueued. */
void trail_begin(struct engine *engine, const struct graph *graph, const struct node *node);
void trail_end(struct engine *engine);
/* Local. Has the device failed, as every call says from then on? Then trail_tell notes, once, what
 * it was at. */
bool trail_device_failed(struct engine *engine);
void trail_tell(struct engine *engine);

#endif
