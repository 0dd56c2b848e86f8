/* The orders of sums by their definition (design contract 1), told apart by hashes of the
 * expressions: additions of floats neither commute with roundings nor associate, so another order
 * is another training, and two texts would be long to compare. Written without the builders' tree.c
 * on purpose: one is held against the other. */
#include "program/order.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"

enum { LEAF = 1, SUM = 2, REDUCED = 3 };

uint64_t order_leaf(int micro) {
    return rng_key(LEAF, (uint64_t)micro);
}

uint64_t order_sum(uint64_t into, uint64_t from) {
    return rng_key(rng_key(SUM, into), from);
}

uint64_t order_reduced(uint64_t own) {
    return rng_key(REDUCED, own);
}

uint64_t order_tree(uint64_t *level, int count) {
    if (count == 0) return 0;
    for (; count > 1; count = (count + 1) / 2) {
        for (int i = 0; i + 1 < count; i += 2) level[i / 2] = order_sum(level[i], level[i + 1]);
        if (count % 2) level[count / 2] = level[count - 1];
    }
    return level[0];
}

static uint64_t in_order(const uint64_t *items, int count) {
    uint64_t sum = count ? items[0] : 0;
    for (int i = 1; i < count; i++) sum = order_sum(sum, items[i]);
    return sum;
}

struct leaves {
    const int64_t *samples;
    int base;
};

/* The leaves first, first + stride, ... that have samples; returns how many. */
static int take_leaves(const struct leaves *leaves, int first, int stride, int count,
                       uint64_t *out) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        int micro = first + i * stride;
        if (!leaves->samples || leaves->samples[micro] > 0)
            out[found++] = order_leaf(micro - leaves->base);
    }
    return found;
}

uint64_t order_defined(const struct program *program, const int64_t *samples,
                       struct order_scope scope) {
    int replicas = scope.replica_count, micros = program->micro_batches, count = 0;
    int first = scope.first_replica * micros;
    struct leaves leaves = {samples, scope.base};
    uint64_t *leaf = MEM_ARRAY(uint64_t, replicas * micros),
             *part = MEM_ARRAY(uint64_t, replicas + micros);
    uint64_t result;
    if (program->sum == SUM_TREE) {
        result = order_tree(leaf, take_leaves(&leaves, first, 1, replicas * micros, leaf));
    } else if (program->sum == SUM_REPLICA) {
        for (int r = 0; r < replicas; r++) {
            int found = take_leaves(&leaves, first + r * micros, 1, micros, leaf);
            if (found) part[count++] = in_order(leaf, found);
        }
        result = order_tree(part, count);
    } else {
        for (int m = 0; m < micros; m++) {
            int found = take_leaves(&leaves, first + m, micros, replicas, leaf);
            if (found) part[count++] = order_tree(leaf, found);
        }
        result = in_order(part, count);
    }
    free(leaf);
    free(part);
    return result;
}

/* Does any replica have samples at this place of its step? */
static bool anyone_has(const struct program *program, const int64_t *samples, int place) {
    int count = program->micro_batches;
    for (int g = place; samples && g < program->grid.replicas * count; g += count)
        if (samples[g] > 0) return true;
    return !samples;
}

/* One reduction for each place of the step. */
static uint64_t order_by_place(const struct program *program, const int64_t *samples,
                               struct order_scope scope) {
    int micros = program->micro_batches, first = scope.first_replica * micros;
    bool begun = false;
    uint64_t sum = 0;
    for (int m = 0; m < micros; m++) {
        if (!anyone_has(program, samples, m)) continue;
        bool present = !samples || samples[first + m] > 0;
        uint64_t one = order_reduced(present ? order_leaf(first + m - scope.base) : 0);
        sum = begun ? order_sum(sum, one) : one;
        begun = true;
    }
    return sum;
}

uint64_t order_of_rank(const struct program *program, const int64_t *samples,
                       struct order_scope scope) {
    bool alone = scope.replica_count == program->grid.replicas;
    if (alone) return order_defined(program, samples, scope);
    if (program->sum == SUM_REPLICAS_FIRST) return order_by_place(program, samples, scope);
    return order_reduced(order_defined(program, samples, scope));
}
