/* Rule `fifo` (P-Reduce): a group forms when `size` replicas wait, the first that came.
 *
 * All replicas must be connected within `connect` groups. A group of P connects at most P parts, so
 * of c parts the last ceil((c - 1) / (P - 1)) groups must each connect as many as they can. Where
 * the next group in order would leave too few, those in the queue are chosen by their parts, one of
 * each, first come, and wait until enough parts are there: all replicas come at last, so they will
 * be. */
#include "sync/groups_state.h"

static int size_of(const struct groups *groups, const struct groups_key *key) {
    int here = groups_here(key);
    return groups->config.size < here ? groups->config.size : here;
}

/* Groups of `size` that connect so many parts, at least. */
static int groups_for(int parts, int size) {
    return size > 1 ? (parts - 1 + size - 2) / (size - 1) : 0;
}

static int least_connect(const struct groups_config *config) {
    return groups_for(config->replicas, config->size);
}

static int usual_connect(const struct groups_config *config) {
    return 4 * least_connect(config);
}

static void came(struct groups *groups, struct groups_key *key, int64_t now_ns) {
    (void)groups;
    (void)key;
    (void)now_ns;
}

/* Moves the one at `at` to `place` before it; the others stay in the order they came. */
static void bring_forward(struct groups_key *key, int at, int place) {
    int64_t replica = key->queue[at];
    for (; at > place; at--) key->queue[at] = key->queue[at - 1];
    key->queue[place] = replica;
}

/* One of each part to the front, first come, at most `most` of them. */
static void choose_parts(struct groups *groups, struct groups_key *key, int most) {
    int chosen = 0;
    groups_count_anew(groups);
    for (int at = 0; at < key->waiting && chosen < most; at++)
        if (groups_new_part(groups, key, key->queue[at])) bring_forward(key, at, chosen++);
}

static int choose(struct groups *groups, struct groups_key *key, int64_t now_ns) {
    int size = size_of(groups, key), parts = groups_parts(groups, key);
    (void)now_ns;
    if (key->waiting == 0 || key->waiting < size) return 0;
    int after = parts - groups_parts_of(groups, key, size) + 1;
    if (key->done + 1 + groups_for(after, size) <= groups->config.connect) return size;
    int most = size < parts ? size : parts;
    bool all = key->waiting == groups_here(key); /* nobody else will come */
    if (!all && groups_parts_of(groups, key, key->waiting) < most) return 0;
    choose_parts(groups, key, most);
    return size;
}

static int counts(int members) {
    (void)members;
    return 1;
}

const struct group_rule group_rule_fifo = {.name = "fifo",
                                           .help =
                                               "as many as --group-size, in the order they come",
                                           .acts = "group-size group-weights",
                                           .least_connect = least_connect,
                                           .usual_connect = usual_connect,
                                           .came = came,
                                           .choose = choose,
                                           .counts = counts};
