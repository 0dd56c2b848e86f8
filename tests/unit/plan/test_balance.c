/* The split of layers into chunks, against all splits there are: the least largest chunk, then the
 * fewest bytes over the cuts, then the earliest cuts. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "plan/balance.h"

enum { MOST_LAYERS = 9 };

struct split {
    double largest;
    size_t bytes;
    int cuts[MOST_LAYERS];
};

static struct split split_of(const struct balance_problem *problem, const int *cuts) {
    struct split split = {0};
    for (int c = 0; c < problem->chunks; c++) {
        int a = c ? cuts[c - 1] : 0, b = c < problem->chunks - 1 ? cuts[c] : problem->layers;
        double weight = balance_weight(problem, c, a, b);
        if (c == 0 || weight > split.largest) split.largest = weight;
        if (c) split.bytes += problem->cross_bytes[a];
        if (c) split.cuts[c - 1] = a;
    }
    return split;
}

static bool is_better(const struct split *a, const struct split *b, int cuts) {
    if (a->largest != b->largest) return a->largest < b->largest;
    if (a->bytes != b->bytes) return a->bytes < b->bytes;
    for (int i = 0; i < cuts; i++)
        if (a->cuts[i] != b->cuts[i]) return a->cuts[i] < b->cuts[i];
    return false;
}

/* Every choice of chunks - 1 cuts, as bits. */
static struct split best_of_all(const struct balance_problem *problem) {
    struct split best = {0};
    bool found = false;
    for (unsigned bits = 0; bits < 1u << (problem->layers - 1); bits++) {
        int cuts[MOST_LAYERS], count = 0;
        for (int i = 1; i < problem->layers; i++)
            if (bits >> (i - 1) & 1) cuts[count++] = i;
        if (count != problem->chunks - 1) continue;
        struct split split = split_of(problem, cuts);
        if (!found || is_better(&split, &best, count)) best = split;
        found = true;
    }
    return best;
}

/* Weights that need not grow with the chunk; of `kinds` values, so that many splits tie. */
static double *random_table(int layers, uint64_t seed, uint32_t kinds) {
    double *table = MEM_ARRAY(double, (layers + 1) * (layers + 1));
    for (int i = 0; i < (layers + 1) * (layers + 1); i++)
        table[i] = rng_word(seed, (uint64_t)i) % kinds;
    return table;
}

static void check_case(int layers, int chunks, uint64_t seed) {
    uint32_t kinds = seed % 3 == 0 ? 2 : seed % 3 == 1 ? 5 : 1000;
    double *fixed = random_table(layers, seed, kinds),
           *per_slot = random_table(layers, seed + 100000, kinds);
    int slots[MOST_LAYERS], cuts[MOST_LAYERS] = {0};
    size_t bytes[MOST_LAYERS + 1];
    for (int i = 0; i < MOST_LAYERS; i++) slots[i] = chunks - i;
    for (int i = 0; i <= layers; i++) bytes[i] = rng_word(seed + 200000, (uint64_t)i) % 4;
    struct balance_problem problem = {.layers = layers,
                                      .chunks = chunks,
                                      .fixed = fixed,
                                      .per_slot = seed % 2 ? per_slot : NULL,
                                      .slots = seed % 4 == 1 ? slots : NULL,
                                      .cross_bytes = bytes};
    balance_cut(&problem, cuts);
    struct split best = best_of_all(&problem), split = split_of(&problem, cuts);
    cr_expect_eq(split.largest, best.largest, "%d layers, %d chunks, seed %d", layers, chunks,
                 (int)seed);
    cr_expect_eq(split.bytes, best.bytes);
    cr_expect_arr_eq(split.cuts, best.cuts, sizeof best.cuts);
    free(fixed);
    free(per_slot);
}

Test(plan_balance, is_the_best_of_all_splits) {
    for (int layers = 1; layers <= MOST_LAYERS; layers++)
        for (int chunks = 1; chunks <= layers; chunks++)
            for (uint64_t seed = 0; seed < 40; seed++) check_case(layers, chunks, seed);
}

Test(plan_balance, names_go_both_ways) {
    cr_expect_eq(balance_find("time"), BALANCE_TIME);
    cr_expect_eq(balance_find("memory"), BALANCE_MEMORY);
    cr_expect_eq(balance_find("speed"), BALANCE_COUNT);
    for (int b = 0; b < BALANCE_COUNT; b++)
        cr_expect_eq(balance_find(balance_name((enum balance)b)), (enum balance)b);
}
