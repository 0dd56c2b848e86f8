/* What rules of groups share; private to src/sync. */
#ifndef SYNC_GROUPS_STATE_H
#define SYNC_GROUPS_STATE_H

#include "sync/groups.h"

/* Of one key: replicas form its groups. */
struct groups_key {
    int left;       /* replicas that have not left */
    int waiting;    /* that are ready: */
    int64_t *queue; /* ... in the order they came */
    int64_t *gone;  /* per replica: whether it has left */
    int64_t *age;   /* per replica: updates that its parameters have seen; an average gives all its
                       members the most of them */
    int64_t *wait_ns;  /* per replica: what it waits for others when it is the first */
    int64_t *part;     /* per replica: the number of one of those it is connected with */
    int64_t *resting;  /* per replica: whether it rests */
    int rests;         /* how many do */
    int64_t done;      /* in the window so far, of what `connect` counts */
    int64_t closes_ns; /* when the first stops waiting for others */
    int64_t closing;   /* of those in the queue, which are handed out in pairs; 0: nobody is */
};

struct groups {
    struct groups_config config;
    const struct group_rule *rule;
    struct groups_key *key;
    /* Keys whose windows must not go on without connecting all, first come. The first of them waits
     * as long as it takes, and no other: else replicas could wait in a circle, one stage of each
     * for another stage of the next. */
    int64_t *claim;
    int claims;
    int64_t formed;
    /* Of the answer. */
    int *member;
    double *weight;
    int64_t *numbers;     /* all of the above's arrays */
    int64_t *mark, marks; /* per part: when it was last counted */
};

struct group_rule {
    const char *name, *help;
    const char *acts; /* options that act with it alone, "group-size group-weights" */
    int (*least_connect)(const struct groups_config *config);
    int (*usual_connect)(const struct groups_config *config);
    /* Somebody came, and is in the queue already. */
    void (*came)(struct groups *groups, struct groups_key *key, int64_t now_ns);
    /* Puts the members of a group that forms now to the front of the queue: how many they are, 0:
     * none forms. */
    int (*choose)(struct groups *groups, struct groups_key *key, int64_t now_ns);
    /* What a group of so many adds to `done`. */
    int (*counts)(int members);
    /* What members do after it; may be NULL. */
    void (*formed)(struct groups *groups, struct groups_key *key, int replica, int members);
};

/* Local. Replicas that may come: those that neither rest nor have left. */
static inline int groups_here(const struct groups_key *key) {
    return key->left - key->rests;
}
/* Local. Parts that the replicas left are in; parts that the first `count` in the queue are of. */
int groups_parts(struct groups *groups, const struct groups_key *key);
int groups_parts_of(struct groups *groups, const struct groups_key *key, int count);
/* Local. Counts afresh: whether a replica's part has not been counted since; then it has. */
void groups_count_anew(struct groups *groups);
bool groups_new_part(struct groups *groups, const struct groups_key *key, int64_t replica);
/* Local. Whether the key has a claim; it gets one; whether it is the first. */
bool groups_claims(const struct groups *groups, const struct groups_key *key);
bool groups_claim(struct groups *groups, const struct groups_key *key);

#endif
