/* See groups.h. A state is a few arrays of numbers, so that a checkpoint is those numbers. */
#include "sync/groups_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#define GROUP_RULE(NAME) extern const struct group_rule group_rule_##NAME;
#include "sync/group_rule.def"
#undef GROUP_RULE

static const struct group_rule *const rules[] = {
#define GROUP_RULE(NAME) &group_rule_##NAME,
#include "sync/group_rule.def"
#undef GROUP_RULE
};
enum { RULE_COUNT = sizeof rules / sizeof rules[0] };

static const struct group_rule *rule_of(const char *name) {
    for (int i = 0; i < RULE_COUNT; i++)
        if (strcmp(rules[i]->name, name) == 0) return rules[i];
    return NULL;
}

bool groups_rule_at(int index, struct group_rule_word *out) {
    if (index >= RULE_COUNT) return false;
    *out = (struct group_rule_word){rules[index]->name, rules[index]->help, rules[index]->acts};
    return true;
}

int groups_least_connect(const struct groups_config *config) {
    return rule_of(config->rule)->least_connect(config);
}

int groups_usual_connect(const struct groups_config *config) {
    return rule_of(config->rule)->usual_connect(config);
}

static enum status check_wait(const struct group_wait *wait) {
    if (wait->least_ns < 0 || wait->first_ns < wait->least_ns || wait->most_ns < wait->first_ns)
        return fail(STATUS_USAGE,
                    "--group-wait: the first wait, %g ms, is not between the least, %g ms, and the "
                    "most, %g ms",
                    (double)wait->first_ns / 1e6, (double)wait->least_ns / 1e6,
                    (double)wait->most_ns / 1e6);
    if (!(wait->grow >= 1) || !(wait->shrink > 0) || wait->shrink > 1)
        return fail(STATUS_USAGE,
                    "--group-wait: grow=%g must be 1 or more, shrink=%g above 0 and at most 1",
                    wait->grow, wait->shrink);
    return STATUS_OK;
}

static enum status check_fifo(const struct groups_config *config) {
    if (config->size < 2 || config->size > config->replicas)
        return fail(STATUS_USAGE,
                    "--group-size %d: a group has 2 to %d members, as many as there are replicas",
                    config->size, config->replicas);
    if (config->age < 0 || config->age >= 1)
        return fail(STATUS_USAGE, "--group-weights age=%g: above 0 and below 1", config->age);
    return STATUS_OK;
}

enum status groups_check(const struct groups_config *config) {
    const struct group_rule *rule = rule_of(config->rule);
    if (!rule) return fail(STATUS_USAGE, "no rule of groups is called %s", config->rule);
    if (config->replicas < 1 || config->replicas > GROUPS_MAX_REPLICAS || config->keys < 1 ||
        config->keys > GROUPS_MAX_KEYS)
        return fail(STATUS_USAGE, "groups of %d replicas and %d stages", config->replicas,
                    config->keys);
    TRY(check_wait(&config->wait));
    if (rule == &group_rule_fifo && config->replicas > 1) TRY(check_fifo(config));
    int least = rule->least_connect(config);
    if (config->connect >= least && config->connect >= 1) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--group-connect %d: %d groups of %d connect %d replicas at best\n"
                "  --group-connect %d or more, or a larger --group-size",
                config->connect, least, config->size, config->replicas, least);
}

/* --- the state --- */

/* Per replica: queue, gone, age, wait_ns, part, resting. */
enum { ARRAYS = 6, SCALARS = 5, HEAD = 4 };

static int64_t count_numbers(const struct groups_config *config) {
    return (int64_t)config->keys * (ARRAYS * config->replicas + 1);
}

static void open_key(struct groups *groups, int number, int64_t *arrays) {
    struct groups_key *key = &groups->key[number];
    int replicas = groups->config.replicas;
    *key = (struct groups_key){.left = replicas,
                               .queue = arrays,
                               .closes_ns = INT64_MAX,
                               .gone = arrays + replicas,
                               .age = arrays + 2 * replicas,
                               .wait_ns = arrays + 3 * replicas,
                               .part = arrays + 4 * replicas,
                               .resting = arrays + 5 * replicas};
    for (int r = 0; r < replicas; r++) {
        key->wait_ns[r] = groups->config.wait.first_ns;
        key->part[r] = r;
    }
}

struct groups *groups_open(const struct groups_config *config) {
    struct groups *groups = MEM_NEW(struct groups);
    groups->config = *config;
    groups->rule = rule_of(config->rule);
    groups->key = MEM_ARRAY(struct groups_key, config->keys);
    groups->numbers = MEM_ARRAY(int64_t, count_numbers(config));
    groups->claim = groups->numbers + (int64_t)config->keys * ARRAYS * config->replicas;
    groups->member = MEM_ARRAY(int, config->replicas);
    groups->weight = MEM_ARRAY(double, config->replicas);
    groups->mark = MEM_ARRAY(int64_t, config->replicas);
    for (int k = 0; k < config->keys; k++)
        open_key(groups, k, groups->numbers + (int64_t)k * ARRAYS * config->replicas);
    return groups;
}

void groups_close(struct groups **groups) {
    if (!*groups) return;
    free((*groups)->key);
    free((*groups)->numbers);
    free((*groups)->member);
    free((*groups)->weight);
    free((*groups)->mark);
    free(*groups);
    *groups = NULL;
}

int groups_waiting(const struct groups *groups, int key) {
    return groups->key[key].waiting;
}

int groups_left(const struct groups *groups, int key) {
    return groups->key[key].left;
}

bool groups_is_away(const struct groups *groups, int key, int replica) {
    return groups->key[key].gone[replica] || groups->key[key].resting[replica];
}

bool groups_is_closing(const struct groups *groups, int key) {
    return groups->key[key].closing > 0;
}

/* --- links --- */

void groups_count_anew(struct groups *groups) {
    groups->marks++;
}

bool groups_new_part(struct groups *groups, const struct groups_key *key, int64_t replica) {
    int64_t *mark = &groups->mark[key->part[replica]];
    bool counted = *mark == groups->marks;
    *mark = groups->marks;
    return !counted;
}

int groups_parts(struct groups *groups, const struct groups_key *key) {
    int parts = 0;
    groups_count_anew(groups);
    for (int r = 0; r < groups->config.replicas; r++)
        if (!key->gone[r]) parts += groups_new_part(groups, key, r);
    return parts;
}

int groups_parts_of(struct groups *groups, const struct groups_key *key, int count) {
    int parts = 0;
    groups_count_anew(groups);
    for (int i = 0; i < count; i++) parts += groups_new_part(groups, key, key->queue[i]);
    return parts;
}

/* The first `count` in the queue, and all that they are connected with, become one part. */
static void link_members(struct groups *groups, struct groups_key *key, int count) {
    int64_t joined = key->part[key->queue[0]];
    groups_parts_of(groups, key, count);
    for (int r = 0; r < groups->config.replicas; r++)
        if (groups->mark[key->part[r]] == groups->marks) key->part[r] = joined;
}

static int number_of(const struct groups *groups, const struct groups_key *key) {
    return (int)(key - groups->key);
}

bool groups_claims(const struct groups *groups, const struct groups_key *key) {
    for (int c = 0; c < groups->claims; c++)
        if (groups->claim[c] == number_of(groups, key)) return true;
    return false;
}

bool groups_claim(struct groups *groups, const struct groups_key *key) {
    if (!groups_claims(groups, key)) groups->claim[groups->claims++] = number_of(groups, key);
    return groups->claim[0] == number_of(groups, key);
}

static void give_up_claim(struct groups *groups, const struct groups_key *key) {
    int kept = 0;
    for (int c = 0; c < groups->claims; c++)
        if (groups->claim[c] != number_of(groups, key)) groups->claim[kept++] = groups->claim[c];
    groups->claims = kept;
}

/* All that are left are connected: a new window begins. */
static bool end_window(struct groups *groups, struct groups_key *key) {
    if (groups_parts(groups, key) > 1) return false;
    for (int r = 0; r < groups->config.replicas; r++) key->part[r] = r;
    key->done = 0;
    give_up_claim(groups, key);
    return true;
}

/* --- who comes and goes --- */

static struct groups_key *key_at(struct groups *groups, int key, int replica) {
    CHECK(key >= 0 && key < groups->config.keys && replica >= 0 &&
              replica < groups->config.replicas,
          "replica %d, key %d", replica, key);
    struct groups_key *at = &groups->key[key];
    CHECK(!at->gone[replica] && !at->resting[replica], "replica %d has left", replica);
    CHECK(at->closing == 0, "groups of key %d were not taken", key);
    for (int i = 0; i < at->waiting; i++)
        CHECK(at->queue[i] != replica, "replica %d waits already", replica);
    return at;
}

void groups_arrive(struct groups *groups, int key, int replica, int64_t now_ns) {
    struct groups_key *at = key_at(groups, key, replica);
    at->queue[at->waiting++] = replica;
    at->age[replica]++;
    groups->rule->came(groups, at, now_ns);
}

void groups_leave(struct groups *groups, int key, int replica) {
    struct groups_key *at = key_at(groups, key, replica);
    at->gone[replica] = true;
    at->left--;
    if (at->left > 0) end_window(groups, at);
}

void groups_rest(struct groups *groups, int key, int replica) {
    struct groups_key *at = key_at(groups, key, replica);
    at->resting[replica] = true;
    at->rests++;
}

void groups_return(struct groups *groups) {
    for (int k = 0; k < groups->config.keys; k++) {
        struct groups_key *key = &groups->key[k];
        key->left = groups->config.replicas;
        key->rests = 0;
        for (int r = 0; r < groups->config.replicas; r++) key->gone[r] = key->resting[r] = false;
    }
}

/* --- groups --- */

static void sort_members(int *member, int count) {
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && member[j - 1] > member[j]; j--) {
            int other = member[j];
            member[j] = member[j - 1];
            member[j - 1] = other;
        }
}

/* The largest age of a group's members; the least one. */
static int64_t newest(const struct groups_key *key, const struct group_formed *group,
                      int64_t *least) {
    int64_t most = 0;
    *least = INT64_MAX;
    for (int i = 0; i < group->count; i++) {
        int64_t age = key->age[group->replica[i]];
        if (age < *least) *least = age;
        if (age > most) most = age;
    }
    return most;
}

/* Exponential in how much newer a member's parameters are than the oldest: of ages 1 to R the one
 * of age r has (1 - a) a^(R - r) / (1 - a^R). Members of one age share it; what falls to ages that
 * nobody has goes to the oldest members. */
static void weigh_by_age(const struct groups_key *key, double decay, struct group_formed *group,
                         double *weight) {
    int64_t least, most = newest(key, group, &least);
    double sum = 0;
    int oldest = 0;
    double whole = 1 - pow(decay, (double)(most - least + 1));
    for (int i = 0; i < group->count; i++) {
        int same = 0;
        int64_t age = key->age[group->replica[i]];
        for (int j = 0; j < group->count; j++) same += key->age[group->replica[j]] == age;
        weight[i] = (1 - decay) * pow(decay, (double)(most - age)) / whole / same;
        oldest += age == least;
        if (age != least) sum += weight[i];
    }
    for (int i = 0; i < group->count; i++)
        if (key->age[group->replica[i]] == least) weight[i] = (1 - sum) / oldest;
}

static void weigh(struct groups *groups, const struct groups_key *key, struct group_formed *group) {
    for (int i = 0; i < group->count; i++) groups->weight[i] = 1.0 / group->count;
    if (groups->config.age > 0) weigh_by_age(key, groups->config.age, group, groups->weight);
    group->weight = groups->weight;
}

/* Numbers of mini-batches and the optimizers' counts stay: an age is known here alone. */
static int64_t share_age(struct groups_key *key, const struct group_formed *group) {
    int64_t least, most = newest(key, group, &least);
    for (int i = 0; i < group->count; i++) key->age[group->replica[i]] = most;
    return most - least;
}

/* The first `count` of the queue are a group. */
static void form(struct groups *groups, struct groups_key *key, int count,
                 struct group_formed *out) {
    for (int i = 0; i < count; i++) groups->member[i] = (int)key->queue[i];
    sort_members(groups->member, count);
    *out = (struct group_formed){.number = groups->formed++,
                                 .key = number_of(groups, key),
                                 .count = count,
                                 .replica = groups->member};
    weigh(groups, key, out);
    out->spread = share_age(key, out);
    link_members(groups, key, count);
    memmove(key->queue, key->queue + count, (size_t)(key->waiting - count) * sizeof *key->queue);
    key->waiting -= count;
    key->done += groups->rule->counts(count);
    for (int i = 0; groups->rule->formed && i < count; i++)
        groups->rule->formed(groups, key, groups->member[i], count);
    out->connects = end_window(groups, key);
}

bool groups_next(struct groups *groups, int64_t now_ns, struct group_formed *out) {
    for (int k = 0; k < groups->config.keys; k++) {
        struct groups_key *key = &groups->key[k];
        int count = groups->rule->choose(groups, key, now_ns);
        if (count > 0) {
            form(groups, key, count, out);
            return true;
        }
    }
    return false;
}

int64_t groups_wake_ns(const struct groups *groups) {
    int64_t wake_ns = INT64_MAX;
    for (int k = 0; k < groups->config.keys; k++) {
        const struct groups_key *key = &groups->key[k];
        bool without_limit = groups->claims > 0 && groups->claim[0] == k;
        if (key->waiting > 0 && !without_limit && key->closes_ns < wake_ns)
            wake_ns = key->closes_ns;
    }
    return wake_ns;
}

/* --- checkpoints --- */

/* The configuration that a state is of, then the scalars of each key, claims, and all arrays. */
static int64_t config_number(const struct groups_config *config) {
    int rule = 0;
    while (strcmp(rules[rule]->name, config->rule) != 0) rule++;
    return rule;
}

int64_t groups_save(const struct groups *groups, int64_t *out) {
    const struct groups_config *config = &groups->config;
    int64_t arrays = count_numbers(config), count = HEAD + config->keys * SCALARS + arrays;
    if (!out) return count;
    out[0] = config_number(config);
    out[1] = config->replicas;
    out[2] = groups->formed;
    out[3] = groups->claims;
    out += HEAD;
    for (int k = 0; k < config->keys; k++) {
        const struct groups_key *key = &groups->key[k];
        const int64_t scalar[SCALARS] = {key->left, key->waiting, key->done, key->closes_ns,
                                         key->closing};
        memcpy(out, scalar, sizeof scalar);
        out += SCALARS;
    }
    memcpy(out, groups->numbers, (size_t)arrays * sizeof *out);
    return count;
}

static bool between(int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most;
}

/* The queue has different replicas that have not left; the others are as anything that rules do. */
static bool usable_key(struct groups *groups, struct groups_key *key) {
    int64_t replicas = groups->config.replicas, gone = 0;
    groups_count_anew(groups);
    for (int64_t r = 0; r < replicas; r++) {
        if (!between(key->gone[r], 0, 1) || !between(key->resting[r], 0, 1) ||
            !between(key->age[r], 0, INT64_MAX / 2) ||
            !between(key->wait_ns[r], groups->config.wait.least_ns, groups->config.wait.most_ns) ||
            !between(key->part[r], 0, replicas - 1))
            return false;
        gone += key->gone[r];
        key->rests += (int)key->resting[r];
        if (key->gone[r] && key->resting[r]) return false;
    }
    for (int i = 0; i < key->waiting; i++) {
        int64_t replica = key->queue[i];
        if (!between(replica, 0, replicas - 1) || key->gone[replica] || key->resting[replica])
            return false;
        if (groups->mark[replica] == groups->marks) return false;
        groups->mark[replica] = groups->marks;
    }
    return gone == replicas - key->left;
}

static bool take_key(struct groups_key *key, const int64_t *scalar, int replicas) {
    if (!between(scalar[0], 0, replicas) || !between(scalar[1], 0, scalar[0]) ||
        !between(scalar[2], 0, INT64_MAX / 2) || !between(scalar[4], 0, scalar[1]))
        return false;
    key->left = (int)scalar[0];
    key->waiting = (int)scalar[1];
    key->done = scalar[2];
    key->closes_ns = scalar[3];
    key->closing = scalar[4];
    return true;
}

static bool usable_claims(const struct groups *groups) {
    for (int c = 0; c < groups->claims; c++) {
        if (!between(groups->claim[c], 0, groups->config.keys - 1)) return false;
        for (int d = 0; d < c; d++)
            if (groups->claim[c] == groups->claim[d]) return false;
    }
    return true;
}

/* Into a new state. */
static bool take(struct groups *groups, const int64_t *numbers) {
    const struct groups_config *config = &groups->config;
    if (numbers[0] != config_number(config) || numbers[1] != config->replicas ||
        !between(numbers[2], 0, INT64_MAX / 2) || !between(numbers[3], 0, config->keys))
        return false;
    groups->formed = numbers[2];
    groups->claims = (int)numbers[3];
    numbers += HEAD;
    for (int k = 0; k < config->keys; k++, numbers += SCALARS)
        if (!take_key(&groups->key[k], numbers, config->replicas)) return false;
    memcpy(groups->numbers, numbers, (size_t)count_numbers(config) * sizeof *numbers);
    for (int k = 0; k < config->keys; k++)
        if (!usable_key(groups, &groups->key[k])) return false;
    return usable_claims(groups);
}

enum status groups_load(struct groups *groups, const int64_t *numbers, int64_t count) {
    int64_t want = groups_save(groups, NULL);
    if (count != want)
        return fail(STATUS_DATA, "a state of groups has %lld numbers, expected %lld",
                    (long long)count, (long long)want);
    SCOPED(groups_close) struct groups *taken = groups_open(&groups->config);
    if (!take(taken, numbers))
        return fail(STATUS_DATA, "these are not the numbers of a state of groups of %d replicas",
                    groups->config.replicas);
    struct groups old = *groups;
    *groups = *taken;
    *taken = old;
    return STATUS_OK;
}
