/* What the tests of pipelines share: orders of any shape, as text and in virtual time, and a check
 * of messages with credits. */
#ifndef TESTS_PROGRAM_PIPE_KIT_H
#define TESTS_PROGRAM_PIPE_KIT_H

#include "program/pipeline.h"
#include "program/replay.h"

/* A schedule on a shape, and its orders. */
struct pipe {
    const struct pipeline_schedule *schedule;
    struct pipeline_shape shape;
    struct pipeline_order *orders;
};

/* chunks 0: the schedule's own. pipe_free gives the orders back. */
struct pipe pipe_new(const char *name, int positions, int chunks, int micros);
void pipe_free(struct pipe *pipe);

/* "F0 F1 B0", or "0F0 2F0 2B0" with several chunks. The caller frees it. */
char *pipe_text(const struct pipe *pipe, int position);

/* Fails the test, naming the shape and the order of a position. */
void pipe_fail(const struct pipe *pipe, int position, const char *what);
/* Fails it unless each position runs F, then B or I and W, of each of its stages on each
 * micro-batch once, and those of a stage in ascending order. */
void pipe_expect_complete(const struct pipe *pipe);

/* Equal stages with these times; fails the test on a deadlock. */
struct pipe_costs {
    double f, i, w, hop;
};
struct replay_times pipe_times(const struct pipe *pipe, struct pipe_costs costs);
/* The most (stage, micro-batch) pairs whose activations a position keeps at once, from F to B or W.
 */
int pipe_peak_at(const struct pipe *pipe, int position);
/* The most live activations of any position, in units of a position's part of the model. */
double pipe_peak(const struct pipe *pipe);

/* Calls `check` for every schedule on 1..8 positions, 1..20 micro-batches and each number of chunks
 * up to 3 that it takes. */
void pipe_every(void (*check)(const struct pipe *pipe));

/* Runs the orders with `credits` messages under way per cut and direction and with as many slots as
 * a position's peak, the lowest free one taken. A message holds a credit until its receiver begins
 * to use it. Sends block nobody, but a slot whose gradient has not left yet cannot be used again.
 * False on a deadlock. */
bool pipe_runs_with_credits(const struct pipe *pipe, int credits);

#endif
