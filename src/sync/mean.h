/* What policies share whose replicas train apart: labels of their own; and outside of steps the
 * mean of all replicas, which is evaluated, saved and kept at the end. Private to src/sync. */
#ifndef SYNC_MEAN_H
#define SYNC_MEAN_H

#include "program/program.h"

/* Local. A body counts its own labels. */
void mean_train_apart(struct rank_program *rank);
/* Local. Appends the sums of all buckets of buffer 0 over the group, of the rank of this number. */
void mean_add_sums(struct rank_program *rank, enum list_name list, const struct program *program,
                   int number, int group);
/* Local. Fills the lists that are no step: `group` is the replicas. */
void mean_insert(struct rank_program *rank, const struct program *program, int number, int group);

#endif
