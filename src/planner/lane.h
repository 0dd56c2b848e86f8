/* One pipeline of a candidate: what its stages, links and sums take, all by the cost module. A step
 * waits for one replica's whole chain, so bounds are of one pipeline and never mix the slow parts
 * of several. Private to src/planner. */
#ifndef PLANNER_LANE_H
#define PLANNER_LANE_H

#include "planner/layout.h"
#include "planner/planner.h"
#include "planner/split.h"

/* What all pipelines of a candidate have in common. */
struct planner_frame {
    const struct planner_input *input;
    const struct run_config *base;
    struct planner_choice choice; /* with chunks */
    const struct planner_split *split;
    const struct planner_layout *layout;
    struct grid grid;
    struct cost_net net;
    struct costs costs; /* with the crowd of these ranks */
    double crowd;
    double bucket_bytes; /* of a bucket of many parameters, at most; 0: not known */
    bool clips;          /* the update awaits the norm of all gradients */
    bool any_buckets;    /* not more than one is known of */
};

/* Times of a stage; where the ranks of this machine copy messages, with these copies. */
struct planner_times {
    double forward, input, weight;
    double once_more;             /* forward that is run again: without copies of messages */
    double add;                   /* of weight gradients to those of other micro-batches */
    double sum;                   /* of its gradients over replicas, or of their slices */
    double gather;                /* of its parameters, behind the update */
    double awaited;               /* of them by the first forward: with ZeRO-3 it is a pass's own */
    double more;                  /* gathers of its parameters besides, in whatever order */
    double pass, again;           /* of them: for a pass, and for one right behind another; or 0 */
    double latency[2], moving[2]; /* of messages to the next stage, and from it back */
    double bytes;                 /* of parameters whose gradients it has */
};

struct planner_lane {
    const struct planner_frame *frame;
    int count;                   /* stages of the model */
    struct planner_times *stage; /* room for `room` */
    double *update, *norm;       /* per position */
    int *position;               /* of a stage */
    /* Parameters that two positions share: their gradients are added first, then over replicas. */
    bool joins;
    double join, join_sum;
    double exchange, meeting; /* of a word between all ranks; between those of the norm */
    double *found;            /* scratch, 4 per stage and 2 per position */
    int room;
};

/* Local. Fills the lane of a frame in; it is empty, or was of another one. */
void planner_lane_fill(const struct planner_frame *frame, int pipeline, struct planner_lane *lane);
void planner_lane_free(struct planner_lane *lane);

/* Local. Gradients of the position's stages are there at late[stage] at the earliest, all its
 * passes have ended at `ended`, and shared ones are joined at `joined`: when they are summed over
 * the replicas. */
double planner_lane_summed(const struct planner_lane *lane, int position, const double *late,
                           double ended, double joined);
/* Local. When shared gradients are joined; 0 where none are. */
double planner_lane_joined(const struct planner_lane *lane, const double *late);
bool planner_lane_shares(const struct planner_lane *lane, int position);

#endif
