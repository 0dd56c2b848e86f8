/* bf16 in the cpu backend.
 *
 * Products and convolutions are oneDNN's, made for bf16. Loops of our own compute in f32 on runs of
 * elements that are widened as they are read and rounded as they are written (cpu_read, cpu_room,
 * cpu_write), while they lie in the first-level cache. Every other operation runs as it does in
 * f32, between copies of its narrow tensors in scratch memory: cpu_widened makes such a kernel
 * around the f32 one. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/log.h"
#include "base/mem.h"
#include "op/precision.h"

const float *cpu_read(enum dtype dtype, const void *data, int64_t begin, int64_t count,
                      float *room) {
    if (dtype != DTYPE_BF16) return (const float *)data + begin;
    bf16_widen((const uint16_t *)data + begin, room, count);
    return room;
}

float *cpu_room(enum dtype dtype, void *data, int64_t begin, float *room) {
    return dtype == DTYPE_BF16 ? room : (float *)data + begin;
}

void cpu_write(enum dtype dtype, const float *room, void *data, int64_t begin, int64_t count) {
    if (dtype == DTYPE_BF16) bf16_narrow(room, (uint16_t *)data + begin, count);
}

const struct layout *cpu_layout_as(struct cpu_device *device, const struct layout *layout,
                                   enum dtype dtype) {
    struct tensor_type type = {dtype, layout->type.shape};
    struct cpu_image image;
    if (layout->plain) return cpu_layout(device, &type, NULL);
    if (type.shape.rank != 4 || !cpu_image(layout, &image)) return NULL;
    const struct layout *twin = cpu_layout_like(device, &type, &image);
    return strcmp(twin->text, layout->text) == 0 ? twin : NULL;
}

/* --- kernels around f32 kernels --- */

static bool is_narrow(const struct layout *layout) {
    return layout->type.dtype == DTYPE_BF16;
}

static int64_t elements_of(const struct layout *layout) {
    return (int64_t)(layout->bytes / dtype_bytes(layout->type.dtype));
}

/* The operand's narrow layout, with room for it as f32. */
static bool put_operand(struct cpu_kernel *kernel, const struct tensor_type *type,
                        const struct layout *wide, const struct layout **out) {
    *out = wide;
    if (type->dtype != DTYPE_BF16) return true;
    *out = cpu_layout_as(cpu_device_of(kernel), wide, DTYPE_BF16);
    if (*out) cpu_scratch(kernel, wide->bytes);
    return *out != NULL;
}

static void run_widened(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        void *scratch) {
    const struct op_call *call = &kernel->call;
    void *from[OP_MAX_IN], *to[OP_MAX_OUT];
    char *room = scratch;
    for (int i = 0; i < call->in_count; i++) {
        from[i] = in[i];
        if (!is_narrow(kernel->base.in[i])) continue;
        const uint16_t *narrow = in[i];
        float *wide = from[i] = room;
        CPU_PIECES(elements_of(kernel->base.in[i]), begin, end)
        bf16_widen(narrow + begin, wide + begin, end - begin);
        room += cpu_padded(kernel->inner->base.in[i]->bytes);
    }
    for (int i = 0; i < call->out_count; i++) {
        to[i] = out[i];
        if (!is_narrow(kernel->base.out[i])) continue;
        to[i] = room;
        room += cpu_padded(kernel->inner->base.out[i]->bytes);
    }
    cpu_run_inner(kernel, from, to, room);
    for (int i = 0; i < call->out_count; i++) {
        if (!is_narrow(kernel->base.out[i])) continue;
        const float *wide = to[i];
        uint16_t *narrow = out[i];
        CPU_PIECES(elements_of(kernel->base.out[i]), begin, end)
        bf16_narrow(wide + begin, narrow + begin, end - begin);
    }
}

enum status cpu_widened(struct cpu_kernel *kernel, const struct layout *const in[]) {
    struct cpu_device *device = cpu_device_of(kernel);
    const struct op_call *call = &kernel->call;
    struct op_call wide = op_call_wide(call);
    const struct layout *given[OP_MAX_IN] = {0};
    struct kernel *inner = NULL;
    for (int i = 0; i < call->in_count; i++) {
        given[i] = in[i];
        if (in[i] && is_narrow(in[i])) given[i] = cpu_layout_as(device, in[i], DTYPE_F32);
    }
    TRY(kernel_create(kernel->base.device, &wide, given, &inner));
    kernel->inner = (struct cpu_kernel *)inner;
    bool fits = true;
    for (int i = 0; i < call->in_count && fits; i++)
        fits = put_operand(kernel, &call->in[i], inner->in[i], &kernel->base.in[i]);
    for (int i = 0; i < call->out_count && fits; i++)
        fits = put_operand(kernel, &call->out[i], inner->out[i], &kernel->base.out[i]);
    CHECK(fits, "%s: no bf16 tensor is laid out as its f32 kernel wants", op_def(call->op)->name);
    kernel->base.scratch_bytes += inner->scratch_bytes;
    cpu_step_loop(kernel, run_widened);
    cpu_name(kernel, "widened %s", inner->name);
    return STATUS_OK;
}
