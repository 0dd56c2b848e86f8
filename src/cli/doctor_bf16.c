/* Whether bf16 pays on this machine. */
#include "backend/backend.h"
#include "base/log.h"
#include "cli/doctor.h"
#include "run/narrow_gain.h"

void doctor_look_bf16(const struct check *check, struct finding *out) {
    struct device *device = NULL;
    struct narrow_gain gain;
    char said[256] = "";
    (void)check;
    log_capture(said, sizeof said);
    enum status status = device_open("cpu", 0, 1, &device);
    if (status == STATUS_OK) status = device->backend->takes(device, DTYPE_BF16);
    if (status == STATUS_OK) status = narrow_gain_measure(device, &gain);
    log_capture(NULL, 0);
    device_close(&device);
    if (status != STATUS_OK) {
        doctor_say(out, "no: oneDNN has no bf16 instructions here");
        return;
    }
    bool products = gain.product > 1, convolutions = gain.convolution > 1;
    doctor_say(out, "matrix products %.2f, convolutions %.2f times the speed of f32", gain.product,
               gain.convolution);
    doctor_judge(out, DOCTOR_OK, "measured: --dtype %s",
                 products && convolutions ? "bf16 is the faster one"
                 : products     ? "bf16 is the faster one for transformers, f32 for convolutions"
                 : convolutions ? "bf16 is the faster one for convolutions, f32 for transformers"
                                : "f32 is the faster one");
}
