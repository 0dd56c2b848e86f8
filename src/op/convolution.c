/* Convolution of images in two dimensions, as torch counts it: cross-correlation, stride, padding,
 * dilation (1 is dense) and groups.
 *
 * The three directions are three plain loop nests over one geometry. Sums are kept in double:
 * forward and weight gradient one output element at a time, the input gradient in a double image
 * that the taps are scattered into. */
#include "op/rule.h"

#include <string.h>

struct geometry {
    int64_t batch, in_channels, in_size[2], out_channels, kernel[2], out_size[2];
    int64_t group_in, group_out; /* channels of one group */
    const struct op_attrs *attrs;
};

static struct geometry geometry_of(const struct op_attrs *attrs, const struct shape *x,
                                   const struct shape *w, const struct shape *y) {
    return (struct geometry){
        .batch = x->dim[0],
        .in_channels = x->dim[1],
        .in_size = {x->dim[2], x->dim[3]},
        .out_channels = w->dim[0],
        .kernel = {w->dim[2], w->dim[3]},
        .out_size = {y->dim[2], y->dim[3]},
        .group_in = w->dim[1],
        .group_out = w->dim[0] / attrs->conv.groups,
        .attrs = attrs,
    };
}

/* Position in the input that tap `k` of output position `o` reads; outside [0, size) it is padding.
 */
static int64_t tap(const struct geometry *g, int axis, int64_t o, int64_t k) {
    return o * g->attrs->conv.stride[axis] - g->attrs->conv.pad[axis] +
           k * g->attrs->conv.dilation[axis];
}

static bool inside(const struct geometry *g, int64_t h, int64_t w) {
    return h >= 0 && h < g->in_size[0] && w >= 0 && w < g->in_size[1];
}

static int64_t x_at(const struct geometry *g, int64_t b, int64_t c, int64_t h, int64_t w) {
    return ((b * g->in_channels + c) * g->in_size[0] + h) * g->in_size[1] + w;
}

static int64_t w_at(const struct geometry *g, int64_t o, int64_t c, int64_t i, int64_t j) {
    return ((o * g->group_in + c) * g->kernel[0] + i) * g->kernel[1] + j;
}

static int64_t y_at(const struct geometry *g, int64_t b, int64_t o, int64_t h, int64_t w) {
    return ((b * g->out_channels + o) * g->out_size[0] + h) * g->out_size[1] + w;
}

/* --- shapes --- */

static enum status check_numbers(const struct op_attrs *attrs, char *why, size_t why_bytes) {
    for (int a = 0; a < 2; a++) {
        if (attrs->conv.stride[a] < 1 || attrs->conv.dilation[a] < 1 || attrs->conv.pad[a] < 0)
            MISFIT("stride %d, dilation %d, padding %d: at least 1, 1 and 0 are needed",
                   attrs->conv.stride[a], attrs->conv.dilation[a], attrs->conv.pad[a]);
    }
    if (attrs->conv.groups < 1) MISFIT("groups is %d; at least 1 is needed", attrs->conv.groups);
    return STATUS_OK;
}

/* The output's shape from those of input and weights. */
static enum status output_shape(const struct op_attrs *attrs, const struct shape *x,
                                const struct shape *w, struct shape *out, char *why,
                                size_t why_bytes) {
    TRY(check_numbers(attrs, why, why_bytes));
    int groups = attrs->conv.groups;
    if (x->dim[1] != w->dim[1] * groups)
        MISFIT("x is %s, w is %s: w needs %g channels for %d group%s", TEXT(*x), TEXT(*w),
               (double)x->dim[1] / groups, groups, groups == 1 ? "" : "s");
    if (w->dim[0] % groups)
        MISFIT("w is %s: its %lld output channels do not divide into %d groups", TEXT(*w),
               (long long)w->dim[0], groups);
    struct shape y = SHAPE(x->dim[0], w->dim[0], 0, 0);
    for (int a = 0; a < 2; a++) {
        int64_t reach = (w->dim[2 + a] - 1) * attrs->conv.dilation[a] + 1;
        int64_t padded = x->dim[2 + a] + 2 * (int64_t)attrs->conv.pad[a];
        if (padded < reach)
            MISFIT("x is %s: with padding %d its %s is %lld, and the kernel of w %s spans %lld",
                   TEXT(*x), attrs->conv.pad[a], a ? "width" : "height", (long long)padded,
                   TEXT(*w), (long long)reach);
        y.dim[2 + a] = (padded - reach) / attrs->conv.stride[a] + 1;
    }
    *out = y;
    return STATUS_OK;
}

static enum status conv2d_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {
        {"x", DTYPE_F32, 4, 4}, {"w", DTYPE_F32, 4, 4}, {"b", DTYPE_F32, 1, 1}};
    struct shape y;
    TRY(op_operands(call, operands, 2, 3, why, why_bytes));
    TRY(op_activation_known(call, why, why_bytes));
    TRY(output_shape(&call->attrs, &call->in[0].shape, &call->in[1].shape, &y, why, why_bytes));
    if (call->in_count == 3)
        TRY(op_wants(call, 2, "b", &SHAPE(y.dim[1]), "w's output channels", why, why_bytes));
    op_out(call, DTYPE_F32, &y);
    return STATUS_OK;
}

/* Do x, w and dy belong to one convolution? One of x and w is attrs.like. */
static enum status check_bwd(const struct op_call *call, const struct shape *x,
                             const struct shape *w, int dy, char *why, size_t why_bytes) {
    struct shape y;
    if (call->attrs.like.rank != 4)
        MISFIT("the shape to make is %s; rank 4 is needed", TEXT(call->attrs.like));
    TRY(output_shape(&call->attrs, x, w, &y, why, why_bytes));
    return op_wants(call, dy, "dy", &y, "the forward convolution", why, why_bytes);
}

static enum status conv2d_bwd_data_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 4, 4}, {"w", DTYPE_F32, 4, 4}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    TRY(check_bwd(call, &call->attrs.like, &call->in[1].shape, 0, why, why_bytes));
    op_out(call, DTYPE_F32, &call->attrs.like);
    return STATUS_OK;
}

static enum status conv2d_bwd_weight_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 4, 4}, {"dy", DTYPE_F32, 4, 4}};
    const struct shape *w = &call->attrs.like;
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    TRY(check_bwd(call, &call->in[0].shape, w, 1, why, why_bytes));
    op_out(call, DTYPE_F32, w);
    if (call->attrs.has_bias) op_out(call, DTYPE_F32, &SHAPE(w->dim[0]));
    return STATUS_OK;
}

/* --- cost: every output element takes one multiply-add per tap, in each direction --- */

static double macs(const struct shape *w, const struct shape *y) {
    return (double)shape_count(y) * (double)shape_span(w, 1, 4);
}

static struct op_cost conv2d_cost(const struct op_call *call) {
    return op_cost_of(call, 2 * macs(&call->in[1].shape, &call->out[0].shape));
}

static struct op_cost conv2d_bwd_data_cost(const struct op_call *call) {
    return op_cost_of(call, 2 * macs(&call->in[1].shape, &call->in[0].shape));
}

static struct op_cost conv2d_bwd_weight_cost(const struct op_call *call) {
    return op_cost_of(call, 2 * macs(&call->out[0].shape, &call->in[1].shape));
}

/* --- gradient --- */

static void conv2d_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad)) return;
    const struct op_call *call = grad->call;
    bool bias = call->in_count == 3 && grad->need[2];
    int dy = op_grad_activation(grad);
    if (grad->need[0]) {
        struct op_attrs attrs = op_attrs_bwd(call, &call->in[0].shape);
        grad->d_in[0] =
            op_emit(grad, OP_CONV2D_BWD_DATA, &attrs, OP_HALF_I, 2, (int[]){dy, grad->in[1]});
    }
    if (grad->need[1] || bias) {
        struct op_attrs attrs = op_attrs_bwd(call, &call->in[1].shape);
        int out[OP_MAX_OUT];
        attrs.has_bias = bias;
        grad->emit(grad, OP_CONV2D_BWD_WEIGHT, &attrs, OP_HALF_W, 2, (int[]){grad->in[0], dy}, out);
        if (grad->need[1]) grad->d_in[1] = out[0];
        if (bias) grad->d_in[2] = out[1];
    }
}

/* --- reference kernels --- */

static double conv2d_element(const struct geometry *g, const float *x, const float *w, int64_t b,
                             int64_t o, int64_t h, int64_t v) {
    int64_t first = o / g->group_out * g->group_in;
    double sum = 0;
    for (int64_t c = 0; c < g->group_in; c++)
        for (int64_t i = 0; i < g->kernel[0]; i++)
            for (int64_t j = 0; j < g->kernel[1]; j++) {
                int64_t row = tap(g, 0, h, i), column = tap(g, 1, v, j);
                if (inside(g, row, column))
                    sum += (double)x[x_at(g, b, first + c, row, column)] * w[w_at(g, o, c, i, j)];
            }
    return sum;
}

static void conv2d_run(const struct op_call *call, void *const in[], void *const out[],
                       void *scratch) {
    (void)scratch;
    const float *bias = call->in_count == 3 ? in[2] : NULL;
    float *y = out[0];
    struct geometry g =
        geometry_of(&call->attrs, &call->in[0].shape, &call->in[1].shape, &call->out[0].shape);
    for (int64_t b = 0; b < g.batch; b++)
        for (int64_t o = 0; o < g.out_channels; o++)
            for (int64_t h = 0; h < g.out_size[0]; h++)
                for (int64_t v = 0; v < g.out_size[1]; v++) {
                    double sum = conv2d_element(&g, in[0], in[1], b, o, h, v);
                    if (bias) sum += bias[o];
                    y[y_at(&g, b, o, h, v)] = op_activate(call->attrs.activation, sum);
                }
}

/* Adds what one output gradient sends back to a double image [C,H,W]. */
static void scatter_element(const struct geometry *g, double gradient, const float *w, int64_t o,
                            int64_t h, int64_t v, double *image) {
    int64_t first = o / g->group_out * g->group_in;
    for (int64_t c = 0; c < g->group_in; c++)
        for (int64_t i = 0; i < g->kernel[0]; i++)
            for (int64_t j = 0; j < g->kernel[1]; j++) {
                int64_t row = tap(g, 0, h, i), column = tap(g, 1, v, j);
                if (inside(g, row, column))
                    image[x_at(g, 0, first + c, row, column)] += gradient * w[w_at(g, o, c, i, j)];
            }
}

static size_t conv2d_bwd_data_scratch(const struct op_call *call) {
    return (size_t)shape_span(&call->attrs.like, 1, 4) * sizeof(double);
}

static void conv2d_bwd_data_run(const struct op_call *call, void *const in[], void *const out[],
                                void *scratch) {
    const float *dy = in[0];
    float *dx = out[0];
    double *image = scratch;
    struct geometry g =
        geometry_of(&call->attrs, &call->attrs.like, &call->in[1].shape, &call->in[0].shape);
    int64_t image_count = shape_span(&call->attrs.like, 1, 4);
    for (int64_t b = 0; b < g.batch; b++) {
        memset(image, 0, (size_t)image_count * sizeof *image);
        for (int64_t o = 0; o < g.out_channels; o++)
            for (int64_t h = 0; h < g.out_size[0]; h++)
                for (int64_t v = 0; v < g.out_size[1]; v++)
                    scatter_element(&g, dy[y_at(&g, b, o, h, v)], in[1], o, h, v, image);
        for (int64_t i = 0; i < image_count; i++) dx[b * image_count + i] = (float)image[i];
    }
}

static double weight_element(const struct geometry *g, const float *x, const float *dy, int64_t o,
                             int64_t c, int64_t i, int64_t j) {
    int64_t channel = o / g->group_out * g->group_in + c;
    double sum = 0;
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t h = 0; h < g->out_size[0]; h++)
            for (int64_t v = 0; v < g->out_size[1]; v++) {
                int64_t row = tap(g, 0, h, i), column = tap(g, 1, v, j);
                if (inside(g, row, column))
                    sum += (double)x[x_at(g, b, channel, row, column)] * dy[y_at(g, b, o, h, v)];
            }
    return sum;
}

static float bias_element(const struct geometry *g, const float *dy, int64_t o) {
    double sum = 0;
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t h = 0; h < g->out_size[0]; h++)
            for (int64_t v = 0; v < g->out_size[1]; v++) sum += dy[y_at(g, b, o, h, v)];
    return (float)sum;
}

static void conv2d_bwd_weight_run(const struct op_call *call, void *const in[], void *const out[],
                                  void *scratch) {
    (void)scratch;
    float *dw = out[0], *db = call->attrs.has_bias ? out[1] : NULL;
    struct geometry g =
        geometry_of(&call->attrs, &call->in[0].shape, &call->attrs.like, &call->in[1].shape);
    for (int64_t o = 0; o < g.out_channels; o++) {
        for (int64_t c = 0; c < g.group_in; c++)
            for (int64_t i = 0; i < g.kernel[0]; i++)
                for (int64_t j = 0; j < g.kernel[1]; j++)
                    dw[w_at(&g, o, c, i, j)] = (float)weight_element(&g, in[0], in[1], o, c, i, j);
        if (db) db[o] = bias_element(&g, in[1], o);
    }
}

static void conv_text(const struct op_call *call, struct op_line *line) {
    const struct shape *w =
        call->op == OP_CONV2D_BWD_WEIGHT ? &call->attrs.like : &call->in[1].shape;
    op_say(line, "%lldx%lld", (long long)w->dim[2], (long long)w->dim[3]);
    op_say_pair(line, "stride", call->attrs.conv.stride, 1);
    op_say_pair(line, "pad", call->attrs.conv.pad, 0);
    op_say_pair(line, "dilation", call->attrs.conv.dilation, 1);
    if (call->attrs.conv.groups != 1) op_say(line, "groups %d", call->attrs.conv.groups);
}

const struct op_def op_conv2d = {
    .name = "conv2d",
    .flags = OP_PRODUCT,
    .infer = conv2d_infer,
    .cost = conv2d_cost,
    .grad = conv2d_grad,
    .run = conv2d_run,
    .narrow_out = OP_FIRST(1),
    .narrow_in = OP_FIRST(2),
    .fuses = {.activations = OP_ACTIVATION(RELU) | OP_ACTIVATION(TANH)},
    .text = conv_text,
};

const struct op_def op_conv2d_bwd_data = {
    .name = "conv2d_bwd_data",
    .flags = OP_PRODUCT,
    .infer = conv2d_bwd_data_infer,
    .cost = conv2d_bwd_data_cost,
    .run = conv2d_bwd_data_run,
    .scratch_bytes = conv2d_bwd_data_scratch,
    .narrow_out = OP_FIRST(1),
    .narrow_in = OP_FIRST(2),
    .text = conv_text,
};

const struct op_def op_conv2d_bwd_weight = {
    .name = "conv2d_bwd_weight",
    .flags = OP_PRODUCT,
    .infer = conv2d_bwd_weight_infer,
    .cost = conv2d_bwd_weight_cost,
    .run = conv2d_bwd_weight_run,
    .narrow_in = OP_FIRST(2),
    .text = conv_text,
};
