/* Sync policies: how replicas keep the same parameters. A policy takes the program a schedule made
 * for each rank alone and inserts its own instructions; the executor knows nothing of policies. One
 * file each, one row in sync.c. */
#ifndef SYNC_SYNC_H
#define SYNC_SYNC_H

#include "program/program.h"

struct sync_policy {
    const char *name, *help;
    /* Local. Changes the program in place; stage s has buckets[s] buckets of gradients from then
     * on. */
    enum status (*insert)(struct program *program, const int *buckets);
};

/* Local. By name, NULL when there is none. */
const struct sync_policy *sync_find(const char *name);
enum status sync_insert(const char *name, struct program *program, const int *buckets);

/* Local. For policies whose replicas begin alike and are evaluated as the first one is: the group's
 * first member gives the others everything at the start, and its running statistics to evaluate
 * with. */
void sync_share(struct rank_program *rank, int group);

#endif
