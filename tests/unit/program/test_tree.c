/* The fixed tree of sums, held against its definition: level by level neighbours 2i and 2i+1 are
 * added and an odd last one is carried up. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kit.h"
#include "program/tree.h"

enum { MOST = 33 };

/* The definition, on the texts of `count` leaves; they are spent. */
static char *defined(char **level, int count) {
    while (count > 1) {
        int next = 0;
        for (int i = 0; i + 1 < count; i += 2) {
            char *sum = mem_format("(%s+%s)", level[i], level[i + 1]);
            free(level[i]);
            free(level[i + 1]);
            level[next++] = sum;
        }
        if (count % 2) level[next++] = level[count - 1];
        count = next;
    }
    return level[0];
}

static char *tree_of(int first, int stride, int count, const int64_t *samples) {
    char *leaf[64];
    int leaves = 0;
    for (int i = 0; i < count; i++) {
        int micro = first + i * stride;
        if (samples[micro] > 0) leaf[leaves++] = mem_format("%d", micro);
    }
    return leaves ? defined(leaf, leaves) : NULL;
}

static char *replica_in_order(const struct program_case *of, int replica, const int64_t *samples) {
    char *sum = NULL;
    for (int m = replica * of->micro_batches; m < (replica + 1) * of->micro_batches; m++) {
        if (samples[m] == 0) continue;
        char *next = sum ? mem_format("(%s+%d)", sum, m) : mem_format("%d", m);
        free(sum);
        sum = next;
    }
    return sum;
}

/* What each order of sums is defined to be: design contract 1. */
static char *expected(const struct program_case *of, const int64_t *samples) {
    int total = of->replicas * of->micro_batches;
    if (of->sum == SUM_TREE) return tree_of(0, 1, total, samples);
    if (of->sum == SUM_REPLICA) {
        char *leaf[64];
        int leaves = 0;
        for (int r = 0; r < of->replicas; r++) {
            char *sum = replica_in_order(of, r, samples);
            if (sum) leaf[leaves++] = sum;
        }
        return defined(leaf, leaves);
    }
    char *sum = NULL;
    for (int m = 0; m < of->micro_batches; m++) {
        char *over = tree_of(m, of->micro_batches, of->replicas, samples);
        if (!over) continue;
        char *next = sum ? mem_format("(%s+%s)", sum, over) : mem_text(over);
        free(sum);
        free(over);
        sum = next;
    }
    return sum;
}

static void check_shape(const struct program_case *of) {
    int64_t samples[64];
    struct program *program = program_of_case(of, samples);
    char *meaning = program_meaning(program), *want = expected(of, samples);
    *strchr(meaning, ' ') = 0;
    cr_expect_str_eq(meaning, want, "%dx%d sum %d last %d: adds %s, must add %s", of->replicas,
                     of->micro_batches, of->sum, (int)of->last, meaning, want);
    free(meaning);
    free(want);
    program_free(&program);
}

Test(program_tree, every_order_of_sums_is_its_definition) {
    program_cases(check_shape);
}

Test(program_tree, the_shape_for_1_to_33_leaves) {
    for (int n = 1; n <= MOST; n++) {
        check_shape(&(struct program_case){n, 1, SUM_REPLICA, 0});
        check_shape(&(struct program_case){1, n, SUM_TREE, 0});
    }
}

/* The bits of --sum tree do not depend on how micro-batches are spread over replicas. */
Test(program_tree, sum_tree_is_the_same_for_every_deal) {
    static const int deals[][2] = {{1, 12}, {2, 6}, {3, 4}, {4, 3}, {6, 2}, {12, 1}};
    char *first = NULL;
    for (size_t d = 0; d < sizeof deals / sizeof deals[0]; d++) {
        struct program_case of = {deals[d][0], deals[d][1], SUM_TREE, 0};
        struct program *program = program_of_case(&of, NULL);
        char *meaning = program_meaning(program);
        *strchr(meaning, ' ') = 0;
        if (first)
            cr_expect_str_eq(meaning, first);
        else
            first = mem_text(meaning);
        free(meaning);
        program_free(&program);
    }
    free(first);
}

/* n leaves need no more than log2(n) + 1 buffers, rounded up. */
Test(program_tree, needs_a_logarithm_of_buffers) {
    for (int n = 1; n <= MOST; n++) {
        struct program_case of = {1, n, SUM_TREE, 0};
        struct program *program = program_of_case(&of, NULL);
        int most = 1;
        while (1 << (most - 1) < n) most++;
        cr_expect_leq(program_of(program, 0)->grads, most, "%d leaves take %d buffers", n,
                      program_of(program, 0)->grads);
        program_free(&program);
    }
}
