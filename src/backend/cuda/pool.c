/* Pooling, in the layout that the image comes in. */
#include "backend/cuda/cuda.h"

static struct cuda_pool pool_of(const struct cuda_kernel *kernel, const struct layout *x,
                                const struct layout *y) {
    const struct op_attrs *attrs = &kernel->call.attrs;
    struct cuda_pool a = {.batch = x->type.shape.dim[0],
                          .channels = x->type.shape.dim[1],
                          .adaptive = attrs->pool.adaptive};
    int64_t step[SHAPE_MAX_RANK];
    cuda_steps(x, step);
    for (int i = 0; i < 4; i++) a.x_step[i] = step[i];
    cuda_steps(y, step);
    for (int i = 0; i < 4; i++) a.y_step[i] = step[i];
    for (int i = 0; i < 2; i++) {
        a.in[i] = x->type.shape.dim[2 + i];
        a.out[i] = y->type.shape.dim[2 + i];
        a.kernel[i] = attrs->pool.kernel[i];
        a.stride[i] = attrs->pool.stride[i];
        a.pad[i] = attrs->pool.pad[i];
    }
    return a;
}

static enum status run_pool(struct cuda_kernel *kernel, void *const in[], void *const out[],
                            void *scratch, CUstream stream) {
    (void)scratch;
    bool most = kernel->call.op == OP_MAX_POOL;
    struct cuda_pool args = pool_of(kernel, kernel->base.in[0], kernel->base.out[0]);
    args.x = cuda_in(kernel, 0, in);
    args.y = cuda_out(kernel, 0, out);
    if (most) args.where = out[1];
    return cuda_launch_elements(cuda_kernel_device(kernel),
                                most ? CUDA_KERNEL_max_pool : CUDA_KERNEL_avg_pool,
                                shape_count(&kernel->call.out[0].shape), &args, stream);
}

enum status cuda_pool(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_like(kernel, in[0]);
    kernel->run = run_pool;
    return STATUS_OK;
}

static enum status run_pool_bwd(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                void *scratch, CUstream stream) {
    (void)scratch;
    bool most = kernel->call.op == OP_MAX_POOL_BWD;
    struct cuda_pool args = pool_of(kernel, kernel->base.out[0], kernel->base.in[0]);
    args.x = cuda_out(kernel, 0, out);
    args.y = cuda_in(kernel, 0, in);
    if (most) args.where = in[1];
    return cuda_launch_elements(cuda_kernel_device(kernel),
                                most ? CUDA_KERNEL_max_pool_bwd : CUDA_KERNEL_avg_pool_bwd,
                                shape_count(&kernel->call.out[0].shape), &args, stream);
}

/* Where the maxima were lies as forward left it. */
enum status cuda_pool_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    bool most = kernel->call.op == OP_MAX_POOL_BWD;
    cuda_want_like(kernel, most && in[1] ? in[1] : in[0]);
    kernel->run = run_pool_bwd;
    return STATUS_OK;
}
