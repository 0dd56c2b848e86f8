/* Exact sums of doubles: the same total in whatever order they are added and however they are
 * spread over ranks.
 *
 * The sum is a fixed-point number wide enough for every double, kept in pieces of 32 bits with room
 * for carries and a sign. Rejected: a fixed order of additions, which would need all terms in one
 * place. */
#ifndef BASE_EXACT_H
#define BASE_EXACT_H

#include <stdbool.h>
#include <stdint.h>

enum { EXACT_LIMBS = 72 };

/* All zero: nothing added yet. May be copied to other ranks as bytes. */
struct exact_sum {
    int64_t limb[EXACT_LIMBS]; /* limb i counts 2^(32 i - 1152) */
    int64_t terms;             /* since carries were last passed on */
    double special;            /* sum of infinities and NaN, else 0 */
};

/* Local. Adds a term; adds another sum. */
void exact_add(struct exact_sum *sum, double term);
void exact_merge(struct exact_sum *sum, const struct exact_sum *other);
/* Local. The total, rounded once to the nearest double. */
double exact_total(const struct exact_sum *sum);
/* Local. The sum as `count` doubles to be added exactly elsewhere: each the total of what those
 * before it leave. All of it where the terms lie within count x 53 bits of one another, and what is
 * left out is below the last one's last bit. */
void exact_split(const struct exact_sum *sum, int count, double *parts);

#endif
