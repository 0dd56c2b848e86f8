/* Rule `window` (SD-Pipe): who comes while the first one waits is in the group.
 *
 * The first to come waits for others, each replica as long as its own experience says: longer after
 * a group of one, shorter after a larger one. Its window closes early when all replicas are there.
 * Above eight replicas those of a window average in pairs, neighbours by number: a group of any of
 * them would need its own staging.
 *
 * All replicas must be connected within `connect` iterations, that is within so many updates times
 * the replicas left. An iteration is kept for the group that connects: before the others are used
 * up groups form freely, then the first waits as long as it takes for members of all parts. With
 * `connect` 1 all replicas are in every group. What was rejected: counting windows of fixed length
 * and waiting at their end though all are connected already, as the public artefact of the paper
 * does: the first that comes then goes alone. */
#include "sync/groups_state.h"

static int least_connect(const struct groups_config *config) {
    (void)config;
    return 1;
}

static int usual_connect(const struct groups_config *config) {
    (void)config;
    return 10;
}

static void came(struct groups *groups, struct groups_key *key, int64_t now_ns) {
    (void)groups;
    if (key->waiting == 1) key->closes_ns = now_ns + key->wait_ns[key->queue[0]];
}

/* In pairs those of a window are connected less than in one group. */
static bool in_pairs(const struct groups *groups) {
    return groups->config.replicas > GROUPS_MOST_AT_ONCE;
}

/* Ascending. */
static void sort_queue(struct groups_key *key) {
    for (int i = 1; i < key->waiting; i++)
        for (int j = i; j > 0 && key->queue[j - 1] > key->queue[j]; j--) {
            int64_t other = key->queue[j];
            key->queue[j] = key->queue[j - 1];
            key->queue[j - 1] = other;
        }
}

static int next_pair(struct groups_key *key) {
    int members = key->closing > 1 ? 2 : 1;
    key->closing -= members;
    return members;
}

/* Those in the queue go on without the others. */
static int close_window(struct groups *groups, struct groups_key *key) {
    if (!in_pairs(groups)) return key->waiting;
    sort_queue(key);
    key->closing = key->waiting;
    return next_pair(key);
}

static int choose(struct groups *groups, struct groups_key *key, int64_t now_ns) {
    if (key->closing > 0) return next_pair(key);
    if (key->waiting == 0) return 0;
    bool all = key->waiting == groups_here(key),
         connects = all || groups_parts_of(groups, key, key->waiting) == groups_parts(groups, key);
    int64_t free_updates = (int64_t)(groups->config.connect - 1) * key->left;
    bool due = key->done + key->waiting > free_updates;
    if (groups_claims(groups, key) && groups_claim(groups, key))
        return connects ? key->waiting : 0; /* as long as it takes */
    if (!all && now_ns < key->closes_ns) return 0;
    if (due && connects) return key->waiting;
    if (due && groups_claim(groups, key)) return 0;
    return close_window(groups, key);
}

static int counts(int members) {
    return members;
}

static void formed(struct groups *groups, struct groups_key *key, int replica, int members) {
    const struct group_wait *wait = &groups->config.wait;
    double next = (double)key->wait_ns[replica] * (members < 2 ? wait->grow : wait->shrink);
    if (next > (double)wait->most_ns) next = (double)wait->most_ns;
    if (next < (double)wait->least_ns) next = (double)wait->least_ns;
    key->wait_ns[replica] = (int64_t)next;
}

const struct group_rule group_rule_window = {.name = "window",
                                             .help = "who comes while the first one waits",
                                             .acts = "group-wait",
                                             .least_connect = least_connect,
                                             .usual_connect = usual_connect,
                                             .came = came,
                                             .choose = choose,
                                             .counts = counts,
                                             .formed = formed};
