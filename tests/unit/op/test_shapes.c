/* Shape rules: what must be refused, with a message that names the trouble; and what listings show.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "op/user.h"

/* A call that must not fit; `says` is part of the message. */
struct misfit {
    const char *says;
    enum op op;
    struct op_attrs attrs;
    struct tensor_type in[OP_MAX_IN];
    int in_count;
};

static int no_fit(struct stretto_call *call, char *why, size_t bytes) {
    if (call->in_count == 1) return 1;
    snprintf(why, bytes, "it wants one");
    return 1;
}

static int too_many(struct stretto_call *call, char *why, size_t bytes) {
    (void)why, (void)bytes;
    call->out_count = 3;
    return 0;
}

static int no_type(struct stretto_call *call, char *why, size_t bytes) {
    (void)why, (void)bytes;
    call->out[0].dtype = 99;
    return 0;
}

static int no_rank(struct stretto_call *call, char *why, size_t bytes) {
    (void)why, (void)bytes;
    call->out[0].rank = 9;
    return 0;
}

static struct op_use no_fit_use = {.op = {.shape = no_fit}},
                     too_many_use = {.op = {.shape = too_many}},
                     no_type_use = {.op = {.shape = no_type}},
                     no_rank_use = {.op = {.shape = no_rank}},
                     empty_use = {.call = {.in_count = 1, .in = {{STRETTO_F32, 1, {0}}}}};

static const struct misfit misfits[] = {
    {"2 to 3 are needed", OP_CONV2D, CONV(1, 1, 1, 1), IN(F(2, 3, 8, 8))},
    {"x is [3,8,8]; rank 4", OP_CONV2D, CONV(1, 1, 1, 1), IN(F(3, 8, 8), F(4, 3, 3, 3))},
    {"x is of type i32; f32", OP_CONV2D, CONV(1, 1, 1, 1), IN(I(2, 3, 8, 8), F(4, 3, 3, 3))},
    {"w needs 3 channels", OP_CONV2D, CONV(1, 1, 1, 1), IN(F(2, 3, 8, 8), F(4, 5, 3, 3))},
    {"do not divide into 3 groups", OP_CONV2D, CONV(1, 1, 1, 3), IN(F(2, 6, 8, 8), F(4, 2, 3, 3))},
    {"spans 9", OP_CONV2D, CONV(1, 1, 4, 1), IN(F(2, 3, 6, 6), F(4, 3, 3, 3))},
    {"stride 0", OP_CONV2D, CONV(0, 1, 1, 1), IN(F(2, 3, 8, 8), F(4, 3, 3, 3))},
    {"dilation 0", OP_CONV2D, CONV(1, 1, 0, 1), IN(F(2, 3, 8, 8), F(4, 3, 3, 3))},
    {"padding -1", OP_CONV2D, CONV(1, -1, 1, 1), IN(F(2, 3, 8, 8), F(4, 3, 3, 3))},
    {"groups is 0", OP_CONV2D, CONV(1, 1, 1, 0), IN(F(2, 3, 8, 8), F(4, 3, 3, 3))},
    {"b is [5]", OP_CONV2D, CONV(1, 1, 1, 1), IN(F(2, 3, 8, 8), F(4, 3, 3, 3), F(5))},
    {"activation 9", OP_CONV2D, CONV(1, 1, 1, 1), .attrs.activation = 9,
     IN(F(2, 3, 8, 8), F(4, 3, 3, 3))},
    {"is [2,3,0,8]: empty", OP_CONV2D, CONV(1, 1, 1, 1), IN(F(2, 3, 0, 8), F(4, 3, 3, 3))},
    {"dy is [2,4,7,8]", OP_CONV2D_BWD_DATA, CONV(1, 1, 1, 1), .attrs.like = DIMS(2, 3, 8, 8),
     IN(F(2, 4, 7, 8), F(4, 3, 3, 3))},
    {"the shape to make is []", OP_CONV2D_BWD_DATA, CONV(1, 1, 1, 1),
     IN(F(2, 4, 8, 8), F(4, 3, 3, 3))},
    {"dy is [2,4,8,8]", OP_CONV2D_BWD_WEIGHT, CONV(1, 1, 1, 1), .attrs.like = DIMS(5, 3, 3, 3),
     IN(F(2, 3, 8, 8), F(2, 4, 8, 8))},
    {"last dimension must be w's last", OP_LINEAR, IN(F(4, 7), F(5, 8))},
    {"w is [5,7,1]; rank 2", OP_LINEAR, IN(F(4, 7), F(5, 7, 1))},
    {"b is [7]", OP_LINEAR, IN(F(4, 7), F(5, 7), F(7))},
    {"dy's last dimension", OP_LINEAR_BWD_DATA, IN(F(4, 7), F(5, 7))},
    {"dy is [3,5]; x needs [4,5]", OP_LINEAR_BWD_WEIGHT, IN(F(4, 7), F(3, 5))},
    {"scale is 0", OP_MATMUL, IN(F(4, 7), F(7, 5))},
    {"7 columns meet 6 rows", OP_MATMUL, .attrs.matmul.scale = 1, IN(F(4, 7), F(6, 5))},
    {"all but the last two", OP_MATMUL, .attrs.matmul.scale = 1, IN(F(2, 4, 7), F(3, 7, 5))},
    {"epsilon is 0", OP_BATCH_NORM, IN(F(4, 3, 2, 2), F(3), F(3))},
    {"scale is [4]", OP_BATCH_NORM, NORM, IN(F(4, 3, 2, 2), F(4), F(3))},
    {"one value per channel", OP_BATCH_NORM, NORM, IN(F(1, 3, 1, 1), F(3), F(3))},
    {"relu only", OP_BATCH_NORM, NORM, .attrs.activation = ACTIVATION_TANH,
     IN(F(4, 3, 2, 2), F(3), F(3))},
    {"dy is [4,3,2,1]", OP_BATCH_NORM_BWD, NORM,
     IN(F(4, 3, 2, 1), F(4, 3, 2, 2), F(3), F(3), F(3))},
    {"5 inputs; 6 are needed", OP_BATCH_NORM_BWD, NORM, .attrs.activation = ACTIVATION_RELU,
     IN(F(4, 3, 2, 2), F(4, 3, 2, 2), F(3), F(3), F(3))},
    {"mask is [4,3,2,1]", OP_BATCH_NORM_BWD, NORM, .attrs.activation = ACTIVATION_RELU,
     IN(F(4, 3, 2, 2), F(4, 3, 2, 2), F(3), F(3), F(3), BYTE(4, 3, 2, 1))},
    {"running_var is [2]", OP_BATCH_NORM_EVAL, NORM, IN(F(4, 3, 2, 2), F(3), F(3), F(3), F(2))},
    {"batches is of type f32; i64", OP_BATCH_NORM_TRACK, NORM, .attrs.like = DIMS(4, 3),
     IN(F(3), F(3), SCALAR, F(3), F(3))},
    {"more than one value per channel", OP_BATCH_NORM_TRACK, NORM, .attrs.like = DIMS(1, 3),
     IN(F(3), F(3), COUNTER, F(3), F(3))},
    {"count is [2]", OP_BATCH_NORM_TRACK, NORM, IN(F(3), F(3), COUNTER, F(3), F(3), F(2))},
    {"var is [4]", OP_BATCH_NORM_TRACK, NORM, IN(F(3), F(3), COUNTER, F(3), F(4), F(1))},
    {"x is [3]; rank 2", OP_BATCH_NORM_STATS, IN(F(3))},
    {"between 0 ranks", OP_STATS_EXCHANGE, IN(F(3))},
    {"x is [2,3]; rank 1", OP_STATS_EXCHANGE, .attrs.ranks = 2, IN(F(2, 3))},
    {"rows of 2C+1", OP_BATCH_NORM_MERGE, IN(F(2, 6))},
    {"rows of 2C+1", OP_BATCH_NORM_MERGE, IN(F(2, 1))},
    {"var is [2]", OP_BATCH_NORM_APPLY, NORM, IN(F(4, 3), F(3), F(3), F(3), F(2), F(1))},
    {"count is [3]", OP_BATCH_NORM_APPLY, NORM, IN(F(4, 3), F(3), F(3), F(3), F(3), F(3))},
    {"relu only", OP_BATCH_NORM_APPLY, NORM, ACT(TANH), IN(F(4, 3), F(3), F(3), F(3), F(3), F(1))},
    {"5 are needed", OP_BATCH_NORM_BWD_STATS, NORM, ACT(RELU), IN(F(4, 3), F(4, 3), F(3), F(3))},
    {"dy is [4,2]", OP_BATCH_NORM_BWD_STATS, NORM, IN(F(4, 2), F(4, 3), F(3), F(3))},
    {"mask is [4,2]", OP_BATCH_NORM_BWD_STATS, NORM, ACT(RELU),
     IN(F(4, 3), F(4, 3), F(3), F(3), BYTE(4, 2))},
    {"sums is [2,5]", OP_BATCH_NORM_BWD_APPLY, NORM,
     IN(F(4, 3), F(4, 3), F(3), F(3), F(3), F(1), F(2, 5))},
    {"count is [2]", OP_BATCH_NORM_BWD_APPLY, NORM,
     IN(F(4, 3), F(4, 3), F(3), F(3), F(3), F(2), F(2, 6))},
    {"shift is [7]", OP_LAYER_NORM, NORM, IN(F(4, 8), F(8), F(7))},
    {"mean is [8]", OP_LAYER_NORM_BWD, NORM, IN(F(4, 8), F(4, 8), F(8), F(8), F(4))},
#define OP(NAME, name, doc)
#define ACTIVATION(NAME, name, doc)                                                                \
    {"1 are needed", OP_##NAME, IN(F(4), F(4))}, {"x is of type i32", OP_##NAME, IN(I(4))},        \
        {"dy is [4]", OP_##NAME##_BWD, IN(F(4), F(5))},
#include "op/op.def"
#undef OP
    {"probability is 1", OP_DROPOUT, .attrs.dropout = {1, 0}, IN(F(4, 5), KEY(4))},
    {"key is [5]", OP_DROPOUT, .attrs.dropout = {0.1f, 0}, IN(F(4, 5), KEY(5))},
    {"rank 1 to 5", OP_SOFTMAX, IN(SCALAR)},
    {"dy is [4,3]", OP_SOFTMAX_BWD, IN(F(4, 3), F(4, 5))},
    {"rank 1 to 5", OP_LOG_SOFTMAX, IN(SCALAR)},
    {"dy is [4,3]", OP_LOG_SOFTMAX_BWD, IN(F(4, 3), F(4, 5))},
    {"label is [5]", OP_NLL, IN(F(4, 10), I(5))},
    {"label is of type f32", OP_NLL, IN(F(4, 10), F(4))},
    {"smoothing is 1.5", OP_CROSS_ENTROPY, .attrs.loss = {1.5f}, IN(F(4, 10), I(4))},
    {"label is [2,2]", OP_CROSS_ENTROPY, IN(F(4, 10), I(2, 2))},
    {"3 are needed", OP_NLL_BWD, IN(F(4, 10), I(4))},
    {"seed is [1]", OP_CROSS_ENTROPY_BWD, IN(F(4, 10), I(4), F(1), F(4), F(4))},
    {"label is [10]", OP_TOP_K, IN(F(4, 10), I(10))},
    {"do not divide into 3 x 5 heads", OP_ATTENTION,
     .attrs.attention = {.heads = 5, .packed = true}, IN(F(2, 4, 24))},
    {"0 heads", OP_ATTENTION, .attrs.attention = {.packed = true}, IN(F(2, 4, 24))},
    {"k is [2,5,8]", OP_ATTENTION, .attrs.attention = {.heads = 2},
     IN(F(2, 4, 8), F(2, 5, 8), F(2, 4, 8))},
    {"1 inputs; 3 are needed", OP_ATTENTION, .attrs.attention = {.heads = 2}, IN(F(2, 4, 8))},
    {"mask is [4,2]", OP_ATTENTION, .attrs.attention = {.heads = 2, .packed = true, .masked = true},
     IN(F(2, 4, 24), I(4, 2))},
    {"mask is of type f32", OP_ATTENTION,
     .attrs.attention = {.heads = 2, .packed = true, .masked = true}, IN(F(2, 4, 24), F(2, 4))},
    {"key is of type i32", OP_ATTENTION,
     .attrs.attention = {.heads = 2, .packed = true, .dropout = 0.1f}, IN(F(2, 4, 24), I(2))},
    {"dropout is 1", OP_ATTENTION, .attrs.attention = {.heads = 2, .packed = true, .dropout = 1},
     IN(F(2, 4, 24), KEY(2))},
    {"p is [2,2,4,5]", OP_ATTENTION_BWD, .attrs.attention = {.heads = 2, .packed = true},
     IN(F(2, 4, 8), F(2, 2, 4, 5), F(2, 4, 24))},
    {"w is [10]; rank 2", OP_EMBEDDING, IN(F(10), I(4))},
    {"id is of type f32", OP_EMBEDDING, IN(F(10, 3), F(4))},
    {"dy is [4,2]", OP_EMBEDDING_BWD, .attrs.like = DIMS(10, 3), IN(F(4, 2), I(4))},
    {"the shape to make is []", OP_EMBEDDING_BWD, IN(F(4, 3), I(4))},
    {"the batches differ", OP_GATHER_ROWS, IN(F(2, 5, 3), I(3, 4))},
    {"dy is [2,4,3]", OP_GATHER_ROWS_BWD, .attrs.like = DIMS(2, 5, 3), IN(F(2, 4, 3), I(2, 6))},
    {"the shape to make", OP_GATHER_ROWS_BWD, .attrs.like = DIMS(3, 5, 3), IN(F(2, 4, 3), I(2, 4))},
    {"padding 2", OP_MAX_POOL, POOL(2, 2, 2), IN(F(2, 3, 8, 8))},
    {"the window is 9", OP_MAX_POOL, POOL(9, 1, 0), IN(F(2, 3, 8, 8))},
    {"where is [2,3,4,3]", OP_MAX_POOL_BWD, POOL(2, 2, 0), .attrs.like = DIMS(2, 3, 8, 8),
     IN(F(2, 3, 4, 4), I(2, 3, 4, 3))},
    {"kernel 0", OP_AVG_POOL, IN(F(2, 3, 8, 8))},
    {"the size to adapt to is []", OP_AVG_POOL, .attrs.pool.adaptive = true, IN(F(2, 3, 8, 8))},
    {"dy is [2,3,4,5]", OP_AVG_POOL_BWD, POOL(2, 2, 0), .attrs.like = DIMS(2, 3, 8, 8),
     IN(F(2, 3, 4, 5))},
    {"b must be the same, or [1,5]", OP_ADD, IN(F(4, 5), F(4, 6))},
    {"b must be the same", OP_ADD, IN(F(4, 5), F(4, 1))},
    {"rank 1 to 5", OP_SUM_BATCH, IN(SCALAR)},
    {"axis 2 of [4,5]", OP_CONCAT, .attrs.concat = {2}, IN(F(4, 5), F(4, 6))},
    {"input 1 is [3,6]", OP_CONCAT, .attrs.concat = {1}, IN(F(4, 5), F(3, 6))},
    {"input 1 is [4]", OP_CONCAT, .attrs.concat = {0}, IN(F(4, 5), F(4))},
    {"2 to 4 are needed", OP_CONCAT, .attrs.concat = {0}, IN(F(4, 5))},
    {"[2:9] is no part", OP_SLICE, .attrs.slice = {1, 2, 9}, IN(F(4, 5))},
    {"[3:3] is no part", OP_SLICE, .attrs.slice = {1, 3, 3}, IN(F(4, 5))},
    {"axis -1", OP_SLICE, .attrs.slice = {-1, 0, 1}, IN(F(4, 5))},
    {"dy is [4,2]", OP_SLICE_BWD, .attrs.slice = {1, 0, 1}, .attrs.like = DIMS(4, 5), IN(F(4, 2))},
    {"x is [2,5]", OP_EXPAND, .attrs.like = DIMS(4, 5), IN(F(2, 5))},
    {"a batch is needed", OP_EXPAND, IN(F(1, 5))},
    {"20 elements; [4,4] has 16", OP_RESHAPE, .attrs.like = DIMS(4, 4), IN(F(4, 5))},
    {"is used twice", OP_TRANSPOSE, IN(F(4, 5))},
    {"which is none", OP_TRANSPOSE, .attrs.transpose = {{0, 2}}, IN(F(4, 5))},
    {"its inputs do not fit", OP_USER, .attrs.user.use = &no_fit_use, IN(F(4, 5))},
    {"it wants one", OP_USER, .attrs.user.use = &no_fit_use, IN(F(4), F(4))},
    {"5 inputs; 1 to 4", OP_USER, .attrs.user.use = &no_fit_use, IN(F(4), F(4), F(4), F(4), F(4))},
    {"3 outputs; 1 to 2", OP_USER, .attrs.user.use = &too_many_use, IN(F(4, 5))},
    {"output 0 is of type 99", OP_USER, .attrs.user.use = &no_type_use, IN(F(4, 5))},
    {"output 0 has rank 9", OP_USER, .attrs.user.use = &no_rank_use, IN(F(4, 5))},
    {"output 0 is [0]: empty", OP_USER_BWD, .attrs.user = {&empty_use, 1, 1}, IN(F(4, 5))},
    {"2 inputs; 1 is needed", OP_REORDER, IN(F(4, 5), F(4, 5))},
};

Test(op_shapes, misfits_are_refused_with_a_reason) {
    bool seen[OP_COUNT] = {0};
    for (size_t i = 0; i < sizeof misfits / sizeof misfits[0]; i++) {
        const struct misfit *m = &misfits[i];
        const char *name = op_def(m->op)->name;
        struct op_call call = {.op = m->op, .attrs = m->attrs, .in_count = m->in_count};
        memcpy(call.in, m->in, sizeof call.in);
        struct op_call before = call;
        char why[256] = "";
        seen[m->op] = true;
        cr_expect(op_infer(&call, why, sizeof why) == STATUS_USAGE, "%s fits, but must not: %s",
                  name, m->says);
        cr_expect(strstr(why, m->says), "%s says \"%s\", not \"%s\"", name, why, m->says);
        cr_expect(memcmp(&call, &before, sizeof call) == 0, "%s changed a call that failed", name);
    }
    for (int op = 0; op < OP_COUNT; op++)
        cr_expect(seen[op], "%s has no misfit in the table", op_def((enum op)op)->name);
}

/* What explain shows; two calls that differ in a number differ in text. */
Test(op_shapes, attributes_in_words) {
    static const struct {
        const char *text;
        struct misfit call;
    } rows[] = {
        {"3x3 stride 2 pad 1 relu",
         {NULL, OP_CONV2D, CONV(2, 1, 1, 1), .attrs.activation = ACTIVATION_RELU,
          IN(F(2, 3, 8, 8), F(4, 3, 3, 3))}},
        {"1x3 stride 1x2 dilation 2 groups 3",
         {NULL, OP_CONV2D, .attrs.conv = {{1, 2}, {0, 0}, {2, 2}, 3},
          IN(F(2, 3, 8, 8), F(3, 1, 1, 3))}},
        {"adaptive 1x1",
         {NULL, OP_AVG_POOL, .attrs.pool.adaptive = true, .attrs.like = DIMS(1, 1),
          IN(F(2, 3, 8, 8))}},
        {"2 heads masked causal dropout 0.1",
         {NULL, OP_ATTENTION, .attrs.attention = {2, true, true, true, 0.1f, 0},
          IN(F(2, 4, 24), I(2, 4), KEY(2))}},
        {"b transposed scale 0.125",
         {NULL, OP_MATMUL, .attrs.matmul = {false, true, 0.125f}, IN(F(4, 7), F(5, 7))}},
        {"axis 1 [2:4]", {NULL, OP_SLICE, .attrs.slice = {1, 2, 4}, IN(F(3, 5))}},
        {"order 1,0", {NULL, OP_TRANSPOSE, .attrs.transpose = {{1, 0}}, IN(F(3, 5))}},
        {"smoothing 0.1", {NULL, OP_CROSS_ENTROPY, .attrs.loss = {0.1f}, IN(F(3, 5), I(3))}},
        {"", {NULL, OP_RELU, .in_count = 1, .in = {F(3)}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct misfit *m = &rows[i].call;
        struct op_call call = {.op = m->op, .attrs = m->attrs, .in_count = m->in_count};
        char why[256] = "", text[OP_TEXT_BYTES];
        memcpy(call.in, m->in, sizeof call.in);
        cr_assert(op_infer(&call, why, sizeof why) == STATUS_OK, "%s", why);
        cr_expect_str_eq(op_attrs_text(&call, text), rows[i].text);
    }
}

/* Costs by hand: a convolution, a linear layer and attention, forward. */
Test(op_shapes, costs) {
    struct op_call conv = {.op = OP_CONV2D, CONV(1, 1, 1, 1), IN(F(2, 3, 8, 8), F(4, 3, 3, 3))};
    struct op_call linear = {.op = OP_LINEAR, IN(F(6, 10, 7), F(5, 7))};
    struct op_call embedding = {.op = OP_EMBEDDING, IN(F(30522, 128), I(4))};
    char why[256];
    cr_assert(op_infer(&conv, why, sizeof why) == STATUS_OK);
    cr_assert(op_infer(&linear, why, sizeof why) == STATUS_OK);
    cr_assert(op_infer(&embedding, why, sizeof why) == STATUS_OK);
    cr_expect(op_cost(&conv).flops == 2.0 * 2 * 4 * 8 * 8 * 27);
    cr_expect(op_cost(&conv).bytes == 4.0 * (2 * 3 * 64 + 4 * 27 + 2 * 4 * 64));
    cr_expect(op_cost(&linear).flops == 2.0 * 60 * 7 * 5);
    cr_expect(op_cost(&embedding).bytes == 4.0 * (2 * 4 * 128 + 4), "only rows read count");
}
