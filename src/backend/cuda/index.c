/* Rows by number. A table is one sample whose rows are all there are. */
#include "backend/cuda/cuda.h"

static struct cuda_rows rows_of(const struct cuda_kernel *kernel, void *const in[],
                                void *const out[], const struct shape *x) {
    const struct op_call *call = &kernel->call;
    bool table = call->op == OP_EMBEDDING || call->op == OP_EMBEDDING_BWD;
    const struct shape *index = &call->in[1].shape;
    int64_t count = shape_count(index);
    return (struct cuda_rows){.from = cuda_in(kernel, 0, in),
                              .to = cuda_out(kernel, 0, out),
                              .index = in[1],
                              .count = count,
                              .columns = x->dim[x->rank - 1],
                              .per_sample = table ? count : index->dim[1],
                              .rows = x->dim[x->rank - 2]};
}

static enum status run_gather(struct cuda_kernel *kernel, void *const in[], void *const out[],
                              void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_rows args = rows_of(kernel, in, out, &kernel->call.in[0].shape);
    return cuda_launch_elements(cuda_kernel_device(kernel), CUDA_KERNEL_gather_rows,
                                args.count * args.columns, &args, stream);
}

enum status cuda_gather(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    cuda_want_plain(kernel);
    kernel->run = run_gather;
    return STATUS_OK;
}

enum status cuda_embedding(struct cuda_kernel *kernel, const struct layout *const in[]) {
    return cuda_gather(kernel, in);
}

static enum status run_gather_bwd(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                  void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_rows args = rows_of(kernel, in, out, &kernel->call.attrs.like);
    return cuda_launch_elements(cuda_kernel_device(kernel), CUDA_KERNEL_gather_rows_bwd,
                                shape_count(&kernel->call.attrs.like), &args, stream);
}

enum status cuda_gather_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    cuda_want_plain(kernel);
    kernel->run = run_gather_bwd;
    return STATUS_OK;
}

static enum status run_embedding_bwd(struct cuda_kernel *kernel, void *const in[],
                                     void *const out[], void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_rows args = rows_of(kernel, in, out, &kernel->call.attrs.like);
    TRY_CUDA(
        cuMemsetD8Async((CUdeviceptr)(uintptr_t)out[0], 0, kernel->base.out[0]->bytes, stream));
    int64_t tiles = (args.columns + CUDA_ROW_THREADS - 1) / CUDA_ROW_THREADS;
    return cuda_launch_rows(cuda_kernel_device(kernel), CUDA_KERNEL_embedding_bwd,
                            args.count * tiles, &args, stream);
}

enum status cuda_embedding_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    cuda_want_plain(kernel);
    kernel->run = run_embedding_bwd;
    return STATUS_OK;
}
