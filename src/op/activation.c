/* Elementwise functions and dropout. The gradients of relu and tanh are made from their output,
 * those of gelu and silu from their input; all may overwrite their first operand.
 *
 * Dropout asks for each element of each sample a random number keyed by (sample's key, place in the
 * graph, element), so what is dropped depends neither on the batch a sample sits in nor on who
 * computes. It is linear, so the same operation on the gradient is its backward: no mask is kept.
 */
#include "op/rule.h"

#include <math.h>

#include "base/rng.h"

static enum status unary_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 0, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    op_out(call, DTYPE_F32, &call->in[0].shape);
    return STATUS_OK;
}

static enum status unary_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {
        {"dy", DTYPE_F32, 0, SHAPE_MAX_RANK}, {"the saved tensor", DTYPE_F32, 0, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    TRY(op_wants(call, 0, "dy", &call->in[1].shape, "the saved tensor", why, why_bytes));
    op_out(call, DTYPE_F32, &call->in[0].shape);
    return STATUS_OK;
}

/* An error function, tanh or exponential is counted as ten operations. */
static struct op_cost transcendental_cost(const struct op_call *call) {
    return op_cost_of(call, 10 * (double)shape_count(&call->out[0].shape));
}

static void function_grad(struct op_grad *grad) {
    const struct op_function *function = op_def(grad->call->op)->function;
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    int kept = function->from_input ? grad->in[0] : grad->out[0];
    grad->d_in[0] =
        op_emit(grad, function->backward, NULL, OP_HALF_I, 2, (int[]){grad->d_out[0], kept});
}

static void function_run(const struct op_call *call, void *const in[], void *const out[],
                         void *scratch) {
    const struct op_function *function = op_def(call->op)->function;
    const float *x = in[0];
    float *y = out[0];
    int64_t count = shape_count(&call->in[0].shape);
    (void)scratch;
    for (int64_t i = 0; i < count; i++) y[i] = (float)function->value(x[i]);
}

static void function_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                             void *scratch) {
    const struct op_function *function = op_def(call->op)->function;
    const float *dy = in[0], *kept = in[1];
    float *dx = out[0];
    int64_t count = shape_count(&call->in[0].shape);
    (void)scratch;
    for (int64_t i = 0; i < count; i++) dx[i] = (float)function->gradient(dy[i], kept[i]);
}

/* --- the functions and their gradients --- */

static const double sqrt_half = 0.70710678118654752440;        /* 1 / sqrt(2) */
static const double sqrt_two_over_pi = 0.79788456080286535588; /* of gelu's tanh approximation */
static const double inverse_sqrt_two_pi = 0.39894228040143267794;
static const double gelu_cubic = 0.044715;

static double relu(double x) {
    return x < 0 ? 0 : x; /* NaN stays NaN */
}

/* As torch: nothing passes below zero, not even a NaN, and everything above a NaN. */
static double relu_gradient(double dy, double y) {
    return y <= 0 ? 0 : dy;
}

static double tanh_gradient(double dy, double y) {
    return dy * (1 - y * y);
}

static double gelu(double x) {
    return x * 0.5 * (1 + erf(x * sqrt_half));
}

static double gelu_gradient(double dy, double x) {
    double slope = 0.5 * (1 + erf(x * sqrt_half)) + x * inverse_sqrt_two_pi * exp(-0.5 * x * x);
    return dy * slope;
}

static double gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(sqrt_two_over_pi * (x + gelu_cubic * x * x * x)));
}

static double gelu_tanh_gradient(double dy, double x) {
    double t = tanh(sqrt_two_over_pi * (x + gelu_cubic * x * x * x));
    double inner = sqrt_two_over_pi * (1 + 3 * gelu_cubic * x * x);
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner);
}

static double silu(double x) {
    return x / (1 + exp(-x));
}

static double silu_gradient(double dy, double x) {
    double gate = 1 / (1 + exp(-x));
    return dy * gate * (1 + x * (1 - gate));
}

/* The two operations of a function: `kept` is what the gradient is made from, input or output. */
#define FUNCTION(lower, UPPER, cost_function, kept)                                                \
    static const struct op_function lower##_function = {ACTIVATION_##UPPER, OP_##UPPER##_BWD,      \
                                                        kept, lower, lower##_gradient};            \
    const struct op_def op_##lower = {                                                             \
        .name = #lower,                                                                            \
        .flags = OP_IN_PLACE,                                                                      \
        .infer = unary_infer,                                                                      \
        .cost = cost_function,                                                                     \
        .grad = function_grad,                                                                     \
        .run = function_run,                                                                       \
        .narrow_out = OP_FIRST(1),                                                                 \
        .function = &lower##_function,                                                             \
    };                                                                                             \
    const struct op_def op_##lower##_bwd = {                                                       \
        .name = #lower "_bwd",                                                                     \
        .flags = OP_IN_PLACE,                                                                      \
        .infer = unary_bwd_infer,                                                                  \
        .cost = cost_function,                                                                     \
        .run = function_bwd_run,                                                                   \
        .narrow_out = OP_FIRST(1),                                                                 \
        .function = &lower##_function,                                                             \
    };
#define OUTPUT false
#define INPUT true

FUNCTION(relu, RELU, op_cost_elementwise, OUTPUT)
FUNCTION(gelu, GELU, transcendental_cost, INPUT)
FUNCTION(gelu_tanh, GELU_TANH, transcendental_cost, INPUT)
FUNCTION(tanh, TANH, transcendental_cost, OUTPUT)
FUNCTION(silu, SILU, transcendental_cost, INPUT)

/* --- dropout --- */

static enum status dropout_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"key", DTYPE_I64, 1, 1}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    float p = call->attrs.dropout.probability;
    if (!(p >= 0 && p < 1)) MISFIT("probability is %g; [0,1) is needed", (double)p);
    const struct shape *x = &call->in[0].shape;
    TRY(op_wants(call, 1, "key", &SHAPE(x->dim[0]), "x's batch", why, why_bytes));
    op_out(call, DTYPE_F32, x);
    return STATUS_OK;
}

/* The generator's rounds are most of it. */
static struct op_cost dropout_cost(const struct op_call *call) {
    return op_cost_of(call, 20 * (double)shape_count(&call->out[0].shape));
}

static void dropout_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    grad->d_in[0] = op_emit(grad, OP_DROPOUT, &grad->call->attrs, OP_HALF_I, 2,
                            (int[]){grad->d_out[0], grad->in[1]});
}

static void dropout_run(const struct op_call *call, void *const in[], void *const out[],
                        void *scratch) {
    (void)scratch;
    const float *x = in[0];
    const uint64_t *key = in[1];
    float *y = out[0], p = call->attrs.dropout.probability, scale = 1 / (1 - p);
    const struct shape *shape = &call->in[0].shape;
    int64_t sample = shape_span(shape, 1, shape->rank);
    for (int64_t b = 0; b < shape->dim[0]; b++) {
        uint64_t stream = rng_key(key[b], call->attrs.dropout.place);
        for (int64_t i = 0; i < sample; i++) {
            bool keep = rng_uniform(stream, (uint64_t)i) >= p;
            y[b * sample + i] = x[b * sample + i] * (keep ? scale : 0);
        }
    }
}

static void dropout_text(const struct op_call *call, struct op_line *line) {
    op_say(line, "p %g", (double)call->attrs.dropout.probability);
}

const struct op_def op_dropout = {
    .name = "dropout",
    .flags = OP_IN_PLACE | OP_TRAILS,
    .infer = dropout_infer,
    .cost = dropout_cost,
    .grad = dropout_grad,
    .run = dropout_run,
    .narrow_out = OP_FIRST(1),
    .text = dropout_text,
};
