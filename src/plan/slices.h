/* Slices: what each replica of a stage owns where they share out optimizer state, gradients or
 * parameters. Of each bucket, whole blocks of NORM's, the part that a reduce-scatter leaves to the
 * replica. */
#ifndef PLAN_SLICES_H
#define PLAN_SLICES_H

#include "plan/buckets.h"
#include "plan/state_layout.h"
#include "program/program.h"

/* Local. Elements of the largest of the first `count` buckets. */
int64_t slices_largest(const struct bucket_list *list, int count);

/* What a rank holds where something is sliced. */
struct slices {
    struct slice *owned; /* ascending; one for each bucket, some may be empty */
    int owned_count;
    struct state_window gradients, params; /* of buckets that are whole for a while */
    int64_t *shift[2];
};

/* Local. The slices of member `member` of `members`, which holds param_count parameters, by the
 * buckets of its chunks and the windows of its program. The caller frees them with slices_free. */
void slices_plan(const struct bucket_list *lists, const struct rank_program *program, int members,
                 int member, int param_count, struct slices *out);
void slices_free(struct slices *slices);

#endif
