/* Operations without a kernel of their own here, as those of a program that uses the library: their
 * reference kernels are C functions on host memory, so operands are copied there, and what they
 * make is copied back. Said once. They know f32 alone: what comes narrow is widened, what goes
 * narrow is rounded, by a kernel on the way. */
#include "backend/cuda/cuda.h"
#include "base/log.h"
#include "base/mem.h"
#include "op/precision.h"

enum { PART_WIDE };

static size_t wide_bytes(const struct tensor_type *type) {
    return dtype_is_narrow(type->dtype) ? (size_t)shape_count(&type->shape) * sizeof(float) : 0;
}

static enum status convert(struct cuda_kernel *kernel, struct cuda_reals from, struct cuda_reals to,
                           const struct shape *shape, CUstream stream) {
    struct cuda_map args = {from, to, shape_count(shape), ACTIVATION_NONE};
    TRY(cuda_launch_wide(cuda_kernel_device(kernel), CUDA_KERNEL_map, args.count, &args, stream));
    TRY_CUDA(cuStreamSynchronize(stream));
    return STATUS_OK;
}

static enum status fetch(struct cuda_kernel *kernel, int i, void *const in[], void *wide,
                         CUstream stream) {
    const struct tensor_type *type = &kernel->call.in[i];
    size_t bytes = wide_bytes(type);
    void *from = bytes ? wide : in[i];
    if (bytes)
        TRY(convert(kernel, cuda_in(kernel, i, in), (struct cuda_reals){wide, DTYPE_F32},
                    &type->shape, stream));
    TRY_CUDA(cuMemcpyDtoH(kernel->host_in[i], (CUdeviceptr)(uintptr_t)from,
                          bytes ? bytes : tensor_type_bytes(type)));
    return STATUS_OK;
}

static enum status store(struct cuda_kernel *kernel, int i, void *const out[], void *wide,
                         CUstream stream) {
    const struct tensor_type *type = &kernel->call.out[i];
    size_t bytes = wide_bytes(type);
    void *to = bytes ? wide : out[i];
    TRY_CUDA(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)to, kernel->host_out[i],
                          bytes ? bytes : tensor_type_bytes(type)));
    if (!bytes) return STATUS_OK;
    return convert(kernel, (struct cuda_reals){wide, DTYPE_F32}, cuda_out(kernel, i, out),
                   &type->shape, stream);
}

static enum status run_on_host(struct cuda_kernel *kernel, void *const in[], void *const out[],
                               void *scratch, CUstream stream) {
    const struct op_call *call = &kernel->call;
    struct op_call wide = op_call_wide(call);
    void *room = cuda_part_at(kernel, PART_WIDE, scratch);
    TRY_CUDA(cuStreamSynchronize(stream));
    for (int i = 0; i < call->in_count; i++) TRY(fetch(kernel, i, in, room, stream));
    op_def(call->op)->run(&wide, kernel->host_in, kernel->host_out, kernel->host_scratch);
    for (int i = 0; i < call->out_count; i++) TRY(store(kernel, i, out, room, stream));
    return STATUS_OK;
}

enum status cuda_on_host(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    struct cuda_device *device = cuda_kernel_device(kernel);
    struct op_call wide = op_call_wide(&kernel->call);
    size_t most = 0;
    cuda_want_plain(kernel);
    for (int i = 0; i < wide.in_count; i++) {
        kernel->host_in[i] = mem_new(tensor_type_bytes(&wide.in[i]));
        if (wide_bytes(&kernel->call.in[i]) > most) most = wide_bytes(&kernel->call.in[i]);
    }
    for (int i = 0; i < wide.out_count; i++) {
        kernel->host_out[i] = mem_new(tensor_type_bytes(&wide.out[i]));
        if (wide_bytes(&kernel->call.out[i]) > most) most = wide_bytes(&kernel->call.out[i]);
    }
    if (most) cuda_part(kernel, PART_WIDE, most);
    const struct op_def *def = op_def(wide.op);
    if (def->scratch_bytes) kernel->host_scratch = mem_new(def->scratch_bytes(&wide));
    kernel->run = run_on_host;
    if (!device->said_host && !device->base.dry)
        log_note("operations of your own, and those without a kernel for cuda, run on the host: "
                 "cuda:%d copies their operands",
                 device->base.index);
    device->said_host = true;
    return STATUS_OK;
}
