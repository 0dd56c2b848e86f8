/* The list of operations under test: forward calls only, since their gradient rules make the
 * backward ones. */
#ifndef TESTS_OP_CASES_H
#define TESTS_OP_CASES_H

#include "op/op.h"

struct op_case {
    const char *name; /* also keys the random inputs */
    enum op op;
    struct op_attrs attrs;
    struct tensor_type in[OP_MAX_IN];
    int in_count;
    int range;         /* i32 inputs are drawn from [0, range) */
    int ignore_every;  /* labels: every n-th is LABEL_IGNORE */
    unsigned positive; /* bit i: input i is a variance */
    bool kinks;        /* not smooth: differences need small steps, and some points have none */
    double tolerance;  /* of a backend against ref, relative to the rms; 0 is the usual 2e-5 */
};

/* Local. All cases; owned by the callee. */
const struct op_case *op_cases(int *count);

#endif
