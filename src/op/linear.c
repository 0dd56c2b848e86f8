/* Matrix products: linear layers (weights [O,I] as torch stores them, or across, [I,O], as GPT-2's
 * do) and the batched product of two tensors.
 *
 * A linear layer sees x[...,I] as rows; the batched product treats all but the last two dimensions
 * as the batch. A product's gradient is two more products, so matmul needs no backward operation of
 * its own. */
#include "op/rule.h"

/* --- linear --- */

/* Which dimension of the weight is the outputs', and which the inputs'. */
static int w_out(const struct op_call *call) {
    return call->attrs.across ? 1 : 0;
}

static int w_in(const struct op_call *call) {
    return 1 - w_out(call);
}

/* Steps in a stored weight from one output, and from one input, to the next. */
struct w_steps {
    int64_t output, input;
};

static struct w_steps w_steps(const struct op_call *call, int64_t inputs, int64_t outputs) {
    return call->attrs.across ? (struct w_steps){1, outputs} : (struct w_steps){inputs, 1};
}

static enum status linear_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {
        {"x", DTYPE_F32, 1, SHAPE_MAX_RANK}, {"w", DTYPE_F32, 2, 2}, {"b", DTYPE_F32, 1, 1}};
    TRY(op_operands(call, operands, 2, 3, why, why_bytes));
    if ((unsigned)call->attrs.activation >= ACTIVATION_COUNT)
        MISFIT("activation %d is unknown", (int)call->attrs.activation);
    const struct shape *x = &call->in[0].shape, *w = &call->in[1].shape;
    if (op_columns(x) != w->dim[w_in(call)])
        MISFIT("x is %s, w is %s: x's last dimension must be w's %s", TEXT(*x), TEXT(*w),
               call->attrs.across ? "first" : "last");
    int64_t outputs = w->dim[w_out(call)];
    if (call->in_count == 3)
        TRY(op_wants(call, 2, "b", &SHAPE(outputs), "w's output features", why, why_bytes));
    struct shape y = op_shape_last(x, outputs);
    op_out(call, DTYPE_F32, &y);
    if (call->attrs.saves) op_out(call, DTYPE_F32, &y);
    return STATUS_OK;
}

static enum status linear_bwd_data_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"w", DTYPE_F32, 2, 2}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    const struct shape *dy = &call->in[0].shape, *w = &call->in[1].shape;
    if (op_columns(dy) != w->dim[w_out(call)])
        MISFIT("dy is %s, w is %s: dy's last dimension must be w's %s", TEXT(*dy), TEXT(*w),
               call->attrs.across ? "last" : "first");
    struct shape dx = op_shape_last(dy, w->dim[w_in(call)]);
    op_out(call, DTYPE_F32, &dx);
    return STATUS_OK;
}

static enum status linear_bwd_weight_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"dy", DTYPE_F32, 1, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    const struct shape *x = &call->in[0].shape, *dy = &call->in[1].shape;
    struct shape want = op_shape_last(x, op_columns(dy));
    TRY(op_wants(call, 1, "dy", &want, "x", why, why_bytes));
    struct shape w = SHAPE(op_columns(dy), op_columns(x));
    if (call->attrs.across) w = SHAPE(op_columns(x), op_columns(dy));
    op_out(call, DTYPE_F32, &w);
    if (call->attrs.has_bias) op_out(call, DTYPE_F32, &SHAPE(op_columns(dy)));
    return STATUS_OK;
}

static struct op_cost linear_cost(const struct op_call *call) {
    double rows = (double)op_rows(&call->in[0].shape);
    double after = activation_needs_input(call->attrs.activation)
                       ? 10 * (double)shape_count(&call->out[0].shape)
                       : 0;
    return op_cost_of(call, 2 * rows * (double)shape_count(&call->in[1].shape) + after);
}

static struct op_cost linear_bwd_weight_cost(const struct op_call *call) {
    double rows = (double)op_rows(&call->in[0].shape);
    return op_cost_of(call, 2 * rows * (double)shape_count(&call->out[0].shape));
}

static void linear_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad)) return;
    bool bias = grad->call->in_count == 3 && grad->need[2];
    int dy = op_grad_activation(grad);
    struct op_attrs attrs = {.across = grad->call->attrs.across};
    if (grad->need[0])
        grad->d_in[0] =
            op_emit(grad, OP_LINEAR_BWD_DATA, &attrs, OP_HALF_I, 2, (int[]){dy, grad->in[1]});
    if (grad->need[1] || bias) {
        attrs.has_bias = bias;
        int out[OP_MAX_OUT];
        grad->emit(grad, OP_LINEAR_BWD_WEIGHT, &attrs, OP_HALF_W, 2, (int[]){grad->in[0], dy}, out);
        if (grad->need[1]) grad->d_in[1] = out[0];
        if (bias) grad->d_in[2] = out[1];
    }
}

static void linear_run(const struct op_call *call, void *const in[], void *const out[],
                       void *scratch) {
    (void)scratch;
    const float *x = in[0], *w = in[1], *b = call->in_count == 3 ? in[2] : NULL;
    float *y = out[0], *saved = call->attrs.saves ? out[1] : NULL;
    int64_t rows = op_rows(&call->in[0].shape), I = op_columns(&call->in[0].shape);
    int64_t O = op_columns(&call->out[0].shape);
    struct w_steps step = w_steps(call, I, O);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < O; o++) {
            double sum = 0;
            for (int64_t i = 0; i < I; i++)
                sum += (double)x[r * I + i] * w[o * step.output + i * step.input];
            if (b) sum += b[o];
            if (saved) saved[r * O + o] = (float)sum;
            y[r * O + o] = op_activate(call->attrs.activation, sum);
        }
}

static void linear_bwd_data_run(const struct op_call *call, void *const in[], void *const out[],
                                void *scratch) {
    (void)scratch;
    const float *dy = in[0], *w = in[1];
    float *dx = out[0];
    int64_t rows = op_rows(&call->in[0].shape), O = op_columns(&call->in[0].shape);
    int64_t I = op_columns(&call->out[0].shape);
    struct w_steps step = w_steps(call, I, O);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t o = 0; o < O; o++)
                sum += (double)dy[r * O + o] * w[o * step.output + i * step.input];
            dx[r * I + i] = (float)sum;
        }
}

static void linear_bwd_weight_run(const struct op_call *call, void *const in[], void *const out[],
                                  void *scratch) {
    (void)scratch;
    const float *x = in[0], *dy = in[1];
    float *dw = out[0], *db = call->attrs.has_bias ? out[1] : NULL;
    int64_t rows = op_rows(&call->in[0].shape), I = op_columns(&call->in[0].shape);
    int64_t O = op_columns(&call->in[1].shape);
    struct w_steps step = w_steps(call, I, O);
    for (int64_t o = 0; o < O; o++) {
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t r = 0; r < rows; r++) sum += (double)dy[r * O + o] * x[r * I + i];
            dw[o * step.output + i * step.input] = (float)sum;
        }
        if (!db) continue;
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += dy[r * O + o];
        db[o] = (float)sum;
    }
}

/* --- matmul --- */

/* One operand as a stack of matrices [batch,rows,columns], read straight or across. */
struct stack {
    int64_t batch, rows, columns;
    bool transposed;
};

static struct stack stack_of(const struct shape *shape, bool transposed) {
    int64_t rows = shape->dim[shape->rank - 2], columns = shape->dim[shape->rank - 1];
    int64_t batch = shape_span(shape, 0, shape->rank - 2);
    if (transposed) return (struct stack){batch, columns, rows, true};
    return (struct stack){batch, rows, columns, false};
}

static double stack_at(const struct stack *s, const float *data, int64_t b, int64_t row,
                       int64_t column) {
    data += b * s->rows * s->columns;
    return s->transposed ? data[column * s->rows + row] : data[row * s->columns + column];
}

static bool same_batch(const struct shape *a, const struct shape *b) {
    if (a->rank != b->rank) return false;
    for (int d = 0; d < a->rank - 2; d++)
        if (a->dim[d] != b->dim[d]) return false;
    return true;
}

static enum status matmul_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"a", DTYPE_F32, 2, SHAPE_MAX_RANK},
                                                 {"b", DTYPE_F32, 2, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    const struct op_attrs *attrs = &call->attrs;
    const struct shape *a = &call->in[0].shape, *b = &call->in[1].shape;
    struct stack left = stack_of(a, attrs->matmul.transpose_a);
    struct stack right = stack_of(b, attrs->matmul.transpose_b);
    if (attrs->matmul.scale == 0) MISFIT("scale is 0, which leaves nothing; 1 is neutral");
    if (!same_batch(a, b))
        MISFIT("a is %s, b is %s: all but the last two dimensions must be equal", TEXT(*a),
               TEXT(*b));
    if (left.columns != right.rows)
        MISFIT("a%s is %s, b%s is %s: %lld columns meet %lld rows",
               left.transposed ? " (transposed)" : "", TEXT(*a),
               right.transposed ? " (transposed)" : "", TEXT(*b), (long long)left.columns,
               (long long)right.rows);
    struct shape y = *a;
    y.dim[y.rank - 2] = left.rows;
    y.dim[y.rank - 1] = right.columns;
    op_out(call, DTYPE_F32, &y);
    return STATUS_OK;
}

static struct op_cost matmul_cost(const struct op_call *call) {
    struct stack left = stack_of(&call->in[0].shape, call->attrs.matmul.transpose_a);
    double count = (double)shape_count(&call->out[0].shape);
    return op_cost_of(call, 2 * count * (double)left.columns);
}

static int emit_product(struct op_grad *grad, int a, bool transpose_a, int b, bool transpose_b) {
    struct op_attrs attrs = {0};
    attrs.matmul.transpose_a = transpose_a;
    attrs.matmul.transpose_b = transpose_b;
    attrs.matmul.scale = grad->call->attrs.matmul.scale;
    return op_emit(grad, OP_MATMUL, &attrs, OP_HALF_I, 2, (int[]){a, b});
}

/* y = A B gives dA = dy B', dB = A' dy; where an operand is stored transposed its gradient is, too.
 */
static void matmul_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad)) return;
    int a = grad->in[0], b = grad->in[1], dy = grad->d_out[0];
    bool ta = grad->call->attrs.matmul.transpose_a, tb = grad->call->attrs.matmul.transpose_b;
    if (grad->need[0])
        grad->d_in[0] =
            ta ? emit_product(grad, b, tb, dy, true) : emit_product(grad, dy, false, b, !tb);
    if (grad->need[1])
        grad->d_in[1] =
            tb ? emit_product(grad, dy, true, a, ta) : emit_product(grad, a, !ta, dy, false);
}

static void matmul_run(const struct op_call *call, void *const in[], void *const out[],
                       void *scratch) {
    (void)scratch;
    struct stack left = stack_of(&call->in[0].shape, call->attrs.matmul.transpose_a);
    struct stack right = stack_of(&call->in[1].shape, call->attrs.matmul.transpose_b);
    float *y = out[0];
    for (int64_t n = 0; n < left.batch; n++)
        for (int64_t i = 0; i < left.rows; i++)
            for (int64_t j = 0; j < right.columns; j++) {
                double sum = 0;
                for (int64_t k = 0; k < left.columns; k++)
                    sum += stack_at(&left, in[0], n, i, k) * stack_at(&right, in[1], n, k, j);
                *y++ = (float)(sum * call->attrs.matmul.scale);
            }
}

static void matmul_text(const struct op_call *call, struct op_line *line) {
    const struct op_attrs *attrs = &call->attrs;
    if (attrs->matmul.transpose_a) op_say(line, "a transposed");
    if (attrs->matmul.transpose_b) op_say(line, "b transposed");
    if (attrs->matmul.scale != 1) op_say(line, "scale %g", (double)attrs->matmul.scale);
}

const struct op_def op_linear = {
    .name = "linear",
    .flags = OP_PRODUCT,
    .infer = linear_infer,
    .cost = linear_cost,
    .grad = linear_grad,
    .run = linear_run,
    .narrow_out = OP_FIRST(2),
    .narrow_in = OP_FIRST(2),
    .fuses = {.activations = OP_ACTIVATION_ANY},
};

const struct op_def op_linear_bwd_data = {
    .name = "linear_bwd_data",
    .flags = OP_PRODUCT,
    .infer = linear_bwd_data_infer,
    .cost = linear_cost,
    .run = linear_bwd_data_run,
    .narrow_out = OP_FIRST(1),
    .narrow_in = OP_FIRST(2),
};

const struct op_def op_linear_bwd_weight = {
    .name = "linear_bwd_weight",
    .flags = OP_PRODUCT,
    .infer = linear_bwd_weight_infer,
    .cost = linear_bwd_weight_cost,
    .run = linear_bwd_weight_run,
    .narrow_in = OP_FIRST(2),
};

const struct op_def op_matmul = {
    .name = "matmul",
    .flags = OP_PRODUCT,
    .infer = matmul_infer,
    .cost = matmul_cost,
    .grad = matmul_grad,
    .run = matmul_run,
    .narrow_out = OP_FIRST(1),
    .narrow_in = OP_FIRST(2),
    .text = matmul_text,
};
