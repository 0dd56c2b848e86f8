/* Convolutions: direct or Winograd, in layouts that the kernel chooses.
 *
 * All three tensors are asked for with "any": activations then chain from layer to layer without a
 * reorder, and the gradient of the weights comes in the layout of the forward weights. Winograd
 * F(4x4,3x3) (winograd.c) does a quarter of the multiplications and is 1.4 to 3 times as fast as
 * the direct kernel from 32 channels on; below that the transforms eat the gain. oneDNN 2 has one
 * on AVX-512, which is not taken: it writes all transformed weights to memory, which takes longer
 * than a small micro-batch, and needs ten times the scratch memory.
 *
 * ReLU is a pass of our own over the result (cpu_step_relu), see eltwise.c. */
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"

enum { WINOGRAD_TILE = 4, WINOGRAD_MIN_CHANNELS = 32, WINOGRAD_MIN_TILES = 8 };

/* The shapes of a convolution, the same for all three directions. */
struct conv {
    struct shape x, y, w; /* w: [O,C/g,kh,kw] */
    enum dtype x_type, y_type, w_type;
    int groups;
};

static struct conv conv_of(const struct op_call *call) {
    struct conv conv = {.groups = call->attrs.conv.groups};
    switch (call->op) {
    case OP_CONV2D:
        conv.x = call->in[0].shape, conv.w = call->in[1].shape, conv.y = call->out[0].shape;
        break;
    case OP_CONV2D_BWD_DATA:
        conv.y = call->in[0].shape, conv.w = call->in[1].shape, conv.x = call->out[0].shape;
        break;
    default: conv.x = call->in[0].shape, conv.y = call->in[1].shape, conv.w = call->out[0].shape;
    }
    bool weight = call->op == OP_CONV2D_BWD_WEIGHT, forward = call->op == OP_CONV2D;
    conv.w_type = weight ? call->out[0].dtype : call->in[1].dtype;
    conv.x_type = weight || forward ? call->in[0].dtype : call->out[0].dtype;
    conv.y_type = forward ? call->out[0].dtype : call->in[weight].dtype;
    return conv;
}

/* What winograd.c computes: a 3x3 kernel that visits every pixel, channels in whole vectors. */
static bool winograd_can(const struct op_call *call, const struct conv *conv) {
    const int *stride = call->attrs.conv.stride, *dilation = call->attrs.conv.dilation,
              *pad = call->attrs.conv.pad;
    if (conv->w.dim[2] != 3 || conv->w.dim[3] != 3 || conv->groups != 1 || pad[0] > 1 || pad[1] > 1)
        return false;
    if (stride[0] != 1 || stride[1] != 1 || dilation[0] != 1 || dilation[1] != 1) return false;
    return conv->x.dim[1] % 16 == 0 && conv->y.dim[1] % 16 == 0;
}

/* The rule of auto: enough channels and tiles to pay for the transforms, and not much of a tile
 * hanging over the edge. Where products and sums are not fused it errs more than four times as much
 * as direct convolutions. */
static bool winograd_pays(const struct conv *conv) {
    if (!cpu_has_avx512() && !cpu_has_avx2()) return false;
    int64_t C = conv->x.dim[1], O = conv->y.dim[1], H = conv->y.dim[2], W = conv->y.dim[3];
    if (C < WINOGRAD_MIN_CHANNELS || O < WINOGRAD_MIN_CHANNELS) return false;
    int64_t rows = (H + WINOGRAD_TILE - 1) / WINOGRAD_TILE,
            columns = (W + WINOGRAD_TILE - 1) / WINOGRAD_TILE;
    double waste = (double)(rows * columns * WINOGRAD_TILE * WINOGRAD_TILE) / (double)(H * W);
    return conv->x.dim[0] * rows * columns >= WINOGRAD_MIN_TILES && waste <= 1.8;
}

static bool takes_winograd(const struct cpu_kernel *kernel, const struct conv *conv) {
    enum conv_method method = kernel->base.device->conv;
    if (method == CONV_DIRECT || !winograd_can(&kernel->call, conv)) return false;
    return method == CONV_WINOGRAD || winograd_pays(conv);
}

static const struct dnn_md *weights_any(const struct conv *conv, enum dtype dtype) {
    int64_t g = conv->groups,
            dim[] = {g, conv->w.dim[0] / g, conv->w.dim[1], conv->w.dim[2], conv->w.dim[3]};
    return g > 1 ? dnn_md_any(dtype, 5, dim) : dnn_md_any(dtype, 4, conv->w.dim);
}

static struct dnn_spec spec_of(const struct op_call *call, const struct conv *conv) {
    struct dnn_spec spec = {.kind = call->op == OP_CONV2D            ? DNN_CONV
                                    : call->op == OP_CONV2D_BWD_DATA ? DNN_CONV_DATA
                                                                     : DNN_CONV_WEIGHTS};
    spec.src = dnn_md_any(conv->x_type, 4, conv->x.dim);
    spec.dst = dnn_md_any(conv->y_type, 4, conv->y.dim);
    spec.weights = weights_any(conv, conv->w_type);
    if (conv->w_type != conv->x_type) spec.forward_weights = weights_any(conv, conv->x_type);
    bool bias = call->op == OP_CONV2D ? call->in_count == 3
                                      : call->op == OP_CONV2D_BWD_WEIGHT && call->attrs.has_bias;
    if (bias) spec.bias = dnn_md_new(DTYPE_F32, 1, &conv->y.dim[1], NULL);
    spec.tanh = call->op == OP_CONV2D && call->attrs.activation == ACTIVATION_TANH;
    memcpy(spec.stride, call->attrs.conv.stride, sizeof spec.stride);
    memcpy(spec.pad, call->attrs.conv.pad, sizeof spec.pad);
    memcpy(spec.dilation, call->attrs.conv.dilation, sizeof spec.dilation);
    return spec;
}

/* Arguments by direction: inputs in order, then outputs; the last of each list is the bias. */
static const struct cpu_bind binds[3][4] = {
    {{DNNL_ARG_SRC, CPU_IN, 0, 0},
     {DNNL_ARG_WEIGHTS, CPU_IN, 1, 0},
     {DNNL_ARG_DST, CPU_OUT, 0, 0},
     {DNNL_ARG_BIAS, CPU_IN, 2, 0}},
    {{DNNL_ARG_DIFF_DST, CPU_IN, 0, 0},
     {DNNL_ARG_WEIGHTS, CPU_IN, 1, 0},
     {DNNL_ARG_DIFF_SRC, CPU_OUT, 0, 0}},
    {{DNNL_ARG_SRC, CPU_IN, 0, 0},
     {DNNL_ARG_DIFF_DST, CPU_IN, 1, 0},
     {DNNL_ARG_DIFF_WEIGHTS, CPU_OUT, 0, 0},
     {DNNL_ARG_DIFF_BIAS, CPU_OUT, 1, 0}},
};

/* oneDNN's gradient of bf16 weights multiplies by zero what it never wrote of its scratch memory,
 * where an image is narrower than the kernel: anything that is no number there becomes NaN. */
static bool reads_scratch_first(const struct cpu_kernel *kernel) {
    const struct op_call *call = &kernel->call;
    if (call->op != OP_CONV2D_BWD_WEIGHT || call->in[0].dtype == DTYPE_F32) return false;
    int64_t extent = (call->out[0].shape.dim[3] - 1) * call->attrs.conv.dilation[1] + 1;
    return call->in[0].shape.dim[3] < extent;
}

static void clear_scratch(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                          void *scratch) {
    (void)in, (void)out;
    memset(scratch, 0, kernel->base.scratch_bytes);
}

/* With `fast`, only an implementation made of generated code is good enough. */
static enum status create(struct cpu_kernel *kernel, const struct dnn_spec *spec, bool fast) {
    dnnl_primitive_desc_t pd = NULL;
    struct cpu_device *device = cpu_device_of(kernel);
    TRY(dnn_describe(device->engine, spec, &pd));
    if (fast && strncmp(dnn_pd_name(pd), "jit", 3) != 0 &&
        strncmp(dnn_pd_name(pd), "brg", 3) != 0) {
        dnnl_primitive_desc_destroy(pd);
        return STATUS_NO;
    }
    const struct cpu_bind *bind = binds[spec->kind - DNN_CONV];
    for (int i = 0; i < 3; i++) { /* the bias is plain already */
        const struct dnn_md *md = dnn_pd_md(pd, bind[i].argument);
        if (bind[i].place == CPU_IN)
            kernel->base.in[bind[i].index] =
                cpu_layout(device, &kernel->call.in[bind[i].index], md);
        else
            kernel->base.out[0] = cpu_layout(device, &kernel->call.out[0], md);
    }
    cpu_name(kernel, "onednn:%s", dnn_pd_name(pd));
    if (reads_scratch_first(kernel)) cpu_step_loop(kernel, clear_scratch);
    return cpu_step_primitive(kernel, pd, spec->bias ? 4 : 3, bind);
}

/* The first input, an image in all three directions, is kept in the blocked layout it has if there
 * is fast code for that: oneDNN 3 would rather have gradients of strided convolutions
 * channels-last, which gains less than the reorders cost. */
static enum status create_direct(struct cpu_kernel *kernel, struct dnn_spec *spec,
                                 const struct layout *has) {
    const struct dnn_md **image = spec->kind == DNN_CONV_DATA ? &spec->dst : &spec->src;
    const struct dnn_md *any = *image;
    enum status status = STATUS_NO;
    if (has && !has->plain && cpu_md(has)) {
        *image = cpu_md(has);
        status = create(kernel, spec, true);
        *image = any;
    }
    return status == STATUS_NO ? create(kernel, spec, false) : status;
}

enum status cpu_conv(struct cpu_kernel *kernel, const struct layout *const in[]) {
    struct conv conv = conv_of(&kernel->call);
    if (takes_winograd(kernel, &conv)) {
        enum status status = cpu_winograd(kernel, in);
        if (status != STATUS_NO) return status;
    }
    struct dnn_spec spec = spec_of(&kernel->call, &conv);
    enum status status = create_direct(kernel, &spec, in[0]);
    dnn_spec_free(&spec);
    if (status == STATUS_OK) cpu_step_relu(kernel);
    return status;
}
