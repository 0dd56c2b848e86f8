/* Winograd's method: where it is taken, how much it errs, and that neither team nor batch shows. */
#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_calls.h"

/* A convolution's forward call (0), and those of the gradients of its input (1) and weights (2). */
static struct op_call direction(struct op_call call, int which) {
    if (which == 0) return call;
    call.op = which == 1 ? OP_CONV2D_BWD_DATA : OP_CONV2D_BWD_WEIGHT;
    call.attrs.like = call.in[which - 1].shape;
    if (which == 2) call.in[1] = call.in[0];
    return call;
}

static int64_t result_count(const struct op_call *call) {
    return shape_count(call->op == OP_CONV2D ? &call->in[0].shape : &call->attrs.like);
}

/* The error against the reference kernel, whose sums are in double: rms over rms. */
static double error_of(struct device *device, enum conv_method method, const struct op_call *call,
                       const struct result *exact, char name[CPU_NAME_BYTES]) {
    device->conv = method;
    struct result got = run(device, *call);
    double off = 0, squares = 0;
    for (int64_t i = 0; i < result_count(call); i++) {
        double d = (double)got.out[0][i] - exact->out[0][i];
        off += d * d, squares += (double)exact->out[0][i] * exact->out[0][i];
    }
    memcpy(name, got.name, CPU_NAME_BYTES);
    result_free(&got);
    return sqrt(off / squares);
}

/* Builds with sanitizers do not fuse products and sums: each rounds once more. */
#ifdef STRETTO_SANITIZE
#define WINOGRAD_ERROR 4.5
#else
#define WINOGRAD_ERROR 4.0
#endif

/* In all three directions: edges that fill no tile, one strip of tiles and several, the last one
 * shorter, enough of them for groups, an odd number of channel blocks, more threads than those; the
 * shapes of networks. */
Test(backend_winograd, errs_at_most_four_times_as_much_as_direct) {
    struct op_call shapes[] = {convolution(4, 64, 11, 1), convolution(7, 48, 17, 1),
                               convolution(9, 32, 4, 1),  convolution(1, 128, 16, 1),
                               convolution(2, 256, 8, 1), convolution(8, 256, 4, 1),
                               convolution(8, 128, 4, 1), convolution(5, 32, 57, 1)};
    for (int i = 0; i < 24; i++) {
        struct device *ref = NULL, *device = open_cpu(i / 3 == 1 ? 5 : 2);
        struct op_call call = direction(shapes[i / 3], i % 3);
        char fast[CPU_NAME_BYTES], slow[CPU_NAME_BYTES];
        cr_assert(device_open("ref", 0, 1, &ref) == STATUS_OK);
        struct result exact = run(ref, call);
        double winograd = error_of(device, CONV_AUTO, &call, &exact, fast);
        double direct = error_of(device, CONV_DIRECT, &call, &exact, slow);
        cr_expect(strstr(fast, "wino") && !strstr(slow, "wino"), "%s, %s", fast, slow);
        cr_expect(direct > 0 && direct < 3e-6, "shape %d, %s: off by %g", i / 3, slow, direct);
        cr_expect_leq(winograd, WINOGRAD_ERROR * direct, "shape %d, %s: off by %g, direct by %g",
                      i / 3, op_def(call.op)->name, winograd, direct);
        result_free(&exact);
        device_close(&device);
        device_close(&ref);
    }
}

Test(backend_winograd, only_where_it_pays) {
    struct device *device = open_cpu(1);
    struct op_call calls[] = {convolution(4, 64, 12, 2), convolution(4, 16, 12, 1),
                              convolution(4, 64, 5, 1), convolution(1, 64, 8, 1)};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct result result = run(device, calls[i]);
        cr_expect(!strstr(result.name, "wino"), "call %zu: %s", i, result.name);
        result_free(&result);
    }
    device->conv = CONV_WINOGRAD; /* where it can be taken: not with a stride */
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct result result = run(device, calls[i]);
        cr_expect(!strstr(result.name, "wino") == (i == 0), "call %zu: %s", i, result.name);
        result_free(&result);
    }
    device_close(&device);
}

Test(backend_winograd, not_without_fused_operations) {
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1); /* of this process, before oneDNN looks */
    struct device *device = open_cpu(1);
    struct result result = run(device, convolution(4, 64, 12, 1));
    cr_expect(!strstr(result.name, "wino"), "%s", result.name);
    result_free(&result);
    device_close(&device);
}

/* The team changes no bit, and neither does the number of tiles: what is made of an image is the
 * same in a small micro-batch and in a large one. */
Test(backend_winograd, is_the_same_for_any_team_and_batch) {
    struct op_call large[] = {convolution(20, 32, 10, 1), convolution(20, 128, 10, 1),
                              convolution(5, 32, 57, 1)},
                   less[] = {convolution(3, 32, 10, 1), convolution(3, 128, 10, 1),
                             convolution(2, 32, 57, 1)};
    for (int i = 0; i < 9; i++) {
        struct op_call call = direction(large[i / 3], i % 3), small = direction(less[i / 3], i % 3);
        struct device *one = open_cpu(1);
        struct result a = run(one, call), few = run(one, small);
        device_close(&one);
        struct device *five = open_cpu(5);
        struct result b = run(five, call);
        device_close(&five);
        cr_expect(strstr(a.name, "wino") && strstr(few.name, "wino"), "%s, %s", a.name, few.name);
        size_t bytes = (size_t)result_count(&call) * sizeof(float),
               part = (size_t)result_count(&small) * sizeof(float);
        cr_expect(memcmp(a.out[0], b.out[0], bytes) == 0, "%s: five threads give other bits",
                  op_def(call.op)->name);
        if (i % 3 < 2)
            cr_expect(memcmp(a.out[0], few.out[0], part) == 0, "a smaller batch gives other bits");
        result_free(&a);
        result_free(&few);
        result_free(&b);
    }
}

/* Scratch memory is for the device's team; a thread that did not open the device has another. */
Test(backend_winograd, runs_on_the_team_of_its_device) {
    struct device *device = open_cpu(1);
    for (int i = 0; i < 3; i++) {
        struct op_call call = direction(convolution(20, 64, 4, 1), i);
        omp_set_num_threads(1);
        struct result a = run(device, call);
        omp_set_num_threads(4);
        for (int j = 0; j < 20; j++) {
            struct result b = run(device, call);
            cr_expect(memcmp(a.out[0], b.out[0], (size_t)result_count(&call) * sizeof(float)) == 0,
                      "%s, run %d", op_def(call.op)->name, j);
            result_free(&b);
        }
        result_free(&a);
    }
    device_close(&device);
}

/* Transformed weights, four times as large as the weights, are never all in memory: making and
 * reading them would take longer than a small micro-batch. */
Test(backend_winograd, has_little_scratch) {
    struct device *device = open_cpu(1);
    const struct layout *none[OP_MAX_IN] = {0};
    for (int i = 0; i < 3; i++) {
        char why[256];
        struct op_call call = direction(convolution(16, 512, 4, 1), i);
        struct kernel *kernel = NULL;
        cr_assert(op_infer(&call, why, sizeof why) == STATUS_OK, "%s", why);
        cr_assert(kernel_create(device, &call, none, &kernel) == STATUS_OK);
        cr_expect(strstr(kernel->name, "wino"), "%s", kernel->name);
        cr_expect_lt(kernel->scratch_bytes, (size_t)512 * 512 * 9 * sizeof(float), "%s: %zu bytes",
                     op_def(call.op)->name, kernel->scratch_bytes);
        kernel_free(&kernel);
    }
    device_close(&device);
}
