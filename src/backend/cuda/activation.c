/* Elementwise operations: whatever the layout, all tensors have that of the first. */
#include "backend/cuda/cuda.h"

static enum status run_map(struct cuda_kernel *kernel, void *const in[], void *const out[],
                           void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_map args = {cuda_in(kernel, 0, in), cuda_out(kernel, 0, out),
                            shape_count(&kernel->call.in[0].shape),
                            op_def(kernel->call.op)->function->activation};
    return cuda_launch_wide(cuda_kernel_device(kernel), CUDA_KERNEL_map, args.count, &args, stream);
}

enum status cuda_map(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_like(kernel, in[0]);
    kernel->run = run_map;
    return STATUS_OK;
}

static enum status run_map_bwd(struct cuda_kernel *kernel, void *const in[], void *const out[],
                               void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_map_bwd args = {cuda_in(kernel, 0, in), cuda_in(kernel, 1, in),
                                cuda_out(kernel, 0, out), shape_count(&kernel->call.in[0].shape),
                                op_def(kernel->call.op)->function->activation};
    return cuda_launch_wide(cuda_kernel_device(kernel), CUDA_KERNEL_map_bwd, args.count, &args,
                            stream);
}

enum status cuda_map_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_like(kernel, in[1] ? in[1] : in[0]);
    kernel->run = run_map_bwd;
    return STATUS_OK;
}

static enum status run_dropout(struct cuda_kernel *kernel, void *const in[], void *const out[],
                               void *scratch, CUstream stream) {
    (void)scratch;
    float p = kernel->call.attrs.dropout.probability;
    struct cuda_dropout args = {.x = cuda_in(kernel, 0, in),
                                .y = cuda_out(kernel, 0, out),
                                .key = in[1],
                                .planes = kernel->planes,
                                .place = kernel->call.attrs.dropout.place,
                                .probability = p,
                                .scale = 1 / (1 - p)};
    return cuda_launch_wide(cuda_kernel_device(kernel), CUDA_KERNEL_dropout,
                            shape_count(&kernel->call.in[0].shape), &args, stream);
}

enum status cuda_dropout(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_like(kernel, in[0]);
    kernel->planes = cuda_planes_of(kernel->base.in[0]);
    kernel->run = run_dropout;
    return STATUS_OK;
}

static enum status run_add(struct cuda_kernel *kernel, void *const in[], void *const out[],
                           void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_add args = {cuda_in(kernel, 0, in),
                            cuda_in(kernel, 1, in),
                            cuda_out(kernel, 0, out),
                            shape_count(&kernel->call.in[0].shape),
                            shape_count(&kernel->call.in[1].shape),
                            kernel->call.attrs.activation};
    return cuda_launch_wide(cuda_kernel_device(kernel), CUDA_KERNEL_add, args.count, &args, stream);
}

enum status cuda_add(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_like(kernel, in[0]);
    kernel->run = run_add;
    return STATUS_OK;
}
