/* Convolutions: an engine of cuDNN's where it has one, else our own slow kernel; then bias and
 * activation, or the gradient of the bias.
 *
 * The gradient of weights is f32, its operands may be narrow. cuDNN then makes a narrow one, as it
 * does for PyTorch, which is widened: its engines with a wider result are slow (resnet50 b64 in
 * bf16 on an H200: 16.1 against 2.3 ms a pass). */
#include <stdio.h>

#include "backend/cuda/product.h"

enum { PART_WORK = 1, PART_NARROW }; /* the first are cuda_cut_rows' sums */

static bool has_bias(const struct cuda_kernel *kernel) {
    return kernel->call.op == OP_CONV2D && kernel->call.in_count == 3;
}

static bool has_bias_gradient(const struct cuda_kernel *kernel) {
    return kernel->call.op == OP_CONV2D_BWD_WEIGHT && kernel->call.attrs.has_bias;
}

static struct cuda_conv geometry(const struct cuda_kernel *kernel, void *const in[], void *out) {
    const struct op_call *call = &kernel->call;
    bool data = call->op == OP_CONV2D_BWD_DATA, weight = call->op == OP_CONV2D_BWD_WEIGHT;
    const struct tensor_type *x = data ? &call->out[0] : &call->in[0],
                             *w = weight ? &call->out[0] : &call->in[1],
                             *y = data     ? &call->in[0]
                                  : weight ? &call->in[1]
                                           : &call->out[0];
    struct cuda_conv a = {
        .x = {data ? out : in[0], x->dtype},
        .w = {weight ? out : in[1], w->dtype},
        .y = {data     ? in[0]
              : weight ? in[1]
                       : out,
              y->dtype},
        .batch = x->shape.dim[0],
        .in_channels = x->shape.dim[1],
        .out_channels = w->shape.dim[0],
        .group_in = w->shape.dim[1],
        .group_out = w->shape.dim[0] / call->attrs.conv.groups,
    };
    for (int i = 0; i < 2; i++) {
        a.in[i] = x->shape.dim[2 + i];
        a.out[i] = y->shape.dim[2 + i];
        a.kernel[i] = w->shape.dim[2 + i];
        a.stride[i] = call->attrs.conv.stride[i];
        a.pad[i] = call->attrs.conv.pad[i];
        a.dilation[i] = call->attrs.conv.dilation[i];
    }
    return a;
}

static enum status run_own(const struct cuda_kernel *kernel, void *const in[], void *out,
                           CUstream stream) {
    struct cuda_device *device = cuda_kernel_device(kernel);
    struct cuda_conv args = geometry(kernel, in, out);
    int64_t count = shape_count(&kernel->call.out[0].shape);
    if (kernel->call.op == OP_CONV2D_BWD_WEIGHT)
        return cuda_launch_rows(device, CUDA_KERNEL_conv_bwd_weight, count, &args, stream);
    enum cuda_kernel_id id =
        kernel->call.op == OP_CONV2D ? CUDA_KERNEL_conv : CUDA_KERNEL_conv_bwd_data;
    return cuda_launch_elements(device, id, count, &args, stream);
}

static enum status run_engine(const struct cuda_kernel *kernel, void *const in[], void *out,
                              void *scratch, CUstream stream) {
    struct cuda_device *device = cuda_kernel_device(kernel);
    const struct tensor_type *made = &kernel->inner.out[0], *want = &kernel->call.out[0];
    bool widen = made->dtype != want->dtype;
    void *to = widen ? cuda_part_at(kernel, PART_NARROW, scratch) : out;
    TRY(cuda_engine_run(device, kernel->engine, in, to, cuda_part_at(kernel, PART_WORK, scratch),
                        stream));
    if (!widen) return STATUS_OK;
    struct cuda_map args = {
        {to, made->dtype}, {out, want->dtype}, shape_count(&want->shape), ACTIVATION_NONE};
    return cuda_launch_wide(device, CUDA_KERNEL_map, args.count, &args, stream);
}

static enum status run_bias(const struct cuda_kernel *kernel, void *const in[], void *out,
                            CUstream stream) {
    struct cuda_reals y = {out, kernel->call.out[0].dtype};
    struct cuda_bias args = {.x = y,
                             .y = y,
                             .bias = has_bias(kernel) ? in[2] : NULL,
                             .count = shape_count(&kernel->call.out[0].shape),
                             .columns = kernel->call.out[0].shape.dim[1],
                             .activation = kernel->call.attrs.activation};
    return cuda_launch_elements(cuda_kernel_device(kernel), CUDA_KERNEL_bias, args.count, &args,
                                stream);
}

static enum status run(struct cuda_kernel *kernel, void *const in[], void *const out[],
                       void *scratch, CUstream stream) {
    const struct op_call *call = &kernel->call;
    TRY(kernel->engine ? run_engine(kernel, in, out[0], scratch, stream)
                       : run_own(kernel, in, out[0], stream));
    if (call->op == OP_CONV2D && (has_bias(kernel) || call->attrs.activation != ACTIVATION_NONE))
        TRY(run_bias(kernel, in, out[0], stream));
    if (!has_bias_gradient(kernel)) return STATUS_OK;
    return cuda_sum_columns(kernel, cuda_in(kernel, 1, in), cuda_out(kernel, 1, out), scratch,
                            stream);
}

/* Of narrow operands a narrow result first: engines that make an f32 one take seven times as long.
 */
static enum status find_engine(struct cuda_kernel *kernel) {
    struct cuda_device *device = cuda_kernel_device(kernel);
    enum dtype operands = kernel->call.in[0].dtype;
    kernel->inner = kernel->call;
    kernel->inner.out[0].dtype = operands;
    enum status status = cuda_engine_new(device, &kernel->inner, &kernel->engine);
    bool widens = kernel->call.out[0].dtype != operands;
    if (status == STATUS_OK && widens)
        cuda_part(kernel, PART_NARROW, tensor_type_bytes(&kernel->inner.out[0]));
    if (status != STATUS_NO || !widens) return status;
    kernel->inner = kernel->call;
    return cuda_engine_new(device, &kernel->inner, &kernel->engine);
}

enum status cuda_convolution(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    cuda_want_images(kernel);
    kernel->run = run;
    if (has_bias_gradient(kernel)) {
        const struct shape *dy = &kernel->call.in[1].shape;
        kernel->columns = dy->dim[1];
        kernel->rows = dy->dim[0] * dy->dim[2] * dy->dim[3];
        cuda_cut_rows(kernel, kernel->rows, kernel->columns, 1);
    }
    enum status status = find_engine(kernel);
    if (status == STATUS_NO) return STATUS_OK; /* our own */
    if (status != STATUS_OK) return status;
    cuda_part(kernel, PART_WORK, cuda_engine_scratch(kernel->engine));
    snprintf(kernel->name, sizeof kernel->name, "%s", cuda_engine_name(kernel->engine));
    return STATUS_OK;
}
