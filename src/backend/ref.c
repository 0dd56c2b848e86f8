/* The reference backend: plain layouts, the reference kernels of src/op, and the memory and streams
 * of host.c, done when the call returns. It is the definition of correct, and the template for a
 * new backend: every slot is filled in the simplest way that keeps its contract. */
#include "backend/blend.h"
#include "backend/host.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "op/precision.h"

struct ref_layout {
    struct layout base;
    struct ref_layout *next;
};

struct ref_device {
    struct device base;
    struct ref_layout *layouts; /* interned; owned */
};

struct ref_kernel {
    struct kernel base;
    struct op_call call;
    struct op_call wide; /* what runs: narrow tensors are f32 in scratch memory */
};

extern const struct backend backend_ref;

/* --- device --- */

static enum status ref_open(int index, int threads, struct device **out) {
    if (index != 0)
        return fail(STATUS_USAGE, "device ref:%d does not exist\nthere is ref:0 only", index);
    struct ref_device *device = MEM_NEW(struct ref_device);
    device->base = (struct device){.backend = &backend_ref, .index = index, .threads = threads};
    *out = &device->base;
    return STATUS_OK;
}

static void ref_close(struct device *device) {
    struct ref_device *self = (struct ref_device *)device;
    while (self->layouts) {
        struct ref_layout *next = self->layouts->next;
        free(self->layouts);
        self->layouts = next;
    }
    free(self);
}

static void ref_describe(struct device *device, char *text, size_t bytes) {
    (void)device;
    snprintf(text, bytes, "reference kernels in plain C, one thread");
}

static void ref_isa(int index, char *text, size_t bytes) {
    (void)index;
    snprintf(text, bytes, "any"); /* what the compiler made of plain C */
}

static enum status ref_takes(struct device *device, enum dtype dtype) {
    (void)device;
    if (dtype == DTYPE_F32 || dtype == DTYPE_BF16) return STATUS_OK;
    return fail(STATUS_USAGE, "--dtype %s: device ref has f32 and bf16", dtype_name(dtype));
}

static bool ref_supports(struct device *device, const struct op_call *call) {
    (void)device;
    return op_def(call->op)->run != NULL;
}

/* About what scalar loops do: one flop and four bytes in a nanosecond. */
static double ref_cost_ns(struct device *device, const struct op_call *call) {
    (void)device;
    struct op_cost cost = op_cost(call);
    double by_flops = cost.flops, by_bytes = cost.bytes / 4;
    return by_flops > by_bytes ? by_flops : by_bytes;
}

/* --- layouts and kernels --- */

static const struct layout *ref_plain(struct device *device, const struct tensor_type *type) {
    struct ref_device *self = (struct ref_device *)device;
    for (struct ref_layout *l = self->layouts; l; l = l->next)
        if (tensor_type_equal(&l->base.type, type)) return &l->base;
    struct ref_layout *layout = MEM_NEW(struct ref_layout);
    layout->base = (struct layout){
        .type = *type, .bytes = tensor_type_bytes(type), .plain = true, .text = "plain"};
    layout->next = self->layouts;
    self->layouts = layout;
    return &layout->base;
}

static size_t padded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Scratch for a narrow tensor as f32; nothing for others. */
static size_t wide_bytes(const struct tensor_type *type) {
    return dtype_is_narrow(type->dtype) ? padded((size_t)shape_count(&type->shape) * sizeof(float))
                                        : 0;
}

static void widen(const struct tensor_type *type, const uint16_t *from, float *to) {
    int64_t count = shape_count(&type->shape);
    if (type->dtype == DTYPE_BF16)
        bf16_widen(from, to, count);
    else
        for (int64_t i = 0; i < count; i++) to[i] = f16_to_f32(from[i]);
}

static void narrow(const struct tensor_type *type, const float *from, uint16_t *to) {
    int64_t count = shape_count(&type->shape);
    if (type->dtype == DTYPE_BF16)
        bf16_narrow(from, to, count);
    else
        for (int64_t i = 0; i < count; i++) to[i] = f16_from_f32(from[i]);
}

/* Whatever layouts the inputs have, plain ones are wanted and given; here there are no others. */
static enum status ref_kernel_create(struct device *device, const struct op_call *call,
                                     const struct layout *const in[], struct kernel **out) {
    (void)in;
    const struct op_def *def = op_def(call->op);
    struct ref_kernel *kernel = MEM_NEW(struct ref_kernel);
    kernel->call = *call;
    kernel->wide = op_call_wide(call);
    kernel->base = (struct kernel){.device = device, .name = "ref"};
    if (def->scratch_bytes) kernel->base.scratch_bytes = padded(def->scratch_bytes(&kernel->wide));
    for (int i = 0; i < call->in_count; i++) kernel->base.scratch_bytes += wide_bytes(&call->in[i]);
    for (int i = 0; i < call->out_count; i++)
        kernel->base.scratch_bytes += wide_bytes(&call->out[i]);
    for (int i = 0; i < call->in_count; i++) kernel->base.in[i] = ref_plain(device, &call->in[i]);
    for (int i = 0; i < call->out_count; i++)
        kernel->base.out[i] = ref_plain(device, &call->out[i]);
    *out = &kernel->base;
    return STATUS_OK;
}

static void ref_kernel_free(struct kernel *kernel) {
    free(kernel);
}

/* Where a tensor is while the operation runs: itself, or the next piece of `*scratch`. */
static void *place(const struct tensor_type *type, void *data, char **scratch) {
    size_t bytes = wide_bytes(type);
    void *room = *scratch;
    *scratch += bytes;
    return bytes ? room : data;
}

/* Of narrow tensors the operation is computed in f32 and rounded once, when its outputs are
 * written. */
static enum status ref_kernel_run(struct kernel *kernel, void *const in[], void *const out[],
                                  void *scratch, struct stream *stream) {
    (void)stream;
    const struct op_call *call = &((struct ref_kernel *)kernel)->call,
                         *wide = &((struct ref_kernel *)kernel)->wide;
    void *from[OP_MAX_IN], *to[OP_MAX_OUT];
    char *room = scratch;
    for (int i = 0; i < call->in_count; i++) {
        from[i] = place(&call->in[i], in[i], &room);
        if (from[i] != in[i]) widen(&call->in[i], in[i], from[i]);
    }
    for (int i = 0; i < call->out_count; i++) to[i] = place(&call->out[i], out[i], &room);
    op_def(call->op)->run(wide, from, to, room);
    for (int i = 0; i < call->out_count; i++)
        if (to[i] != out[i]) narrow(&call->out[i], to[i], out[i]);
    return STATUS_OK;
}

const struct backend backend_ref = {
    .name = "ref",
    .help = "plain C, slow, the definition of correct",
    .open = ref_open,
    .close = ref_close,
    .describe = ref_describe,
    .isa = ref_isa,
    .takes = ref_takes,
    .supports = ref_supports,
    .cost_ns = ref_cost_ns,
    .plain = ref_plain,
    .kernel_create = ref_kernel_create,
    .kernel_free = ref_kernel_free,
    .kernel_run = ref_kernel_run,
    .memory_new = host_memory_new,
    .memory_free = host_memory_free,
    .pinned_new = host_memory_new,
    .pinned_free = host_memory_free,
    .pin = host_pin,
    .unpin = host_unpin,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .array_copy = host_array_copy,
    .array_fill = host_array_fill,
    .blend = &backend_host_blend,
    .array_add = host_array_add,
    .array_squares = host_array_squares,
    .array_sum = host_array_sum,
    .array_decide = host_array_decide,
    .array_check = host_array_check,
    .array_update = host_array_update,
    .stream_new = host_stream_new,
    .stream_free = host_stream_free,
    .stream_wait = host_stream_wait,
    .event_new = host_event_new,
    .event_free = host_event_free,
    .event_record = host_event_record,
    .stream_wait_event = host_stream_wait_event,
    .event_wait = host_event_wait,
    .event_done = host_event_done,
    .event_ns = host_event_ns,
};
