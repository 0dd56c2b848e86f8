/* Sync policies: how replicas keep the same parameters. A policy takes the program a schedule made
 * for each rank alone and inserts its own instructions; the executor knows nothing of policies. One
 * file each, one row in sync.def. */
#ifndef SYNC_SYNC_H
#define SYNC_SYNC_H

#include "program/program.h"

/* What a policy is told. */
struct sync_config {
    const int *buckets;  /* of gradients, per stage of the model */
    unsigned sliced;     /* zero: SLICED_..., what each replica holds a slice of */
    const bool *kept;    /* zero: per stage, its last bucket is gathered once a step; NULL: none */
    const int *prefetch; /* zero: per stage, buckets of parameters gathered ahead; NULL: one */
    int every;           /* local: steps from one average to the next */
    bool by_stage;       /* preduce: each stage has groups of its own */
};

struct sync_policy {
    const char *name, *help;
    const char *verb, *what; /* replicas "sum" "gradients": what explain says of its traffic */
    const char *acts;        /* options that act with it alone, "zero-stage zero-keep"; or NULL */
    const char *implied_by;  /* the one of them that stands for --sync of its name; or NULL */
    const char *whole; /* replicas hold slices (--zero-stage); the policy where nothing is left to
                          slice. NULL: each holds everything */
    bool apart;        /* replicas have parameters of their own between averages */
    bool chooses;      /* ... over groups that a rule chooses while ranks run (groups.h) */
    /* Local. Changes the program in place; stage s has buckets[s] buckets from then on. */
    enum status (*insert)(struct program *program, const struct sync_config *config);
};

/* Local. By name, NULL when there is none; by row, NULL after the last. */
const struct sync_policy *sync_find(const char *name);
const struct sync_policy *sync_at(int index);
enum status sync_insert(const char *name, struct program *program,
                        const struct sync_config *config);

/* Local. For policies whose replicas begin alike and are evaluated as the first one is: the group's
 * first member gives the others everything at the start, and its running statistics to evaluate
 * with. */
void sync_share(struct rank_program *rank, int group);

#endif
