/* Moving elements: one kernel copies between any two sets of steps and types. */
#include "backend/cuda/cuda.h"
#include "op/rule.h"

/* Do rows of both sides lie together, and begin where eight elements can be read at once? */
static bool is_wide(const struct cuda_copy *a) {
    enum { GROUP = 8, ALIGN = 16 };
    int last = a->rank - 1;
    if (last < 0 || a->dim[last] % GROUP || a->from_step[last] != 1 || a->to_step[last] != 1)
        return false;
    for (int d = 0; d < last; d++)
        if (a->from_step[d] % GROUP || a->to_step[d] % GROUP) return false;
    return (uintptr_t)a->from.data % ALIGN == 0 && (uintptr_t)a->to.data % ALIGN == 0;
}

/* Dimensions that lie one behind the other on both sides become one: fewer divisions. */
static void join(struct cuda_copy *a) {
    int rank = 0;
    for (int d = 0; d < a->rank; d++) {
        int p = rank - 1;
        bool joins = rank > 0 && a->from_step[p] == a->from_step[d] * a->dim[d] &&
                     a->to_step[p] == a->to_step[d] * a->dim[d];
        int to = joins ? p : rank++;
        a->dim[to] = joins ? a->dim[p] * a->dim[d] : a->dim[d];
        a->from_step[to] = a->from_step[d];
        a->to_step[to] = a->to_step[d];
    }
    a->rank = rank;
}

/* The last dimension in memory last: neighbours in the order that they are written in. */
static void sort(struct cuda_copy *a) {
    for (int i = 1; i < a->rank; i++)
        for (int d = i; d > 0 && a->to_step[d - 1] < a->to_step[d]; d--) {
            int64_t dim = a->dim[d], from = a->from_step[d], to = a->to_step[d];
            a->dim[d] = a->dim[d - 1], a->from_step[d] = a->from_step[d - 1],
            a->to_step[d] = a->to_step[d - 1];
            a->dim[d - 1] = dim, a->from_step[d - 1] = from, a->to_step[d - 1] = to;
        }
}

void cuda_copy_widen(struct cuda_copy *args) {
    sort(args);
    join(args);
    args->wide = is_wide(args);
}

/* A copy of all of `shape`, both sides plain until told otherwise. */
static struct cuda_copy copy_of(const struct shape *shape, const struct layout *from,
                                const struct layout *to) {
    struct cuda_copy a = {.rank = shape->rank, .count = shape_count(shape)};
    for (int d = 0; d < shape->rank; d++) a.dim[d] = shape->dim[d];
    cuda_steps(from, a.from_step);
    cuda_steps(to, a.to_step);
    return a;
}

static enum status run_copy(const struct cuda_kernel *kernel, struct cuda_copy *args,
                            CUstream stream) {
    cuda_copy_widen(args);
    return cuda_launch_wide(cuda_kernel_device(kernel), CUDA_KERNEL_copy, args->count, args,
                            stream);
}

static void *moved(void *base, enum dtype dtype, int64_t elements) {
    return (char *)base + (size_t)elements * dtype_bytes(dtype);
}

static enum status copy_bytes(void *to, const void *from, size_t bytes, CUstream stream) {
    TRY_CUDA(
        cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, stream));
    return STATUS_OK;
}

/* --- reorder, transpose, expand --- */

static enum status run_reorder(struct cuda_kernel *kernel, void *const in[], void *const out[],
                               void *scratch, CUstream stream) {
    (void)scratch;
    const struct layout *from = kernel->base.in[0], *to = kernel->base.out[0];
    if (from == to) return copy_bytes(out[0], in[0], from->bytes, stream);
    struct cuda_copy args = copy_of(&to->type.shape, from, to);
    args.from = cuda_in(kernel, 0, in);
    args.to = cuda_out(kernel, 0, out);
    return run_copy(kernel, &args, stream);
}

enum status cuda_reorder(struct cuda_kernel *kernel, const struct layout *const in[]) {
    const struct layout *to = kernel->call.attrs.reorder.to;
    struct device *device = kernel->base.device;
    kernel->base.in[0] = in[0] ? in[0] : cuda_plain(device, &kernel->call.in[0]);
    kernel->base.out[0] = to ? to : cuda_plain(device, &kernel->call.out[0]);
    kernel->run = run_reorder;
    return STATUS_OK;
}

static enum status run_transpose(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                 void *scratch, CUstream stream) {
    (void)scratch;
    int64_t step[SHAPE_MAX_RANK];
    const int *order = kernel->call.attrs.transpose.order;
    struct cuda_copy args =
        copy_of(&kernel->call.out[0].shape, kernel->base.out[0], kernel->base.out[0]);
    cuda_steps(kernel->base.in[0], step);
    for (int d = 0; d < args.rank; d++) args.from_step[d] = step[order[d]];
    args.from = cuda_in(kernel, 0, in);
    args.to = cuda_out(kernel, 0, out);
    return run_copy(kernel, &args, stream);
}

/* Reads any layout, writes plain. */
enum status cuda_transpose(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_plain(kernel);
    if (in[0]) kernel->base.in[0] = in[0];
    kernel->run = run_transpose;
    return STATUS_OK;
}

static enum status run_expand(struct cuda_kernel *kernel, void *const in[], void *const out[],
                              void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_copy args =
        copy_of(&kernel->call.out[0].shape, kernel->base.in[0], kernel->base.out[0]);
    args.from_step[0] = 0;
    args.from = cuda_in(kernel, 0, in);
    args.to = cuda_out(kernel, 0, out);
    return run_copy(kernel, &args, stream);
}

enum status cuda_expand(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_like(kernel, in[0]);
    kernel->run = run_expand;
    return STATUS_OK;
}

/* --- concat, slice --- */

static enum status run_concat(struct cuda_kernel *kernel, void *const in[], void *const out[],
                              void *scratch, CUstream stream) {
    (void)scratch;
    const struct op_call *call = &kernel->call;
    int64_t begin = 0;
    for (int i = 0; i < call->in_count; i++) {
        struct cuda_copy args =
            copy_of(&call->in[i].shape, kernel->base.in[i], kernel->base.out[0]);
        int64_t offset = begin * args.to_step[call->attrs.concat.axis];
        args.from = cuda_in(kernel, i, in);
        args.to = cuda_out(kernel, 0, out);
        args.to.data = moved(out[0], call->out[0].dtype, offset);
        TRY(run_copy(kernel, &args, stream));
        begin += call->in[i].shape.dim[call->attrs.concat.axis];
    }
    return STATUS_OK;
}

enum status cuda_concat(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_like(kernel, in[0]);
    kernel->run = run_concat;
    return STATUS_OK;
}

static enum status run_slice(struct cuda_kernel *kernel, void *const in[], void *const out[],
                             void *scratch, CUstream stream) {
    (void)scratch;
    const struct op_slice_attrs *slice = &kernel->call.attrs.slice;
    struct cuda_copy args =
        copy_of(&kernel->call.out[0].shape, kernel->base.in[0], kernel->base.out[0]);
    args.from = cuda_in(kernel, 0, in);
    args.from.data =
        moved(in[0], kernel->call.in[0].dtype, slice->begin * args.from_step[slice->axis]);
    args.to = cuda_out(kernel, 0, out);
    return run_copy(kernel, &args, stream);
}

enum status cuda_slice(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_like(kernel, in[0]);
    kernel->run = run_slice;
    return STATUS_OK;
}

static enum status run_slice_bwd(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                 void *scratch, CUstream stream) {
    (void)scratch;
    const struct op_slice_attrs *slice = &kernel->call.attrs.slice;
    struct cuda_copy args =
        copy_of(&kernel->call.in[0].shape, kernel->base.in[0], kernel->base.out[0]);
    TRY_CUDA(
        cuMemsetD8Async((CUdeviceptr)(uintptr_t)out[0], 0, kernel->base.out[0]->bytes, stream));
    args.from = cuda_in(kernel, 0, in);
    args.to = cuda_out(kernel, 0, out);
    args.to.data =
        moved(out[0], kernel->call.out[0].dtype, slice->begin * args.to_step[slice->axis]);
    return run_copy(kernel, &args, stream);
}

enum status cuda_slice_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_like(kernel, in[0]);
    kernel->run = run_slice_bwd;
    return STATUS_OK;
}

/* --- sum_batch --- */

static enum status run_sum_batch(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                 void *scratch, CUstream stream) {
    return cuda_sum_columns(kernel, cuda_in(kernel, 0, in), cuda_out(kernel, 0, out), scratch,
                            stream);
}

enum status cuda_sum_batch(struct cuda_kernel *kernel, const struct layout *const in[]) {
    cuda_want_like(kernel, in[0]);
    kernel->rows = kernel->call.in[0].shape.dim[0];
    kernel->columns = shape_count(&kernel->call.out[0].shape);
    cuda_cut_rows(kernel, kernel->rows, kernel->columns, 1);
    kernel->run = run_sum_batch;
    return STATUS_OK;
}

/* --- stats_exchange alone: as if every rank had given the same --- */

static enum status run_exchange(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                void *scratch, CUstream stream) {
    (void)scratch;
    struct cuda_copy args =
        copy_of(&kernel->call.out[0].shape, kernel->base.out[0], kernel->base.out[0]);
    args.from_step[0] = 0;
    args.from = cuda_in(kernel, 0, in);
    args.to = cuda_out(kernel, 0, out);
    return run_copy(kernel, &args, stream);
}

enum status cuda_exchange(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    cuda_want_plain(kernel);
    kernel->base.scratch_bytes = kernel->base.out[0]->bytes; /* the executor gathers through it */
    kernel->run = run_exchange;
    return STATUS_OK;
}
