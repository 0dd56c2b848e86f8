/* See traces.h. */
#include "traces.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/philox.h"

enum { VALUES = 4, KEYS_MOST = 8 };
#define NEVER INT64_MAX

struct worker {
    int64_t next_ns;       /* when it comes; NEVER: it waits for something */
    int64_t came, went_on; /* how often */
    bool left;
    float value[VALUES];
};

/* Of one key: what the checks know of it, found without the code that is checked. */
struct window {
    int64_t done, bound;
    int part[TRACE_MOST];
    bool averaged[TRACE_MOST];
};

struct run {
    const struct trace *trace;
    struct trace_result *out;
    struct groups *groups;
    struct worker worker[TRACE_MOST][KEYS_MOST];
    struct window window[KEYS_MOST];
    int64_t drawn[TRACE_MOST], left_over; /* mini-batches: of a replica, of nobody yet */
    bool ended[TRACE_MOST];
    double speed[TRACE_MOST];
    int64_t now_ns, draws;
};

static double draw(struct run *run) {
    uint32_t words[4];
    philox_block(run->trace->seed, (uint64_t)run->draws++, words);
    return ((double)words[0] + 0.5) / 4294967296.0;
}

__attribute__((format(printf, 2, 3))) static void wrong(struct run *run, const char *format, ...) {
    va_list args;
    if (run->out->wrong[0]) return;
    va_start(args, format);
    vsnprintf(run->out->wrong, sizeof run->out->wrong, format, args);
    va_end(args);
}

/* --- what must hold --- */

static int left_at(const struct run *run, int key) {
    int left = 0;
    for (int r = 0; r < run->trace->config.replicas; r++) left += !run->worker[r][key].left;
    return left;
}

static bool is_window(const struct run *run) {
    return strcmp(run->trace->config.rule, "window") == 0;
}

/* While another key waits as long as it takes, the others go on; a replica gets there within as
 * many mini-batches as a pipeline holds. */
static void begin_window(struct run *run, int key) {
    const struct groups_config *config = &run->trace->config;
    struct window *window = &run->window[key];
    int64_t updates = (int64_t)config->connect * left_at(run, key),
            others = (int64_t)(config->keys - 1) * (config->keys + 1) * config->replicas;
    *window = (struct window){.bound = is_window(run) ? updates + others : config->connect};
    for (int r = 0; r < config->replicas; r++) window->part[r] = r;
}

static bool is_connected(const struct run *run, int key) {
    int part = -1;
    for (int r = 0; r < run->trace->config.replicas; r++) {
        if (run->worker[r][key].left) continue;
        if (part >= 0 && run->window[key].part[r] != part) return false;
        part = run->window[key].part[r];
    }
    return true;
}

static void end_window(struct run *run, int key) {
    const struct window *window = &run->window[key];
    int left = left_at(run, key);
    for (int r = 0; r < run->trace->config.replicas && left > 1; r++)
        if (!run->worker[r][key].left && !window->averaged[r])
            wrong(run, "replica %d was in no group of two in a window of key %d", r, key);
    run->out->windows++;
    begin_window(run, key);
}

static void check_window(struct run *run, const struct group_formed *group) {
    struct window *window = &run->window[group->key];
    int first = window->part[group->replica[0]];
    for (int i = 0; i < group->count; i++) {
        int part = window->part[group->replica[i]];
        window->averaged[group->replica[i]] |= group->count > 1;
        for (int r = 0; r < run->trace->config.replicas; r++)
            if (window->part[r] == part) window->part[r] = first;
    }
    window->done += is_window(run) ? group->count : 1;
    bool connected = is_connected(run, group->key);
    if (connected != group->connects) wrong(run, "a window ends where it does not");
    if (connected && window->done > window->bound)
        wrong(run, "a window of key %d took %lld of %lld", group->key, (long long)window->done,
              (long long)window->bound);
    if (connected) end_window(run, group->key);
}

static double mean_of(const struct run *run, int key, int value) {
    double sum = 0;
    for (int r = 0; r < run->trace->config.replicas; r++)
        sum += (double)run->worker[r][key].value[value];
    return sum / run->trace->config.replicas;
}

/* Members leave with the same average; with equal weights the mean of all stays. */
static void average(struct run *run, const struct group_formed *group) {
    double sum = 0;
    for (int i = 0; i < group->count; i++) sum += group->weight[i];
    if (fabs(sum - 1) > 1e-12) wrong(run, "the weights of a group add up to %.17g", sum);
    for (int v = 0; v < VALUES; v++) {
        double before = mean_of(run, group->key, v), total = 0;
        for (int i = 0; i < group->count; i++)
            total += group->weight[i] * (double)run->worker[group->replica[i]][group->key].value[v];
        for (int i = 0; i < group->count; i++)
            run->worker[group->replica[i]][group->key].value[v] = (float)total;
        double after = mean_of(run, group->key, v);
        if (run->trace->config.age == 0 && fabs(after - before) > 1e-6)
            wrong(run, "an average moved the mean from %.9g to %.9g", before, after);
    }
}

static void check_group(struct run *run, const struct group_formed *group) {
    const struct groups_config *config = &run->trace->config;
    for (int i = 0; i < group->count; i++) {
        const struct worker *worker = &run->worker[group->replica[i]][group->key];
        if (i > 0 && group->replica[i] <= group->replica[i - 1])
            wrong(run, "members are not ascending");
        if (worker->left || worker->came != worker->went_on + 1)
            wrong(run, "replica %d is in a group and did not wait", group->replica[i]);
    }
    int left = left_at(run, group->key), size = config->size < left ? config->size : left;
    if (!is_window(run) && group->count != size)
        wrong(run, "a group of %d, not of %d", group->count, size);
    if (is_window(run) && config->connect == 1 && config->keys == 1 && group->count != left)
        wrong(run, "a group of %d of %d that must all be connected", group->count, left);
}

/* --- the trace --- */

static void reload(struct run *run) {
    if (!run->trace->reload) return;
    int64_t count = groups_save(run->groups, NULL);
    SCOPED_FREE int64_t *numbers = MEM_ARRAY(int64_t, count);
    groups_save(run->groups, numbers);
    groups_close(&run->groups);
    run->groups = groups_open(&run->trace->config);
    if (groups_load(run->groups, numbers, count) != STATUS_OK)
        wrong(run, "a saved state cannot be loaded");
}

static bool draws_one(struct run *run, int replica) {
    if (run->ended[replica]) return false;
    run->ended[replica] = run->left_over == 0;
    if (run->ended[replica]) return false;
    run->left_over--;
    run->drawn[replica]++;
    return true;
}

/* Whether it can compute its next mini-batch: whether there is one, and its gradients have come. */
static bool may_begin(struct run *run, int replica, int key) {
    int keys = run->trace->config.keys;
    const struct worker *worker = &run->worker[replica][key];
    if (worker->left || worker->next_ns != NEVER || worker->came != worker->went_on) return false;
    if (key < keys - 1) return run->worker[replica][key + 1].came > worker->came;
    return run->worker[replica][0].went_on + keys > worker->came && draws_one(run, replica);
}

static void go_on(struct run *run) {
    for (int r = 0; r < run->trace->config.replicas; r++)
        for (int k = run->trace->config.keys - 1; k >= 0; k--)
            if (may_begin(run, r, k)) {
                struct worker *worker = &run->worker[r][k];
                worker->next_ns =
                    run->now_ns + (int64_t)(run->speed[r] * run->trace->step_ms * 1e6 *
                                            (1 + run->trace->jitter * (2 * draw(run) - 1)));
                for (int v = 0; v < VALUES; v++) worker->value[v] += (float)(draw(run) - 0.5);
            }
}

static bool leave(struct run *run) {
    bool any = false;
    for (int r = 0; r < run->trace->config.replicas; r++)
        for (int k = 0; k < run->trace->config.keys; k++) {
            struct worker *worker = &run->worker[r][k];
            if (worker->left || !run->ended[r] || worker->went_on < run->drawn[r]) continue;
            worker->left = any = true;
            groups_leave(run->groups, k, r);
            if (left_at(run, k) > 0 && is_connected(run, k)) begin_window(run, k);
        }
    return any;
}

static bool take_groups(struct run *run) {
    struct group_formed group;
    int64_t before = run->out->groups;
    for (reload(run); groups_next(run->groups, run->now_ns, &group); reload(run)) {
        check_group(run, &group);
        check_window(run, &group);
        average(run, &group);
        run->out->groups++;
        run->out->sizes[group.count]++;
        run->out->spread += (double)group.spread;
        for (int i = 0; i < group.count; i++) run->worker[group.replica[i]][group.key].went_on++;
        uint64_t hash = hash64(run->out->lists, &group.key, sizeof group.key);
        hash = hash64(hash, group.replica, (size_t)group.count * sizeof *group.replica);
        run->out->lists = hash64(hash, group.weight, (size_t)group.count * sizeof *group.weight);
    }
    return run->out->groups > before;
}

/* Whoever can go on does; who has no further mini-batch leaves, and is waited for no more. */
static void settle(struct run *run) {
    bool changed = true;
    while (changed) {
        changed = take_groups(run);
        go_on(run);
        changed |= leave(run);
    }
}

/* The next to come; -1: nobody. */
static int next_worker(const struct run *run, int64_t *when_ns) {
    int next = -1, keys = run->trace->config.keys;
    *when_ns = NEVER;
    for (int r = 0; r < run->trace->config.replicas; r++)
        for (int k = 0; k < keys; k++)
            if (run->worker[r][k].next_ns < *when_ns) {
                *when_ns = run->worker[r][k].next_ns;
                next = r * keys + k;
            }
    return next;
}

static void come(struct run *run, int replica, int key) {
    struct worker *worker = &run->worker[replica][key];
    worker->next_ns = NEVER;
    worker->came++;
    groups_arrive(run->groups, key, replica, run->now_ns);
}

/* One event; false: there is none. */
static bool event(struct run *run) {
    int64_t when_ns, wake_ns = groups_wake_ns(run->groups);
    int keys = run->trace->config.keys, next = next_worker(run, &when_ns);
    if (next < 0 && wake_ns == NEVER) return false;
    run->now_ns = when_ns < wake_ns ? when_ns : wake_ns;
    if (when_ns <= wake_ns) come(run, next / keys, next % keys);
    return true;
}

static void begin(struct run *run) {
    const struct groups_config *config = &run->trace->config;
    run->groups = groups_open(config);
    run->left_over = run->trace->batches;
    for (int r = 0; r < config->replicas; r++) {
        run->speed[r] = run->trace->slowest == 1 ? 1 + 3 * draw(run) : 1;
        if (r == 0 && run->trace->slowest > 1) run->speed[r] = run->trace->slowest;
        for (int k = 0; k < config->keys; k++)
            run->worker[r][k] = (struct worker){.next_ns = NEVER};
    }
    for (int k = 0; k < config->keys; k++) begin_window(run, k);
}

void trace_run(const struct trace *trace, struct trace_result *out) {
    *out = (struct trace_result){.lists = HASH64_START};
    struct run *run = MEM_NEW(struct run);
    run->trace = trace;
    run->out = out;
    begin(run);
    do settle(run);
    while (!out->wrong[0] && event(run));
    for (int k = 0; k < trace->config.keys; k++)
        if (left_at(run, k) > 0) wrong(run, "%d replicas wait for ever", left_at(run, k));
    if (out->groups > 0) out->spread /= (double)out->groups;
    groups_close(&run->groups);
    free(run);
}

struct trace trace_draw(uint64_t number) {
    uint32_t words[4];
    philox_block(0x6772, number, words);
    bool window = words[0] % 2;
    int replicas = 2 + (int)(words[1] % 19);
    struct trace trace = {
        .config = {.rule = window ? "window" : "fifo",
                   .replicas = replicas,
                   .keys = window ? 1 + (int)(words[0] / 2 % 4) : 1,
                   .wait = {1000000, 10000, 10000000, 2, 0.9},
                   .size = 2 + (int)(words[2] % (uint32_t)(replicas - 1)),
                   .age = window || words[0] / 8 % 2 ? 0 : 0.5 + 0.45 * (words[3] % 2)},
        .batches = replicas * (1 + (int)(words[3] / 2 % 40)),
        .seed = number,
        .step_ms = words[2] / 65536 % 2 ? 1 : 30,
        .jitter = 0.2,
        .slowest = words[0] / 16 % 3 ? 1 : 3};
    int least = groups_least_connect(&trace.config);
    trace.config.connect = least + (int)(words[2] / 1024 % (window ? 10 : 8));
    return trace;
}
