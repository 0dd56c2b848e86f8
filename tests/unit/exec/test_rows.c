/* Rows of metrics where replicas do not meet: means, counts, and numbers in any order. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "exec/rows.h"

enum { REPLICAS = 3, STAGES = 2 };
static const struct grid grid = {
    .stages = STAGES, .chunks = 1, .replicas = REPLICAS, .replicas_each = 1};

/* Number `number` of a replica, which was done at that time: its loss is over that many labels. */
static struct finished finished(int64_t number, int64_t index, int64_t at_ns, double loss,
                                double labels) {
    struct finished out = {.number = number, .index = index, .at_ns = at_ns, .squares = {4}};
    out.share.tally.labels[0] = labels;
    out.share.tally.right1 = (double)index;
    out.share.tally.ranked = labels;
    out.share.loss[0][0] = loss * labels;
    return out;
}

static void add(struct rows *rows, int replica, struct finished what) {
    double ms[STAGES] = {10 * replica, 10 * replica + 1};
    cr_assert(rows_have_room(rows, what.number));
    rows_add(rows, replica, &what, ms);
}

static struct rows *rows_from(int64_t step) {
    struct rows *rows = rows_new(&grid, 1);
    rows_begin(rows, step);
    return rows;
}

Test(exec_rows, a_row_is_whole_when_all_its_numbers_are_told) {
    struct rows *rows = rows_from(7);
    struct step_row row;
    struct tally sum;
    add(rows, 1, finished(22, 7, 100, 2, 4));
    add(rows, 0, finished(21, 7, 110, 1, 4));
    cr_expect_not(rows_take(rows, &row, &sum));
    add(rows, 2, finished(23, 7, 120, 6, 4));
    cr_assert(rows_take(rows, &row, &sum));
    cr_expect_eq(row.step, 7);
    cr_expect_eq(row.loss, 3);
    cr_expect_eq(row.grad_norm, 2);
    cr_expect_eq(sum.ranked, 12);
    cr_expect_eq(row.numbers, 24);
    cr_expect_eq(row.least, 8);
    cr_expect_eq(row.most, 8);
    cr_expect_eq(row.ranks, REPLICAS * STAGES);
    for (int r = 0; r < row.ranks; r++) {
        cr_expect_eq(row.rank_ms[r], 10 * (r / STAGES) + r % STAGES, "rank %d", r);
        cr_expect_eq(isnan(row.rank_loss[r]), r % STAGES == 0, "rank %d", r);
    }
    cr_expect_eq(row.rank_loss[5], 6);
    cr_expect_eq(rows_next(rows), 8);
    cr_expect_not(rows_take(rows, &row, &sum));
    rows_free(&rows);
}

/* Each loss is divided by its own mini-batch's count. */
Test(exec_rows, losses_of_unequal_counts_are_a_mean_of_means) {
    struct rows *rows = rows_from(0);
    struct step_row row;
    struct tally sum;
    add(rows, 0, finished(0, 0, 1, 1, 1));
    add(rows, 1, finished(1, 0, 1, 2, 10));
    add(rows, 2, finished(2, 0, 1, 6, 100));
    cr_assert(rows_take(rows, &row, &sum));
    cr_expect_eq(row.loss, 3);
    rows_free(&rows);
}

/* Replica 0 is slow: the others have drawn the next numbers, and one trained two of a row. */
Test(exec_rows, replicas_advance_unequally) {
    struct rows *rows = rows_from(0);
    struct step_row row;
    struct tally sum;
    add(rows, 1, finished(1, 0, 10, 1, 4));
    add(rows, 2, finished(2, 0, 12, 1, 4));
    add(rows, 1, finished(3, 1, 20, 2, 4));
    add(rows, 2, finished(4, 1, 24, 4, 4));
    add(rows, 1, finished(5, 2, 30, 6, 4));
    add(rows, 2, finished(6, 2, 36, 1, 4));
    cr_expect_not(rows_take(rows, &row, &sum));
    add(rows, 0, finished(0, 0, 31, 4, 4));
    cr_assert(rows_take(rows, &row, &sum));
    cr_expect_eq(row.loss, 2);
    cr_expect_eq(row.numbers, 1 + 3 + 2, "%d", (int)row.numbers); /* 6 was not done then */
    cr_expect_eq(row.least, 1);
    cr_expect_eq(row.most, 3);
    cr_assert(rows_take(rows, &row, &sum));
    cr_expect_eq(row.loss, 4);
    cr_expect_eq(row.numbers, 6); /* as of the row before, which was whole later */
    cr_expect_eq(row.least, 1);
    cr_expect_eq(row.most, 3);
    rows_free(&rows);
}

Test(exec_rows, one_that_is_far_ahead_has_no_room) {
    struct rows *rows = rows_from(5);
    cr_expect(rows_have_room(rows, (5 + ROWS_ROOM) * REPLICAS - 1));
    cr_expect_not(rows_have_room(rows, (5 + ROWS_ROOM) * REPLICAS));
    rows_free(&rows);
}

/* Norms that are equal are told to the last bit; of others the mean. */
Test(exec_rows, norms_of_replicas_that_differ) {
    struct rows *rows = rows_from(0);
    struct step_row row;
    struct tally sum;
    for (int r = 0; r < REPLICAS; r++) {
        struct finished of = finished(r, 0, 1, 1, 1);
        of.squares[0] = r == 2 ? 25 : 4;
        add(rows, r, of);
    }
    cr_assert(rows_take(rows, &row, &sum));
    cr_expect_eq(row.grad_norm, 3);
    rows_free(&rows);
}
