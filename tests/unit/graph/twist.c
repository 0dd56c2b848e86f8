/* The twisted device of kit.h. Everything but layouts is the reference device's. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kit.h"

enum { PAD_BYTES = 32 };

struct twist_layout {
    struct layout base;
    struct twist_layout *next;
};

struct twist_device {
    struct device base;
    struct device *ref;
    struct twist_layout *layouts;
    int made; /* kernels so far: decides what the next one likes */
};

struct twist_kernel {
    struct kernel base;
    struct kernel *inner; /* of ref; NULL for a reorder */
    struct op_call call;
};

static struct device *ref_of(struct device *device) {
    return ((struct twist_device *)device)->ref;
}

static const struct layout *twist_plain(struct device *device, const struct tensor_type *type) {
    return backend_find("ref")->plain(ref_of(device), type);
}

static const struct layout *twisted(struct device *device, const struct tensor_type *type) {
    struct twist_device *self = (struct twist_device *)device;
    for (struct twist_layout *l = self->layouts; l; l = l->next)
        if (tensor_type_equal(&l->base.type, type)) return &l->base;
    struct twist_layout *layout = MEM_NEW(struct twist_layout);
    layout->base = (struct layout){
        .type = *type, .bytes = tensor_type_bytes(type) + PAD_BYTES, .text = "twisted"};
    layout->next = self->layouts;
    self->layouts = layout;
    return &layout->base;
}

static void to_plain(const struct layout *layout, const void *from, void *plain) {
    size_t each = dtype_bytes(layout->type.dtype);
    int64_t count = shape_count(&layout->type.shape);
    if (layout->plain) {
        memcpy(plain, from, layout->bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)plain + (size_t)(count - 1 - i) * each,
               (const char *)from + PAD_BYTES + (size_t)i * each, each);
}

static void from_plain(const struct layout *layout, const void *plain, void *to) {
    size_t each = dtype_bytes(layout->type.dtype);
    int64_t count = shape_count(&layout->type.shape);
    if (layout->plain) {
        memcpy(to, plain, layout->bytes);
        return;
    }
    memset(to, 0, PAD_BYTES);
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)to + PAD_BYTES + (size_t)i * each,
               (const char *)plain + (size_t)(count - 1 - i) * each, each);
}

static enum status twist_open_again(int index, int threads, struct device **out) {
    (void)index, (void)threads;
    *out = twist_open();
    return STATUS_OK;
}

static void twist_close(struct device *device) {
    struct twist_device *self = (struct twist_device *)device;
    while (self->layouts) {
        struct twist_layout *next = self->layouts->next;
        free(self->layouts);
        self->layouts = next;
    }
    device_close(&self->ref);
    free(self);
}

static bool twist_supports(struct device *device, const struct op_call *call) {
    return backend_find("ref")->supports(ref_of(device), call);
}

static const struct layout *liked(struct device *device, const struct tensor_type *type, int turn) {
    bool twist = type->dtype == DTYPE_F32 && type->shape.rank > 0 && turn % 3 != 0;
    return twist ? twisted(device, type) : twist_plain(device, type);
}

static enum status twist_kernel_create(struct device *device, const struct op_call *call,
                                       const struct layout *const in[], struct kernel **out) {
    struct twist_kernel *kernel = MEM_NEW(struct twist_kernel);
    kernel->call = *call;
    kernel->base = (struct kernel){.device = device, .name = "twist"};
    *out = &kernel->base;
    if (call->op == OP_REORDER) {
        kernel->base.in[0] = in[0];
        kernel->base.out[0] = call->attrs.reorder.to;
        return STATUS_OK;
    }
    const struct layout *none[OP_MAX_IN] = {0};
    int turn = ++((struct twist_device *)device)->made;
    bool fixed = op_def(call->op)->flags & OP_SIDE_EFFECT; /* works on its inputs themselves */
    for (int i = 0; i < call->in_count; i++)
        kernel->base.in[i] =
            fixed ? twist_plain(device, &call->in[i]) : liked(device, &call->in[i], turn + i);
    for (int i = 0; i < call->out_count; i++)
        kernel->base.out[i] = liked(device, &call->out[i], turn + 2 * i + 1);
    return kernel_create(ref_of(device), call, none, &kernel->inner);
}

static void twist_kernel_free(struct kernel *kernel) {
    kernel_free(&((struct twist_kernel *)kernel)->inner);
    free(kernel);
}

static void reorder(const struct kernel *kernel, const void *from, void *to) {
    void *plain = mem_new(tensor_type_bytes(&kernel->in[0]->type) + 1);
    to_plain(kernel->in[0], from, plain);
    from_plain(kernel->out[0], plain, to);
    free(plain);
}

static enum status twist_kernel_run(struct kernel *kernel, void *const in[], void *const out[],
                                    void *scratch, struct stream *stream) {
    struct twist_kernel *self = (struct twist_kernel *)kernel;
    (void)scratch, (void)stream;
    if (!self->inner) {
        reorder(kernel, in[0], out[0]);
        return STATUS_OK;
    }
    void *a[OP_MAX_IN], *b[OP_MAX_OUT], *own = mem_new(self->inner->scratch_bytes + 1);
    for (int i = 0; i < self->call.in_count; i++) {
        bool direct = op_def(self->call.op)->flags & OP_SIDE_EFFECT;
        a[i] = direct ? in[i] : mem_new(kernel->in[i]->bytes + 1);
        if (!direct) to_plain(kernel->in[i], in[i], a[i]);
    }
    for (int i = 0; i < self->call.out_count; i++) b[i] = mem_new(kernel->out[i]->bytes + 1);
    enum status status = kernel_run(self->inner, a, b, own, NULL);
    for (int i = 0; i < self->call.out_count; i++) {
        from_plain(kernel->out[i], b[i], out[i]);
        free(b[i]);
    }
    for (int i = 0; i < self->call.in_count; i++)
        if (a[i] != in[i]) free(a[i]);
    free(own);
    return status;
}

struct device *twist_open(void) {
    static struct backend table;
    table = *backend_find("ref");
    table.name = "twist";
    table.open = twist_open_again;
    table.close = twist_close;
    table.supports = twist_supports;
    table.plain = twist_plain;
    table.kernel_create = twist_kernel_create;
    table.kernel_free = twist_kernel_free;
    table.kernel_run = twist_kernel_run;
    struct twist_device *device = MEM_NEW(struct twist_device);
    device->base = (struct device){.backend = &table, .threads = 1};
    cr_assert_eq(device_open("ref", 0, 1, &device->ref), STATUS_OK);
    return &device->base;
}
