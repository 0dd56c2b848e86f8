/* Batch norm and layer norm. Both save mean and biased variance (as oneDNN does), and both make all
 * three gradients in one kernel: those operations belong to the input half of the backward pass.
 *
 * Batch norm may apply ReLU. Its output alone would tell the backward kernel where it was active,
 * but a saved mask of a byte per element (backends may use fewer) lets the output die early.
 *
 * At the end of a residual block it adds the block's input before that. Behind ReLU the gradient of
 * what was added is made by the backward kernel, which has it at hand; without, it is dy itself. */
#include "op/norm.h"

#include <math.h>

enum status norm_want_channels(const struct op_call *call, const struct op_operand *operands,
                               int first, int last, int64_t channels, char *why, size_t why_bytes) {
    for (int i = first; i <= last; i++)
        TRY(op_wants(call, i, operands[i].name, &SHAPE(channels), "x's channels", why, why_bytes));
    return STATUS_OK;
}

enum status norm_check_epsilon(const struct op_call *call, char *why, size_t why_bytes) {
    if (call->attrs.norm.epsilon > 0) return STATUS_OK;
    MISFIT("epsilon is %g; a positive number is needed", (double)call->attrs.norm.epsilon);
}

/* --- batch norm --- */

enum status norm_want_residual(const struct op_call *call, int index, char *why, size_t why_bytes) {
    if (call->in_count <= index) return STATUS_OK;
    return op_wants(call, index, "residual", &call->in[0].shape, "x", why, why_bytes);
}

enum status norm_check_relu(const struct op_call *call, char *why, size_t why_bytes) {
    if (call->attrs.activation == ACTIVATION_NONE || call->attrs.activation == ACTIVATION_RELU)
        return STATUS_OK;
    MISFIT("activation %d: in training batch norm can apply relu only",
           (int)call->attrs.activation);
}

static enum status batch_norm_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 2, SHAPE_MAX_RANK},
                                                 {"scale", DTYPE_F32, 1, 1},
                                                 {"shift", DTYPE_F32, 1, 1},
                                                 {"residual", DTYPE_F32, 2, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 3, 4, why, why_bytes));
    TRY(norm_check_epsilon(call, why, why_bytes));
    TRY(norm_check_relu(call, why, why_bytes));
    const struct shape *x = &call->in[0].shape;
    TRY(norm_want_channels(call, operands, 1, 2, x->dim[1], why, why_bytes));
    TRY(norm_want_residual(call, 3, why, why_bytes));
    if (shape_count(x) == x->dim[1])
        MISFIT("x is %s: one value per channel has no variance; use a larger batch", TEXT(*x));
    op_out(call, DTYPE_F32, x);
    op_out(call, DTYPE_F32, &SHAPE(x->dim[1]));
    op_out(call, DTYPE_F32, &SHAPE(x->dim[1]));
    if (call->attrs.activation == ACTIVATION_RELU) op_out(call, DTYPE_U8, x);
    return STATUS_OK;
}

static enum status batch_norm_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 2, SHAPE_MAX_RANK},
                                                 {"x", DTYPE_F32, 2, SHAPE_MAX_RANK},
                                                 {"scale", DTYPE_F32, 1, 1},
                                                 {"mean", DTYPE_F32, 1, 1},
                                                 {"var", DTYPE_F32, 1, 1},
                                                 {"mask", DTYPE_U8, 2, SHAPE_MAX_RANK}};
    int count = call->attrs.activation == ACTIVATION_RELU ? 6 : 5;
    TRY(op_operands(call, operands, count, count, why, why_bytes));
    TRY(norm_check_epsilon(call, why, why_bytes));
    TRY(norm_check_relu(call, why, why_bytes));
    const struct shape *x = &call->in[1].shape;
    TRY(op_wants(call, 0, "dy", x, "x", why, why_bytes));
    TRY(norm_want_channels(call, operands, 2, 4, x->dim[1], why, why_bytes));
    if (count == 6) TRY(op_wants(call, 5, "mask", x, "x", why, why_bytes));
    op_out(call, DTYPE_F32, x);
    op_out(call, DTYPE_F32, &SHAPE(x->dim[1]));
    op_out(call, DTYPE_F32, &SHAPE(x->dim[1]));
    if (call->attrs.residual) op_out(call, DTYPE_F32, x);
    return STATUS_OK;
}

static enum status batch_norm_eval_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {
        {"x", DTYPE_F32, 2, SHAPE_MAX_RANK}, {"scale", DTYPE_F32, 1, 1},
        {"shift", DTYPE_F32, 1, 1},          {"running_mean", DTYPE_F32, 1, 1},
        {"running_var", DTYPE_F32, 1, 1},    {"residual", DTYPE_F32, 2, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 5, 6, why, why_bytes));
    TRY(norm_check_epsilon(call, why, why_bytes));
    TRY(op_activation_known(call, why, why_bytes));
    TRY(norm_want_channels(call, operands, 1, 4, call->in[0].shape.dim[1], why, why_bytes));
    TRY(norm_want_residual(call, 5, why, why_bytes));
    op_out(call, DTYPE_F32, &call->in[0].shape);
    return STATUS_OK;
}

static enum status batch_norm_track_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {
        {"running_mean", DTYPE_F32, 1, 1}, {"running_var", DTYPE_F32, 1, 1},
        {"batches", DTYPE_I64, 0, 0},      {"mean", DTYPE_F32, 1, 1},
        {"var", DTYPE_F32, 1, 1},          {"count", DTYPE_F32, 1, 1}};
    TRY(op_operands(call, operands, 5, 6, why, why_bytes));
    const struct shape *x = &call->attrs.like;
    if (call->in_count == 6) {
        int64_t channels = call->in[3].shape.dim[0];
        TRY(op_wants(call, 5, "count", &SHAPE(1), "all channels", why, why_bytes));
        TRY(norm_want_channels(call, operands, 0, 1, channels, why, why_bytes));
        return norm_want_channels(call, operands, 4, 4, channels, why, why_bytes);
    }
    if (x->rank < 2 || shape_count(x) <= x->dim[1])
        MISFIT("x is %s; [B,C,...] with more than one value per channel is needed", TEXT(*x));
    TRY(norm_want_channels(call, operands, 0, 1, x->dim[1], why, why_bytes));
    return norm_want_channels(call, operands, 3, 4, x->dim[1], why, why_bytes);
}

static struct op_cost batch_norm_cost(const struct op_call *call) {
    return op_cost_of(call, 7 * (double)shape_count(&call->in[0].shape));
}

static struct op_cost batch_norm_bwd_cost(const struct op_call *call) {
    return op_cost_of(call, 11 * (double)shape_count(&call->in[0].shape));
}

static struct op_cost batch_norm_eval_cost(const struct op_call *call) {
    return op_cost_of(call, 2 * (double)shape_count(&call->in[0].shape));
}

/* d_in of (x, scale, shift) from a kernel that makes all three. */
static void keep_needed(struct op_grad *grad, const int out[]) {
    for (int i = 0; i < 3; i++)
        if (grad->need[i]) grad->d_in[i] = out[i];
}

static void batch_norm_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad)) return;
    struct op_attrs attrs = grad->call->attrs;
    bool masked = attrs.activation == ACTIVATION_RELU, added = grad->call->in_count == 4;
    int in[] = {grad->d_out[0], grad->in[0],  grad->in[1],
                grad->out[1],   grad->out[2], masked ? grad->out[3] : -1};
    int out[OP_MAX_OUT];
    attrs.residual = masked && added;
    grad->emit(grad, OP_BATCH_NORM_BWD, &attrs, OP_HALF_I, masked ? 6 : 5, in, out);
    keep_needed(grad, out);
    if (added && grad->need[3]) grad->d_in[3] = masked ? out[3] : grad->d_out[0];
}

void norm_moments(const struct norm_planes *p, const float *x, int64_t c, double *out_mean,
                  double *out_var) {
    double n = (double)(p->batch * p->plane), sum = 0, squares = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->plane; i++) sum += x[norm_plane_at(p, b, c) + i];
    double mean = sum / n;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->plane; i++) {
            double d = x[norm_plane_at(p, b, c) + i] - mean;
            squares += d * d;
        }
    *out_mean = mean;
    *out_var = squares / n;
}

static void batch_norm_run(const struct op_call *call, void *const in[], void *const out[],
                           void *scratch) {
    (void)scratch;
    const float *x = in[0], *scale = in[1], *shift = in[2];
    const float *added = call->in_count == 4 ? in[3] : NULL;
    float *y = out[0], *mean = out[1], *var = out[2];
    unsigned char *mask = call->out_count == 4 ? out[3] : NULL;
    struct norm_planes p = norm_planes_of(&call->in[0].shape);
    for (int64_t c = 0; c < p.channels; c++) {
        double m, v;
        norm_moments(&p, x, c, &m, &v);
        double factor = scale[c] / sqrt(v + call->attrs.norm.epsilon);
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t i = norm_plane_at(&p, b, c); i < norm_plane_at(&p, b, c) + p.plane; i++) {
                double sum = (x[i] - m) * factor + shift[c] + (added ? added[i] : 0);
                y[i] = op_activate(call->attrs.activation, sum);
                if (mask) mask[i] = !(y[i] <= 0);
            }
        mean[c] = (float)m;
        var[c] = (float)v;
    }
}

void norm_bwd_sums(const struct norm_planes *p, int64_t c, const float *dy, const float *x,
                   const unsigned char *mask, double mean, double inverse, double *dscale,
                   double *dshift) {
    *dscale = *dshift = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = norm_plane_at(p, b, c); i < norm_plane_at(p, b, c) + p->plane; i++) {
            if (mask && !mask[i]) continue;
            *dshift += dy[i];
            *dscale += dy[i] * (x[i] - mean) * inverse;
        }
}

static void batch_norm_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                               void *scratch) {
    (void)scratch;
    const float *dy = in[0], *x = in[1], *scale = in[2], *mean = in[3], *var = in[4];
    const unsigned char *mask = call->in_count == 6 ? in[5] : NULL;
    float *dx = out[0], *dscale = out[1], *dshift = out[2];
    float *dadded = call->attrs.residual ? out[3] : NULL;
    struct norm_planes p = norm_planes_of(&call->in[1].shape);
    double n = (double)(p.batch * p.plane);
    for (int64_t c = 0; c < p.channels; c++) {
        double inverse = 1 / sqrt((double)var[c] + call->attrs.norm.epsilon), by_scale, by_shift;
        norm_bwd_sums(&p, c, dy, x, mask, mean[c], inverse, &by_scale, &by_shift);
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t i = norm_plane_at(&p, b, c); i < norm_plane_at(&p, b, c) + p.plane; i++) {
                double g = mask && !mask[i] ? 0 : dy[i], normal = (x[i] - mean[c]) * inverse;
                if (dadded) dadded[i] = (float)g;
                dx[i] = (float)(scale[c] * inverse * (g - by_shift / n - normal * by_scale / n));
            }
        dscale[c] = (float)by_scale;
        dshift[c] = (float)by_shift;
    }
}

static void batch_norm_eval_run(const struct op_call *call, void *const in[], void *const out[],
                                void *scratch) {
    (void)scratch;
    const float *x = in[0], *scale = in[1], *shift = in[2], *mean = in[3], *var = in[4];
    const float *added = call->in_count == 6 ? in[5] : NULL;
    float *y = out[0];
    struct norm_planes p = norm_planes_of(&call->in[0].shape);
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t c = 0; c < p.channels; c++) {
            double factor = scale[c] / sqrt((double)var[c] + call->attrs.norm.epsilon);
            for (int64_t i = norm_plane_at(&p, b, c); i < norm_plane_at(&p, b, c) + p.plane; i++) {
                double sum = ((double)x[i] - mean[c]) * factor + shift[c] + (added ? added[i] : 0);
                y[i] = op_activate(call->attrs.activation, sum);
            }
        }
}

/* Running statistics move towards the batch's; the variance kept is the unbiased one, as torch
 * keeps it. */
static void batch_norm_track_run(const struct op_call *call, void *const in[], void *const out[],
                                 void *scratch) {
    (void)out, (void)scratch;
    float *running_mean = in[0], *running_var = in[1];
    const float *mean = in[3], *var = in[4], *count = call->in_count == 6 ? in[5] : NULL;
    int64_t channels = call->in[3].shape.dim[0];
    double m = call->attrs.norm.momentum;
    double n = count ? *count : (double)shape_count(&call->attrs.like) / (double)channels;
    for (int64_t c = 0; c < channels; c++) {
        running_mean[c] = (float)((1 - m) * running_mean[c] + m * mean[c]);
        running_var[c] = (float)((1 - m) * running_var[c] + m * var[c] * (n / (n - 1)));
    }
    *(int64_t *)in[2] += 1;
}

/* --- layer norm --- */

static enum status layer_norm_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"scale", DTYPE_F32, 1, 1},
                                                 {"shift", DTYPE_F32, 1, 1}};
    TRY(op_operands(call, operands, 3, 3, why, why_bytes));
    TRY(norm_check_epsilon(call, why, why_bytes));
    const struct shape *x = &call->in[0].shape;
    TRY(norm_want_channels(call, operands, 1, 2, op_columns(x), why, why_bytes));
    struct shape rows = op_shape_rows(x);
    op_out(call, DTYPE_F32, x);
    op_out(call, DTYPE_F32, &rows);
    op_out(call, DTYPE_F32, &rows);
    return STATUS_OK;
}

static enum status layer_norm_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"x", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"scale", DTYPE_F32, 1, 1},
                                                 {"mean", DTYPE_F32, 0, SHAPE_MAX_RANK - 1},
                                                 {"var", DTYPE_F32, 0, SHAPE_MAX_RANK - 1}};
    TRY(op_operands(call, operands, 5, 5, why, why_bytes));
    TRY(norm_check_epsilon(call, why, why_bytes));
    const struct shape *x = &call->in[1].shape;
    struct shape rows = op_shape_rows(x);
    TRY(op_wants(call, 0, "dy", x, "x", why, why_bytes));
    TRY(norm_want_channels(call, operands, 2, 2, op_columns(x), why, why_bytes));
    TRY(op_wants(call, 3, "mean", &rows, "x's rows", why, why_bytes));
    TRY(op_wants(call, 4, "var", &rows, "x's rows", why, why_bytes));
    op_out(call, DTYPE_F32, x);
    op_out(call, DTYPE_F32, &SHAPE(op_columns(x)));
    op_out(call, DTYPE_F32, &SHAPE(op_columns(x)));
    return STATUS_OK;
}

static void layer_norm_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad)) return;
    int in[] = {grad->d_out[0], grad->in[0], grad->in[1], grad->out[1], grad->out[2]};
    int out[OP_MAX_OUT];
    grad->emit(grad, OP_LAYER_NORM_BWD, &grad->call->attrs, OP_HALF_I, 5, in, out);
    keep_needed(grad, out);
}

static void layer_norm_run(const struct op_call *call, void *const in[], void *const out[],
                           void *scratch) {
    (void)scratch;
    const float *scale = in[1], *shift = in[2];
    float *mean = out[1], *var = out[2];
    int64_t rows = op_rows(&call->in[0].shape), C = op_columns(&call->in[0].shape);
    for (int64_t r = 0; r < rows; r++) {
        const float *x = (const float *)in[0] + r * C;
        float *y = (float *)out[0] + r * C;
        struct norm_planes row = {1, 1, C};
        double m, v;
        norm_moments(&row, x, 0, &m, &v);
        double inverse = 1 / sqrt(v + call->attrs.norm.epsilon);
        for (int64_t c = 0; c < C; c++) y[c] = (float)((x[c] - m) * inverse * scale[c] + shift[c]);
        mean[r] = (float)m;
        var[r] = (float)v;
    }
}

static void layer_norm_bwd_row(const float *dy, const float *x, const float *scale, int64_t C,
                               double mean, double inverse, float *dx) {
    double sum = 0, sum_normal = 0;
    for (int64_t c = 0; c < C; c++) {
        double g = (double)dy[c] * scale[c];
        sum += g;
        sum_normal += g * (x[c] - mean) * inverse;
    }
    for (int64_t c = 0; c < C; c++) {
        double g = (double)dy[c] * scale[c], normal = (x[c] - mean) * inverse;
        dx[c] = (float)(inverse * (g - sum / (double)C - normal * sum_normal / (double)C));
    }
}

static size_t layer_norm_bwd_scratch(const struct op_call *call) {
    return 2 * (size_t)op_columns(&call->in[1].shape) * sizeof(double);
}

static void layer_norm_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                               void *scratch) {
    const float *scale = in[2], *mean = in[3], *var = in[4];
    float *dscale = out[1], *dshift = out[2];
    int64_t rows = op_rows(&call->in[1].shape), C = op_columns(&call->in[1].shape);
    double *by_scale = scratch, *by_shift = by_scale + C;
    for (int64_t c = 0; c < 2 * C; c++) by_scale[c] = 0;
    for (int64_t r = 0; r < rows; r++) {
        const float *dy = (const float *)in[0] + r * C, *x = (const float *)in[1] + r * C;
        double inverse = 1 / sqrt((double)var[r] + call->attrs.norm.epsilon);
        for (int64_t c = 0; c < C; c++) {
            by_scale[c] += dy[c] * ((double)x[c] - mean[r]) * inverse;
            by_shift[c] += dy[c];
        }
        layer_norm_bwd_row(dy, x, scale, C, mean[r], inverse, (float *)out[0] + r * C);
    }
    for (int64_t c = 0; c < C; c++) {
        dscale[c] = (float)by_scale[c];
        dshift[c] = (float)by_shift[c];
    }
}

const struct op_def op_batch_norm = {
    .name = "batch_norm",
    .infer = batch_norm_infer,
    .cost = batch_norm_cost,
    .grad = batch_norm_grad,
    .run = batch_norm_run,
    .narrow_out = OP_FIRST(1),
    .fuses = {OP_ACTIVATION(RELU), .with = OP_ADD, .becomes = OP_BATCH_NORM},
};

const struct op_def op_batch_norm_bwd = {
    .name = "batch_norm_bwd",
    .infer = batch_norm_bwd_infer,
    .cost = batch_norm_bwd_cost,
    .run = batch_norm_bwd_run,
    .narrow_out = OP_FIRST(1) | OP_AT(3),
};

const struct op_def op_batch_norm_eval = {
    .name = "batch_norm_eval",
    .flags = OP_IN_PLACE,
    .infer = batch_norm_eval_infer,
    .cost = batch_norm_eval_cost,
    .run = batch_norm_eval_run,
    .narrow_out = OP_FIRST(1),
    .fuses = {OP_ACTIVATION(RELU), .with = OP_ADD, .becomes = OP_BATCH_NORM_EVAL},
};

const struct op_def op_batch_norm_track = {
    .name = "batch_norm_track",
    .flags = OP_SIDE_EFFECT | OP_EVERY_RANK,
    .infer = batch_norm_track_infer,
    .run = batch_norm_track_run,
};

const struct op_def op_layer_norm = {
    .name = "layer_norm",
    .flags = OP_STREAM,
    .infer = layer_norm_infer,
    .cost = batch_norm_cost,
    .grad = layer_norm_grad,
    .run = layer_norm_run,
    .narrow_out = OP_FIRST(1),
};

const struct op_def op_layer_norm_bwd = {
    .name = "layer_norm_bwd",
    .infer = layer_norm_bwd_infer,
    .cost = batch_norm_bwd_cost,
    .run = layer_norm_bwd_run,
    .scratch_bytes = layer_norm_bwd_scratch,
    .narrow_out = OP_FIRST(1),
};
