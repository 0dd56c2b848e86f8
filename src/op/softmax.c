/* Softmax over the last dimension, the losses made of it, and counting right answers.
 *
 * A loss is the SUM over the labels that are not ignored, in f64; dividing by how many there are is
 * not the operation's business, since that count belongs to the whole step. It comes back as
 * `seed`, which every gradient is multiplied by. Label smoothing spreads `smoothing` evenly over
 * all classes, the right one included, as torch does.
 *
 * Cross entropy keeps no probabilities, which for a large vocabulary are the largest tensor of a
 * model: a row's largest score and the sum of exp(x - largest) make them again from the scores, and
 * the gradient takes the scores' place. */
#include "op/rule.h"

#include <math.h>

static enum status unary_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 1, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 1, 1, why, why_bytes));
    op_out(call, DTYPE_F32, &call->in[0].shape);
    return STATUS_OK;
}

static enum status unary_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"y", DTYPE_F32, 1, SHAPE_MAX_RANK}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    TRY(op_wants(call, 0, "dy", &call->in[1].shape, "y", why, why_bytes));
    op_out(call, DTYPE_F32, &call->in[0].shape);
    return STATUS_OK;
}

/* Scores [...,C] and labels [...]; then a scalar seed; then two numbers a row: `count` in all. */
static enum status check_labelled(const struct op_call *call, int count, char *why,
                                  size_t why_bytes) {
    static const struct op_operand operands[] = {{"the scores", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"label", DTYPE_I32, 0, SHAPE_MAX_RANK - 1},
                                                 {"seed", DTYPE_F32, 0, 0},
                                                 {"most", DTYPE_F32, 0, SHAPE_MAX_RANK - 1},
                                                 {"sum", DTYPE_F32, 0, SHAPE_MAX_RANK - 1}};
    TRY(op_operands(call, operands, count, count, why, why_bytes));
    struct shape rows = op_shape_rows(&call->in[0].shape);
    TRY(op_wants(call, 1, "label", &rows, "one label per row of scores", why, why_bytes));
    for (int i = 3; i < count; i++)
        TRY(op_wants(call, i, operands[i].name, &rows, "one per row of scores", why, why_bytes));
    float smoothing = call->attrs.loss.smoothing;
    if (!(smoothing >= 0 && smoothing <= 1))
        MISFIT("label smoothing is %g; [0,1] is needed", (double)smoothing);
    return STATUS_OK;
}

static enum status nll_infer(struct op_call *call, char *why, size_t why_bytes) {
    TRY(check_labelled(call, 2, why, why_bytes));
    op_out(call, DTYPE_F64, &SHAPE_SCALAR);
    return STATUS_OK;
}

static enum status cross_entropy_infer(struct op_call *call, char *why, size_t why_bytes) {
    TRY(check_labelled(call, 2, why, why_bytes));
    op_out(call, DTYPE_F64, &SHAPE_SCALAR);
    op_out(call, DTYPE_F32, &call->in[1].shape);
    op_out(call, DTYPE_F32, &call->in[1].shape);
    return STATUS_OK;
}

static enum status loss_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    TRY(check_labelled(call, call->op == OP_NLL_BWD ? 3 : 5, why, why_bytes));
    op_out(call, DTYPE_F32, &call->in[0].shape);
    return STATUS_OK;
}

static enum status top_k_infer(struct op_call *call, char *why, size_t why_bytes) {
    TRY(check_labelled(call, 2, why, why_bytes));
    op_out(call, DTYPE_F64, &SHAPE(3));
    return STATUS_OK;
}

static struct op_cost softmax_cost(const struct op_call *call) {
    return op_cost_of(call, 13 * (double)shape_count(&call->in[0].shape));
}

static struct op_cost bwd_cost(const struct op_call *call) {
    return op_cost_of(call, 4 * (double)shape_count(&call->in[0].shape));
}

static void softmax_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    enum op op = grad->call->op == OP_SOFTMAX ? OP_SOFTMAX_BWD : OP_LOG_SOFTMAX_BWD;
    grad->d_in[0] = op_emit(grad, op, NULL, OP_HALF_I, 2, (int[]){grad->d_out[0], grad->out[0]});
}

/* Losses start from the seed; what they need is the log-probabilities, or the scores and `saved`
 * numbers of their rows. */
static void loss_grad(struct op_grad *grad, enum op op, int saved) {
    int in[] = {grad->in[0], grad->in[1], grad->seed, grad->out[1], grad->out[2]};
    op_grad_begin(grad);
    if (grad->seed < 0 || !grad->need[0]) return;
    grad->d_in[0] = op_emit(grad, op, &grad->call->attrs, OP_HALF_I, 3 + saved, in);
}

static void nll_grad(struct op_grad *grad) {
    loss_grad(grad, OP_NLL_BWD, 0);
}

static void cross_entropy_grad(struct op_grad *grad) {
    loss_grad(grad, OP_CROSS_ENTROPY_BWD, 2);
}

/* --- reference kernels --- */

/* The largest of one row, and sum(exp(x - largest)). */
static double sum_exp(const float *x, int64_t C, double *sum) {
    double most = x[0];
    for (int64_t c = 1; c < C; c++) most = x[c] > most ? x[c] : most;
    *sum = 0;
    for (int64_t c = 0; c < C; c++) *sum += exp(x[c] - most);
    return most;
}

/* log(sum(exp(x))) of one row, safe against overflow. */
static double log_sum_exp(const float *x, int64_t C) {
    double sum, most = sum_exp(x, C, &sum);
    return most + log(sum);
}

static void softmax_rows(const struct op_call *call, const float *x, float *y, bool logarithm) {
    int64_t rows = op_rows(&call->in[0].shape), C = op_columns(&call->in[0].shape);
    for (int64_t r = 0; r < rows; r++, x += C, y += C) {
        double total = log_sum_exp(x, C);
        for (int64_t c = 0; c < C; c++)
            y[c] = (float)(logarithm ? x[c] - total : exp(x[c] - total));
    }
}

static void softmax_run(const struct op_call *call, void *const in[], void *const out[],
                        void *scratch) {
    (void)scratch;
    softmax_rows(call, in[0], out[0], false);
}

static void log_softmax_run(const struct op_call *call, void *const in[], void *const out[],
                            void *scratch) {
    (void)scratch;
    softmax_rows(call, in[0], out[0], true);
}

/* Backward, row by row: `row` makes dx of C elements. */
static void rows_bwd(const struct op_call *call, void *const in[], void *const out[],
                     void (*row)(const float *dy, const float *y, int64_t C, float *dx)) {
    int64_t rows = op_rows(&call->in[0].shape), C = op_columns(&call->in[0].shape);
    for (int64_t r = 0; r < rows; r++)
        row((const float *)in[0] + r * C, (const float *)in[1] + r * C, C, (float *)out[0] + r * C);
}

static void softmax_bwd_row(const float *dy, const float *y, int64_t C, float *dx) {
    double dot = 0;
    for (int64_t c = 0; c < C; c++) dot += (double)dy[c] * y[c];
    for (int64_t c = 0; c < C; c++) dx[c] = (float)(y[c] * (dy[c] - dot));
}

static void log_softmax_bwd_row(const float *dy, const float *y, int64_t C, float *dx) {
    double sum = 0;
    for (int64_t c = 0; c < C; c++) sum += dy[c];
    for (int64_t c = 0; c < C; c++) dx[c] = (float)(dy[c] - exp(y[c]) * sum);
}

static void softmax_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                            void *scratch) {
    (void)scratch;
    rows_bwd(call, in, out, softmax_bwd_row);
}

static void log_softmax_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                                void *scratch) {
    (void)scratch;
    rows_bwd(call, in, out, log_softmax_bwd_row);
}

/* What class c is worth in the target distribution of `label`. */
static double target(const struct op_call *call, int64_t c, int32_t label, int64_t C) {
    double smoothing = call->attrs.loss.smoothing;
    return (c == label ? 1 - smoothing : 0) + smoothing / (double)C;
}

/* The loss of one row, given what turns its values into log-probabilities. */
static double row_loss(const struct op_call *call, const float *x, double total, int32_t label,
                       int64_t C) {
    if (call->attrs.loss.smoothing == 0) return total - x[label];
    double loss = 0;
    for (int64_t c = 0; c < C; c++) loss += target(call, c, label, C) * (total - x[c]);
    return loss;
}

static void nll_run(const struct op_call *call, void *const in[], void *const out[],
                    void *scratch) {
    (void)scratch;
    const float *x = in[0];
    const int32_t *label = in[1];
    int64_t rows = op_rows(&call->in[0].shape), C = op_columns(&call->in[0].shape);
    double loss = 0;
    for (int64_t r = 0; r < rows; r++)
        if (op_label_counts(label[r], C)) loss += row_loss(call, x + r * C, 0, label[r], C);
    *(double *)out[0] = loss;
}

static void nll_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                        void *scratch) {
    (void)scratch;
    const int32_t *label = in[1];
    double seed = *(const float *)in[2];
    float *dx = out[0];
    int64_t rows = op_rows(&call->in[0].shape), C = op_columns(&call->in[0].shape);
    for (int64_t r = 0; r < rows; r++) {
        bool counts = op_label_counts(label[r], C);
        for (int64_t c = 0; c < C; c++)
            *dx++ = counts ? (float)(-target(call, c, label[r], C) * seed) : 0;
    }
}

static void cross_entropy_run(const struct op_call *call, void *const in[], void *const out[],
                              void *scratch) {
    (void)scratch;
    const float *x = in[0];
    const int32_t *label = in[1];
    float *mosts = out[1], *sums = out[2];
    int64_t rows = op_rows(&call->in[0].shape), C = op_columns(&call->in[0].shape);
    double loss = 0;
    for (int64_t r = 0; r < rows; r++, x += C) {
        double sum, most = sum_exp(x, C, &sum);
        if (op_label_counts(label[r], C)) loss += row_loss(call, x, most + log(sum), label[r], C);
        mosts[r] = (float)most;
        sums[r] = (float)sum;
    }
    *(double *)out[0] = loss;
}

static void cross_entropy_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                                  void *scratch) {
    (void)scratch;
    const float *x = in[0], *most = in[3], *sum = in[4];
    const int32_t *label = in[1];
    double seed = *(const float *)in[2];
    float *dx = out[0];
    int64_t rows = op_rows(&call->in[0].shape), C = op_columns(&call->in[0].shape);
    for (int64_t r = 0; r < rows; r++, x += C, dx += C) {
        bool counts = op_label_counts(label[r], C);
        for (int64_t c = 0; c < C; c++) {
            double p = exp((double)x[c] - most[r]) / sum[r];
            dx[c] = counts ? (float)((p - target(call, c, label[r], C)) * seed) : 0;
        }
    }
}

/* How many classes come before the label: greater ones, equal ones of lower index, and NaN, so that
 * a broken row is not counted as right. */
static int64_t rank_of(const float *x, int32_t label, int64_t C) {
    int64_t rank = 0;
    for (int64_t c = 0; c < C; c++) rank += x[c] == x[label] ? c < label : !(x[c] < x[label]);
    return rank;
}

static void top_k_run(const struct op_call *call, void *const in[], void *const out[],
                      void *scratch) {
    (void)scratch;
    const float *x = in[0];
    const int32_t *label = in[1];
    double *counts = out[0];
    int64_t rows = op_rows(&call->in[0].shape), C = op_columns(&call->in[0].shape);
    counts[0] = counts[1] = counts[2] = 0;
    for (int64_t r = 0; r < rows; r++) {
        if (!op_label_counts(label[r], C)) continue;
        int64_t rank = rank_of(x + r * C, label[r], C);
        counts[0] += rank < 1;
        counts[1] += rank < 5;
        counts[2] += 1;
    }
}

static void loss_text(const struct op_call *call, struct op_line *line) {
    if (call->attrs.loss.smoothing > 0)
        op_say(line, "smoothing %g", (double)call->attrs.loss.smoothing);
}

const struct op_def op_softmax = {
    .name = "softmax",
    .infer = unary_infer,
    .cost = softmax_cost,
    .grad = softmax_grad,
    .run = softmax_run,
    .narrow_out = OP_FIRST(1),
};

const struct op_def op_softmax_bwd = {
    .name = "softmax_bwd",
    .infer = unary_bwd_infer,
    .cost = bwd_cost,
    .run = softmax_bwd_run,
    .narrow_out = OP_FIRST(1),
};

const struct op_def op_log_softmax = {
    .name = "log_softmax",
    .flags = OP_EXACT_IN,
    .infer = unary_infer,
    .cost = softmax_cost,
    .grad = softmax_grad,
    .run = log_softmax_run,
    .fuses = {.with = OP_NLL, .becomes = OP_CROSS_ENTROPY},
};

const struct op_def op_log_softmax_bwd = {
    .name = "log_softmax_bwd",
    .infer = unary_bwd_infer,
    .cost = softmax_cost,
    .run = log_softmax_bwd_run,
    .narrow_out = OP_FIRST(1),
};

const struct op_def op_nll = {
    .name = "nll",
    .flags = OP_EXACT_IN,
    .infer = nll_infer,
    .grad = nll_grad,
    .run = nll_run,
    .text = loss_text,
};

const struct op_def op_nll_bwd = {
    .name = "nll_bwd",
    .infer = loss_bwd_infer,
    .run = nll_bwd_run,
    .text = loss_text,
};

const struct op_def op_cross_entropy = {
    .name = "cross_entropy",
    .flags = OP_EXACT_IN,
    .infer = cross_entropy_infer,
    .cost = softmax_cost,
    .grad = cross_entropy_grad,
    .run = cross_entropy_run,
    .text = loss_text,
};

const struct op_def op_cross_entropy_bwd = {
    .name = "cross_entropy_bwd",
    .flags = OP_IN_PLACE,
    .infer = loss_bwd_infer,
    .cost = softmax_cost,
    .run = cross_entropy_bwd_run,
    .narrow_out = OP_FIRST(1),
    .text = loss_text,
};

const struct op_def op_top_k = {
    .name = "top_k",
    .flags = OP_EXACT_IN,
    .infer = top_k_infer,
    .cost = bwd_cost,
    .run = top_k_run,
};
