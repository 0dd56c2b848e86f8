/* The output of several ranks as one. Private to src/launch.
 *
 * Rank 0's standard output is the display and passes through (on a terminal it gets a
 * pseudo-terminal, so that its progress bar knows the width); lines of others are tagged "[rank 3]
 * ". Lines on standard error are held for a moment, so that what many ranks say at once is shown
 * once: "[ranks 0-3] ...". Everything is kept in FOLDER/rank-N.log, also what the display drops
 * because nobody reads it (base/display.h). All calls are local, of one thread, and do not block.
 */
#ifndef LAUNCH_OUTPUT_H
#define LAUNCH_OUTPUT_H

#include <poll.h>
#include <stdbool.h>

#include "base/status.h"

struct output_config {
    int count, first_rank;
    int out, error;     /* descriptors of the launcher: 1 and 2 */
    bool answers;       /* rank 0 writes to `out` itself: no display, but data, to the last byte */
    const char *folder; /* of the logs; NULL: none */
    bool append;        /* to the logs, for a run that goes on */
    const char *host;
};

struct output;
struct output_pipes {
    int out, error; /* for the child; the caller closes them */
};

enum status output_new(const struct output_config *config, struct output **out);
/* What is still held is shown. Accepts NULL. */
void output_free(struct output **output);

/* Pipes of rank `index` (from 0 among `count`), and the first line of its log once its process is
 * known. */
enum status output_open(struct output *output, int index, struct output_pipes *out);
void output_started(struct output *output, int index, int pid);

/* Adds what to wait for, at most 2 entries a rank; returns their number. Then handles what poll
 * found in the same entries. */
int output_poll(const struct output *output, struct pollfd *entries);
void output_handle(struct output *output, const struct pollfd *entries, int count);
/* Reads what has come from a rank by now. */
void output_drain(struct output *output, int index);
/* Shows what was held long enough, or all of it; milliseconds until the next time, -1: nothing is
 * held. */
int output_flush(struct output *output, bool all);
/* Shows all that is held. From now on, what other ranks say in words that were shown is in their
 * logs alone. For the end of a rank, to which others may come for the same reason. */
void output_conclude(struct output *output);
/* The terminal changed its size. */
void output_resize(struct output *output);

/* "0-3,7" from a sorted list; returns `text`. */
const char *output_ranks_text(const int *ranks, int count, char *text, int bytes);

#endif
