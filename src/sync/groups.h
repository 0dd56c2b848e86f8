/* Groups that form while ranks run: which replicas average their parameters, decided as they come.
 *
 * The state is a value, and the time is an argument: nothing here reads a clock, sends, waits for
 * anybody or draws a number. So one function serves all who decide: the control server as requests
 * arrive, threads of one process, virtual time and the simulator in the order of simulated time,
 * and the verifier in every order. A rule is one file and one row of group_rule.def.
 *
 * Replicas that averaged are linked. So that no part of them trains for itself for ever, their
 * links are looked at window by window. A window ends when all replicas are connected by its links,
 * and the next one begins without links. A rule may let it take so many updates (window) or groups
 * (fifo); before that many are done it waits for replicas that connect the others. */
#ifndef SYNC_GROUPS_H
#define SYNC_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* How long the first of a group waits for others; what it was told next depends on what came of it.
 */
struct group_wait {
    int64_t first_ns, least_ns, most_ns;
    double grow, shrink; /* after a group of one; after a larger one */
};

struct groups_config {
    const char *rule; /* a name of group_rule.def */
    int replicas;
    int keys;    /* stages that form their groups apart; 1: all stages of a replica have one */
    int connect; /* window: iterations of all replicas; fifo: groups. A window takes no more */
    struct group_wait wait; /* window */
    int size;               /* fifo: members of a group */
    double age; /* fifo: what an update of age takes off a weight, below 1; 0: equal weights */
};

/* A group that has formed. What it points to is valid until the next call. */
struct group_formed {
    int64_t number; /* counted from 0, over all keys */
    int key, count;
    const int *replica;   /* ascending */
    const double *weight; /* of each in the average, the same for all members; their sum is 1 */
    int64_t spread; /* updates that the oldest member's parameters lack, of those the newest have */
    bool connects;  /* it ends a window */
};

/* More than these are averaged in pairs by `window`. */
enum { GROUPS_MOST_AT_ONCE = 8 };
enum { GROUPS_MAX_REPLICAS = 1 << 16, GROUPS_MAX_KEYS = 1 << 15 };

/* Local. STATUS_USAGE where no rule can keep what the configuration asks for. A rule by its row:
 * false after the last. */
enum status groups_check(const struct groups_config *config);
struct group_rule_word {
    const char *name, *help;
    const char *acts; /* options that act with it, "group-size group-weights" */
};
bool groups_rule_at(int index, struct group_rule_word *out);
/* Local. The least `connect` of a rule; what it is where nobody says it. */
int groups_least_connect(const struct groups_config *config);
int groups_usual_connect(const struct groups_config *config);

/* Local. The state of a run, of a checked configuration; groups_close accepts NULL and clears the
 * pointer. Nothing else allocates. */
struct groups *groups_open(const struct groups_config *config);
void groups_close(struct groups **groups);

/* Local. A replica is ready for its next average; or has none any more and leaves: nobody waits for
 * it. Take all groups that have formed before the next of these calls. */
void groups_arrive(struct groups *groups, int key, int replica, int64_t now_ns);
void groups_leave(struct groups *groups, int key, int replica);
/* Local. A replica that waits for nothing rests: nobody waits for it either, but windows still have
 * to connect it. All that rest or have left are back. */
void groups_rest(struct groups *groups, int key, int replica);
void groups_return(struct groups *groups);
/* Local. The next group that has formed by now; false: none. When to ask again although nobody
 * came; INT64_MAX: not before somebody comes. */
bool groups_next(struct groups *groups, int64_t now_ns, struct group_formed *out);
int64_t groups_wake_ns(const struct groups *groups);
/* Local. How many wait; replicas that have not left. */
int groups_waiting(const struct groups *groups, int key);
int groups_left(const struct groups *groups, int key);
/* Local. Whether a replica rests or has left; whether further groups of those that wait have formed
 * and were not taken yet. */
bool groups_is_away(const struct groups *groups, int key, int replica);
bool groups_is_closing(const struct groups *groups, int key);

/* Local. The state as numbers for a checkpoint: how many there are; `out` NULL: that alone. Back
 * into a state of the same configuration: STATUS_DATA where they cannot be one, and nothing is
 * changed. */
int64_t groups_save(const struct groups *groups, int64_t *out);
enum status groups_load(struct groups *groups, const int64_t *numbers, int64_t count);

#endif
