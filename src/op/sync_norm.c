/* Batch norm whose statistics are those of all ranks, cut where ranks must meet.
 *
 *     forward    stats -> exchange -> merge -> apply
 *     backward   bwd_stats -> exchange -> bwd_apply
 *
 * The arithmetic is torch's SyncBatchNorm's: local moments and counts are gathered, not summed,
 * because counts may differ and a rank may have none; they are merged by Chan's rule in rank order,
 * so every rank has the same bits. Here the variance travels as it is instead of as 1/sqrt(var +
 * eps), which saves the way back. Sums over ranks are made by each rank itself, in rank order, from
 * what was gathered: an all-reduce would need memory that others reach for a few hundred bytes.
 *
 * The gradient rule of apply is that of the whole chain: the way through mean and variance is in
 * bwd_apply, so stats, exchange and merge have no rule. Gradients of scale and shift stay local;
 * the reduction of all gradients sums them like any other. */
#include <math.h>
#include <string.h>

#include "op/norm.h"

/* --- shapes --- */

static enum status stats_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 2, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    op_out(call, DTYPE_F32, &SHAPE(2 * call->in[0].shape.dim[1] + 1));
    return STATUS_OK;
}

static enum status exchange_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 1, 1}};
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    if (call->attrs.ranks < 1) MISFIT("between %d ranks; at least 1 is needed", call->attrs.ranks);
    op_out(call, DTYPE_F32, &SHAPE(call->attrs.ranks, call->in[0].shape.dim[0]));
    return STATUS_OK;
}

static enum status merge_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"stats", DTYPE_F32, 2, 2}};
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    int64_t length = call->in[0].shape.dim[1];
    if (length < 3 || length % 2 == 0)
        MISFIT("stats is %s; rows of 2C+1 are needed", TEXT(call->in[0].shape));
    op_out(call, DTYPE_F32, &SHAPE(length / 2));
    op_out(call, DTYPE_F32, &SHAPE(length / 2));
    op_out(call, DTYPE_F32, &SHAPE(1));
    return STATUS_OK;
}

static enum status apply_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 2, SHAPE_MAX_RANK},
                                                 {"scale", DTYPE_F32, 1, 1},
                                                 {"shift", DTYPE_F32, 1, 1},
                                                 {"mean", DTYPE_F32, 1, 1},
                                                 {"var", DTYPE_F32, 1, 1},
                                                 {"count", DTYPE_F32, 1, 1},
                                                 {"residual", DTYPE_F32, 2, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 6, 7, why, why_bytes));
    TRY(norm_check_epsilon(call, why, why_bytes));
    TRY(norm_check_relu(call, why, why_bytes));
    const struct shape *x = &call->in[0].shape;
    TRY(norm_want_channels(call, operands, 1, 4, x->dim[1], why, why_bytes));
    TRY(op_wants(call, 5, "count", &SHAPE(1), "all channels", why, why_bytes));
    TRY(norm_want_residual(call, 6, why, why_bytes));
    op_out(call, DTYPE_F32, x);
    if (call->attrs.activation == ACTIVATION_RELU) op_out(call, DTYPE_U8, x);
    return STATUS_OK;
}

/* dy and x come first in both backward operations, a mask last where relu was applied. */
static enum status check_bwd(const struct op_call *call, const struct op_operand *operands,
                             int count, int last_vector, char *why, size_t why_bytes) {
    if (call->attrs.activation != ACTIVATION_RELU) count--;
    TRY(op_operands(call, operands, count, count, why, why_bytes));
    TRY(norm_check_epsilon(call, why, why_bytes));
    TRY(norm_check_relu(call, why, why_bytes));
    const struct shape *x = &call->in[1].shape;
    TRY(op_wants(call, 0, "dy", x, "x", why, why_bytes));
    TRY(norm_want_channels(call, operands, 2, last_vector, x->dim[1], why, why_bytes));
    if (call->attrs.activation != ACTIVATION_RELU) return STATUS_OK;
    return op_wants(call, count - 1, "mask", x, "x", why, why_bytes);
}

static enum status bwd_stats_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 2, SHAPE_MAX_RANK},
                                                 {"x", DTYPE_F32, 2, SHAPE_MAX_RANK},
                                                 {"mean", DTYPE_F32, 1, 1},
                                                 {"var", DTYPE_F32, 1, 1},
                                                 {"mask", DTYPE_U8, 2, SHAPE_MAX_RANK}};
    TRY(check_bwd(call, operands, 5, 3, why, why_bytes));
    int64_t channels = call->in[1].shape.dim[1];
    op_out(call, DTYPE_F32, &SHAPE(2 * channels));
    op_out(call, DTYPE_F32, &SHAPE(channels));
    op_out(call, DTYPE_F32, &SHAPE(channels));
    return STATUS_OK;
}

static enum status bwd_apply_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 2, SHAPE_MAX_RANK},
                                                 {"x", DTYPE_F32, 2, SHAPE_MAX_RANK},
                                                 {"scale", DTYPE_F32, 1, 1},
                                                 {"mean", DTYPE_F32, 1, 1},
                                                 {"var", DTYPE_F32, 1, 1},
                                                 {"count", DTYPE_F32, 1, 1},
                                                 {"sums", DTYPE_F32, 2, 2},
                                                 {"mask", DTYPE_U8, 2, SHAPE_MAX_RANK}};
    TRY(check_bwd(call, operands, 8, 4, why, why_bytes));
    const struct shape *x = &call->in[1].shape, *sums = &call->in[6].shape;
    TRY(op_wants(call, 5, "count", &SHAPE(1), "all channels", why, why_bytes));
    TRY(op_wants(call, 6, "sums", &SHAPE(sums->dim[0], 2 * x->dim[1]), "x's channels", why,
                 why_bytes));
    op_out(call, DTYPE_F32, x);
    if (call->attrs.residual) op_out(call, DTYPE_F32, x);
    return STATUS_OK;
}

/* --- costs, gradient --- */

static struct op_cost stats_cost(const struct op_call *call) {
    return op_cost_of(call, 5 * (double)shape_count(&call->in[0].shape));
}

static struct op_cost apply_cost(const struct op_call *call) {
    return op_cost_of(call, 2 * (double)shape_count(&call->in[0].shape));
}

static struct op_cost bwd_apply_cost(const struct op_call *call) {
    return op_cost_of(call, 6 * (double)shape_count(&call->in[0].shape));
}

static void apply_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad)) return;
    struct op_attrs attrs = grad->call->attrs;
    bool masked = attrs.activation == ACTIVATION_RELU, added = grad->call->in_count == 7;
    int dy = grad->d_out[0], x = grad->in[0], mean = grad->in[3], var = grad->in[4],
        mask = masked ? grad->out[1] : -1, sums[OP_MAX_OUT], out[OP_MAX_OUT];
    attrs.residual = masked && added;
    grad->emit(grad, OP_BATCH_NORM_BWD_STATS, &attrs, OP_HALF_I, masked ? 5 : 4,
               (int[]){dy, x, mean, var, mask}, sums);
    if (grad->need[1]) grad->d_in[1] = sums[1];
    if (grad->need[2]) grad->d_in[2] = sums[2];
    bool behind = added && grad->need[6]; /* what was added has a gradient too */
    if (behind && !masked) grad->d_in[6] = dy;
    if (!grad->need[0] && !(behind && masked)) return; /* on all ranks alike: none would wait */
    struct op_attrs between = {.ranks = attrs.ranks};
    int all = op_emit(grad, OP_STATS_EXCHANGE, &between, OP_HALF_I, 1, sums);
    grad->emit(grad, OP_BATCH_NORM_BWD_APPLY, &attrs, OP_HALF_I, masked ? 8 : 7,
               (int[]){dy, x, grad->in[1], mean, var, grad->in[5], all, mask}, out);
    if (grad->need[0]) grad->d_in[0] = out[0];
    if (behind && masked) grad->d_in[6] = out[1];
}

/* --- reference kernels --- */

static void stats_run(const struct op_call *call, void *const in[], void *const out[],
                      void *scratch) {
    (void)scratch;
    struct norm_planes p = norm_planes_of(&call->in[0].shape);
    float *stats = out[0];
    for (int64_t c = 0; c < p.channels; c++) {
        double mean, var;
        norm_moments(&p, in[0], c, &mean, &var);
        stats[c] = (float)mean;
        stats[p.channels + c] = (float)var;
    }
    stats[2 * p.channels] = (float)(p.batch * p.plane);
}

/* Alone, as if every rank had given the same. */
static void exchange_run(const struct op_call *call, void *const in[], void *const out[],
                         void *scratch) {
    (void)scratch;
    size_t bytes = tensor_type_bytes(&call->in[0]);
    for (int r = 0; r < call->attrs.ranks; r++)
        memcpy((char *)out[0] + (size_t)r * bytes, in[0], bytes);
}

/* The executor gathers long vectors in pieces, through scratch. */
static size_t exchange_scratch(const struct op_call *call) {
    return tensor_type_bytes(&call->out[0]);
}

/* One rank's n values are added to those of the ranks before it (Chan's rule). */
static void merge_channel(const float *stats, int64_t ranks, int64_t channels, int64_t c,
                          double *out_mean, double *out_var) {
    double mean = 0, squares = 0, count = 0;
    for (int64_t r = 0; r < ranks; r++, stats += 2 * channels + 1) {
        double n = stats[2 * channels];
        if (n == 0) continue;
        double away = stats[c] - mean, share = n / (count + n);
        squares += stats[channels + c] * n + away * away * count * share;
        mean += away * share;
        count += n;
    }
    *out_mean = mean;
    *out_var = squares / count;
}

static void merge_run(const struct op_call *call, void *const in[], void *const out[],
                      void *scratch) {
    (void)scratch;
    const float *stats = in[0];
    float *mean = out[0], *var = out[1], *count = out[2];
    int64_t ranks = call->in[0].shape.dim[0], channels = call->out[0].shape.dim[0];
    double total = 0;
    for (int64_t r = 0; r < ranks; r++) total += stats[r * (2 * channels + 1) + 2 * channels];
    for (int64_t c = 0; c < channels; c++) {
        double m, v;
        merge_channel(stats, ranks, channels, c, &m, &v);
        mean[c] = (float)m;
        var[c] = (float)v;
    }
    *count = (float)total;
}

static void apply_run(const struct op_call *call, void *const in[], void *const out[],
                      void *scratch) {
    (void)scratch;
    const float *x = in[0], *scale = in[1], *shift = in[2], *mean = in[3], *var = in[4];
    const float *added = call->in_count == 7 ? in[6] : NULL;
    float *y = out[0];
    unsigned char *mask = call->out_count == 2 ? out[1] : NULL;
    struct norm_planes p = norm_planes_of(&call->in[0].shape);
    for (int64_t c = 0; c < p.channels; c++) {
        double factor = scale[c] / sqrt((double)var[c] + call->attrs.norm.epsilon);
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t i = norm_plane_at(&p, b, c); i < norm_plane_at(&p, b, c) + p.plane; i++) {
                double value =
                    ((double)x[i] - mean[c]) * factor + shift[c] + (added ? added[i] : 0);
                y[i] = op_activate(call->attrs.activation, value);
                if (mask) mask[i] = !(y[i] <= 0);
            }
    }
}

static void bwd_stats_run(const struct op_call *call, void *const in[], void *const out[],
                          void *scratch) {
    (void)scratch;
    const float *mean = in[2], *var = in[3];
    float *sums = out[0], *dscale = out[1], *dshift = out[2];
    struct norm_planes p = norm_planes_of(&call->in[1].shape);
    for (int64_t c = 0; c < p.channels; c++) {
        double sum, dot;
        norm_bwd_sums(&p, c, in[0], in[1], call->in_count == 5 ? in[4] : NULL, mean[c], 1, &dot,
                      &sum);
        sums[c] = dshift[c] = (float)sum;
        sums[p.channels + c] = (float)dot;
        dscale[c] = (float)(dot / sqrt((double)var[c] + call->attrs.norm.epsilon));
    }
}

static double over_ranks(const float *sums, int64_t ranks, int64_t step, int64_t at) {
    double sum = 0;
    for (int64_t r = 0; r < ranks; r++) sum += sums[r * step + at];
    return sum;
}

static void bwd_apply_run(const struct op_call *call, void *const in[], void *const out[],
                          void *scratch) {
    (void)scratch;
    const float *dy = in[0], *x = in[1], *scale = in[2], *mean = in[3], *var = in[4], *sums = in[6];
    const unsigned char *mask = call->in_count == 8 ? in[7] : NULL;
    float *dx = out[0], *dadded = call->attrs.residual ? out[1] : NULL;
    struct norm_planes p = norm_planes_of(&call->in[1].shape);
    int64_t ranks = call->in[6].shape.dim[0];
    double n = *(const float *)in[5];
    for (int64_t c = 0; c < p.channels; c++) {
        double inverse = 1 / sqrt((double)var[c] + call->attrs.norm.epsilon);
        double sum = over_ranks(sums, ranks, 2 * p.channels, c),
               dot = over_ranks(sums, ranks, 2 * p.channels, p.channels + c);
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t i = norm_plane_at(&p, b, c); i < norm_plane_at(&p, b, c) + p.plane; i++) {
                double g = mask && !mask[i] ? 0 : dy[i], away = (double)x[i] - mean[c];
                if (dadded) dadded[i] = (float)g;
                dx[i] = (float)(scale[c] * inverse *
                                (g - sum / n - away * inverse * inverse * dot / n));
            }
    }
}

static void exchange_text(const struct op_call *call, struct op_line *line) {
    op_say(line, "%d ranks", call->attrs.ranks);
}

const struct op_def op_batch_norm_stats = {
    .name = "batch_norm_stats",
    .infer = stats_infer,
    .cost = stats_cost,
    .run = stats_run,
};

const struct op_def op_stats_exchange = {
    .name = "stats_exchange",
    .flags = OP_EXCHANGE | OP_EVERY_RANK,
    .infer = exchange_infer,
    .run = exchange_run,
    .scratch_bytes = exchange_scratch,
    .text = exchange_text,
};

const struct op_def op_batch_norm_merge = {
    .name = "batch_norm_merge",
    .flags = OP_EVERY_RANK,
    .infer = merge_infer,
    .run = merge_run,
};

const struct op_def op_batch_norm_apply = {
    .name = "batch_norm_apply",
    .infer = apply_infer,
    .cost = apply_cost,
    .grad = apply_grad,
    .run = apply_run,
    .narrow_out = OP_FIRST(1),
    .fuses = {OP_ACTIVATION(RELU), .with = OP_ADD, .becomes = OP_BATCH_NORM_APPLY},
};

const struct op_def op_batch_norm_bwd_stats = {
    .name = "batch_norm_bwd_stats",
    .infer = bwd_stats_infer,
    .cost = stats_cost,
    .run = bwd_stats_run,
};

const struct op_def op_batch_norm_bwd_apply = {
    .name = "batch_norm_bwd_apply",
    .infer = bwd_apply_infer,
    .cost = bwd_apply_cost,
    .run = bwd_apply_run,
    .narrow_out = OP_FIRST(2),
};
