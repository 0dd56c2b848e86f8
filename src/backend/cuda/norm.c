/* Batch norm in either layout, alone or over all ranks, and layer norm. */
#include "backend/cuda/cuda.h"
#include "op/rule.h"

enum { PART_SUMS, PART_PULL };

static int64_t element_count(const struct cuda_kernel *kernel) {
    return kernel->planes.batch * kernel->planes.channels * kernel->planes.plane;
}

static double row_count(const struct cuda_kernel *kernel) {
    return (double)(kernel->planes.batch * kernel->planes.plane);
}

/* All tensors of x's shape lie as `like` does, input `x` among them; sums are over its rows. x, dy
 * and a residual are read in their own types. */
static void prepare(struct cuda_kernel *kernel, const struct layout *like, int x, bool sums) {
    for (int i = 1; i < kernel->call.in_count; i++)
        if (!shape_equal(&kernel->call.in[i].shape, &kernel->call.in[0].shape))
            kernel->typed &= ~(1u << i);
    cuda_want_like(kernel, like);
    kernel->planes = cuda_planes_of(kernel->base.in[x]);
    if (sums)
        cuda_cut_rows(kernel, kernel->planes.batch * kernel->planes.plane, kernel->planes.channels,
                      2);
}

/* Whole groups of eight channels lie together: a thread reads one at once. */
static bool is_wide(const struct cuda_kernel *kernel) {
    enum { GROUP = 8, MOST = 2048 };
    const struct cuda_planes *p = &kernel->planes;
    return (p->last || p->plane == 1) && p->channels % GROUP == 0 && p->channels <= MOST;
}

/* Two sums of each channel into the first part of the scratch. */
static enum status run_moments(const struct cuda_kernel *kernel, struct cuda_reals x,
                               struct cuda_reals dy, const float *mean, const unsigned char *mask,
                               void *scratch, CUstream stream) {
    struct cuda_moments args = {.x = x,
                                .dy = dy,
                                .mean = mean,
                                .mask = mask,
                                .planes = kernel->planes,
                                .partial = cuda_part_at(kernel, PART_SUMS, scratch),
                                .chunk_rows = kernel->chunk_rows,
                                .chunks = kernel->chunks};
    if (is_wide(kernel))
        return cuda_launch_blocks(cuda_kernel_device(kernel), CUDA_KERNEL_moments_wide,
                                  kernel->chunks, 1, &args, stream);
    return cuda_launch_columns(cuda_kernel_device(kernel), CUDA_KERNEL_moments,
                               kernel->planes.channels, kernel->chunks, &args, stream);
}

static enum status run_statistics(const struct cuda_kernel *kernel, struct cuda_reals x,
                                  float *mean, float *var, float *count, void *scratch,
                                  CUstream stream) {
    struct cuda_moments_end end = {.partial = cuda_part_at(kernel, PART_SUMS, scratch),
                                   .channels = kernel->planes.channels,
                                   .chunks = kernel->chunks,
                                   .rows = row_count(kernel),
                                   .mean = mean,
                                   .var = var,
                                   .count = count};
    TRY(run_moments(kernel, x, (struct cuda_reals){0}, NULL, NULL, scratch, stream));
    return cuda_launch_columns(cuda_kernel_device(kernel), CUDA_KERNEL_moments_end, end.channels, 1,
                               &end, stream);
}

/* --- forward --- */

static struct cuda_norm_apply apply_args(const struct cuda_kernel *kernel, void *const in[],
                                         void *const out[], int residual) {
    struct cuda_norm_apply args = {.x = cuda_in(kernel, 0, in),
                                   .y = cuda_out(kernel, 0, out),
                                   .scale = in[1],
                                   .shift = in[2],
                                   .planes = kernel->planes,
                                   .epsilon = kernel->call.attrs.norm.epsilon,
                                   .activation = kernel->call.attrs.activation};
    if (kernel->call.in_count > residual) args.residual = cuda_in(kernel, residual, in);
    return args;
}

static enum status run_apply(const struct cuda_kernel *kernel, const struct cuda_norm_apply *args,
                             CUstream stream) {
    if (is_wide(kernel))
        return cuda_launch_groups(cuda_kernel_device(kernel), CUDA_KERNEL_norm_apply_wide,
                                  element_count(kernel), args, stream);
    return cuda_launch_elements(cuda_kernel_device(kernel), CUDA_KERNEL_norm_apply,
                                element_count(kernel), args, stream);
}

static enum status run_batch_norm(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                  void *scratch, CUstream stream) {
    struct cuda_norm_apply args = apply_args(kernel, in, out, 3);
    TRY(run_statistics(kernel, args.x, out[1], out[2], NULL, scratch, stream));
    args.mean = out[1];
    args.var = out[2];
    args.mask = kernel->call.out_count == 4 ? out[3] : NULL;
    return run_apply(kernel, &args, stream);
}

enum status cuda_batch_norm(struct cuda_kernel *kernel, const struct layout *const in[]) {
    prepare(kernel, in[0], 0, true);
    kernel->run = run_batch_norm;
    return STATUS_OK;
}

static enum status run_eval(struct cuda_kernel *kernel, void *const in[], void *const out[],
                            void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_norm_apply args = apply_args(kernel, in, out, 5);
    args.mean = in[3];
    args.var = in[4];
    return run_apply(kernel, &args, stream);
}

enum status cuda_batch_norm_eval(struct cuda_kernel *kernel, const struct layout *const in[]) {
    prepare(kernel, in[0], 0, false);
    kernel->run = run_eval;
    return STATUS_OK;
}

static enum status run_sync_apply(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                  void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_norm_apply args = apply_args(kernel, in, out, 6);
    args.mean = in[3];
    args.var = in[4];
    args.mask = kernel->call.out_count == 2 ? out[1] : NULL;
    return run_apply(kernel, &args, stream);
}

enum status cuda_batch_norm_apply(struct cuda_kernel *kernel, const struct layout *const in[]) {
    prepare(kernel, in[0], 0, false);
    kernel->run = run_sync_apply;
    return STATUS_OK;
}

static enum status run_stats(struct cuda_kernel *kernel, void *const in[], void *const out[],
                             void *scratch, CUstream stream) {
    float *stats = out[0];
    int64_t channels = kernel->planes.channels;
    return run_statistics(kernel, cuda_in(kernel, 0, in), stats, stats + channels,
                          stats + 2 * channels, scratch, stream);
}

enum status cuda_batch_norm_stats(struct cuda_kernel *kernel, const struct layout *const in[]) {
    prepare(kernel, in[0], 0, true);
    kernel->run = run_stats;
    return STATUS_OK;
}

static enum status run_merge(struct cuda_kernel *kernel, void *const in[], void *const out[],
                             void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_norm_merge args = {in[0],
                                   out[0],
                                   out[1],
                                   out[2],
                                   kernel->call.in[0].shape.dim[0],
                                   kernel->call.out[0].shape.dim[0]};
    return cuda_launch_elements(cuda_kernel_device(kernel), CUDA_KERNEL_norm_merge, args.channels,
                                &args, stream);
}

enum status cuda_batch_norm_merge(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    cuda_want_plain(kernel);
    kernel->typed = 0;
    kernel->run = run_merge;
    return STATUS_OK;
}

static enum status run_track(struct cuda_kernel *kernel, void *const in[], void *const out[],
                             void *scratch, CUstream stream) {
    (void)out, (void)scratch;
    const struct op_call *call = &kernel->call;
    int64_t channels = call->in[3].shape.dim[0];
    struct cuda_norm_track args = {.running_mean = in[0],
                                   .running_var = in[1],
                                   .batches = in[2],
                                   .mean = in[3],
                                   .var = in[4],
                                   .count = call->in_count == 6 ? in[5] : NULL,
                                   .channels = channels,
                                   .momentum = call->attrs.norm.momentum};
    if (!args.count) args.values = (double)shape_count(&call->attrs.like) / (double)channels;
    return cuda_launch_elements(cuda_kernel_device(kernel), CUDA_KERNEL_norm_track, channels, &args,
                                stream);
}

enum status cuda_batch_norm_track(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    cuda_want_plain(kernel);
    kernel->run = run_track;
    kernel->typed = 0;
    return STATUS_OK;
}

/* --- backward --- */

static enum status run_dx(const struct cuda_kernel *kernel, struct cuda_norm_bwd *args,
                          CUstream stream) {
    args->planes = kernel->planes;
    args->epsilon = kernel->call.attrs.norm.epsilon;
    if (is_wide(kernel))
        return cuda_launch_groups(cuda_kernel_device(kernel), CUDA_KERNEL_norm_bwd_wide,
                                  element_count(kernel), args, stream);
    return cuda_launch_elements(cuda_kernel_device(kernel), CUDA_KERNEL_norm_bwd,
                                element_count(kernel), args, stream);
}

static enum status run_sums(const struct cuda_kernel *kernel, void *const in[], const float *mean,
                            const unsigned char *mask, struct cuda_norm_bwd_end *end, void *scratch,
                            CUstream stream) {
    TRY(run_moments(kernel, cuda_in(kernel, 1, in), cuda_in(kernel, 0, in), mean, mask, scratch,
                    stream));
    end->partial = cuda_part_at(kernel, PART_SUMS, scratch);
    end->channels = kernel->planes.channels;
    end->chunks = kernel->chunks;
    end->rows = row_count(kernel);
    end->epsilon = kernel->call.attrs.norm.epsilon;
    return cuda_launch_columns(cuda_kernel_device(kernel), CUDA_KERNEL_norm_bwd_end, end->channels,
                               1, end, stream);
}

static enum status run_bwd(struct cuda_kernel *kernel, void *const in[], void *const out[],
                           void *scratch, CUstream stream) {
    const unsigned char *mask = kernel->call.in_count == 6 ? in[5] : NULL;
    float *pull = cuda_part_at(kernel, PART_PULL, scratch);
    struct cuda_norm_bwd_end end = {.var = in[4], .dscale = out[1], .dshift = out[2], .pull = pull};
    TRY(run_sums(kernel, in, in[3], mask, &end, scratch, stream));
    struct cuda_norm_bwd args = {.dy = cuda_in(kernel, 0, in),
                                 .x = cuda_in(kernel, 1, in),
                                 .dx = cuda_out(kernel, 0, out),
                                 .scale = in[2],
                                 .mean = in[3],
                                 .var = in[4],
                                 .pull = pull,
                                 .mask = mask};
    if (kernel->call.attrs.residual) args.dresidual = cuda_out(kernel, 3, out);
    return run_dx(kernel, &args, stream);
}

/* The mask lies as forward left it; the rest follows it. */
static const struct layout *followed(const struct cuda_kernel *kernel,
                                     const struct layout *const in[]) {
    const struct layout *last = in[kernel->call.in_count - 1];
    bool masked = kernel->call.attrs.activation == ACTIVATION_RELU;
    return masked && last ? last : in[1] ? in[1] : in[0];
}

static void take_pull(struct cuda_kernel *kernel) {
    cuda_part(kernel, PART_PULL, 2 * (size_t)kernel->planes.channels * sizeof(float));
}

enum status cuda_batch_norm_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    prepare(kernel, followed(kernel, in), 1, true);
    take_pull(kernel);
    kernel->run = run_bwd;
    return STATUS_OK;
}

static enum status run_bwd_stats(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                 void *scratch, CUstream stream) {
    const unsigned char *mask = kernel->call.in_count == 5 ? in[4] : NULL;
    struct cuda_norm_bwd_end end = {
        .var = in[3], .sums = out[0], .dscale = out[1], .dshift = out[2]};
    return run_sums(kernel, in, in[2], mask, &end, scratch, stream);
}

enum status cuda_batch_norm_bwd_stats(struct cuda_kernel *kernel, const struct layout *const in[]) {
    prepare(kernel, followed(kernel, in), 1, true);
    kernel->run = run_bwd_stats;
    return STATUS_OK;
}

static enum status run_bwd_apply(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                 void *scratch, CUstream stream) {
    float *pull = cuda_part_at(kernel, PART_PULL, scratch);
    struct cuda_norm_pull sums = {.sums = in[6],
                                  .var = in[4],
                                  .count = in[5],
                                  .pull = pull,
                                  .ranks = kernel->call.in[6].shape.dim[0],
                                  .channels = kernel->planes.channels,
                                  .epsilon = kernel->call.attrs.norm.epsilon};
    TRY(cuda_launch_elements(cuda_kernel_device(kernel), CUDA_KERNEL_norm_pull, sums.channels,
                             &sums, stream));
    struct cuda_norm_bwd args = {.dy = cuda_in(kernel, 0, in),
                                 .x = cuda_in(kernel, 1, in),
                                 .dx = cuda_out(kernel, 0, out),
                                 .scale = in[2],
                                 .mean = in[3],
                                 .var = in[4],
                                 .pull = pull,
                                 .mask = kernel->call.in_count == 8 ? in[7] : NULL};
    if (kernel->call.attrs.residual) args.dresidual = cuda_out(kernel, 1, out);
    return run_dx(kernel, &args, stream);
}

enum status cuda_batch_norm_bwd_apply(struct cuda_kernel *kernel, const struct layout *const in[]) {
    prepare(kernel, followed(kernel, in), 1, false);
    take_pull(kernel);
    kernel->run = run_bwd_apply;
    return STATUS_OK;
}

/* --- layer norm --- */

static enum status run_layer_norm(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                  void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_layer_norm args = {.x = cuda_in(kernel, 0, in),
                                   .y = cuda_out(kernel, 0, out),
                                   .scale = in[1],
                                   .shift = in[2],
                                   .mean = out[1],
                                   .var = out[2],
                                   .rows = kernel->rows,
                                   .columns = kernel->columns,
                                   .epsilon = kernel->call.attrs.norm.epsilon};
    return cuda_launch_warps(cuda_kernel_device(kernel), CUDA_KERNEL_layer_norm, kernel->rows,
                             &args, stream);
}

enum status cuda_layer_norm(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    cuda_want_plain(kernel);
    kernel->rows = op_rows(&kernel->call.in[0].shape);
    kernel->columns = op_columns(&kernel->call.in[0].shape);
    kernel->typed = 1;
    kernel->run = run_layer_norm;
    return STATUS_OK;
}

static enum status run_layer_norm_bwd(struct cuda_kernel *kernel, void *const in[],
                                      void *const out[], void *scratch, CUstream stream) {
    struct cuda_device *device = cuda_kernel_device(kernel);
    struct cuda_layer_norm_bwd args = {.dy = cuda_in(kernel, 0, in),
                                       .x = cuda_in(kernel, 1, in),
                                       .dx = cuda_out(kernel, 0, out),
                                       .scale = in[2],
                                       .mean = in[3],
                                       .var = in[4],
                                       .dscale = out[1],
                                       .dshift = out[2],
                                       .partial = cuda_part_at(kernel, PART_SUMS, scratch),
                                       .rows = kernel->rows,
                                       .columns = kernel->columns,
                                       .chunk_rows = kernel->chunk_rows,
                                       .chunks = kernel->chunks,
                                       .epsilon = kernel->call.attrs.norm.epsilon};
    bool wide = args.columns % 8 == 0 && args.columns <= 2048;
    TRY(wide ? cuda_launch_blocks(device, CUDA_KERNEL_layer_norm_sums_wide, args.chunks, 1, &args,
                                  stream)
             : cuda_launch_columns(device, CUDA_KERNEL_layer_norm_sums, args.columns, args.chunks,
                                   &args, stream));
    TRY(cuda_launch_columns(device, CUDA_KERNEL_layer_norm_sums_end, args.columns, 1, &args,
                            stream));
    enum { MOST = 32 * 8 * 4 }; /* columns that a warp has registers for */
    return cuda_launch_warps(device,
                             args.columns % 8 == 0 && args.columns <= MOST
                                 ? CUDA_KERNEL_layer_norm_bwd_wide
                                 : CUDA_KERNEL_layer_norm_bwd,
                             args.rows, &args, stream);
}

enum status cuda_layer_norm_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    cuda_want_plain(kernel);
    kernel->rows = op_rows(&kernel->call.in[1].shape);
    kernel->columns = op_columns(&kernel->call.in[1].shape);
    cuda_cut_rows(kernel, kernel->rows, kernel->columns, 2);
    kernel->typed = 3;
    kernel->run = run_layer_norm_bwd;
    return STATUS_OK;
}
