/* What `mfu` is a part of. */
#include <criterion/criterion.h>
#include <math.h>

#include "run/peak.h"

static double peak_of(const char *backend, enum dtype dtype, bool dry) {
    struct device *device;
    cr_assert_eq(device_open(backend, 0, 2, &device), STATUS_OK);
    device->dry = dry;
    double flops =
        device->backend->takes(device, dtype) == STATUS_OK ? peak_flops(device, dtype) : INFINITY;
    device_close(&device);
    return flops;
}

Test(run_peak, of_a_device_is_measured) {
#ifdef __SANITIZE_THREAD__
    cr_skip("too slow under the thread sanitizer");
#endif
    if (!backend_find("cpu")) cr_skip("this build has no oneDNN");
    double flops = peak_of("cpu", DTYPE_F32, false);
    cr_expect(flops > 1e6 && flops < 1e15, "%g", flops);
    double narrow = peak_of("cpu", DTYPE_BF16, false); /* infinite: it has none */
    cr_expect(narrow > 1e6, "%g", narrow);
}

Test(run_peak, is_unknown_where_products_are_slow_or_only_described) {
    cr_expect(isnan(peak_of("ref", DTYPE_F32, false)));
    if (!backend_find("cpu")) cr_skip("this build has no oneDNN");
    cr_expect(isnan(peak_of("cpu", DTYPE_F32, true)));
}
