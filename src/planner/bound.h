/* What no plan of a candidate can be better than. Private to src/planner.
 *
 * Sums of the cost module's answers for the stages of one pipeline, by what every program keeps to:
 * a rank runs one computation at a time; a stage waits for the stages before it, and the first
 * stage for the last backward of those behind it; gradients are summed over replicas once the last
 * micro-batch has them, then updated, then gathered where they are sliced; and the next step
 * begins when all ranks have ended their passes. What waits for what otherwise, copies that wait
 * and buckets that come late only make a step longer. Memory: parameters, their gradients and
 * optimizer state, and what one micro-batch keeps.
 *
 * Four of them, each dearer and closer than the one before: by the whole model; by the cut, in
 * whatever order a schedule runs, without recomputation and with the ZeRO stage that takes least,
 * which is found once for all candidates of a shape; the same for what a candidate has of these; by
 * the order of its schedule. Stages are cut as a plan cuts them. */
#ifndef PLANNER_BOUND_H
#define PLANNER_BOUND_H

#include "planner/lane.h"
#include "planner/planner.h"
#include "planner/split.h"
#include "planner/trial.h"

struct planner_bounds {
    const struct planner_input *input;
    const struct run_config *base; /* of one rank */
    struct planner_splits splits;
    struct planner_layout **layout; /* by stages and replicas; NULL: none yet */
    struct planner_lane lane, worst;
    struct planner_shared *shared; /* hashed: bounds that candidates have in common */
    int64_t shared_count, shared_room;
    double bucket_bytes; /* at most, of a bucket of the model's parameters */
};

/* Local. Of a model with so many layers and parameters. The caller frees the bounds with
 * planner_bounds_free; pool and configuration outlive them. */
void planner_bounds_new(const struct planner_input *input, const struct run_config *base,
                        struct plan_pool *pool, int layers, int64_t elements,
                        struct planner_bounds *out);
void planner_bounds_free(struct planner_bounds *bounds);

/* Local. A first bound, without a cut. */
enum status planner_bound_whole(struct planner_bounds *bounds, struct planner_row *row);
/* Local. A better one, that all candidates of the same stages have. */
enum status planner_bound_shape(struct planner_bounds *bounds, struct planner_row *row);
/* Local. A better one, by the stages. */
enum status planner_bound_stages(struct planner_bounds *bounds, struct planner_row *row);
/* Local. The last one, by the order of its schedule, or by what auto chose (else NULL). */
enum status planner_bound_order(struct planner_bounds *bounds, const struct planner_auto *chosen,
                                struct planner_row *row);
/* Local. Whether another balance, that is looked at before its own, cuts the model alike. */
enum status planner_is_again(struct planner_bounds *bounds, const struct planner_choice *choice,
                             bool *again);

/* --- what bounds have in common --- */

/* Local. The frame of a choice that has chunks; where auto finds the shape `v_shape` says it. */
enum status planner_frame_of(struct planner_bounds *bounds, const struct planner_choice *choice,
                             bool v_shape, struct planner_frame *out);
/* Local. A step in whatever order, by the pipeline for which that is longest: it is in
 * bounds->worst then. */
double planner_frame_ns(struct planner_bounds *bounds, const struct planner_frame *frame);
/* Local. When forward of a stage may begin whose parameters, and those before them, are gathered so
 * long after the update. */
double planner_lane_gathered(const struct planner_lane *lane, int stage, double gathered);
/* Local. Micro-batches that run forward once more. */
double planner_run_again(const struct planner_choice *choice);
bool planner_overlaps(const struct planner_choice *choice);
/* Local. The least that ranks store of their parameters, and what the fullest keeps of activations.
 */
int64_t planner_bytes_with(const struct planner_frame *frame, int64_t kept);

#endif
