/* Pooling over windows of an image [B,C,H,W].
 *
 * Max pooling saves where each maximum came from (in this reference the offset in the input's
 * plane; a backend may keep something smaller), the first of equals; a NaN wins. Average pooling
 * divides by the whole window, padding included, as torch does by default; adaptive, its windows
 * are torch's: from floor(i H / H') to ceil((i+1) H / H'). */
#include "op/pool.h"
#include "op/rule.h"

#include <math.h>
#include <string.h>

struct pool {
    int64_t planes, in_size[2], out_size[2]; /* planes: batch times channels */
    const struct op_attrs *attrs;
};

static struct pool pool_of(const struct op_attrs *attrs, const struct shape *x,
                           const struct shape *y) {
    return (struct pool){
        x->dim[0] * x->dim[1], {x->dim[2], x->dim[3]}, {y->dim[2], y->dim[3]}, attrs};
}

static struct pool_window window_at(const struct pool *p, int64_t row, int64_t column) {
    return pool_window(p->attrs, p->in_size, p->out_size, row, column);
}

/* --- shapes --- */

static enum status window_shape(const struct op_attrs *attrs, const struct shape *x,
                                struct shape *out, char *why, size_t why_bytes) {
    struct shape y = SHAPE(x->dim[0], x->dim[1], 0, 0);
    for (int a = 0; a < 2; a++) {
        int kernel = attrs->pool.kernel[a], stride = attrs->pool.stride[a];
        int pad = attrs->pool.pad[a];
        if (kernel < 1 || stride < 1 || pad < 0 || pad >= kernel)
            MISFIT("kernel %d, stride %d, padding %d: at least 1, at least 1 and less than the "
                   "kernel are needed",
                   kernel, stride, pad);
        int64_t padded = x->dim[2 + a] + 2 * (int64_t)pad;
        if (padded < kernel)
            MISFIT("x is %s: with padding %d its %s is %lld, and the window is %d", TEXT(*x), pad,
                   a ? "width" : "height", (long long)padded, kernel);
        y.dim[2 + a] = (padded - kernel) / stride + 1;
    }
    *out = y;
    return STATUS_OK;
}

static enum status max_pool_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 4, 4}};
    struct shape y;
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    TRY(window_shape(&call->attrs, &call->in[0].shape, &y, why, why_bytes));
    op_out(call, DTYPE_F32, &y);
    op_out(call, DTYPE_I32, &y);
    return STATUS_OK;
}

static enum status max_pool_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 4, 4},
                                                 {"where", DTYPE_I32, 4, 4}};
    const struct shape *x = &call->attrs.like;
    struct shape y;
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    if (x->rank != 4) MISFIT("the shape to make is %s; rank 4 is needed", TEXT(*x));
    TRY(window_shape(&call->attrs, x, &y, why, why_bytes));
    TRY(op_wants(call, 0, "dy", &y, "the forward pooling", why, why_bytes));
    TRY(op_wants(call, 1, "where", &y, "the forward pooling", why, why_bytes));
    op_out(call, DTYPE_F32, x);
    return STATUS_OK;
}

static enum status avg_pool_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 4, 4}};
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    const struct shape *x = &call->in[0].shape, *like = &call->attrs.like;
    struct shape y;
    if (call->attrs.pool.adaptive) {
        if (like->rank != 2 || like->dim[0] < 1 || like->dim[1] < 1)
            MISFIT("the size to adapt to is %s; [H',W'] is needed", TEXT(*like));
        y = SHAPE(x->dim[0], x->dim[1], like->dim[0], like->dim[1]);
    } else {
        TRY(window_shape(&call->attrs, x, &y, why, why_bytes));
    }
    op_out(call, DTYPE_F32, &y);
    return STATUS_OK;
}

static enum status avg_pool_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 4, 4}};
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    const struct shape *x = &call->attrs.like, *dy = &call->in[0].shape;
    if (x->rank != 4) MISFIT("the shape to make is %s; rank 4 is needed", TEXT(*x));
    struct shape y = SHAPE(x->dim[0], x->dim[1], dy->dim[2], dy->dim[3]);
    if (!call->attrs.pool.adaptive) TRY(window_shape(&call->attrs, x, &y, why, why_bytes));
    TRY(op_wants(call, 0, "dy", &y, "the forward pooling", why, why_bytes));
    op_out(call, DTYPE_F32, x);
    return STATUS_OK;
}

/* Every output element visits its window. */
static double visits(const struct op_attrs *attrs, const struct shape *x, const struct shape *y) {
    double area = attrs->pool.adaptive ? (double)shape_count(x) / (double)shape_count(y)
                                       : (double)attrs->pool.kernel[0] * attrs->pool.kernel[1];
    return (double)shape_count(y) * area;
}

static struct op_cost pool_cost(const struct op_call *call) {
    return op_cost_of(call, visits(&call->attrs, &call->in[0].shape, &call->out[0].shape));
}

static struct op_cost avg_pool_bwd_cost(const struct op_call *call) {
    return op_cost_of(call, visits(&call->attrs, &call->out[0].shape, &call->in[0].shape));
}

static void max_pool_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    struct op_attrs attrs = op_attrs_bwd(grad->call, &grad->call->in[0].shape);
    grad->d_in[0] =
        op_emit(grad, OP_MAX_POOL_BWD, &attrs, OP_HALF_I, 2, (int[]){grad->d_out[0], grad->out[1]});
}

static void avg_pool_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    struct op_attrs attrs = op_attrs_bwd(grad->call, &grad->call->in[0].shape);
    grad->d_in[0] = op_emit(grad, OP_AVG_POOL_BWD, &attrs, OP_HALF_I, 1, grad->d_out);
}

/* --- reference kernels --- */

static int64_t find_maximum(const float *plane, const struct pool_window *w, int64_t width) {
    int64_t best = w->from[0] * width + w->from[1];
    for (int64_t i = w->from[0]; i < w->to[0]; i++)
        for (int64_t j = w->from[1]; j < w->to[1]; j++) {
            float value = plane[i * width + j];
            if (isnan(value)) return i * width + j;
            if (value > plane[best]) best = i * width + j;
        }
    return best;
}

static void max_pool_run(const struct op_call *call, void *const in[], void *const out[],
                         void *scratch) {
    (void)scratch;
    struct pool p = pool_of(&call->attrs, &call->in[0].shape, &call->out[0].shape);
    const float *plane = in[0];
    float *y = out[0];
    int32_t *where = out[1];
    for (int64_t n = 0; n < p.planes; n++, plane += p.in_size[0] * p.in_size[1])
        for (int64_t h = 0; h < p.out_size[0]; h++)
            for (int64_t v = 0; v < p.out_size[1]; v++) {
                struct pool_window w = window_at(&p, h, v);
                int64_t best = find_maximum(plane, &w, p.in_size[1]);
                *y++ = plane[best];
                *where++ = (int32_t)best;
            }
}

static void max_pool_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                             void *scratch) {
    (void)scratch;
    struct pool p = pool_of(&call->attrs, &call->attrs.like, &call->in[0].shape);
    const float *dy = in[0];
    const int32_t *where = in[1];
    float *plane = out[0];
    int64_t outputs = p.out_size[0] * p.out_size[1];
    memset(plane, 0, tensor_type_bytes(&call->out[0]));
    for (int64_t n = 0; n < p.planes; n++, plane += p.in_size[0] * p.in_size[1])
        for (int64_t i = 0; i < outputs; i++) plane[*where++] += *dy++;
}

static void avg_pool_run(const struct op_call *call, void *const in[], void *const out[],
                         void *scratch) {
    (void)scratch;
    struct pool p = pool_of(&call->attrs, &call->in[0].shape, &call->out[0].shape);
    const float *plane = in[0];
    float *y = out[0];
    for (int64_t n = 0; n < p.planes; n++, plane += p.in_size[0] * p.in_size[1])
        for (int64_t h = 0; h < p.out_size[0]; h++)
            for (int64_t v = 0; v < p.out_size[1]; v++) {
                struct pool_window w = window_at(&p, h, v);
                double sum = 0;
                for (int64_t i = w.from[0]; i < w.to[0]; i++)
                    for (int64_t j = w.from[1]; j < w.to[1]; j++)
                        sum += plane[i * p.in_size[1] + j];
                *y++ = (float)(sum / (double)w.area);
            }
}

static size_t avg_pool_bwd_scratch(const struct op_call *call) {
    return (size_t)shape_span(&call->attrs.like, 2, 4) * sizeof(double);
}

static void avg_pool_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                             void *scratch) {
    struct pool p = pool_of(&call->attrs, &call->attrs.like, &call->in[0].shape);
    const float *dy = in[0];
    float *dx = out[0];
    double *plane = scratch;
    int64_t count = p.in_size[0] * p.in_size[1];
    for (int64_t n = 0; n < p.planes; n++, dx += count) {
        memset(plane, 0, (size_t)count * sizeof *plane);
        for (int64_t h = 0; h < p.out_size[0]; h++)
            for (int64_t v = 0; v < p.out_size[1]; v++, dy++) {
                struct pool_window w = window_at(&p, h, v);
                for (int64_t i = w.from[0]; i < w.to[0]; i++)
                    for (int64_t j = w.from[1]; j < w.to[1]; j++)
                        plane[i * p.in_size[1] + j] += *dy / (double)w.area;
            }
        for (int64_t i = 0; i < count; i++) dx[i] = (float)plane[i];
    }
}

static void pool_text(const struct op_call *call, struct op_line *line) {
    if (call->attrs.pool.adaptive) {
        const struct shape *y = &(call->op == OP_AVG_POOL ? call->out : call->in)[0].shape;
        op_say(line, "adaptive %lldx%lld", (long long)y->dim[2], (long long)y->dim[3]);
        return;
    }
    op_say(line, "%dx%d", call->attrs.pool.kernel[0], call->attrs.pool.kernel[1]);
    op_say_pair(line, "stride", call->attrs.pool.stride, 1);
    op_say_pair(line, "pad", call->attrs.pool.pad, 0);
}

const struct op_def op_max_pool = {
    .name = "max_pool",
    .infer = max_pool_infer,
    .cost = pool_cost,
    .grad = max_pool_grad,
    .run = max_pool_run,
    .narrow_out = OP_FIRST(1),
    .text = pool_text,
};

const struct op_def op_max_pool_bwd = {
    .name = "max_pool_bwd",
    .infer = max_pool_bwd_infer,
    .run = max_pool_bwd_run,
    .narrow_out = OP_FIRST(1),
    .text = pool_text,
};

const struct op_def op_avg_pool = {
    .name = "avg_pool",
    .infer = avg_pool_infer,
    .cost = pool_cost,
    .grad = avg_pool_grad,
    .run = avg_pool_run,
    .narrow_out = OP_FIRST(1),
    .text = pool_text,
};

const struct op_def op_avg_pool_bwd = {
    .name = "avg_pool_bwd",
    .infer = avg_pool_bwd_infer,
    .cost = avg_pool_bwd_cost,
    .run = avg_pool_bwd_run,
    .scratch_bytes = avg_pool_bwd_scratch,
    .narrow_out = OP_FIRST(1),
    .text = pool_text,
};
