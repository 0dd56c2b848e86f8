/* Kernels as lists of steps. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/log.h"
#include "op/precision.h"

struct cpu_device *cpu_device_of(const struct cpu_kernel *kernel) {
    return (struct cpu_device *)kernel->base.device;
}

void cpu_name(struct cpu_kernel *kernel, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(kernel->name, sizeof kernel->name, format, arguments);
    va_end(arguments);
    kernel->base.name = kernel->name;
}

static struct cpu_step *step_new(struct cpu_kernel *kernel) {
    CHECK(kernel->step_count < CPU_MAX_STEPS, "a kernel of more than %d steps", CPU_MAX_STEPS);
    return &kernel->step[kernel->step_count++];
}

void cpu_step_loop(struct cpu_kernel *kernel, cpu_loop *loop) {
    step_new(kernel)->loop = loop;
}

size_t cpu_padded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

size_t cpu_scratch(struct cpu_kernel *kernel, size_t bytes) {
    size_t at = kernel->own_bytes;
    kernel->own_bytes += cpu_padded(bytes);
    if (kernel->base.scratch_bytes < kernel->own_bytes)
        kernel->base.scratch_bytes = kernel->own_bytes;
    return at;
}

static void bind_argument(struct cpu_kernel *kernel, struct cpu_step *step,
                          const_dnnl_primitive_desc_t pd, const struct cpu_bind *bind) {
    CHECK(step->count < CPU_MAX_ARGUMENTS, "a primitive of more than %d arguments",
          CPU_MAX_ARGUMENTS);
    const struct dnn_md *md = dnn_pd_md(pd, bind->argument);
    step->exec[step->count].arg = bind->argument;
    step->exec[step->count].memory = dnn_memory_new(cpu_device_of(kernel)->engine, md);
    step->bind[step->count++] = *bind;
}

/* The primitives of a kernel run one after another, so they share one scratchpad behind our own
 * scratch. */
static void bind_scratchpad(struct cpu_kernel *kernel, struct cpu_step *step,
                            const_dnnl_primitive_desc_t pd) {
    size_t bytes = dnn_md_bytes(dnn_pd_md(pd, DNNL_ARG_SCRATCHPAD));
    if (bytes == 0) return;
    struct cpu_bind bind = {DNNL_ARG_SCRATCHPAD, CPU_SCRATCH, 0, kernel->own_bytes};
    bind_argument(kernel, step, pd, &bind);
    if (kernel->base.scratch_bytes < kernel->own_bytes + bytes)
        kernel->base.scratch_bytes = kernel->own_bytes + bytes;
}

enum status cpu_step_primitive(struct cpu_kernel *kernel, dnnl_primitive_desc_t pd, int count,
                               const struct cpu_bind *bind) {
    dnnl_primitive_t primitive = NULL;
    bool dry = kernel->base.device->dry;
    dnnl_status_t status = dry ? dnnl_success : dnnl_primitive_create(&primitive, pd);
    if (status == dnnl_success) {
        struct cpu_step *step = step_new(kernel);
        step->primitive = primitive;
        for (int i = 0; i < count; i++) bind_argument(kernel, step, pd, &bind[i]);
        bind_scratchpad(kernel, step, pd);
    }
    dnnl_primitive_desc_destroy(pd);
    return status == dnnl_success ? STATUS_OK : STATUS_NO;
}

/* --- memory that a primitive takes by itself --- */

/* oneDNN's product of bf16, which it calls gemm:jit, copies blocks of both operands into memory
 * from malloc, whatever scratchpad it has. The blocks are its own, of versions 2 and 3; an
 * operation of [columns, depth] x [depth, rows], in its order. */
enum {
    BLOCK_ROWS = 384,
    BLOCK_COLUMNS = 9984,
    BLOCK_DEPTH = 768,
    WHOLE_DEPTH = 384,
    LEAST_DEPTH = 128,
    BESIDE_BYTES = 18 << 10
};

static int64_t whole(int64_t count, int64_t most, int64_t unit) {
    return ((count < most ? count : most) + unit - 1) / unit * unit;
}

/* One of `threads` that share a product: the rows where there are many, else the columns. */
static size_t block_bytes(int64_t columns, int64_t rows, int64_t depth, int threads) {
    if (depth > WHOLE_DEPTH) depth = depth < 2 * BLOCK_DEPTH ? (depth + 1) / 2 : BLOCK_DEPTH;
    if (depth < LEAST_DEPTH) depth = LEAST_DEPTH;
    if (rows > BLOCK_ROWS)
        rows = (rows + threads - 1) / threads;
    else
        columns = (columns + threads - 1) / threads;
    int64_t elements = depth * (whole(columns, BLOCK_COLUMNS, 48) + whole(rows, BLOCK_ROWS, 8));
    return (size_t)elements * dtype_bytes(DTYPE_BF16) + BESIDE_BYTES;
}

/* A product of a batch is made by one thread. */
static size_t packed_bytes(const struct dnn_spec *spec, int threads) {
    struct dnn_blocks src, dst;
    if (!dnn_md_blocks(spec->src, &src) || !dnn_md_blocks(spec->dst, &dst)) return 0;
    int64_t m = dst.dim[dst.rank - 2], n = dst.dim[dst.rank - 1], k = src.dim[src.rank - 1];
    if (spec->kind == DNN_INNER) return block_bytes(n, m, k, threads);
    if (spec->kind == DNN_INNER_DATA) return block_bytes(k, m, n, threads);
    if (spec->kind == DNN_INNER_WEIGHTS) {
        size_t one = block_bytes(n, k, m, threads), other = block_bytes(k, n, m, threads);
        return one > other ? one : other;
    }
    return spec->kind == DNN_MATMUL ? block_bytes(n, m, k, dst.rank > 2 ? 1 : threads) : 0;
}

void cpu_note_packed(struct cpu_kernel *kernel, const struct dnn_spec *spec,
                     const_dnnl_primitive_desc_t pd) {
    int threads = kernel->base.device->threads;
    if (!op_call_is_narrow(&kernel->call) || !strstr(dnn_pd_name(pd), "gemm:jit")) return;
    size_t bytes = (size_t)threads * packed_bytes(spec, threads);
    if (kernel->base.packed_bytes < bytes) kernel->base.packed_bytes = bytes;
}

enum status cpu_step(struct cpu_kernel *kernel, const struct dnn_spec *spec, int count,
                     const struct cpu_bind *bind) {
    dnnl_primitive_desc_t pd = NULL;
    TRY(dnn_describe(cpu_device_of(kernel)->engine, spec, &pd));
    if (!kernel->base.name) cpu_name(kernel, "onednn:%s", dnn_pd_name(pd));
    cpu_note_packed(kernel, spec, pd);
    return cpu_step_primitive(kernel, pd, count, bind);
}
