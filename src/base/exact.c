/* See exact.h. */
#include "base/exact.h"

#include <math.h>

__extension__ typedef unsigned __int128 u128;

enum { LIMB_BITS = 32, LOWEST = -1152, MANTISSA_BITS = 53, MOST_TERMS = 1 << 30 };

/* Every limb but the last from 0 to 2^32 again: that one has the sign. */
static void carry(struct exact_sum *sum) {
    for (int i = 0; i + 1 < EXACT_LIMBS; i++) {
        sum->limb[i + 1] += sum->limb[i] >> LIMB_BITS;
        sum->limb[i] &= UINT32_MAX;
    }
    sum->terms = 0;
}

static void count_terms(struct exact_sum *sum, int64_t terms) {
    sum->terms += terms;
    if (sum->terms >= MOST_TERMS) carry(sum);
}

void exact_add(struct exact_sum *sum, double term) {
    if (!isfinite(term)) {
        sum->special += term;
        return;
    }
    int exponent;
    double fraction = frexp(fabs(term), &exponent);
    uint64_t mantissa = (uint64_t)ldexp(fraction, MANTISSA_BITS);
    int at = exponent - MANTISSA_BITS - LOWEST, limb = at / LIMB_BITS;
    u128 shifted = (u128)mantissa << at % LIMB_BITS;
    for (int i = 0; i < 3; i++) {
        int64_t part = (int64_t)(uint32_t)(shifted >> LIMB_BITS * i);
        sum->limb[limb + i] += term < 0 ? -part : part;
    }
    count_terms(sum, 1);
}

void exact_merge(struct exact_sum *sum, const struct exact_sum *other) {
    struct exact_sum from = *other;
    carry(&from);
    for (int i = 0; i < EXACT_LIMBS; i++) sum->limb[i] += from.limb[i];
    sum->special += from.special;
    count_terms(sum, 1);
}

/* The highest three limbs hold more bits than a double; what is below only tells on which side of a
 * half the rest lies. */
double exact_total(const struct exact_sum *given) {
    struct exact_sum sum = *given;
    if (sum.special != 0) return sum.special;
    carry(&sum);
    bool negative = sum.limb[EXACT_LIMBS - 1] < 0;
    for (int i = 0; negative && i < EXACT_LIMBS; i++) sum.limb[i] = -sum.limb[i];
    if (negative) carry(&sum);
    int top = EXACT_LIMBS - 1;
    while (top > 2 && sum.limb[top] == 0) top--;
    u128 bits = 0;
    for (int i = 0; i < 3; i++) bits = bits << LIMB_BITS | (uint64_t)sum.limb[top - i];
    bool below = false;
    for (int i = 0; i < top - 2; i++) below |= sum.limb[i] != 0;
    double total = ldexp((double)(bits << 1 | below), (top - 2) * LIMB_BITS + LOWEST - 1);
    return negative ? -total : total;
}

void exact_split(const struct exact_sum *sum, int count, double *parts) {
    struct exact_sum left = *sum;
    for (int i = 0; i < count; i++) {
        parts[i] = exact_total(&left);
        if (isfinite(parts[i]))
            exact_add(&left, -parts[i]);
        else
            left = (struct exact_sum){0};
    }
}
