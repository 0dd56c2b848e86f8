/* Softmax over the last dimension, and softmax with cross entropy in one. Rows are independent; the
 * loss is summed over rows in order, in double, whatever the team. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/scalar.h"
#include "base/clones.h"

/* Always part of the functions below, so that it is vector code of their width. */
__attribute__((always_inline)) static inline float largest(const float *x, int64_t columns) {
    float most = x[0];
#pragma omp simd reduction(max : most)
    for (int64_t c = 0; c < columns; c++) most = x[c] > most ? x[c] : most;
    return most;
}

/* Largest element and sum of exp(x - largest); y gets the exponentials. A NaN spreads through the
 * sum. */
VECTOR_CLONES static float exp_row(const float *x, int64_t columns, float *y, float *most_out) {
    float most = largest(x, columns), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < columns; c++) {
        float e = scalar_exp(x[c] - most);
        y[c] = e;
        sum += e;
    }
    *most_out = most;
    return sum;
}

/* The same sum, without the exponentials themselves. */
VECTOR_CLONES static float sum_exp_row(const float *x, int64_t columns, float *most_out) {
    float most = largest(x, columns), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < columns; c++) sum += scalar_exp(x[c] - most);
    *most_out = most;
    return sum;
}

VECTOR_CLONES static void scale_row(float *y, int64_t columns, float factor) {
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) y[c] *= factor;
}

VECTOR_CLONES static void log_row(const float *x, int64_t columns, float *y) {
    float most = largest(x, columns), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < columns; c++) sum += scalar_exp(x[c] - most);
    float logarithm = logf(sum);
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) y[c] = x[c] - most - logarithm;
}

VECTOR_CLONES static void softmax_bwd_row(const float *dy, const float *y, int64_t columns,
                                          float *dx) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t c = 0; c < columns; c++) dot += dy[c] * y[c];
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) dx[c] = y[c] * (dy[c] - dot);
}

VECTOR_CLONES static void log_bwd_row(const float *dy, const float *y, int64_t columns, float *dx) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < columns; c++) sum += dy[c];
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) dx[c] = dy[c] - scalar_exp(y[c]) * sum;
}

static void run_softmax(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        void *scratch) {
    (void)scratch;
    const float *first = in[0], *second = kernel->call.in_count > 1 ? in[1] : in[0];
    float *to = out[0];
    int64_t columns = kernel->columns;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < kernel->rows * columns; at += columns) {
        float most;
        switch (kernel->call.op) {
        case OP_SOFTMAX:
            scale_row(to + at, columns, 1.0f / exp_row(first + at, columns, to + at, &most));
            break;
        case OP_LOG_SOFTMAX: log_row(first + at, columns, to + at); break;
        case OP_SOFTMAX_BWD: softmax_bwd_row(first + at, second + at, columns, to + at); break;
        default: log_bwd_row(first + at, second + at, columns, to + at);
        }
    }
}

static void set_rows(struct cpu_kernel *kernel, const char *name) {
    const struct shape *x = &kernel->call.in[0].shape;
    kernel->columns = x->dim[x->rank - 1];
    kernel->rows = shape_span(x, 0, x->rank - 1);
    cpu_name(kernel, "%s", name);
}

enum status cpu_softmax(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    set_rows(kernel, "loop:softmax");
    cpu_step_loop(kernel, run_softmax);
    return STATUS_OK;
}

/* --- cross entropy --- */

VECTOR_CLONES static float sum_row(const float *x, int64_t columns) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < columns; c++) sum += x[c];
    return sum;
}

/* Minus the expected log-probability under the (smoothed) target; `total` is log(sum(exp(x))). */
static double row_loss(const float *x, int64_t columns, double total, int32_t label,
                       double smoothing) {
    double loss = (1 - smoothing) * (total - x[label]);
    if (smoothing > 0) loss += smoothing * (total - (double)sum_row(x, columns) / (double)columns);
    return loss;
}

static void run_cross_entropy(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                              void *scratch) {
    const float *x = in[0];
    const int32_t *label = in[1];
    float *most = out[1], *exps = out[2];
    double *loss = scratch, sum = 0;
    int64_t columns = kernel->columns;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < kernel->rows; r++) {
        const float *row = x + r * columns;
        double smoothing = kernel->call.attrs.loss.smoothing;
        exps[r] = sum_exp_row(row, columns, &most[r]);
        loss[r] = 0;
        if (op_label_counts(label[r], columns))
            loss[r] = row_loss(row, columns, most[r] + log(exps[r]), label[r], smoothing);
    }
    for (int64_t r = 0; r < kernel->rows; r++) sum += loss[r];
    *(double *)out[0] = sum;
}

enum status cpu_cross_entropy(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    set_rows(kernel, "loop:cross_entropy");
    cpu_scratch(kernel, (size_t)kernel->rows * sizeof(double));
    cpu_step_loop(kernel, run_cross_entropy);
    return STATUS_OK;
}

VECTOR_CLONES static void gradient_row(const float *x, int64_t columns, float most, float inverse,
                                       float even, float seed, float *dx) {
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) dx[c] = (scalar_exp(x[c] - most) * inverse - even) * seed;
}

static void run_cross_entropy_bwd(const struct cpu_kernel *kernel, void *const in[],
                                  void *const out[], void *scratch) {
    (void)scratch;
    const float *x = in[0], *most = in[3], *exps = in[4];
    const int32_t *label = in[1];
    float seed = *(const float *)in[2], smoothing = kernel->call.attrs.loss.smoothing, *dx = out[0];
    int64_t columns = kernel->columns;
    float even = smoothing / (float)columns;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < kernel->rows; r++) {
        int64_t at = r * columns;
        if (!op_label_counts(label[r], columns)) {
            memset(dx + at, 0, (size_t)columns * sizeof *dx);
            continue;
        }
        float inverse = 1.0f / exps[r], p = scalar_exp(x[at + label[r]] - most[r]) * inverse;
        gradient_row(x + at, columns, most[r], inverse, even, seed, dx + at); /* dx may be x */
        dx[at + label[r]] = (p - (1.0f - smoothing) - even) * seed;
    }
}

enum status cpu_cross_entropy_bwd(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    set_rows(kernel, "loop:cross_entropy");
    cpu_step_loop(kernel, run_cross_entropy_bwd);
    return STATUS_OK;
}

/* --- accuracy --- */

/* How many of `columns` come before the label: greater ones and NaN, and with `equal` equal ones.
 */
VECTOR_CLONES static int32_t count_before(const float *x, int64_t columns, float value,
                                          bool equal) {
    int32_t count = 0;
    if (equal)
#pragma omp simd reduction(+ : count)
        for (int64_t c = 0; c < columns; c++) count += !(x[c] < value);
    else
#pragma omp simd reduction(+ : count)
        for (int64_t c = 0; c < columns; c++) count += !(x[c] <= value);
    return count;
}

/* Ties rank by index, and a label whose own score is NaN is never right. */
static int32_t rank_of(const float *x, int64_t columns, int32_t label) {
    int32_t before = count_before(x, label, x[label], true);
    return before + count_before(x + label, columns - label, x[label], false);
}

static void run_top_k(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                      void *scratch) {
    const float *x = in[0];
    const int32_t *label = in[1];
    int32_t *rank = scratch;
    double *counts = out[0];
    counts[0] = counts[1] = counts[2] = 0;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < kernel->rows; r++)
        rank[r] = op_label_counts(label[r], kernel->columns)
                      ? rank_of(x + r * kernel->columns, kernel->columns, label[r])
                      : -1;
    for (int64_t r = 0; r < kernel->rows; r++) {
        counts[0] += rank[r] == 0;
        counts[1] += rank[r] >= 0 && rank[r] < 5;
        counts[2] += rank[r] >= 0;
    }
}

enum status cpu_top_k(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    set_rows(kernel, "loop:top_k");
    cpu_scratch(kernel, (size_t)kernel->rows * sizeof(int32_t));
    cpu_step_loop(kernel, run_top_k);
    return STATUS_OK;
}
