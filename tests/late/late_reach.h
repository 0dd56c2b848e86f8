/* Windows of the device `late`, and what of it they need. */
#ifndef TESTS_LATE_LATE_REACH_H
#define TESTS_LATE_LATE_REACH_H

#include "backend/reach.h"

extern const struct backend_reach late_reach;
/* Local. Whether an address is of a window, of any device. */
bool late_is_reached(const void *address);
/* Local, asynchronous on the stream. A row of late_reach. */
enum status late_array_tree(struct device *device, const struct tree_terms *terms,
                            struct stream *stream);

/* Local. Adds, and frees the terms. */
enum status late_run_tree(struct device *ref, struct tree_terms *terms);

#endif
