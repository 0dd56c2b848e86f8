/* Linear layers as inner products, and batched matmul.
 *
 * Activations are row major: whoever comes before and after (layer norm, attention, views) wants
 * that. Weights are row major too, which oneDNN runs near its peak in all three directions. Its
 * plain kernels pack both operands of large products; those of a few rows they read where they lie,
 * and lose half their speed on wide cores where rows are a multiple of 4 KiB apart: then every row
 * of a tile falls into the same cache sets. Our own (gemm.c) does all three directions then;
 * without AVX2, or with fewer rows still, the weights are asked for with "any", and forward, both
 * gradients and the gradient itself share one blocked layout.
 *
 * Forward with weights as torch stores them is a product with a turned operand, which oneDNN 2 runs
 * at 84 to 90% of the others' speed: our own does it, and gradients of inputs where oneDNN does not
 * pack.
 *
 * GELU is applied to the rows of our own product while they are in the second cache, else in a pass
 * behind oneDNN's. In training both its operand and its result are written: backward reads both,
 * and to make one from the other again would cost what writing it does. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/eltwise.h"
#include "backend/cpu/gemm.h"
#include "base/clones.h"

#include "op/precision.h"

/* Fewer rows do not pay for packing the weights by our own product; oneDNN packs products of which
 * no side is shorter. */
enum { GEMM_MIN_ROWS = 256, ONEDNN_PACKED = 512 };

struct linear {
    int64_t rows, inputs, outputs;
    bool across;        /* weights are stored [I,O]: for oneDNN [O,I] with other strides */
    enum dtype x, w, y; /* element types, of gradients too; the bias is f32 */
};

static int64_t last_of(const struct tensor_type *type) {
    return type->shape.dim[type->shape.rank - 1];
}

/* Whether oneDNN copies both operands to where they are best. */
static bool is_packed(const struct linear *l) {
    return l->rows >= ONEDNN_PACKED && l->inputs >= ONEDNN_PACKED && l->outputs >= ONEDNN_PACKED;
}

/* Whether it would read, where they lie, rows that fall into the same cache sets. */
static bool aliases(const struct linear *l) {
    return !is_packed(l) && (l->inputs % GEMM_ALIASING == 0 || l->outputs % GEMM_ALIASING == 0);
}

static struct dnn_spec spec_of(enum dnn_kind kind, const struct linear *l, bool bias) {
    struct dnn_spec spec = {.kind = kind};
    bool narrow = l->x == DTYPE_BF16; /* weights are copied in any case: to where they are best */
    int64_t w[] = {l->outputs, l->inputs}, across[] = {1, l->outputs};
    spec.src = dnn_md_new(l->x, 2, (int64_t[]){l->rows, l->inputs}, NULL);
    spec.dst = dnn_md_new(l->y, 2, (int64_t[]){l->rows, l->outputs}, NULL);
    spec.weights = (aliases(l) || narrow) && !l->across
                       ? dnn_md_any(l->w, 2, w)
                       : dnn_md_new(l->w, 2, w, l->across ? across : NULL);
    if (l->w != l->x) spec.forward_weights = dnn_md_any(l->x, 2, w);
    if (bias) spec.bias = dnn_md_new(DTYPE_F32, 1, &l->outputs, NULL);
    return spec;
}

/* Creates the one primitive of a linear kernel; `weights` is where its weights or their gradient
 * are found. */
static enum status create(struct cpu_kernel *kernel, struct dnn_spec *spec,
                          const struct cpu_bind bind[], const struct cpu_bind *weights) {
    struct cpu_device *device = cpu_device_of(kernel);
    dnnl_primitive_desc_t pd = NULL;
    bool across = kernel->call.attrs.across; /* the type's own order, which is plain */
    enum status status = dnn_describe(device->engine, spec, &pd);
    if (status == STATUS_OK) {
        const struct dnn_md *md = across ? NULL : dnn_pd_md(pd, weights->argument);
        if (weights->place == CPU_IN)
            kernel->base.in[weights->index] =
                cpu_layout(device, &kernel->call.in[weights->index], md);
        else
            kernel->base.out[weights->index] =
                cpu_layout(device, &kernel->call.out[weights->index], md);
        cpu_name(kernel, "onednn:%s", dnn_pd_name(pd));
        cpu_note_packed(kernel, spec, pd);
        status = cpu_step_primitive(kernel, pd, spec->bias ? 4 : 3, bind);
    }
    dnn_spec_free(spec);
    return status;
}

/* The layout in which the gradient of the weights comes: weights that lie so need no reorder of it,
 * and are rounded block by block (narrow_weights.c). */
static const struct layout *gradient_layout(const struct cpu_kernel *kernel,
                                            const struct linear *forward) {
    struct linear l = *forward;
    struct tensor_type type = {DTYPE_F32, kernel->call.in[1].shape};
    const struct layout *layout = NULL;
    dnnl_primitive_desc_t pd = NULL;
    l.w = DTYPE_F32;
    l.y = l.x; /* of a gradient, also where logits are f32 */
    struct dnn_spec spec = spec_of(DNN_INNER_WEIGHTS, &l, kernel->call.in_count == 3);
    if (dnn_describe(cpu_device_of(kernel)->engine, &spec, &pd) == STATUS_OK) {
        layout = cpu_layout(cpu_device_of(kernel), &type, dnn_pd_md(pd, DNNL_ARG_DIFF_WEIGHTS));
        dnnl_primitive_desc_destroy(pd);
    }
    dnn_spec_free(&spec);
    return layout;
}

/* The sizes and types of a call of any direction. */
static struct linear linear_of(const struct op_call *call) {
    const struct tensor_type *x = &call->in[0], *y = &call->out[0], *w = &call->in[1];
    if (call->op == OP_LINEAR_BWD_DATA) x = &call->out[0], y = &call->in[0];
    if (call->op == OP_LINEAR_BWD_WEIGHT) y = &call->in[1], w = &call->out[0];
    struct linear l = {.inputs = last_of(x),
                       .outputs = last_of(y),
                       .across = call->attrs.across,
                       .x = x->dtype,
                       .w = w->dtype,
                       .y = y->dtype};
    l.rows = shape_count(&x->shape) / l.inputs;
    return l;
}

static struct gemm gemm_of(enum op op, const struct linear *l) {
    int64_t R = l->rows, I = l->inputs, O = l->outputs, to_output = l->across ? 1 : I,
            to_input = l->across ? O : 1;
    if (op == OP_LINEAR)
        return (struct gemm){
            R, O, I, .a_row = I, .a_step = 1, .b_step = to_input, .b_column = to_output};
    if (op == OP_LINEAR_BWD_DATA)
        return (struct gemm){
            R, I, O, .a_row = O, .a_step = 1, .b_step = to_output, .b_column = to_input};
    if (l->across)
        return (struct gemm){I, O, R, .a_row = 1, .a_step = I, .b_step = O, .b_column = 1};
    return (struct gemm){O, I, R, .a_row = 1, .a_step = O, .b_step = I, .b_column = 1};
}

/* Is the activation a pass of ours over the product? relu is a step of its own, tanh oneDNN's. */
static bool is_applied(const struct op_call *call) {
    return activation_needs_input(call->attrs.activation);
}

/* The output that is the product itself. */
static int product_at(const struct op_call *call) {
    return call->attrs.saves ? 1 : 0;
}

static void run_activation(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                           void *scratch) {
    eltwise_span *span = eltwise_activation(kernel->call.attrs.activation);
    const float *x = out[product_at(&kernel->call)];
    float *y = out[0];
    (void)in, (void)scratch;
    CPU_PIECES(shape_count(&kernel->call.out[0].shape), begin, end)
    span(x + begin, x + begin, y + begin, end - begin);
}

static void run_gemm(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                     void *scratch) {
    struct linear l = linear_of(&kernel->call);
    struct gemm gemm = gemm_of(kernel->call.op, &l);
    bool weight = kernel->call.op == OP_LINEAR_BWD_WEIGHT, dy_first = weight && !l.across;
    gemm.a = in[dy_first], gemm.b = in[!dy_first];
    gemm.bias = !weight && kernel->call.in_count == 3 ? in[2] : NULL;
    gemm.c = gemm.activated = out[0];
    if (kernel->call.op == OP_LINEAR) {
        gemm.c = out[product_at(&kernel->call)];
        if (is_applied(&kernel->call))
            gemm.after = eltwise_activation(kernel->call.attrs.activation);
    }
    gemm_run(&gemm, kernel->base.device->threads, scratch);
}

/* The gradient of the bias: columns of dy, summed in the order of the rows. */
VECTOR_CLONES static void sum_columns(const float *dy, int64_t rows, int64_t step, int64_t count,
                                      float *sum) {
    for (int64_t i = 0; i < count; i++) sum[i] = 0.0f;
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int64_t i = 0; i < count; i++) sum[i] += dy[r * step + i];
}

static void run_bias(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                     void *scratch) {
    enum { COLUMNS = 256 };
    struct linear l = linear_of(&kernel->call);
    const float *dy = in[1];
    float *sums = out[1];
    (void)scratch;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < l.outputs; at += COLUMNS)
        sum_columns(dy + at, l.rows, l.outputs, l.outputs - at < COLUMNS ? l.outputs - at : COLUMNS,
                    sums + at);
}

/* It pays forward; for gradients of inputs, unless oneDNN packs; for those of weights, where it
 * would read rows that alias. */
static bool takes_gemm(const struct cpu_kernel *kernel, const struct linear *l) {
    enum op op = kernel->call.op;
    bool pays = op == OP_LINEAR || (op == OP_LINEAR_BWD_DATA ? !is_packed(l) : aliases(l));
    bool wide = l->x == DTYPE_F32 && l->w == DTYPE_F32 && l->y == DTYPE_F32;
    return pays && wide && l->rows >= GEMM_MIN_ROWS && l->outputs >= GEMM_MAX_COLUMNS &&
           (op == OP_LINEAR || l->inputs >= GEMM_MAX_COLUMNS) && cpu_has_avx2() &&
           kernel->call.attrs.activation != ACTIVATION_TANH;
}

static enum status create_gemm(struct cpu_kernel *kernel, const struct linear *l) {
    struct gemm gemm = gemm_of(kernel->call.op, l);
    cpu_scratch(kernel, gemm_scratch_bytes(&gemm, kernel->base.device->threads));
    cpu_name(kernel, "gemm:%d", gemm_isa()->columns / 2);
    cpu_step_loop(kernel, run_gemm);
    if (kernel->call.op == OP_LINEAR) cpu_step_relu(kernel);
    if (kernel->call.op == OP_LINEAR_BWD_WEIGHT && kernel->call.attrs.has_bias)
        cpu_step_loop(kernel, run_bias);
    return STATUS_OK;
}

enum status cpu_linear(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    struct linear l = linear_of(call);
    if (is_applied(call) &&
        (op_call_is_narrow(call) || !eltwise_activation(call->attrs.activation)))
        return STATUS_NO;
    if (takes_gemm(kernel, &l)) return create_gemm(kernel, &l);
    struct dnn_spec spec = spec_of(DNN_INNER, &l, call->in_count == 3);
    spec.tanh = call->attrs.activation == ACTIVATION_TANH;
    struct cpu_bind bind[] = {{DNNL_ARG_SRC, CPU_IN, 0, 0},
                              {DNNL_ARG_WEIGHTS, CPU_IN, 1, 0},
                              {DNNL_ARG_DST, CPU_OUT, product_at(call), 0},
                              {DNNL_ARG_BIAS, CPU_IN, 2, 0}};
    TRY(create(kernel, &spec, bind, &bind[1]));
    if (l.w == DTYPE_BF16 && !l.across) kernel->base.rounded_from[1] = gradient_layout(kernel, &l);
    cpu_step_relu(kernel);
    if (is_applied(call)) cpu_step_loop(kernel, run_activation);
    return STATUS_OK;
}

enum status cpu_linear_bwd_data(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    struct linear l = linear_of(call);
    if (takes_gemm(kernel, &l)) return create_gemm(kernel, &l);
    struct dnn_spec spec = spec_of(DNN_INNER_DATA, &l, false);
    struct cpu_bind bind[] = {{DNNL_ARG_DIFF_DST, CPU_IN, 0, 0},
                              {DNNL_ARG_WEIGHTS, CPU_IN, 1, 0},
                              {DNNL_ARG_DIFF_SRC, CPU_OUT, 0, 0}};
    return create(kernel, &spec, bind, &bind[1]);
}

enum status cpu_linear_bwd_weight(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    struct linear l = linear_of(call);
    if (takes_gemm(kernel, &l)) return create_gemm(kernel, &l);
    struct dnn_spec spec = spec_of(DNN_INNER_WEIGHTS, &l, call->attrs.has_bias);
    struct cpu_bind bind[] = {{DNNL_ARG_SRC, CPU_IN, 0, 0},
                              {DNNL_ARG_DIFF_DST, CPU_IN, 1, 0},
                              {DNNL_ARG_DIFF_WEIGHTS, CPU_OUT, 0, 0},
                              {DNNL_ARG_DIFF_BIAS, CPU_OUT, 1, 0}};
    return create(kernel, &spec, bind, &bind[2]);
}

/* A matrix [rows, columns] of a batch, or its transpose as it is stored. */
static const struct dnn_md *matrix(enum dtype dtype, int64_t batch, int64_t rows, int64_t columns,
                                   bool transposed) {
    int64_t dim[] = {batch, rows, columns};
    int64_t stride[] = {rows * columns, transposed ? 1 : columns, transposed ? rows : 1};
    return dnn_md_new(dtype, 3, dim, stride);
}

enum status cpu_matmul(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    const struct shape *y = &call->out[0].shape, *a = &call->in[0].shape;
    int64_t M = y->dim[y->rank - 2], N = y->dim[y->rank - 1];
    int64_t K = a->dim[a->rank - (call->attrs.matmul.transpose_a ? 2 : 1)],
            batch = shape_span(y, 0, y->rank - 2);
    if (shape_count(a) != batch * M * K || shape_count(&call->in[1].shape) != batch * K * N)
        return STATUS_NO;
    struct dnn_spec spec = {.kind = DNN_MATMUL, .scale = call->attrs.matmul.scale};
    spec.src = matrix(call->in[0].dtype, batch, M, K, call->attrs.matmul.transpose_a);
    spec.weights = matrix(call->in[1].dtype, batch, K, N, call->attrs.matmul.transpose_b);
    spec.dst = matrix(call->out[0].dtype, batch, M, N, false);
    struct cpu_bind bind[] = {{DNNL_ARG_SRC, CPU_IN, 0, 0},
                              {DNNL_ARG_WEIGHTS, CPU_IN, 1, 0},
                              {DNNL_ARG_DST, CPU_OUT, 0, 0}};
    enum status status = cpu_step(kernel, &spec, 3, bind);
    dnn_spec_free(&spec);
    return status;
}
