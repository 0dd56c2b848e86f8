/* Batch norm, with or without ReLU, in loops of our own (batch_norm_loops.h).
 *
 * Forward reads x twice and writes y, backward reads dy and x twice and writes dx.
 *
 * No mask is kept for ReLU: forward leaves each channel's factor and offset (y = a x + b) in the
 * mask's place, and backward evaluates the same expression to see where y was positive (or a NaN,
 * which passes as in torch). That costs no bytes worth counting. Behind the sum with a residual
 * that expression would read a third tensor: there a bit an element is kept.
 *
 * The operations of batch norm over several ranks (op/sync_norm.c) are the same loops, cut where
 * the ranks meet. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/batch_norm_loops.h"

/* Gradients over the whole (local or of all ranks): per channel the sums of g and of g (x - mean).
 */
static void channel_sums(const struct cpu_image *image, const float *sums, const float *dots,
                         int64_t c, double *sum, double *dot) {
    int64_t step = cpu_norm_padded_channels(image);
    *sum = *dot = 0;
    for (int64_t i = 0; i < image->batch; i++)
        *sum += sums[i * step + c], *dot += dots[i * step + c];
}

/* What dx of channel c is made of, given the sums over all n values of the channel. */
static void dx_rows(float scale, double inverse, double sum, double dot, double n, int64_t c,
                    float *const row[CPU_NORM_ROWS]) {
    row[CPU_NORM_ROW_P][c] = (float)(scale * inverse);
    row[CPU_NORM_ROW_Q][c] = (float)(-scale * inverse * inverse * inverse * dot / n);
    row[CPU_NORM_ROW_R][c] = (float)(-scale * inverse * sum / n);
}

static double inverse_of(const struct cpu_kernel *kernel, const float *var, int64_t c) {
    return 1 / sqrt((double)var[c] + kernel->call.attrs.norm.epsilon);
}

/* From the images' sums to both gradients and the coefficients of dx. */
static void finish_sums(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        const float *sums, const float *dots, float *const row[CPU_NORM_ROWS]) {
    const struct cpu_image *image = &kernel->image;
    const float *scale = in[2], *var = in[4];
    float *dscale = out[1], *dshift = out[2];
    double n = (double)(image->batch * image->pixels);
    for (int64_t c = 0; c < image->channels; c++) {
        double sum, dot, inverse = inverse_of(kernel, var, c);
        channel_sums(image, sums, dots, c, &sum, &dot);
        dscale[c] = (float)(dot * inverse);
        dshift[c] = (float)sum;
        dx_rows(scale[c], inverse, sum, dot, n, c, row);
    }
}

/* --- kernels --- */

/* Inputs (or output 0) as chunks; `place` counts those of a kernel. Their rooms are behind the
 * sums, kernel->count bytes. */
static struct cpu_norm_chunks chunks_of(const struct cpu_kernel *kernel,
                                        const struct tensor_type *type, void *data, void *scratch,
                                        int place) {
    int64_t size = kernel->image.pixels * kernel->image.lanes;
    float *rooms = (float *)((char *)scratch + kernel->count);
    return (struct cpu_norm_chunks){type->dtype, data,
                                    rooms + place * kernel->base.device->threads * size, size};
}

/* y from the statistics. A residual is input `residual`, when there is one; a mask, when ReLU is
 * applied, output `mask` (0: backward is not wanted). */
static void apply(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                  const float *mean, const float *var, int residual, int mask, void *scratch) {
    const struct cpu_image *image = &kernel->image;
    const struct op_call *call = &kernel->call;
    bool relu = call->attrs.activation == ACTIVATION_RELU, sums = call->in_count > residual;
    float *a = relu && mask && !sums ? out[mask] : scratch,
          *b = a + cpu_norm_padded_channels(image);
    struct cpu_norm_chunks x = chunks_of(kernel, &call->in[0], in[0], scratch, 0),
                           y = chunks_of(kernel, &call->out[0], out[0], scratch, 1), added = x;
    if (sums) added = chunks_of(kernel, &call->in[residual], in[residual], scratch, 2);
    cpu_norm_affine_of(image, in[1], in[2], mean, var, call->attrs.norm.epsilon, a, b);
    cpu_norm_affine(image, &x, sums ? &added : NULL, a, b, relu,
                    relu && mask && sums ? out[mask] : NULL, &y);
}

static void run_forward(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        void *scratch) {
    float *means = (float *)scratch + 2 * cpu_norm_padded_channels(&kernel->image);
    struct cpu_norm_chunks x = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0);
    cpu_norm_moments(&kernel->image, &x, means, out[1], out[2]);
    apply(kernel, in, out, out[1], out[2], 3, 3, scratch);
}

static void run_eval(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                     void *scratch) {
    apply(kernel, in, out, in[3], in[4], 5, 0, scratch);
}

/* Did backward's mask come from a sum? */
static bool has_bits(const struct cpu_kernel *kernel) {
    return kernel->call.attrs.residual;
}

/* Rows of zeros in scratch for what backward computes, the mean padded, and for relu the factors
 * that forward left in `mask` (NULL: no relu); returns what lies behind them. */
static float *backward_rows(const struct cpu_kernel *kernel, const float *mean, float *mask,
                            float *scratch, float *row[CPU_NORM_ROWS]) {
    const struct cpu_image *image = &kernel->image;
    int64_t padded = cpu_norm_padded_channels(image);
    float *zero = scratch, *affine = has_bits(kernel) ? NULL : mask;
    memset(scratch, 0, 5 * (size_t)padded * sizeof(float));
    row[CPU_NORM_ROW_A] = affine ? affine : zero;
    row[CPU_NORM_ROW_B] = affine ? affine + padded : zero;
    for (int i = CPU_NORM_ROW_MEAN; i < CPU_NORM_ROWS; i++)
        row[i] = zero + (i - CPU_NORM_ROW_MEAN + 1) * padded;
    memcpy(row[CPU_NORM_ROW_MEAN], mean, (size_t)image->channels * sizeof *mean);
    return scratch + 5 * padded;
}

static struct cpu_norm_coefficients coefficients_of(const struct cpu_kernel *kernel,
                                                    float *const row[CPU_NORM_ROWS],
                                                    const void *mask) {
    struct cpu_norm_coefficients all = {.relu = mask != NULL,
                                        .stopped = has_bits(kernel) ? mask : NULL};
    for (int i = 0; i < CPU_NORM_ROWS; i++) all.row[i] = row[i];
    return all;
}

/* Input `index`, the mask, where there is one. */
static void *mask_of(const struct cpu_kernel *kernel, void *const in[], int index) {
    return kernel->call.attrs.activation == ACTIVATION_RELU ? in[index] : NULL;
}

/* dx from coefficients that are whole; output `residual` is the gradient of what was added. */
static void go_back(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                    const struct cpu_norm_coefficients *all, int residual, void *scratch) {
    const struct op_call *call = &kernel->call;
    struct cpu_norm_chunks dy = chunks_of(kernel, &call->in[0], in[0], scratch, 0),
                           x = chunks_of(kernel, &call->in[1], in[1], scratch, 1),
                           dx = chunks_of(kernel, &call->out[0], out[0], scratch, 2), rest = dx;
    if (call->attrs.residual)
        rest = chunks_of(kernel, &call->out[residual], out[residual], scratch, 3);
    cpu_norm_backward_dx(&kernel->image, &dy, &x, all, &dx, call->attrs.residual ? &rest : NULL);
}

static void run_backward(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                         void *scratch) {
    const struct cpu_image *image = &kernel->image;
    float *row[CPU_NORM_ROWS], *mask = mask_of(kernel, in, 5),
                               *sums = backward_rows(kernel, in[3], mask, scratch, row),
                               *dots = sums + image->batch * cpu_norm_padded_channels(image);
    struct cpu_norm_coefficients all = coefficients_of(kernel, row, mask);
    struct cpu_norm_chunks dy = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0),
                           x = chunks_of(kernel, &kernel->call.in[1], in[1], scratch, 1);
    cpu_norm_backward_sums(image, &dy, &x, &all, sums, dots);
    finish_sums(kernel, in, out, sums, dots, row);
    go_back(kernel, in, out, &all, 3, scratch);
}

/* --- over several ranks --- */

static void run_stats(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                      void *scratch) {
    const struct cpu_image *image = &kernel->image;
    float *mean = out[0], *var = mean + image->channels;
    struct cpu_norm_chunks x = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0);
    cpu_norm_moments(image, &x, scratch, mean, var);
    var[image->channels] = (float)(image->batch * image->pixels);
}

static void run_apply(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                      void *scratch) {
    apply(kernel, in, out, in[3], in[4], 6, 1, scratch);
}

static void run_bwd_stats(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                          void *scratch) {
    const struct cpu_image *image = &kernel->image;
    float *row[CPU_NORM_ROWS], *mask = mask_of(kernel, in, 4),
                               *sums = backward_rows(kernel, in[2], mask, scratch, row),
                               *dots = sums + image->batch * cpu_norm_padded_channels(image);
    float *both = out[0], *dscale = out[1], *dshift = out[2];
    struct cpu_norm_coefficients all = coefficients_of(kernel, row, mask);
    struct cpu_norm_chunks dy = chunks_of(kernel, &kernel->call.in[0], in[0], scratch, 0),
                           x = chunks_of(kernel, &kernel->call.in[1], in[1], scratch, 1);
    cpu_norm_backward_sums(image, &dy, &x, &all, sums, dots);
    for (int64_t c = 0; c < image->channels; c++) {
        double sum, dot;
        channel_sums(image, sums, dots, c, &sum, &dot);
        both[c] = dshift[c] = (float)sum;
        both[image->channels + c] = (float)dot;
        dscale[c] = (float)(dot * inverse_of(kernel, in[3], c));
    }
}

static void run_bwd_apply(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                          void *scratch) {
    const struct cpu_image *image = &kernel->image;
    const float *scale = in[2], *count = in[5], *sums = in[6];
    int64_t ranks = kernel->call.in[6].shape.dim[0], channels = image->channels;
    float *row[CPU_NORM_ROWS], *mask = mask_of(kernel, in, 7);
    backward_rows(kernel, in[3], mask, scratch, row);
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0, dot = 0;
        for (int64_t r = 0; r < ranks; r++)
            sum += sums[2 * r * channels + c], dot += sums[(2 * r + 1) * channels + c];
        dx_rows(scale[c], inverse_of(kernel, in[4], c), sum, dot, *count, c, row);
    }
    struct cpu_norm_coefficients all = coefficients_of(kernel, row, mask);
    go_back(kernel, in, out, &all, 1, scratch);
}

/* --- making kernels --- */

enum { NONE = OP_MAX_IN }; /* an input that there is not */

/* x, input `at`, decides the layout of all tensors as large: inputs up to it, `residual` and
 * outputs. Where it has none we understand, it is asked for plain. Those are of one type, and all
 * others f32. */
static enum status follow(struct cpu_kernel *kernel, const struct layout *x, int at, int residual) {
    const struct op_call *call = &kernel->call;
    const struct tensor_type *type = &call->in[at];
    for (int i = 0; i < call->in_count; i++)
        if ((i <= at || i == residual) ? call->in[i].dtype != type->dtype
                                       : call->in[i].dtype == DTYPE_BF16)
            return STATUS_NO;
    for (int i = 0; i < call->out_count; i++)
        if (shape_equal(&call->out[i].shape, &type->shape) && call->out[i].dtype != DTYPE_U8 &&
            call->out[i].dtype != type->dtype)
            return STATUS_NO;
    const struct layout *layout = x && cpu_image(x, &kernel->image) ? x : NULL;
    if (!layout) {
        layout = kernel->base.in[at];
        cpu_image(layout, &kernel->image);
    }
    for (int i = 0; i < call->in_count; i++)
        if (i <= at || i == residual) kernel->base.in[i] = layout;
    for (int i = 0; i < call->out_count; i++)
        if (tensor_type_equal(&call->out[i], &layout->type)) kernel->base.out[i] = layout;
    cpu_name(kernel, "loop:batch_norm");
    return STATUS_OK;
}

/* Bits behind a sum, in the order of the channels' blocks; else two factors a channel, whatever the
 * blocks are. What arranges them is in the text: a mask is never read in another order than it was
 * written. */
static const struct layout *mask_layout(struct cpu_kernel *kernel, const struct tensor_type *mask,
                                        bool bits) {
    const struct cpu_image *image = &kernel->image;
    int64_t words = bits ? image->batch * image->blocks * cpu_norm_stop_words(image)
                         : 2 * cpu_norm_padded_channels(image);
    char text[DNN_TEXT_BYTES];
    if (bits)
        snprintf(text, sizeof text, "bits%lldx%lld", (long long)words, (long long)image->lanes);
    else
        snprintf(text, sizeof text, "affine%lld", (long long)words);
    return cpu_layout_private(cpu_device_of(kernel), mask, (size_t)words * sizeof(float), text);
}

static size_t sums_bytes(const struct cpu_image *image, int64_t rows) {
    return (size_t)(cpu_norm_padded_channels(image) * (rows + 2 * image->batch)) * sizeof(float);
}

static void forward_mask(struct cpu_kernel *kernel, int mask, bool bits) {
    if (mask && kernel->call.out_count > mask)
        kernel->base.out[mask] = mask_layout(kernel, &kernel->call.out[mask], bits);
}

static enum status backward_mask(struct cpu_kernel *kernel, const struct layout *const in[],
                                 int mask) {
    if (kernel->call.in_count <= mask) return STATUS_OK;
    kernel->base.in[mask] = mask_layout(kernel, &kernel->call.in[mask], has_bits(kernel));
    bool foreign = in[mask] && in[mask] != kernel->base.in[mask];
    return foreign ? STATUS_NO : STATUS_OK; /* a mask of another maker: the reference reads it */
}

enum { ROOMS = 4 }; /* of a thread: large tensors of a call */

static enum status finish(struct cpu_kernel *kernel, int64_t rows, cpu_loop *loop) {
    const struct cpu_image *image = &kernel->image;
    size_t sums = cpu_padded(sums_bytes(image, rows)),
           room = (size_t)(image->pixels * image->lanes) * sizeof(float);
    kernel->count = (int64_t)sums;
    bool narrow = kernel->call.in[0].dtype == DTYPE_BF16;
    cpu_scratch(kernel, sums + (narrow ? ROOMS * room * (size_t)kernel->base.device->threads : 0));
    cpu_step_loop(kernel, loop);
    return STATUS_OK;
}

/* A kernel of forward: x is the first input; the mask is output `mask`, or 0. */
static enum status forward(struct cpu_kernel *kernel, const struct layout *const in[], int residual,
                           int mask, int64_t rows, cpu_loop *loop) {
    TRY(follow(kernel, in[0], 0, residual));
    forward_mask(kernel, mask, kernel->call.in_count > residual);
    return finish(kernel, rows, loop);
}

/* A kernel of backward: dy is the first input, x the second. */
static enum status backward(struct cpu_kernel *kernel, const struct layout *const in[], int mask,
                            cpu_loop *loop) {
    TRY(follow(kernel, in[1], 1, NONE));
    TRY(backward_mask(kernel, in, mask));
    return finish(kernel, 5, loop);
}

enum status cpu_batch_norm(struct cpu_kernel *kernel, const struct layout *const in[]) {
    return forward(kernel, in, 3, 3, 2, run_forward);
}

enum status cpu_batch_norm_bwd(struct cpu_kernel *kernel, const struct layout *const in[]) {
    return backward(kernel, in, 5, run_backward);
}

enum status cpu_batch_norm_eval(struct cpu_kernel *kernel, const struct layout *const in[]) {
    if (kernel->call.attrs.activation == ACTIVATION_TANH) return STATUS_NO;
    return forward(kernel, in, 5, 0, 2, run_eval);
}

enum status cpu_batch_norm_stats(struct cpu_kernel *kernel, const struct layout *const in[]) {
    return forward(kernel, in, NONE, 0, 0, run_stats);
}

enum status cpu_batch_norm_apply(struct cpu_kernel *kernel, const struct layout *const in[]) {
    return forward(kernel, in, 6, 1, 2, run_apply);
}

enum status cpu_batch_norm_bwd_stats(struct cpu_kernel *kernel, const struct layout *const in[]) {
    return backward(kernel, in, 4, run_bwd_stats);
}

enum status cpu_batch_norm_bwd_apply(struct cpu_kernel *kernel, const struct layout *const in[]) {
    return backward(kernel, in, 7, run_bwd_apply);
}
