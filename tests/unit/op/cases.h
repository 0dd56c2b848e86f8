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
    bool part;  /* of a chain of operations whose gradient its rule makes: see test_sync_norm.c */
    bool kinks; /* not smooth: differences need small steps, and some points have none */
    double tolerance; /* of a backend against ref, relative to the rms; 0 is the usual 2e-5 */
};

/* Words of the tables: types of inputs, and attributes that many rows have. */
/* clang-format off */
#define DIMS(...) {sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}}
#define F(...) {DTYPE_F32, DIMS(__VA_ARGS__)}
#define I(...) {DTYPE_I32, DIMS(__VA_ARGS__)}
#define KEY(...) {DTYPE_I64, DIMS(__VA_ARGS__)}
#define BYTE(...) {DTYPE_U8, DIMS(__VA_ARGS__)}
#define SCALAR {DTYPE_F32, {0, {0}}}
#define COUNTER {DTYPE_I64, {0, {0}}}
#define COUNT_OF(...) (sizeof((struct tensor_type[]){__VA_ARGS__}) / sizeof(struct tensor_type))
#define IN(...) .in = {__VA_ARGS__}, .in_count = COUNT_OF(__VA_ARGS__)
#define CONV(s, p, d, g) .attrs.conv = {{s, s}, {p, p}, {d, d}, g}
#define POOL(k, s, p) .attrs.pool = {{k, k}, {s, s}, {p, p}, false}
#define ADAPT(h, w) .attrs.like = DIMS(h, w), .attrs.pool.adaptive = true
#define NORM .attrs.norm = {1e-5f, 0.1f}
#define ACT(name) .attrs.activation = ACTIVATION_##name
/* clang-format on */

/* Local. All cases; owned by the callee. */
const struct op_case *op_cases(int *count);

#endif
