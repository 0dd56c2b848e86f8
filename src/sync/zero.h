/* The parts of sync policy zero; private to src/sync. */
#ifndef SYNC_ZERO_H
#define SYNC_ZERO_H

#include "sync/reduce.h"

/* An instruction of a body that is being made. */
struct zero_item {
    struct instr instr;
    bool absent; /* another replica's, which this one takes no part in but for the gathers */
    int use;     /* the bucket whose parameters it reads; -1: none */
};

struct zero_list {
    struct zero_item *items;
    int count;
    size_t capacity;
};

/* What is known of the program. */
struct zero {
    const struct sync_config *config;
    const struct program *program;
    const struct grid *grid;
    int group, norm_group, tied; /* groups; of ranks that share parameters, where there are such */
    enum sum_order sum;          /* of the schedule */
    struct instr_list
        *order; /* per position: the passes of replica 0, which has all that any has */
};

/* Local. Buckets of a stage's parameters that are gathered ahead. */
int zero_ahead(const struct zero *zero, int stage);

/* Local. Buffers of windows that the ranks at a position have. */
int zero_buffers(const struct zero *zero, int position);

/* Local. A body in which passes are cut into segments where they must be, and gradients scattered
 * where they are sliced; micro-batches that other replicas have stand where these run them. The
 * caller frees the items. */
struct zero_list zero_cut(const struct zero *zero, const struct rank_program *rank, int position);

/* Local. Puts the items into the rank's body, with GATHER before and FREE after the uses of
 * parameters; for a kept bucket, before and after all of them. */
void zero_gather(const struct zero *zero, const struct zero_list *list, struct rank_program *rank,
                 int position);

/* Local. The same in a round of evaluation, whose F is run by segments then. */
void zero_evaluate(const struct zero *zero, struct rank_program *rank);

#endif
