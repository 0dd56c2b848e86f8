/* See ops_floor.h. */
#include "ops_floor.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "base/clock.h"
#include "base/mem.h"

enum { PEAK_DEPTH = 192, PEAK_RUNS = 200, COPY_BYTES = 128 << 20, RUNS = 5 };

static double least(double a, double b) {
    return a == 0 || b < a ? b : a;
}

/* A neighbour on the same core stretches the time of day, not that of the processor. */
int64_t floor_clock_ns(const struct device *device) {
    struct timespec now;
    if (device->threads > 1) return clock_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *bytes_new(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!memory) abort();
    memset(memory, 0, bytes);
    return memory;
}

double floor_peak(struct device *device) {
    const struct gemm_isa *isa = gemm_isa();
    float *a = bytes_new(GEMM_MAX_ROWS * PEAK_DEPTH * sizeof *a),
          *b = bytes_new(GEMM_MAX_COLUMNS * PEAK_DEPTH * sizeof *b),
          *c = bytes_new(GEMM_MAX_ROWS * GEMM_MAX_COLUMNS * sizeof *c);
    struct gemm_tile tile = {.a = a,
                             .b = b,
                             .c = c,
                             .a_row = PEAK_DEPTH,
                             .a_step = 1,
                             .b_step = isa->columns,
                             .c_row = isa->columns,
                             .depth = PEAK_DEPTH,
                             .rows = isa->rows,
                             .columns = isa->columns,
                             .fresh = true,
                             .near = true};
    double best = 0;
    for (int i = 0; i < 20 * RUNS; i++) {
        int64_t start = floor_clock_ns(device);
        for (int j = 0; j < PEAK_RUNS; j++) isa->tile(&tile);
        best = least(best, (double)(floor_clock_ns(device) - start) / PEAK_RUNS);
    }
    free(a), free(b), free(c);
    return 2.0 * isa->rows * isa->columns * PEAK_DEPTH / best * device->threads;
}

double floor_copy_rate(struct device *device) {
    char *from = bytes_new(COPY_BYTES), *to = bytes_new(COPY_BYTES);
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        int64_t start = floor_clock_ns(device);
        CPU_PIECES((int64_t)COPY_BYTES, begin, end)
        memcpy(to + begin, from + begin, (size_t)(end - begin));
        best = least(best, (double)(floor_clock_ns(device) - start));
    }
    free(from), free(to);
    return 2.0 * COPY_BYTES / best;
}

double floor_kernel_ns(struct kernel *kernel, void *const in[], void *const out[], void *scratch,
                       int repeats) {
    const struct device *device = kernel->device;
    double best = 0;
    for (int i = 0; i < repeats; i++) {
        int64_t start = floor_clock_ns(device);
        if (kernel_run(kernel, in, out, scratch, NULL) != STATUS_OK) return 0;
        best = least(best, (double)(floor_clock_ns(device) - start));
    }
    return best;
}

/* --- oneDNN --- */

/* The three tensors of a call by their part: images or rows (x, y) and weights. */
struct parts {
    const struct tensor_type *x, *y, *w;
};

static struct parts parts_of(const struct op_call *call) {
    switch (call->op) {
    case OP_CONV2D:
    case OP_LINEAR: return (struct parts){&call->in[0], &call->out[0], &call->in[1]};
    case OP_CONV2D_BWD_DATA:
    case OP_LINEAR_BWD_DATA: return (struct parts){&call->out[0], &call->in[0], &call->in[1]};
    default: return (struct parts){&call->in[0], &call->in[1], &call->out[0]};
    }
}

static const struct dnn_md *rows_md(const struct shape *shape) {
    int64_t last = shape->dim[shape->rank - 1];
    return dnn_md_new(DTYPE_F32, 2, (int64_t[]){shape_count(shape) / last, last}, NULL);
}

static struct dnn_spec spec_of(const struct op_call *call) {
    struct parts p = parts_of(call);
    bool conv = call->op <= OP_CONV2D_BWD_WEIGHT;
    struct dnn_spec spec = {.kind = conv ? DNN_CONV + (call->op - OP_CONV2D)
                                         : DNN_INNER + (call->op - OP_LINEAR)};
    if (conv) {
        spec.src = dnn_md_any(DTYPE_F32, 4, p.x->shape.dim);
        spec.dst = dnn_md_any(DTYPE_F32, 4, p.y->shape.dim);
        memcpy(spec.stride, call->attrs.conv.stride, sizeof spec.stride);
        memcpy(spec.pad, call->attrs.conv.pad, sizeof spec.pad);
        memcpy(spec.dilation, call->attrs.conv.dilation, sizeof spec.dilation);
    } else {
        spec.src = rows_md(&p.x->shape);
        spec.dst = rows_md(&p.y->shape);
    }
    spec.weights = dnn_md_any(DTYPE_F32, p.w->shape.rank, p.w->shape.dim);
    return spec;
}

static double run_alone(struct cpu_device *cpu, dnnl_primitive_desc_t pd, const int arguments[3],
                        int repeats) {
    const struct device *device = &cpu->base;
    dnnl_primitive_t primitive = NULL;
    dnnl_exec_arg_t exec[4];
    void *data[4];
    double best = 0;
    if (dnnl_primitive_create(&primitive, pd) != dnnl_success) return 0;
    for (int i = 0; i < 4; i++) {
        int argument = i < 3 ? arguments[i] : DNNL_ARG_SCRATCHPAD;
        const struct dnn_md *md = dnn_pd_md(pd, argument);
        data[i] = bytes_new(dnn_md_bytes(md));
        exec[i] = (dnnl_exec_arg_t){argument, dnn_memory_new(cpu->engine, md)};
        dnnl_memory_set_data_handle(exec[i].memory, data[i]);
    }
    for (int i = 0; i < repeats; i++) {
        int64_t start = floor_clock_ns(device);
        dnnl_primitive_execute(primitive, cpu->stream, 4, exec);
        best = least(best, (double)(floor_clock_ns(device) - start));
    }
    for (int i = 0; i < 4; i++) dnnl_memory_destroy(exec[i].memory), free(data[i]);
    dnnl_primitive_destroy(primitive);
    return best;
}

double floor_onednn_ns(struct device *device, const struct op_call *call, int repeats) {
    static const int arguments[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                        {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
                                        {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}};
    bool conv = call->op <= OP_CONV2D_BWD_WEIGHT;
    if (call->op > OP_LINEAR_BWD_WEIGHT || call->attrs.across) return 0;
    if (conv && call->attrs.conv.groups != 1) return 0;
    struct cpu_device *cpu = (struct cpu_device *)device;
    struct dnn_spec spec = spec_of(call);
    dnnl_primitive_desc_t pd = NULL;
    double best = 0;
    if (dnn_describe(cpu->engine, &spec, &pd) == STATUS_OK) {
        best = run_alone(cpu, pd, arguments[call->op - (conv ? OP_CONV2D : OP_LINEAR)], repeats);
        dnnl_primitive_desc_destroy(pd);
    }
    dnn_md_free(spec.src);
    dnn_md_free(spec.weights);
    dnn_md_free(spec.dst);
    return best;
}
