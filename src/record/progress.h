/* Live progress on standard output, in one of four ways: a bar on a terminal, plain lines elsewhere
 * (into a file or a pipe), JSON lines with --json, nothing with --quiet.
 *
 * Everything here is local and called by one thread. The bar takes itself off the screen before a
 * message of base/log.h is written, from whichever thread; there is one progress display a process.
 */
#ifndef RECORD_PROGRESS_H
#define RECORD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "record/metrics.h"

struct progress_config {
    int64_t first_step;      /* steps done before this run; its first row is the next one */
    int64_t total_steps;     /* 0: unknown, then there is no time left */
    int64_t steps_per_epoch; /* 0: unknown */
    int64_t log_every;       /* steps from line to line; 0: one line an epoch */
    bool numbers;            /* mini-batches and replicas are counted, beside steps */
    bool json, quiet;
    FILE *stream; /* NULL: standard output */
    int columns;  /* > 0: a bar of this width; 0: ask the terminal, if there is one; < 0: lines */
    int64_t (*now_ns)(void); /* NULL: clock_ns; for tests */
};

struct progress;

/* The caller closes it. */
struct progress *progress_open(const struct progress_config *config);
/* After each step, with its row. A bar is drawn at most ten times a second; a line is written each
 * log_every steps, at the end of each epoch, and for the first and the last step. */
void progress_step(struct progress *progress, const struct metrics_row *row);
/* After each evaluation: always a line. */
void progress_eval(struct progress *progress, const struct metrics_row *row);
/* Leaves the screen in order; accepts NULL. */
void progress_close(struct progress **progress);

#endif
