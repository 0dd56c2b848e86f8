/* Exact sums: any order and any spread gives the same double, which is the true sum rounded once.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

#include "base/exact.h"
#include "base/rng.h"

enum { TERMS = 2000 };

/* Of all sizes a square of floats can have, and more. */
static double term(int i) {
    uint64_t key = rng_key(7, (uint64_t)i);
    return ldexp(1 + (double)(key >> 12) * 0x1p-52, (int)(key % 560) - 300);
}

static double total_of(int ranks) {
    struct exact_sum all = {0};
    for (int r = ranks - 1; r >= 0; r--) {
        struct exact_sum own = {0};
        for (int i = r; i < TERMS; i += ranks) exact_add(&own, term(i));
        exact_merge(&all, &own);
    }
    return exact_total(&all);
}

Test(base_exact, does_not_depend_on_the_order) {
    double forward = total_of(1);
    cr_expect_gt(forward, 0);
    for (int ranks = 2; ranks < 9; ranks++) cr_expect_eq(total_of(ranks), forward, "%d", ranks);
}

Test(base_exact, rounds_once) {
    struct exact_sum sum = {0};
    cr_expect_eq(exact_total(&sum), 0);
    exact_add(&sum, 1);
    for (int i = 0; i < 3; i++) exact_add(&sum, 0x1p-54);
    cr_expect_eq(exact_total(&sum), 1 + 0x1p-52); /* plain additions would stay at 1 */
    exact_add(&sum, DBL_MAX / 2);
    cr_expect_eq(exact_total(&sum), DBL_MAX / 2);
}

Test(base_exact, terms_below_zero) {
    struct exact_sum sum = {0}, parts = {0};
    for (int i = 0; i < TERMS; i++) {
        exact_add(&sum, i % 2 ? term(i) : -term(i));
        struct exact_sum own = {0};
        exact_add(&own, i % 2 ? -term(i) : term(i));
        exact_merge(&parts, &own);
    }
    cr_expect_neq(exact_total(&sum), 0);
    cr_expect_eq(exact_total(&sum), -exact_total(&parts));
    exact_merge(&sum, &parts);
    cr_expect_eq(exact_total(&sum), 0);
    exact_add(&sum, -0x1p-1074);
    cr_expect_eq(exact_total(&sum), -0x1p-1074);
}

/* Exactly between two doubles the even one is taken, unless the least bit below says more. */
Test(base_exact, halves_are_told_from_a_little_more) {
    struct exact_sum half = {0}, more = {0};
    exact_add(&half, 1);
    exact_add(&half, 0x1p-53);
    more = half;
    exact_add(&more, 0x1p-1074);
    cr_expect_eq(exact_total(&half), 1);
    cr_expect_eq(exact_total(&more), 1 + 0x1p-52);
}

Test(base_exact, the_smallest_and_the_largest) {
    struct exact_sum small = {0}, large = {0};
    exact_add(&small, 0x1p-1074);
    cr_expect_eq(exact_total(&small), 0x1p-1074);
    exact_add(&large, DBL_MAX);
    cr_expect_eq(exact_total(&large), DBL_MAX);
    exact_merge(&large, &large);
    cr_expect(isinf(exact_total(&large)));
}

Test(base_exact, what_is_not_finite_stays_so) {
    struct exact_sum sum = {0}, other = {0};
    exact_add(&sum, 1);
    exact_add(&other, INFINITY);
    exact_merge(&sum, &other);
    cr_expect(isinf(exact_total(&sum)));
    exact_add(&sum, NAN);
    cr_expect(isnan(exact_total(&sum)));
}

/* Of two signs, all bits in use, over 100 binary places. */
static double loss_of(int i) {
    double fraction = (double)(rng_key(9, (uint64_t)i) >> 12) * 0x1p-52;
    return ldexp(i % 3 ? 1 + fraction : -1 - fraction, i * 9);
}

Test(base_exact, parts_are_the_whole_sum) {
    enum { PARTS = 4, FEW = 12 };
    for (int ranks = 1; ranks <= FEW; ranks++) {
        struct exact_sum all = {0};
        for (int r = 0; r < ranks; r++) {
            struct exact_sum own = {0};
            double parts[PARTS];
            for (int i = r; i < FEW; i += ranks) exact_add(&own, loss_of(i));
            exact_split(&own, PARTS, parts);
            cr_expect_eq(parts[0], exact_total(&own));
            for (int p = 0; p < PARTS; p++) exact_add(&all, parts[p]);
        }
        for (int i = 0; i < FEW; i++) exact_add(&all, -loss_of(i));
        cr_expect_eq(exact_total(&all), 0, "%d ranks: nothing is left", ranks);
    }
}

Test(base_exact, parts_of_what_is_not_finite) {
    static const double bad[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        struct exact_sum sum = {0};
        double parts[3];
        exact_add(&sum, 2.5);
        exact_add(&sum, bad[i]);
        exact_split(&sum, 3, parts);
        cr_expect(isnan(bad[i]) ? isnan(parts[0]) : parts[0] == bad[i]);
        cr_expect(parts[1] == 0 && parts[2] == 0);
    }
}
