/* Rows of the device `late` that are those of `ref`, or nearly. */
#include "late_rows.h"

#include <stdio.h>

void late_describe(struct device *device, char *text, size_t bytes) {
    (void)device;
    snprintf(text, bytes, "reference kernels, as late as they may run");
}

void late_isa(int index, char *text, size_t bytes) {
    (void)index;
    snprintf(text, bytes, "any");
}

/* f16 too: that is how loss scaling is tested without a GPU. */
enum status late_takes(struct device *device, enum dtype dtype) {
    struct device *ref = late_ref(device);
    if (dtype == DTYPE_F16) return STATUS_OK;
    return ref->backend->takes(ref, dtype);
}

bool late_supports(struct device *device, const struct op_call *call) {
    struct device *ref = late_ref(device);
    return ref->backend->supports(ref, call);
}

/* Who asks may have a copy of the device's begin alone. */
double late_cost_ns(struct device *device, const struct op_call *call) {
    return backend_find("ref")->cost_ns(device, call);
}

const struct layout *late_plain(struct device *device, const struct tensor_type *type) {
    struct device *ref = late_ref(device);
    return ref->backend->plain(ref, type);
}
