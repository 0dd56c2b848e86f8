/* How a rank's device reaches memory of other ranks' devices on the same machine.
 *
 * A window is memory that others may reach, with two events that they may wait for. Its owner makes
 * it and publishes a card; whoever has the card reaches it, from a thread of the same process or
 * from another process. */
#ifndef BACKEND_REACH_H
#define BACKEND_REACH_H

#include "backend/backend.h"

struct device_window {
    char *memory;
    size_t bytes;
    struct event *ready, *done; /* recorded by the owner */
    bool opened;                /* it is another process's */
};

struct device_card {
    char bytes[512];
};

/* Terms of a sum by the fixed tree (comm/tree_sum.h), and where the result goes; both may be memory
 * of other devices, and the same. */
enum { TREE_MOST = 64 };
struct tree_terms {
    int terms, outs;
    int64_t count;
    enum dtype dtype; /* added in f32, rounded once */
    const void *term[TREE_MOST];
    void *out[TREE_MOST];
};

struct backend_reach {
    /* Local, blocking. Makes a window, of zeros; the caller frees it when nobody reaches it any
     * more. */
    enum status (*window_new)(struct device *device, size_t bytes, struct device_window *out,
                              struct device_card *card);
    void (*window_free)(struct device *device, struct device_window *window);
    /* Local, blocking. Another rank's. STATUS_NO: this device does not reach that one, and `why`
     * says it; the caller leaves what it has reached. */
    enum status (*window_reach)(struct device *device, const struct device_card *card,
                                struct device_window *out, char *why, size_t bytes);
    void (*window_leave)(struct device *device, struct device_window *window);
    /* Local, asynchronous on the stream. */
    enum status (*array_tree)(struct device *device, const struct tree_terms *terms,
                              struct stream *stream);
};

/* On one thread, the definition; of f32. */
enum status host_array_tree(struct device *device, const struct tree_terms *terms,
                            struct stream *stream);

#endif
