/* Orders of a pipeline in virtual time: what a schedule costs before there is a program. Each
 * position runs its order, one computation after the other; one begins when what it waits for has
 * ended, and has crossed from another position. Messages take time but block nobody.
 *
 * Used by `auto`, which compares orders, and by tests. It knows nothing of slots, credits and
 * updates: the simulator of whole programs does. */
#ifndef PROGRAM_REPLAY_H
#define PROGRAM_REPLAY_H

#include "program/pipeline.h"

/* Per stage; B takes input + weight. */
struct replay_costs {
    const double *forward, *input, *weight; /* borrowed */
    double hop;                             /* from one position to another */
    /* Per stage: forward that is run again before B or I, and need not wait for gradients; not of
     * the last micro-batch where that keeps all. NULL: none. */
    const double *again;
    bool again_keeps_last;
    /* Where links are known, in place of hop (all NULL: they are not). A message over a cut, ahead
     * or back, holds its link for a time, so that the next one follows it, and then takes a
     * latency. */
    const double *latency, *moving[2];
    const double *back_latency; /* of messages back, where it is another; else NULL */
    /* Per stage: what weight gradients take besides, but for its first ones. NULL: nothing. */
    const double *add;
};
/* Local. When a message between neighbouring stages on two positions has come, that is ready at
 * `ready`; `free_at` is when its link is free, and is moved on. */
double replay_message(const struct replay_costs *costs, int from, int to, double ready,
                      double *free_at);

struct replay {
    const struct pipeline_shape *shape;  /* borrowed, as all pointers here */
    const struct pipeline_order *orders; /* per position */
    const struct replay_costs *costs;
    bool one_backward_at_a_time; /* see struct pipeline_schedule */
    /* What is there only some time after the begin: a position, per position; the parameters that
     * forward of a stage reads, per stage. NULL: all at once. */
    const double *start, *whole;
    /* Filled in; NULL: not wanted. */
    double *const *begin; /* per position and computation */
    double *ended;        /* per position: its last computation */
    double *late;         /* per stage: begin of its last weight gradients */
};

struct replay_times {
    double total;
    double bubble;      /* share of total that positions are idle */
    double span_bubble; /* the same of the longest span from a position's first to its last
                           computation: what counts where no barrier ends a step */
};

/* Where a position waits for ever. */
struct replay_stop {
    int position, index;
};

/* Local. False where the orders deadlock: `stop` is the first position that waits. The outputs may
 * be NULL. Takes time in proportion to the computations. */
bool replay_run(const struct replay *replay, struct replay_times *times, struct replay_stop *stop);

/* Per stage: what a micro-batch keeps from F to I (or B), and from I to W. Borrowed. */
struct replay_bytes {
    const int64_t *forward, *input;
};
/* Local. The most bytes an order keeps at once. */
int64_t replay_peak_bytes(const struct pipeline_order *order, const struct replay_bytes *bytes);

#endif
