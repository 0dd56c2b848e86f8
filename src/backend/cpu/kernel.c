/* Kernels as lists of steps. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/log.h"

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

enum status cpu_step(struct cpu_kernel *kernel, const struct dnn_spec *spec, int count,
                     const struct cpu_bind *bind) {
    dnnl_primitive_desc_t pd = NULL;
    TRY(dnn_describe(cpu_device_of(kernel)->engine, spec, &pd));
    if (!kernel->base.name) cpu_name(kernel, "onednn:%s", dnn_pd_name(pd));
    return cpu_step_primitive(kernel, pd, count, bind);
}
