/* What policies share that sum gradients over replicas: where in a rank's program the buckets of a
 * stage become whole. Private to src/sync. */
#ifndef SYNC_REDUCE_H
#define SYNC_REDUCE_H

#include "sync/sync.h"

/* Local. Inserts `op` (REDUCE, or SCATTER in place) for every bucket into the body of the rank, and
 * of those that share its program, as soon as the bucket is whole; the last backward of a stage is
 * cut into segments where it can be. */
void reduce_insert(struct program *program, int rank, enum instr_op op, int group);

/* Local. The group of the ranks that share parameters; as many as there are groups: none. */
int reduce_tied_group(const struct program *program);

/* Local. A group of the replicas that is declared already, or one that is the same. */
int reduce_group(struct program *program);

/* Local. Calls `change` for each different rank program that has stages, once; `rank` is one that
 * runs it. Their stages have config->buckets[s] buckets then. */
void reduce_each(struct program *program, const struct sync_config *config,
                 void (*change)(const void *context, struct program *program, int rank),
                 const void *context);

#endif
