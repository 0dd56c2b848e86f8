/* Linear layers with their bias, and the batched product, by cuBLASLt; activation and the gradient
 * of the bias by our kernels. */
#include <stdio.h>

#include "backend/cuda/product.h"
#include "op/rule.h"

enum { PART_WORK = 1, PART_BIAS }; /* the first are cuda_cut_rows' sums */
enum { ALIGN = 64 };               /* of every tensor's memory */

/* A whole tensor as a matrix of rows of `columns`. */
static struct cuda_matrix matrix(enum dtype dtype, int64_t columns, bool transpose) {
    return (struct cuda_matrix){
        .dtype = dtype, .step = columns, .transpose = transpose, .align = ALIGN};
}

static enum status add_product(struct cuda_kernel *kernel, const struct cuda_product_spec *spec) {
    TRY(cuda_product_new(cuda_kernel_device(kernel), spec, &kernel->product[0]));
    cuda_part(kernel, PART_WORK, cuda_product_scratch(kernel->product[0]));
    snprintf(kernel->name, sizeof kernel->name, "cublaslt:%s", op_def(kernel->call.op)->name);
    return STATUS_OK;
}

static enum status multiply(struct cuda_kernel *kernel, const void *a, const void *b,
                            const void *bias, void *c, void *scratch, CUstream stream) {
    return cuda_product_run(cuda_kernel_device(kernel), kernel->product[0], a, b, bias, c,
                            cuda_part_at(kernel, PART_WORK, scratch), stream);
}

/* --- forward: y = x w' --- */

/* The bias in the type of the result, which is what cuBLASLt adds; a narrow result is rounded once.
 */
static enum status bring_bias(const struct cuda_kernel *kernel, void *const in[], void *scratch,
                              CUstream stream, const void **out) {
    enum dtype dtype = kernel->call.out[0].dtype;
    *out = NULL;
    if (kernel->call.in_count < 3) return STATUS_OK;
    *out = in[2];
    if (dtype == DTYPE_F32) return STATUS_OK;
    void *narrow = cuda_part_at(kernel, PART_BIAS, scratch);
    struct cuda_map args = {
        cuda_in(kernel, 2, in), {narrow, dtype}, kernel->columns, ACTIVATION_NONE};
    *out = narrow;
    return cuda_launch_wide(cuda_kernel_device(kernel), CUDA_KERNEL_map, args.count, &args, stream);
}

static enum status run_linear(struct cuda_kernel *kernel, void *const in[], void *const out[],
                              void *scratch, CUstream stream) {
    const struct op_call *call = &kernel->call;
    int product = call->attrs.saves ? 1 : 0; /* where the sum goes */
    const void *bias;
    TRY(bring_bias(kernel, in, scratch, stream, &bias));
    TRY(multiply(kernel, in[0], in[1], bias, out[product], scratch, stream));
    if (call->attrs.activation == ACTIVATION_NONE && !product) return STATUS_OK;
    struct cuda_map args = {cuda_out(kernel, product, out), cuda_out(kernel, 0, out),
                            kernel->rows * kernel->columns, call->attrs.activation};
    return cuda_launch_wide(cuda_kernel_device(kernel), CUDA_KERNEL_map, args.count, &args, stream);
}

enum status cuda_linear(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    int64_t I = op_columns(&call->in[0].shape), O = op_columns(&call->out[0].shape);
    int made = call->attrs.saves ? 1 : 0;
    cuda_want_plain(kernel);
    kernel->rows = op_rows(&call->in[0].shape);
    kernel->columns = O;
    kernel->run = run_linear;
    if (call->in_count == 3 && call->out[made].dtype != DTYPE_F32)
        cuda_part(kernel, PART_BIAS, (size_t)O * dtype_bytes(call->out[made].dtype));
    bool across = call->attrs.across;
    return add_product(
        kernel, &(struct cuda_product_spec){.rows = kernel->rows,
                                            .inner = I,
                                            .columns = O,
                                            .batch = 1,
                                            .a = matrix(call->in[0].dtype, I, false),
                                            .b = matrix(call->in[1].dtype, across ? O : I, !across),
                                            .c = matrix(call->out[made].dtype, O, false),
                                            .scale = 1,
                                            .bias = call->in_count == 3});
}

/* --- dx = dy w --- */

static enum status run_product(struct cuda_kernel *kernel, void *const in[], void *const out[],
                               void *scratch, CUstream stream) {
    return multiply(kernel, in[0], in[1], NULL, out[0], scratch, stream);
}

enum status cuda_linear_bwd_data(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    int64_t O = op_columns(&call->in[0].shape), I = op_columns(&call->out[0].shape);
    bool across = call->attrs.across;
    cuda_want_plain(kernel);
    kernel->run = run_product;
    return add_product(
        kernel, &(struct cuda_product_spec){.rows = op_rows(&call->in[0].shape),
                                            .inner = O,
                                            .columns = I,
                                            .batch = 1,
                                            .a = matrix(call->in[0].dtype, O, false),
                                            .b = matrix(call->in[1].dtype, across ? O : I, across),
                                            .c = matrix(call->out[0].dtype, I, false),
                                            .scale = 1});
}

/* --- dw = dy' x, or x' dy across; db --- */

static enum status run_bwd_weight(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                  void *scratch, CUstream stream) {
    bool across = kernel->call.attrs.across;
    TRY(multiply(kernel, in[across ? 0 : 1], in[across ? 1 : 0], NULL, out[0], scratch, stream));
    if (!kernel->call.attrs.has_bias) return STATUS_OK;
    return cuda_sum_columns(kernel, cuda_in(kernel, 1, in), cuda_out(kernel, 1, out), scratch,
                            stream);
}

enum status cuda_linear_bwd_weight(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    int64_t I = op_columns(&call->in[0].shape), O = op_columns(&call->in[1].shape);
    bool across = call->attrs.across;
    struct cuda_matrix x = matrix(call->in[0].dtype, I, !across),
                       dy = matrix(call->in[1].dtype, O, true);
    x.transpose = across;
    dy.transpose = !across;
    cuda_want_plain(kernel);
    kernel->rows = op_rows(&call->in[0].shape);
    kernel->columns = O;
    kernel->run = run_bwd_weight;
    if (call->attrs.has_bias) cuda_cut_rows(kernel, kernel->rows, O, 1);
    return add_product(
        kernel, &(struct cuda_product_spec){.rows = across ? I : O,
                                            .inner = kernel->rows,
                                            .columns = across ? O : I,
                                            .batch = 1,
                                            .a = across ? x : dy,
                                            .b = across ? dy : x,
                                            .c = matrix(call->out[0].dtype, across ? O : I, false),
                                            .scale = 1});
}

/* --- matmul --- */

static struct cuda_matrix stacked(const struct tensor_type *type, bool transpose) {
    const struct shape *shape = &type->shape;
    int64_t rows = shape->dim[shape->rank - 2], columns = shape->dim[shape->rank - 1];
    struct cuda_matrix m = matrix(type->dtype, columns, transpose);
    m.next = rows * columns;
    while (shape_span(shape, 0, shape->rank - 2) > 1 &&
           (size_t)m.next * dtype_bytes(type->dtype) % m.align)
        m.align /= 2;
    return m;
}

enum status cuda_matmul(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    const struct shape *a = &call->in[0].shape, *y = &call->out[0].shape;
    bool transpose = call->attrs.matmul.transpose_a;
    cuda_want_plain(kernel);
    kernel->run = run_product;
    return add_product(kernel, &(struct cuda_product_spec){
                                   .rows = y->dim[y->rank - 2],
                                   .inner = a->dim[a->rank - (transpose ? 2 : 1)],
                                   .columns = y->dim[y->rank - 1],
                                   .batch = shape_span(y, 0, y->rank - 2),
                                   .a = stacked(&call->in[0], transpose),
                                   .b = stacked(&call->in[1], call->attrs.matmul.transpose_b),
                                   .c = stacked(&call->out[0], false),
                                   .scale = call->attrs.matmul.scale});
}
