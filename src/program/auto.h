/* `auto`: an order of a pipeline made from costs under a byte limit, the best of what a greedy
 * builder finds and of the fixed schedules that fit. The same costs give the same order on every
 * machine. */
#ifndef PROGRAM_AUTO_H
#define PROGRAM_AUTO_H

#include "base/status.h"
#include "program/replay.h"

struct auto_input {
    const struct pipeline_shape *shape; /* borrowed, as all pointers here */
    const struct replay_costs *costs;
    const struct replay_bytes *bytes;
    const int64_t *limit_bytes; /* per position: what activations may take */
    double under_ns; /* a slower greedy order is of no use: one need not be built to its end; 0:
                        none is */
    bool slots; /* a stage has memory for the most micro-batches that it ever keeps, which it shares
                   with no other stage: peaks of a position's stages add up */
};

struct auto_choice {
    const char *from; /* name of the fixed schedule, or "greedy"; static */
    struct replay_times times;
    int64_t peak_bytes; /* of the position that keeps most */
    bool fits;          /* every position keeps to its limit */
};

/* The name that stands for this choice where a schedule is named. */
#define PIPELINE_AUTO "auto"
/* Local. Does the name stand for pipelines: a row of pipeline.def, or auto? */
bool pipeline_is(const char *name);

/* Local. Writes the order of every position into `orders` (empty ones, as many as positions; the
 * caller owns them). False, and nothing written, where no order fits the limit. */
bool auto_find(const struct auto_input *input, struct pipeline_order *orders,
               struct auto_choice *choice);
/* Local. The refusal then, in words: STATUS_MEMORY. */
enum status auto_refuse(const struct auto_input *input);
/* Local. The most bytes that the orders keep at once at a position. */
int64_t auto_peak(const struct auto_input *input, const struct pipeline_order *orders,
                  int position);
/* Local. What the fixed schedule would take; false where it is not for this shape. */
bool auto_measure(const struct auto_input *input, const struct pipeline_schedule *schedule,
                  struct auto_choice *out);

/* What the greedy builder may be told to do otherwise. Each of them is best for some costs. */
enum greedy_switch {
    GREEDY_HOLD_WEIGHT = 1,  /* start no W if an I would have to wait for its end */
    GREEDY_WEIGHT_FIRST = 2, /* W before F once the way to the last stage is full */
    GREEDY_DEEP_FORWARD = 4, /* of several F take the later stage, else the earlier one */
    GREEDY_DEEP_INPUT = 8,   /* of several I take the later stage, else the older micro-batch */
    GREEDY_SETTINGS = 16,
    GREEDY_SETTINGS_ONE_CHUNK = 4 /* with one chunk there are never several */
};
/* Local. The greedy order with these switches, into `orders` as above. False, and nothing written,
 * where a position cannot hold one micro-batch of each of its stages. Where it takes longer than
 * input->under_ns allows the orders are empty. */
bool greedy_build(const struct auto_input *input, int switches, struct pipeline_order *orders);

#endif
