/* Inputs and projections as formulas of an element's index, the same here and in values.py. */
#ifndef TESTS_OP_FORMULA_H
#define TESTS_OP_FORMULA_H

#include <stdint.h>

static inline double formula(int k, int64_t i) {
    return (double)((i * 37 + k * 101 + 13) % 257 - 128) / 64;
}

static inline double weight(int64_t i) {
    return (double)((i * 53 + 7) % 127 - 63) / 64;
}

#endif
