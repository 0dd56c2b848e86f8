/* Softmax, losses, right answers: rows of plain tensors. */
#include "backend/cuda/cuda.h"
#include "op/rule.h"

enum { PART_ROWS };

static void see_rows(struct cuda_kernel *kernel) {
    cuda_want_plain(kernel);
    kernel->rows = op_rows(&kernel->call.in[0].shape);
    kernel->columns = op_columns(&kernel->call.in[0].shape);
}

static enum status run_softmax(struct cuda_kernel *kernel, void *const in[], void *const out[],
                               void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_softmax args = {cuda_in(kernel, 0, in), cuda_out(kernel, 0, out), kernel->rows,
                                kernel->columns, kernel->call.op == OP_LOG_SOFTMAX};
    return cuda_launch_rows(cuda_kernel_device(kernel), CUDA_KERNEL_softmax, kernel->rows, &args,
                            stream);
}

enum status cuda_softmax(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    see_rows(kernel);
    kernel->run = run_softmax;
    return STATUS_OK;
}

static enum status run_softmax_bwd(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                   void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_softmax_bwd args = {
        cuda_in(kernel, 0, in), cuda_in(kernel, 1, in), cuda_out(kernel, 0, out),
        kernel->rows,           kernel->columns,        kernel->call.op == OP_LOG_SOFTMAX_BWD};
    return cuda_launch_rows(cuda_kernel_device(kernel), CUDA_KERNEL_softmax_bwd, kernel->rows,
                            &args, stream);
}

enum status cuda_softmax_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    see_rows(kernel);
    kernel->run = run_softmax_bwd;
    return STATUS_OK;
}

/* --- losses --- */

static struct cuda_loss loss_args(const struct cuda_kernel *kernel, void *const in[]) {
    return (struct cuda_loss){.x = cuda_in(kernel, 0, in),
                              .label = in[1],
                              .rows = kernel->rows,
                              .columns = kernel->columns,
                              .smoothing = kernel->call.attrs.loss.smoothing};
}

static enum status run_loss(struct cuda_kernel *kernel, void *const in[], void *const out[],
                            void *scratch, CUstream stream) {
    struct cuda_device *device = cuda_kernel_device(kernel);
    struct cuda_loss args = loss_args(kernel, in);
    args.row = cuda_part_at(kernel, PART_ROWS, scratch);
    if (kernel->call.op == OP_CROSS_ENTROPY) args.most = out[1], args.sum = out[2];
    struct cuda_sum_rows sum = {args.row, out[0], args.rows};
    TRY(cuda_launch_rows(device, CUDA_KERNEL_loss, args.rows, &args, stream));
    return cuda_launch_rows(device, CUDA_KERNEL_sum_rows, 1, &sum, stream);
}

enum status cuda_loss(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    see_rows(kernel);
    cuda_part(kernel, PART_ROWS, (size_t)kernel->rows * sizeof(double));
    kernel->run = run_loss;
    return STATUS_OK;
}

static enum status run_loss_bwd(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_loss args = loss_args(kernel, in);
    args.dx = cuda_out(kernel, 0, out);
    args.seed = in[2];
    if (kernel->call.op == OP_CROSS_ENTROPY_BWD) args.most = in[3], args.sum = in[4];
    return cuda_launch_elements(cuda_kernel_device(kernel), CUDA_KERNEL_loss_bwd,
                                args.rows * args.columns, &args, stream);
}

enum status cuda_loss_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    see_rows(kernel);
    kernel->run = run_loss_bwd;
    return STATUS_OK;
}

static enum status run_top_k(struct cuda_kernel *kernel, void *const in[], void *const out[],
                             void *scratch, CUstream stream) {
    struct cuda_device *device = cuda_kernel_device(kernel);
    struct cuda_top_k args = {
        cuda_in(kernel, 0, in), in[1],          cuda_part_at(kernel, PART_ROWS, scratch), out[0],
        kernel->rows,           kernel->columns};
    TRY(cuda_launch_rows(device, CUDA_KERNEL_top_k, args.rows, &args, stream));
    return cuda_launch_rows(device, CUDA_KERNEL_top_k_end, 1, &args, stream);
}

enum status cuda_top_k(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    see_rows(kernel);
    cuda_part(kernel, PART_ROWS, (size_t)kernel->rows * sizeof(int32_t));
    kernel->run = run_top_k;
    return STATUS_OK;
}
