/* Copies between plain host memory and whatever layout a device keeps a tensor in. They go through
 * the backend's own REORDER kernel, so no one else needs to know how a layout is arranged. */
#include "backend/copy.h"

#include "base/log.h"

enum status device_copy_in(struct device *device, void *to, const void *host, size_t bytes) {
    TRY(device->backend->copy_in(device, to, host, bytes, NULL));
    return device->backend->stream_wait(device, NULL);
}

enum status device_copy_out(struct device *device, void *host, const void *from, size_t bytes) {
    TRY(device->backend->copy_out(device, host, from, bytes, NULL));
    return device->backend->stream_wait(device, NULL);
}

static enum status create_reorder(struct device *device, const struct layout *from,
                                  const struct layout *to, struct kernel **out) {
    struct op_call call = {.op = OP_REORDER, .in_count = 1, .out_count = 1};
    call.attrs.reorder.to = to;
    call.in[0] = from->type;
    call.out[0] = to->type;
    return kernel_create(device, &call, &from, out);
}

/* Runs a REORDER of device memory, with scratch memory of its own. */
static enum status reorder(struct device *device, const struct layout *from,
                           const struct layout *to, const void *source, void *target) {
    const struct backend *backend = device->backend;
    struct kernel *kernel = NULL;
    void *scratch = NULL;
    TRY(create_reorder(device, from, to, &kernel));
    size_t bytes = kernel->scratch_bytes;
    enum status status = STATUS_OK;
    if (bytes) TRY_GOTO(backend->memory_new(device, bytes, "a copy's scratch", &scratch), done);
    CHECK(kernel->in[0] == from && kernel->out[0] == to, "reorder between other layouts");
    TRY_GOTO(kernel_run(kernel, (void *[]){(void *)source}, (void *[]){target}, scratch, NULL),
             done);
    TRY_GOTO(backend->stream_wait(device, NULL), done);
done:
    if (scratch) backend->memory_free(device, scratch, bytes);
    kernel_free(&kernel);
    return status;
}

enum status layout_to_plain(struct device *device, const struct layout *layout, const void *from,
                            void *host) {
    const struct backend *backend = device->backend;
    const struct layout *plain = backend->plain(device, &layout->type);
    void *between = NULL;
    if (layout->plain) return device_copy_out(device, host, from, layout->bytes);
    if (!backend->apart) return reorder(device, layout, plain, from, host);
    TRY(backend->memory_new(device, plain->bytes, "a plain copy", &between));
    enum status status = reorder(device, layout, plain, from, between);
    if (status == STATUS_OK) status = device_copy_out(device, host, between, plain->bytes);
    backend->memory_free(device, between, plain->bytes);
    return status;
}

enum status layout_from_plain(struct device *device, const struct layout *layout, const void *host,
                              void *to) {
    const struct backend *backend = device->backend;
    const struct layout *plain = backend->plain(device, &layout->type);
    void *between = NULL;
    if (layout->plain) return device_copy_in(device, to, host, layout->bytes);
    if (!backend->apart) return reorder(device, plain, layout, host, to);
    TRY(backend->memory_new(device, plain->bytes, "a plain copy", &between));
    enum status status = device_copy_in(device, between, host, plain->bytes);
    if (status == STATUS_OK) status = reorder(device, plain, layout, between, to);
    backend->memory_free(device, between, plain->bytes);
    return status;
}

enum status layout_warm_up(struct device *device, const struct layout *layout) {
    const struct layout *plain = device->backend->plain(device, &layout->type);
    struct kernel *kernel = NULL;
    if (layout->plain) return STATUS_OK;
    TRY(create_reorder(device, plain, layout, &kernel));
    kernel_free(&kernel);
    TRY(create_reorder(device, layout, plain, &kernel));
    kernel_free(&kernel);
    return STATUS_OK;
}
