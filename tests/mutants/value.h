/* Values of the judge: a hash stands for an expression, so that equal values are equal expressions.
 * Of its own, not that of src/base or of the verifier: one is held against the other. */
#ifndef TESTS_MUTANTS_VALUE_H
#define TESTS_MUTANTS_VALUE_H

#include <stdint.h>

typedef uint64_t value;

/* Nothing was written there; the neutral element of sums. */
enum { VALUE_NONE = 0, VALUE_NEUTRAL = 1 };

enum value_kind {
    VALUE_SAMPLES = 2,
    VALUE_PARAMS,
    VALUE_STATISTICS,
    VALUE_SHARED,
    VALUE_FORWARD,
    VALUE_OUTPUT,
    VALUE_LOSS,
    VALUE_LABELS,
    VALUE_BACKWARD,
    VALUE_INPUT_GRADIENT,
    VALUE_WEIGHT_GRADIENT,
    VALUE_TIED,
    VALUE_SUM,
    VALUE_SQUARES,
    VALUE_NORM,
    VALUE_STEP,
    VALUE_RANK,
    VALUE_USES,
    VALUE_SLICES,
    VALUE_EVALUATED,
    VALUE_DELTA,
    VALUE_OUTER,
    VALUE_MEAN
};

/* Local. The expression `kind` of two others; chain calls for more. */
value value_of(enum value_kind kind, value a, value b);
/* Local. into + from, where the neutral element changes nothing; the uses of a parameter added. */
value value_sum(value into, value from);
value value_tied(value gradient);
/* Local. The fixed tree over neighbours 2i and 2i+1, an odd last one carried up; spends `items`.
 * VALUE_NEUTRAL for none. */
value value_tree(value *items, int count);

#endif
