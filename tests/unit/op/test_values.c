/* The reference kernels against PyTorch: the projections of outputs and gradients in values.def,
 * made by values.py. This is what ties `ref`, the definition of correct for every backend, to the
 * outside: which way around groups, heads, windows and labels are meant. Inputs are formulas of the
 * element's index, the same here and there. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "formula.h"

static const struct {
    const char *name;
    double output, gradient[OP_MAX_IN];
} values[] = {
#define VALUES(name, output, ...) {name, output, {__VA_ARGS__}},
#include "values.def"
#undef VALUES
};

static void draw_formula(const struct op_case *of, int input, const struct tensor_type *type,
                         void *data) {
    int64_t count = shape_count(&type->shape);
    for (int64_t i = 0; i < count; i++) {
        double x = formula(input, i);
        if (type->dtype == DTYPE_F32)
            ((float *)data)[i] = (float)(of->positive >> input & 1 ? fabs(x) + 0.5 : x);
        if (type->dtype == DTYPE_I32)
            ((int32_t *)data)[i] = of->ignore_every && i % of->ignore_every == 0
                                       ? LABEL_IGNORE
                                       : (int32_t)((i * 7 + input * 3) % of->range);
    }
}

/* Compares a projection; the tolerance follows from the size of what is added up. */
static void check(const char *name, const char *what, const struct chain_value *value,
                  double want) {
    double sum = 0, size = 0;
    for (int64_t i = 0; i < shape_count(&value->type.shape); i++) {
        double x = value->type.dtype == DTYPE_F64 ? ((double *)value->data)[i]
                                                  : (double)((float *)value->data)[i];
        sum += x * weight(i);
        size += fabs(x * weight(i));
    }
    cr_expect(fabs(sum - want) <= 1e-6 * size + 1e-9, "%s: %s projects to %.9g, PyTorch's to %.9g",
              name, what, sum, want);
}

static const struct op_case *find(const char *name) {
    int count;
    const struct op_case *cases = op_cases(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(cases[i].name, name) == 0) return &cases[i];
    return NULL;
}

Test(op_values, agree_with_pytorch) {
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const struct op_case *of = find(values[i].name);
        cr_assert(of, "no case is called %s", values[i].name);
        struct chain *chain = chain_new(of, NULL, draw_formula);
        check(of->name, "the output", &chain->values[chain->calls[0].out[0]], values[i].output);
        for (int k = 0, next = 0; k < of->in_count; k++)
            if (chain->d_in[k] >= 0)
                check(of->name, "a gradient", &chain->values[chain->d_in[k]],
                      values[i].gradient[next++]);
        chain_free(&chain);
    }
}

/* --- what becomes of NaN and infinities --- */

enum { SPECIAL_MAX = 6 };
struct numbers {
    int count;
    float at[SPECIAL_MAX];
};

static const struct special {
    const char *name;
    struct numbers x, dy, y, dx;
} specials[] = {
#define N(...)                                                                                     \
    {                                                                                              \
        sizeof((float[]){__VA_ARGS__}) / sizeof(float), {                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define SPECIAL(name, x, dy, y, dx) {name, x, dy, y, dx},
#include "specials.def"
#undef SPECIAL
#undef N
};

static const struct op_case special_cases[] = {
    {"relu", OP_RELU, IN(F(4))},
    {"gelu", OP_GELU, IN(F(4))},
    {"gelu_tanh", OP_GELU_TANH, IN(F(4))},
    {"tanh", OP_TANH, IN(F(4))},
    {"silu", OP_SILU, IN(F(4))},
    {"softmax", OP_SOFTMAX, IN(F(1, 4))},
    {"log_softmax", OP_LOG_SOFTMAX, IN(F(1, 4))},
    {"max_pool", OP_MAX_POOL, .attrs.pool = {{1, 4}, {1, 4}, {0, 0}, false}, IN(F(1, 1, 1, 4))},
    {"attention", OP_ATTENTION, .attrs.attention = {.heads = 1, .packed = true}, IN(F(1, 2, 3))},
};

static const struct special *special_now; /* the row that draw_special draws from */

static void draw_special(const struct op_case *of, int input, const struct tensor_type *type,
                         void *data) {
    (void)of;
    const struct numbers *from = input == OP_MAX_IN ? &special_now->dy : &special_now->x;
    cr_assert_eq(from->count, shape_count(&type->shape));
    memcpy(data, from->at, tensor_type_bytes(type));
}

static void check_special(const char *what, const struct chain_value *value,
                          const struct numbers *want) {
    const float *have = value->data;
    for (int i = 0; i < want->count; i++) {
        float w = want->at[i], h = have[i];
        bool same = isnan(w) ? isnan(h) : isinf(w) ? h == w : fabsf(h - w) <= 1e-6f;
        cr_expect(same, "%s of %g %g %g ...: element %d of %s is %g, PyTorch's is %g",
                  special_now->name, (double)special_now->x.at[0], (double)special_now->x.at[1],
                  (double)special_now->x.at[2], i, what, (double)h, (double)w);
    }
}

Test(op_values, not_finite_as_in_pytorch) {
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        const struct op_case *of = NULL;
        for (size_t c = 0; c < sizeof special_cases / sizeof special_cases[0]; c++)
            if (strcmp(special_cases[c].name, specials[i].name) == 0) of = &special_cases[c];
        cr_assert(of, "no case is called %s", specials[i].name);
        special_now = &specials[i];
        struct chain *chain = chain_new(of, NULL, draw_special);
        check_special("y", &chain->values[chain->calls[0].out[0]], &specials[i].y);
        check_special("dx", &chain->values[chain->d_in[0]], &specials[i].dx);
        chain_free(&chain);
    }
}

static void run(struct op_call *call, void *const in[], void *const out[]) {
    char why[256] = "";
    cr_assert(op_infer(call, why, sizeof why) == STATUS_OK, "%s", why);
    op_def(call->op)->run(call, in, out, NULL);
}

/* Equal scores rank by index; a row that is not a number is not right. */
Test(op_values, top_k_ranks_ties_by_index) {
    float x[] = {1, 1, 1, 1, 1, 1, /**/ 1,   1, 1, 1, 1, 1, /**/ 0, 2, 2, 1, 0, 0,
                 0, 0, 0, 0, 0, 0, /**/ NAN, 1, 1, 1, 1, 1, /**/ 5, 4, 3, 2, 1, 0};
    int32_t label[] = {0, 5, 2, LABEL_IGNORE, 0, 4};
    double counts[3];
    struct op_call call = {
        .op = OP_TOP_K,
        .in_count = 2,
        .in = {{DTYPE_F32, SHAPE(6, 6)}, {DTYPE_I32, SHAPE(6)}},
    };
    run(&call, (void *[]){x, label}, (void *[]){counts});
    cr_expect(counts[0] == 1 && counts[1] == 3 && counts[2] == 5, "%g %g %g", counts[0], counts[1],
              counts[2]);
}

/* Momentum 0.1 towards mean 2 and the unbiased form of variance 3 over n = 4 values. */
Test(op_values, running_statistics_are_unbiased) {
    float running_mean[] = {1}, running_var[] = {1}, mean[] = {2}, var[] = {3};
    int64_t batches = 41;
    struct op_call call = {
        .op = OP_BATCH_NORM_TRACK,
        .attrs = {.like = SHAPE(2, 1, 1, 2), .norm = {1e-5f, 0.1f}},
        .in_count = 5,
        .in = {{DTYPE_F32, SHAPE(1)},
               {DTYPE_F32, SHAPE(1)},
               {DTYPE_I64, SHAPE_SCALAR},
               {DTYPE_F32, SHAPE(1)},
               {DTYPE_F32, SHAPE(1)}},
    };
    run(&call, (void *[]){running_mean, running_var, &batches, mean, var}, (void *[]){NULL});
    cr_expect_float_eq(running_mean[0], 0.9 + 0.2, 1e-6);
    cr_expect_float_eq(running_var[0], 0.9 + 0.1 * 4, 1e-6);
    cr_expect_eq(batches, 42);
}

/* torch multiplies by 0 or 1/(1-p), so a NaN or an infinity that is dropped is a NaN. */
Test(op_values, dropout_does_not_drop_a_nan) {
    float x[64], y[64];
    uint64_t key = 5;
    for (int i = 0; i < 64; i++) x[i] = i % 2 ? NAN : INFINITY;
    struct op_call call = {.op = OP_DROPOUT, .attrs.dropout = {0.5f, 3}, .in_count = 2};
    call.in[0] = (struct tensor_type){DTYPE_F32, SHAPE(1, 64)};
    call.in[1] = (struct tensor_type){DTYPE_I64, SHAPE(1)};
    run(&call, (void *[]){x, &key}, (void *[]){y});
    for (int i = 0; i < 64; i++) cr_expect(!isfinite(y[i]), "%g becomes %g", x[i], y[i]);
}

/* What is dropped depends on the sample's key and place alone, not on the batch it sits in. */
Test(op_values, dropout_is_keyed_by_sample) {
    enum { N = 4096 };
    static float x[2 * N], both[2 * N], alone[N];
    uint64_t keys[] = {123, 456};
    for (int i = 0; i < 2 * N; i++) x[i] = 1;
    struct op_call call = {.op = OP_DROPOUT, .attrs.dropout = {0.25f, 3}, .in_count = 2};
    call.in[0] = (struct tensor_type){DTYPE_F32, SHAPE(2, N)};
    call.in[1] = (struct tensor_type){DTYPE_I64, SHAPE(2)};
    run(&call, (void *[]){x, keys}, (void *[]){both});
    call.in[0].shape.dim[0] = call.in[1].shape.dim[0] = 1;
    run(&call, (void *[]){x, &keys[1]}, (void *[]){alone});
    cr_expect(memcmp(alone, both + N, sizeof alone) == 0);
    cr_expect(memcmp(both, both + N, sizeof alone) != 0);
    int kept = 0;
    for (int i = 0; i < N; i++) {
        cr_assert(alone[i] == 0 || fabs(alone[i] - 1 / 0.75) < 1e-6);
        kept += alone[i] != 0;
    }
    cr_expect(abs(kept - 3072) < 140, "%d of 4096 kept with p = 0.25", kept); /* five sigma */
}
