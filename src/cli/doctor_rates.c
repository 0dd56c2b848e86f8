/* How fast a device with memory of its own copies and multiplies. */
#include <math.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/doctor.h"
#include "run/peak.h"

enum { COPY_BYTES = 256 << 20, TRIES = 10 };

/* Bytes read and written a second, of copies inside the device. */
static enum status copy_rate(struct device *device, double *out) {
    const struct backend *backend = device->backend;
    void *memory;
    int64_t best = INT64_MAX;
    TRY(backend->memory_new(device, 2 * (size_t)COPY_BYTES, "copies", &memory));
    enum status status = STATUS_OK;
    for (int i = 0; i < TRIES && status == STATUS_OK; i++) {
        int64_t begin = clock_ns();
        status = backend->array_copy(device, (char *)memory + COPY_BYTES, memory, COPY_BYTES, NULL);
        if (status == STATUS_OK) status = backend->stream_wait(device, NULL);
        if (clock_ns() - begin < best) best = clock_ns() - begin;
    }
    backend->memory_free(device, memory, 2 * (size_t)COPY_BYTES);
    *out = 2 * (double)COPY_BYTES / ((double)best * 1e-9);
    return status;
}

void doctor_look_rates(const struct check *check, struct finding *out) {
    SCOPED(device_close) struct device *device = NULL;
    char said[512] = "";
    double copies = 0, wide = NAN, narrow = NAN;
    log_capture(said, sizeof said);
    enum status status = device_open(check->data, 0, 1, &device);
    if (status == STATUS_OK) status = copy_rate(device, &copies);
    if (status == STATUS_OK) wide = peak_flops(device, DTYPE_F32);
    if (status == STATUS_OK) narrow = peak_flops(device, DTYPE_BF16);
    log_capture(NULL, 0);
    if (status != STATUS_OK) {
        doctor_say(out, "not on this machine");
        return;
    }
    doctor_say(out, "copies %.2f TB/s, products %.0f TFLOP/s in f32, %.0f in bf16", copies * 1e-12,
               wide * 1e-12, narrow * 1e-12);
}
