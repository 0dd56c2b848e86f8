/* Adding, joining, cutting and rearranging tensors.
 *
 * Axis operations see a tensor as [outer, axis, inner] and move runs of axis*inner elements. What
 * was broadcast over the batch (a position embedding, a class token) is a parameter nearly always,
 * so its gradient, sum_batch, belongs to the weight half. */
#include "op/rule.h"

#include <stdio.h>
#include <string.h>

/* --- add, sum_batch, expand --- */

static bool is_broadcast(const struct op_call *call) {
    return !shape_equal(&call->in[0].shape, &call->in[1].shape);
}

static enum status add_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"a", DTYPE_F32, 0, SHAPE_MAX_RANK},
                                                 {"b", DTYPE_F32, 0, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    TRY(op_activation_known(call, why, why_bytes));
    const struct shape *a = &call->in[0].shape, *b = &call->in[1].shape;
    struct shape one = *a;
    if (one.rank) one.dim[0] = 1;
    if (!shape_equal(a, b) && !shape_equal(&one, b))
        MISFIT("a is %s, b is %s: b must be the same, or %s", TEXT(*a), TEXT(*b), TEXT(one));
    op_out(call, DTYPE_F32, a);
    return STATUS_OK;
}

static enum status sum_batch_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 1, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    struct shape y = call->in[0].shape;
    y.dim[0] = 1;
    op_out(call, DTYPE_F32, &y);
    return STATUS_OK;
}

static enum status expand_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 1, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    const struct shape *like = &call->attrs.like;
    struct shape one = *like;
    if (like->rank < 1 || like->dim[0] < 1)
        MISFIT("the shape to make is %s; a batch is needed", TEXT(*like));
    one.dim[0] = 1;
    TRY(op_wants(call, 0, "x", &one, "the shape to make", why, why_bytes));
    op_out(call, DTYPE_F32, like);
    return STATUS_OK;
}

static struct op_cost sum_batch_cost(const struct op_call *call) {
    return op_cost_of(call, (double)shape_count(&call->in[0].shape));
}

static int emit_sum_batch(struct op_grad *grad, int dy) {
    return op_emit(grad, OP_SUM_BATCH, NULL, OP_HALF_W, 1, &dy);
}

static void add_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !(grad->need[0] || grad->need[1])) return;
    int dy = op_grad_activation(grad);
    if (grad->need[0]) grad->d_in[0] = dy;
    if (grad->need[1]) grad->d_in[1] = is_broadcast(grad->call) ? emit_sum_batch(grad, dy) : dy;
}

static void sum_batch_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    struct op_attrs attrs = {.like = grad->call->in[0].shape};
    grad->d_in[0] = op_emit(grad, OP_EXPAND, &attrs, OP_HALF_I, 1, grad->d_out);
}

static void expand_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    grad->d_in[0] = emit_sum_batch(grad, grad->d_out[0]);
}

static void add_run(const struct op_call *call, void *const in[], void *const out[],
                    void *scratch) {
    (void)scratch;
    const float *a = in[0], *b = in[1];
    float *y = out[0];
    int64_t count = shape_count(&call->in[0].shape), period = shape_count(&call->in[1].shape);
    for (int64_t i = 0; i < count; i++)
        y[i] = op_activate(call->attrs.activation, (double)a[i] + b[i % period]);
}

static void sum_batch_run(const struct op_call *call, void *const in[], void *const out[],
                          void *scratch) {
    (void)scratch;
    const float *x = in[0];
    float *y = out[0];
    int64_t batch = call->in[0].shape.dim[0], count = shape_count(&call->out[0].shape);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t b = 0; b < batch; b++) sum += x[b * count + i];
        y[i] = (float)sum;
    }
}

static void expand_run(const struct op_call *call, void *const in[], void *const out[],
                       void *scratch) {
    (void)scratch;
    size_t bytes = tensor_type_bytes(&call->in[0]);
    for (int64_t b = 0; b < call->out[0].shape.dim[0]; b++)
        memcpy((char *)out[0] + (size_t)b * bytes, in[0], bytes);
}

/* --- concat, slice --- */

static enum status check_axis(int axis, const struct shape *x, char *why, size_t why_bytes) {
    if (axis >= 0 && axis < x->rank) return STATUS_OK;
    MISFIT("axis %d of %s; 0 to %d is needed", axis, TEXT(*x), x->rank - 1);
}

static enum status concat_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"input 0", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"input 1", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"input 2", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"input 3", DTYPE_F32, 1, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 2, 4, why, why_bytes));
    int axis = call->attrs.concat.axis;
    struct shape y = call->in[0].shape;
    TRY(check_axis(axis, &y, why, why_bytes));
    for (int i = 1; i < call->in_count; i++) {
        struct shape want = call->in[0].shape;
        if (call->in[i].shape.rank == want.rank) want.dim[axis] = call->in[i].shape.dim[axis];
        TRY(op_wants(call, i, operands[i].name, &want, "input 0 (but along the axis)", why,
                     why_bytes));
        y.dim[axis] += want.dim[axis];
    }
    op_out(call, DTYPE_F32, &y);
    return STATUS_OK;
}

/* The shape of a slice of x. */
static enum status slice_shape(const struct op_attrs *attrs, const struct shape *x,
                               struct shape *out, char *why, size_t why_bytes) {
    int axis = attrs->slice.axis;
    long long begin = attrs->slice.begin, end = attrs->slice.end;
    TRY(check_axis(axis, x, why, why_bytes));
    if (begin < 0 || end > x->dim[axis] || begin >= end)
        MISFIT("x is %s: [%lld:%lld] is no part of axis %d", TEXT(*x), begin, end, axis);
    *out = *x;
    out->dim[axis] = end - begin;
    return STATUS_OK;
}

static enum status slice_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 1, SHAPE_MAX_RANK}};
    struct shape y;
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    TRY(slice_shape(&call->attrs, &call->in[0].shape, &y, why, why_bytes));
    op_out(call, DTYPE_F32, &y);
    return STATUS_OK;
}

static enum status slice_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 1, SHAPE_MAX_RANK}};
    struct shape y;
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    TRY(slice_shape(&call->attrs, &call->attrs.like, &y, why, why_bytes));
    TRY(op_wants(call, 0, "dy", &y, "the forward slice", why, why_bytes));
    op_out(call, DTYPE_F32, &call->attrs.like);
    return STATUS_OK;
}

static void concat_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad)) return;
    int axis = grad->call->attrs.concat.axis;
    int64_t begin = 0;
    for (int i = 0; i < grad->call->in_count; i++) {
        int64_t end = begin + grad->call->in[i].shape.dim[axis];
        struct op_attrs attrs = {.slice = {axis, begin, end}};
        if (grad->need[i])
            grad->d_in[i] = op_emit(grad, OP_SLICE, &attrs, OP_HALF_I, 1, grad->d_out);
        begin = end;
    }
}

static void slice_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    struct op_attrs attrs = op_attrs_bwd(grad->call, &grad->call->in[0].shape);
    grad->d_in[0] = op_emit(grad, OP_SLICE_BWD, &attrs, OP_HALF_I, 1, grad->d_out);
}

/* Zeros around a part are padding, so that models use this operation forward, too. */
static void slice_bwd_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    struct op_attrs attrs = {.slice = grad->call->attrs.slice};
    grad->d_in[0] = op_emit(grad, OP_SLICE, &attrs, OP_HALF_I, 1, grad->d_out);
}

/* Copies between a tensor and the part [begin, begin + part's size) of a whole one along an axis.
 */
static void copy_part(const struct shape *whole, const struct shape *part, int axis, int64_t begin,
                      float *whole_data, float *part_data, bool into_whole) {
    int64_t inner = shape_span(whole, axis + 1, whole->rank), outer = shape_span(whole, 0, axis);
    int64_t run = part->dim[axis] * inner;
    for (int64_t o = 0; o < outer; o++) {
        float *at = whole_data + (o * whole->dim[axis] + begin) * inner;
        if (into_whole)
            memcpy(at, part_data + o * run, (size_t)run * sizeof *at);
        else
            memcpy(part_data + o * run, at, (size_t)run * sizeof *at);
    }
}

static void concat_run(const struct op_call *call, void *const in[], void *const out[],
                       void *scratch) {
    (void)scratch;
    int axis = call->attrs.concat.axis;
    int64_t begin = 0;
    for (int i = 0; i < call->in_count; i++) {
        const struct shape *part = &call->in[i].shape;
        copy_part(&call->out[0].shape, part, axis, begin, out[0], in[i], true);
        begin += part->dim[axis];
    }
}

static void slice_run(const struct op_call *call, void *const in[], void *const out[],
                      void *scratch) {
    (void)scratch;
    copy_part(&call->in[0].shape, &call->out[0].shape, call->attrs.slice.axis,
              call->attrs.slice.begin, in[0], out[0], false);
}

static void slice_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                          void *scratch) {
    (void)scratch;
    memset(out[0], 0, tensor_type_bytes(&call->out[0]));
    copy_part(&call->out[0].shape, &call->in[0].shape, call->attrs.slice.axis,
              call->attrs.slice.begin, out[0], in[0], true);
}

/* --- reshape, transpose, reorder --- */

static enum status reshape_infer(struct op_call *call, char *why, size_t why_bytes) {
    if (call->in_count != 1) MISFIT("%d inputs; 1 is needed", call->in_count);
    const struct shape *x = &call->in[0].shape, *like = &call->attrs.like;
    if (shape_count(x) != shape_count(like))
        MISFIT("x is %s, %lld elements; %s has %lld", TEXT(*x), (long long)shape_count(x),
               TEXT(*like), (long long)shape_count(like));
    op_out(call, call->in[0].dtype, like);
    return STATUS_OK;
}

static enum status transpose_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 1, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    const struct shape *x = &call->in[0].shape;
    const int *order = call->attrs.transpose.order;
    struct shape y = {.rank = x->rank};
    unsigned seen = 0;
    for (int d = 0; d < x->rank; d++) {
        if (order[d] < 0 || order[d] >= x->rank || (seen >> order[d] & 1))
            MISFIT("x is %s: output dimension %d is taken from dimension %d, which %s", TEXT(*x), d,
                   order[d], order[d] < 0 || order[d] >= x->rank ? "is none" : "is used twice");
        seen |= 1u << order[d];
        y.dim[d] = x->dim[order[d]];
    }
    op_out(call, DTYPE_F32, &y);
    return STATUS_OK;
}

static enum status reorder_infer(struct op_call *call, char *why, size_t why_bytes) {
    if (call->in_count != 1) MISFIT("%d inputs; 1 is needed", call->in_count);
    op_out(call, call->in[0].dtype, &call->in[0].shape);
    return STATUS_OK;
}

static void reshape_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    struct op_attrs attrs = {.like = grad->call->in[0].shape};
    grad->d_in[0] = op_emit(grad, OP_RESHAPE, &attrs, OP_HALF_I, 1, grad->d_out);
}

static void transpose_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    struct op_attrs back = {0};
    for (int d = 0; d < grad->call->in[0].shape.rank; d++)
        back.transpose.order[grad->call->attrs.transpose.order[d]] = d;
    grad->d_in[0] = op_emit(grad, OP_TRANSPOSE, &back, OP_HALF_I, 1, grad->d_out);
}

static void copy_run(const struct op_call *call, void *const in[], void *const out[],
                     void *scratch) {
    (void)scratch;
    if (out[0] != in[0]) memcpy(out[0], in[0], tensor_type_bytes(&call->in[0]));
}

/* Walks the output in order; `at` counts its dimensions like an odometer, `from` follows it in the
 * input. */
static void transpose_run(const struct op_call *call, void *const in[], void *const out[],
                          void *scratch) {
    (void)scratch;
    const struct shape *x = &call->in[0].shape, *y = &call->out[0].shape;
    const float *data = in[0];
    float *to = out[0];
    int64_t step[SHAPE_MAX_RANK], at[SHAPE_MAX_RANK] = {0}, from = 0, count = shape_count(y);
    for (int d = 0; d < y->rank; d++)
        step[d] = shape_span(x, call->attrs.transpose.order[d] + 1, x->rank);
    for (int64_t i = 0; i < count; i++) {
        to[i] = data[from];
        for (int d = y->rank - 1; d >= 0; d--) {
            from += step[d];
            if (++at[d] < y->dim[d]) break;
            from -= step[d] * y->dim[d];
            at[d] = 0;
        }
    }
}

static void slice_text(const struct op_call *call, struct op_line *line) {
    op_say(line, "axis %d [%lld:%lld]", call->attrs.slice.axis, (long long)call->attrs.slice.begin,
           (long long)call->attrs.slice.end);
}

static void concat_text(const struct op_call *call, struct op_line *line) {
    op_say(line, "axis %d", call->attrs.concat.axis);
}

static void transpose_text(const struct op_call *call, struct op_line *line) {
    char order[4 * SHAPE_MAX_RANK] = "";
    for (int d = 0, used = 0; d < call->in[0].shape.rank; d++)
        used += snprintf(order + used, sizeof order - (size_t)used, "%s%d", d ? "," : "",
                         call->attrs.transpose.order[d]);
    op_say(line, "order %s", order);
}

const struct op_def op_add = {
    .name = "add",
    .flags = OP_IN_PLACE,
    .infer = add_infer,
    .cost = op_cost_elementwise,
    .grad = add_grad,
    .run = add_run,
    .narrow_out = OP_FIRST(1),
    .fuses = {.activations = OP_ACTIVATION(RELU)},
};

const struct op_def op_sum_batch = {
    .name = "sum_batch",
    .infer = sum_batch_infer,
    .cost = sum_batch_cost,
    .grad = sum_batch_grad,
    .run = sum_batch_run,
    .narrow_out = OP_FIRST(1),
};

const struct op_def op_concat = {
    .name = "concat",
    .infer = concat_infer,
    .grad = concat_grad,
    .run = concat_run,
    .narrow_out = OP_FIRST(1),
    .text = concat_text,
};

const struct op_def op_slice = {
    .name = "slice",
    .infer = slice_infer,
    .grad = slice_grad,
    .run = slice_run,
    .narrow_out = OP_FIRST(1),
    .text = slice_text,
};

const struct op_def op_slice_bwd = {
    .name = "slice_bwd",
    .infer = slice_bwd_infer,
    .grad = slice_bwd_grad,
    .run = slice_bwd_run,
    .narrow_out = OP_FIRST(1),
    .text = slice_text,
};

const struct op_def op_expand = {
    .name = "expand",
    .infer = expand_infer,
    .grad = expand_grad,
    .run = expand_run,
    .narrow_out = OP_FIRST(1),
};

const struct op_def op_reshape = {
    .name = "reshape",
    .flags = OP_VIEW,
    .infer = reshape_infer,
    .grad = reshape_grad,
    .run = copy_run,
};

const struct op_def op_transpose = {
    .name = "transpose",
    .infer = transpose_infer,
    .grad = transpose_grad,
    .run = transpose_run,
    .narrow_out = OP_FIRST(1),
    .text = transpose_text,
};

const struct op_def op_reorder = {
    .name = "reorder",
    .infer = reorder_infer,
    .run = copy_run,
    .narrow_out = OP_FIRST(1),
};
