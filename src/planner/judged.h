/* What all positions of a candidate are judged with. Private to bound.c and bound_order.c. */
#ifndef PLANNER_JUDGED_H
#define PLANNER_JUDGED_H

#include "planner/bound.h"

/* A position with its devices in all replicas: the slowest counts, since replicas meet once a
 * step. */
struct planner_position {
    const struct planner_split *split;
    struct cost_devices on;
};

struct planner_judged {
    struct planner_bounds *bounds;
    const struct planner_choice *choice;
    const struct planner_split *split;
    struct grid grid;
    struct cost_net net;
    struct costs costs; /* with the crowd of these ranks */
    double crowd;
};

/* Local. The choice has chunks, and outlives it. */
enum status planner_judge(struct planner_bounds *bounds, const struct planner_choice *choice,
                          struct planner_judged *out);
/* Local. Its positions; the caller frees them with planner_positions_free. */
struct planner_position *planner_positions(const struct planner_judged *judged);
void planner_positions_free(struct planner_position *at, int count);

/* Local. A time of a stage on a position's slowest device. */
double planner_stage_ns(const struct planner_position *at, const double *times, int stage);
/* Local. Gradients of a position over its replicas, once a step; without `whole` half of it where
 * they are scattered, and parameters are gathered while other work runs. */
double planner_comm_ns(const struct planner_judged *judged, int position, int64_t bytes,
                       bool whole);
double planner_update_ns(const struct planner_judged *judged, struct planner_position *at,
                         int position);
/* Local. Micro-batches that run forward once more. */
double planner_run_again(const struct planner_choice *choice);
bool planner_overlaps(const struct planner_choice *choice);
/* Local. The least that ranks store of their parameters, and what the fullest keeps of activations.
 */
int64_t planner_bytes_with(const struct planner_judged *judged, int64_t kept);

#endif
