/* The orders of sums by their definition (design contract 1), told apart by hashes of the
 * expressions: additions of floats neither commute with roundings nor associate, so another order
 * is another training, and two texts would be long to compare. Written without the builders' tree.c
 * on purpose: one is held against the other. */
#include "program/order.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"

enum { LEAF = 1, SUM = 2, TIED = 3, REDUCED = 4 };

uint64_t order_leaf(int micro) {
    return rng_key(LEAF, (uint64_t)micro);
}

uint64_t order_sum(uint64_t into, uint64_t from) {
    if (into == 0) return from;
    return from == 0 ? into : rng_key(rng_key(SUM, into), from);
}

/* (a1 + b1) + (a2 + b2) is another number than (a1 + a2) + (b1 + b2): where uses are added is part
 * of the order. */
uint64_t order_tied(uint64_t sum) {
    return sum ? rng_key(TIED, sum) : 0;
}

/* Ranks give the neutral element where they have nothing: that is a sum over replicas, too. */
uint64_t order_reduced(uint64_t own) {
    return rng_key(REDUCED, own);
}

/* The fixed tree: level by level neighbours 2i and 2i+1 are added, an odd last one is carried up; 0
 * for none. Spends `level`. */
static uint64_t in_tree(uint64_t *level, int count) {
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
    bool whole; /* each is tied by itself */
};

/* The leaves first, first + stride, ... that have samples; returns how many. */
static int take_leaves(const struct leaves *leaves, int first, int stride, int count,
                       uint64_t *out) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        int micro = first + i * stride;
        if (leaves->samples && leaves->samples[micro] == 0) continue;
        uint64_t leaf = order_leaf(micro - leaves->base);
        out[found++] = leaves->whole ? order_tied(leaf) : leaf;
    }
    return found;
}

uint64_t order_defined(const struct program *program, const int64_t *samples,
                       struct order_scope scope) {
    int replicas = scope.replica_count, micros = program->micro_batches, count = 0;
    int first = scope.first_replica * micros;
    struct leaves leaves = {samples, scope.base, program->sum != SUM_REPLICA};
    SCOPED_FREE uint64_t *leaf = MEM_ARRAY(uint64_t, replicas * micros),
                         *part = MEM_ARRAY(uint64_t, replicas + micros);
    uint64_t result;
    if (program->sum == SUM_TREE) {
        result = in_tree(leaf, take_leaves(&leaves, first, 1, replicas * micros, leaf));
    } else if (program->sum == SUM_REPLICA) {
        for (int r = 0; r < replicas; r++) {
            int found = take_leaves(&leaves, first + r * micros, 1, micros, leaf);
            if (found) part[count++] = order_tied(in_order(leaf, found));
        }
        result = in_tree(part, count);
    } else {
        for (int m = 0; m < micros; m++) {
            int found = take_leaves(&leaves, first + m, micros, replicas, leaf);
            if (found) part[count++] = in_tree(leaf, found);
        }
        result = in_order(part, count);
    }
    return result;
}

/* Does any replica have samples at this place of its step? */
static bool anyone_has(const struct program *program, const int64_t *samples, int place) {
    int count = program->micro_batches;
    for (int g = place; samples && g < program->grid.replicas * count; g += count)
        if (samples[g] > 0) return true;
    return !samples;
}

/* The gradient of a micro-batch after TIE: the gradients of a parameter's further uses are added to
 * its first. 0 where the micro-batch has no samples. */
static uint64_t tied_leaf(const int64_t *samples, int micro, int base) {
    return !samples || samples[micro] > 0 ? order_tied(order_leaf(micro - base)) : 0;
}

/* One reduction for each place of the step. */
static uint64_t order_by_place(const struct program *program, const int64_t *samples,
                               struct order_scope scope) {
    int micros = program->micro_batches, first = scope.first_replica * micros;
    uint64_t sum = 0;
    for (int m = 0; m < micros; m++) {
        if (!anyone_has(program, samples, m)) continue;
        sum = order_sum(sum, order_reduced(tied_leaf(samples, first + m, scope.base)));
    }
    return sum;
}

uint64_t order_of_rank(const struct program *program, const int64_t *samples,
                       struct order_scope scope) {
    bool alone = scope.replica_count == program->grid.replicas;
    if (alone || program_is_apart(program)) return order_defined(program, samples, scope);
    if (program->sum == SUM_REPLICAS_FIRST && scope.replica_count == 1)
        return order_by_place(program, samples, scope);
    return order_reduced(order_defined(program, samples, scope));
}

/* Each place of the step over all replicas, then the places. */
static uint64_t ranks_by_place(const struct program *program, const int64_t *samples) {
    int replicas = program->grid.replicas, micros = program->micro_batches;
    uint64_t *leaf = MEM_ARRAY(uint64_t, replicas), sum = 0;
    for (int m = 0; m < micros; m++) {
        for (int r = 0; r < replicas; r++) leaf[r] = tied_leaf(samples, r * micros + m, 0);
        sum = order_sum(sum, in_tree(leaf, replicas));
    }
    free(leaf);
    return sum;
}

uint64_t order_of_ranks(const struct program *program, const int64_t *samples) {
    int each = program->grid.replicas_each, ranks = program->grid.replicas / each;
    if (program->sum == SUM_REPLICAS_FIRST && each == 1) return ranks_by_place(program, samples);
    SCOPED_FREE uint64_t *part = MEM_ARRAY(uint64_t, ranks);
    for (int p = 0; p < ranks; p++)
        part[p] = order_defined(program, samples, (struct order_scope){p * each, each, 0});
    return in_tree(part, ranks);
}
