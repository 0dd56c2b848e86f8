/* What a step must do, by its definition on one device: no instructions, no ranks, no messages. */
#ifndef TESTS_MUTANTS_REFERENCE_H
#define TESTS_MUTANTS_REFERENCE_H

#include "program/program.h"
#include "value.h"

/* Rounds of an evaluation; uses that a parameter may have. */
enum { ROUNDS = 2, MOST_USES = 12 };

/* Of a stage. One that is frozen has no buckets: its parameters, and its running statistics, are
 * one part. */
static inline int reference_parts(int buckets) {
    return buckets > 0 ? buckets : 1;
}
struct stage_shape {
    int buckets; /* or parts */
    bool kept;   /* the last bucket is used by all segments of the stage, and made by them */
};

/* How a step is asked for: the program's header tells grid, micro-batches, order of sums and what
 * stages share. */
struct reference {
    const struct program *program;
    struct grid grid;
    int micros; /* of a replica */
    enum sum_order sum;
    bool clips;             /* the update is by gradients that were scaled by their norm */
    bool shares;            /* batch norm's statistics are those of all replicas */
    const int64_t *samples; /* per micro-batch of the last step; borrowed */
    struct stage_shape *shape;
    int *first;                     /* per stage: its first bucket, counted through all */
    value *params;                  /* per bucket: now */
    value *statistics;              /* running, per replica and stage: now */
    value norm, losses, evaluation; /* of the last step; of an evaluation behind it */
    value *replica_losses;          /* per replica: its part of `losses` */
    value *stage_norm;              /* per stage: of its own gradients */
    /* Where replicas train apart `params` are their mean, and: */
    bool apart, averages;   /* the next step averages */
    value *own, *common;    /* per replica, then per bucket: now; per bucket */
    value *mean_statistics; /* per stage */
    value *replica_norm;    /* per replica: of the last step */
    int stages, buckets;
    int frozen;    /* stages, the first ones, that run forward only, as in an evaluation */
    bool overlaps; /* losses and labels are a replica's own, and samples differ from step to step */
    int step;      /* so many were made */
    int *older;    /* per stage: so many updates before a step were its parameters made */
    value *past;   /* per step, then per bucket: the parameters before it */
};

/* Local. Before the first step; `shape` per stage is copied. reference_free gives it back. */
struct reference reference_new(const struct program *program, bool shares,
                               const struct stage_shape *shape);
void reference_free(struct reference *reference);
/* Local. One step, on the micro-batches that have samples; NULL: all have. */
void reference_step(struct reference *reference, const int64_t *samples);

/* Local. Where groups are chosen: the first replica of the group that one is in at a step and a
 * position; the average of those that gave something. */
int reference_first_chosen(const struct program *program, int step, int position, int replica);
value reference_chosen(const value *given, int replicas);

/* The parts that the judge builds alike from what ranks really hold. */
value reference_samples(int micro, int step);
value reference_round(int pipeline, int round);
value reference_params(const struct program *program, int rank, int stage, int bucket);
value reference_statistics(int rank, int stage);
value reference_labels(int replica);
value reference_pass(int stage, value samples, value input);
/* What a pass reads of parameters: the sum over its buckets; bucket -1: those that it shares with
 * another stage of its rank. */
value reference_read(int bucket, value params);
value reference_forward(value pass, value params, value shared);
value reference_evaluated(value pass, value params, value statistics);
value reference_loss(value forward);
value reference_moved(value statistics, value shared);
value reference_kept(value forward, value gradient, value shared);
value reference_input_gradient(value kept, value params);
value reference_squares(int stage, int bucket, int slice, value gradient);
value reference_updated(value params, value gradient, value scale);
value reference_delta(value common, value own);
value reference_outer(value common, value sum);
value reference_mean(value sum);
value reference_scale(value norm, value losses); /* of clipping */

/* Local. The shape of a stage whose rank has these sizes. */
struct stage_shape reference_shape(const struct chunk_sizes *sizes);
/* Local. Segments of a stage that make gradients: that of a kept bucket has no nodes. */
int reference_making(const struct stage_shape *shape);
/* The gradients of a bucket are made use by use. Own uses come first; behind them those of another
 * stage of the rank, one for each of its segments that make some. */
int reference_own_uses(const struct stage_shape *shape, int bucket);
/* Local. The tie by which another stage of the rank uses the bucket; or NULL. */
const struct program_tie *reference_shared_here(const struct program *program, int stage,
                                                int bucket);
value reference_use(value kept, int stage, int bucket, int segment);
/* Local. All uses, added. */
value reference_tied(const value *uses, int count);
/* Local. Is the bucket a second copy of another rank's parameters? The norm has them once. */
bool reference_is_copy(const struct program *program, int stage, int bucket);

#endif
