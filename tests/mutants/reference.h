/* What a step must do, by its definition on one device: no instructions, no ranks, no messages. */
#ifndef TESTS_MUTANTS_REFERENCE_H
#define TESTS_MUTANTS_REFERENCE_H

#include "program/program.h"
#include "value.h"

/* How a step is asked for: the program's header tells grid, micro-batches and order of sums. */
struct reference {
    struct grid grid;
    int micros; /* of a replica */
    enum sum_order sum;
    bool clips;             /* the update is by gradients that were scaled by their norm */
    bool shares;            /* batch norm's statistics are those of all replicas */
    const int64_t *samples; /* per micro-batch of the step; borrowed */
    int *buckets;           /* per stage */
    value *params;          /* per stage: now */
    value *statistics;      /* running, per replica and stage: now */
    value norm, losses;     /* of the last step */
    int stages;
};

/* Local. Before the first step; `buckets` per stage is copied. reference_free gives it back. */
struct reference reference_new(const struct program *program, const int64_t *samples, bool shares,
                               const int *buckets);
void reference_free(struct reference *reference);
/* Local. One step. */
void reference_step(struct reference *reference);

/* The parts that the judge builds alike from what ranks really hold. */
value reference_samples(int micro);
value reference_params(int rank);
value reference_labels(int replica);
value reference_pass(int stage, value samples, value input);
value reference_forward(value pass, value params, value shared);
value reference_loss(value forward);
value reference_moved(value statistics, value shared);
value reference_kept(value forward, value gradient, value shared);
value reference_leaf(value kept, int bucket);
value reference_clipped(value params, value norm, value losses);
value reference_squares(int stage, int bucket, value gradient);

#endif
