/* gpu-arrays [--backend NAME] [--seed N]: what a device does besides operations, in TAP. Arithmetic
 * on arrays against the definition (backend/host.h) to the bit, for every type and counts around
 * the pieces it is cut into; optimizers likewise; memory, copies, streams and events. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/copy.h"
#include "backend/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tap.h"

static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
static const int64_t counts[] = {0, 1, 15, 1023, 1024, 1025, 65537, 300 * NORM_BLOCK};
enum { TYPES = sizeof types / sizeof *types, COUNTS = sizeof counts / sizeof *counts };

/* An array twice: on the device, and on the host, where the definition works on it. */
struct pair {
    struct elements device, host;
};

static struct device *device;
static uint64_t seed;

static void set(const struct elements *e, int64_t i, float v) {
    if (e->dtype == DTYPE_F32)
        ((float *)e->data)[i] = v;
    else
        ((uint16_t *)e->data)[i] = e->dtype == DTYPE_BF16 ? bf16_from_f32(v) : f16_from_f32(v);
}

static void *upload(const void *host, size_t bytes) {
    void *memory = NULL;
    CHECK(device->backend->memory_new(device, bytes, "a test", &memory) == STATUS_OK, "%zu", bytes);
    CHECK(device_copy_in(device, memory, host, bytes) == STATUS_OK, "%zu", bytes);
    return memory;
}

static struct pair pair_new(enum dtype dtype, int64_t count, uint64_t key) {
    struct elements host = {dtype, mem_new((size_t)count * dtype_bytes(dtype) + 1), count};
    for (int64_t i = 0; i < count; i++) set(&host, i, rng_normal(rng_key(seed, key), (uint64_t)i));
    struct elements on = {dtype, upload(host.data, elements_bytes(&host)), count};
    return (struct pair){on, host};
}

static bool same(const struct pair *pair) {
    size_t bytes = elements_bytes(&pair->host);
    void *back = mem_new(bytes + 1);
    CHECK(device_copy_out(device, back, pair->device.data, bytes) == STATUS_OK, "copy");
    bool equal = memcmp(back, pair->host.data, bytes) == 0;
    free(back);
    return equal;
}

static void pair_free(struct pair *pair) {
    device->backend->memory_free(device, pair->device.data, elements_bytes(&pair->device));
    free(pair->host.data);
}

/* --- arrays --- */

static void test_elementwise(enum dtype dtype, int64_t count) {
    const struct backend *backend = device->backend;
    struct pair a = pair_new(dtype, count, 0), b = pair_new(dtype, count, 1);
    bool ok = backend->array_add(device, &a.device, &b.device, NULL) == STATUS_OK;
    host_array_add(NULL, &a.host, &b.host, NULL);
    tap(ok && same(&a), "add, %lld of %s", (long long)count, dtype_name(dtype));
    ok = backend->array_copy(device, b.device.data, a.device.data, elements_bytes(&a.device),
                             NULL) == STATUS_OK;
    memcpy(b.host.data, a.host.data, elements_bytes(&a.host));
    tap(ok && same(&b), "copy, %lld of %s", (long long)count, dtype_name(dtype));
    ok = backend->array_fill(device, &a.device, -0.0f, NULL) == STATUS_OK;
    host_array_fill(NULL, &a.host, -0.0f, NULL);
    tap(ok && same(&a), "fill, %lld of %s", (long long)count, dtype_name(dtype));
    pair_free(&a);
    pair_free(&b);
}

static void test_squares(enum dtype dtype, int64_t count) {
    int64_t blocks = (count + NORM_BLOCK - 1) / NORM_BLOCK;
    size_t bytes = (size_t)(blocks + 1) * sizeof(double);
    struct pair a = pair_new(dtype, count, 2);
    double *want = mem_new(bytes), *have = mem_new(bytes);
    want[blocks] = have[blocks] = -1;
    void *sums = upload(have, bytes);
    bool ok = device->backend->array_squares(device, &a.device, sums, NULL) == STATUS_OK;
    host_array_squares(NULL, &a.host, want, NULL);
    CHECK(device_copy_out(device, have, sums, bytes) == STATUS_OK, "copy");
    tap(ok && memcmp(want, have, bytes) == 0, "squares, %lld of %s", (long long)count,
        dtype_name(dtype));
    device->backend->memory_free(device, sums, bytes);
    free(want);
    free(have);
    pair_free(&a);
}

/* A flag of the device after `check` of an array; what was told before stays. */
static int32_t flag_of(const struct elements *of, int32_t before) {
    int32_t *flag = upload(&before, sizeof before), after = -1;
    CHECK(device->backend->array_check(device, of, flag, NULL) == STATUS_OK, "check");
    CHECK(device_copy_out(device, &after, flag, sizeof after) == STATUS_OK, "copy");
    device->backend->memory_free(device, flag, sizeof before);
    return after;
}

static void test_check(enum dtype dtype, int64_t count) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct pair a = pair_new(dtype, count, 3);
    bool ok = flag_of(&a.device, 0) == 0 && flag_of(&a.device, 1) == 1;
    for (int k = 0; k < 3 && count; k++) {
        set(&a.host, count / (k + 1) - 1 < 0 ? 0 : count / (k + 1) - 1, bad[k]);
        device_copy_in(device, a.device.data, a.host.data, elements_bytes(&a.host));
        ok = ok && flag_of(&a.device, 0) == 1;
        set(&a.host, count / (k + 1) - 1 < 0 ? 0 : count / (k + 1) - 1, 1);
    }
    tap(ok, "check, %lld of %s", (long long)count, dtype_name(dtype));
    pair_free(&a);
}

/* --- optimizers: four steps --- */

static void test_rule(const struct optim_rule *rule, bool nesterov) {
    enum { LENGTH = 20011 };
    struct optim_config config = {0.01, 0.9, 0.02, 0.9, 0.999, 1e-8, nesterov};
    struct optim_span spans[] = {{0, 7000, true}, {7000, 13011, false}};
    struct pair param = pair_new(DTYPE_F32, LENGTH, 10), gradient = pair_new(DTYPE_F32, LENGTH, 11),
                state[OPTIM_MAX_STATES];
    int32_t zero = 0, *bad = upload(&zero, sizeof zero), host_bad = 0;
    for (int i = 0; i < rule->state_count; i++) {
        state[i] = pair_new(DTYPE_F32, LENGTH, 12);
        device->backend->array_fill(device, &state[i].device, 0, NULL);
        host_array_fill(NULL, &state[i].host, 0, NULL);
    }
    bool ok = true;
    for (int s = 0; s < 4; s++) {
        struct optim_step step = {&config, s, 0.01f / (float)(s + 1), 0.7f};
        struct optim_update on = {rule,         &step,           spans, 2,
                                  param.device, gradient.device, {{0}}, NULL},
                            off = {rule, &step, spans, 2, param.host, gradient.host, {{0}}, NULL};
        for (int i = 0; i < rule->state_count; i++)
            on.state[i] = state[i].device, off.state[i] = state[i].host;
        ok = ok && device->backend->array_update(device, &on, bad, NULL) == STATUS_OK;
        host_array_update(NULL, &off, &host_bad, NULL);
    }
    ok = ok && same(&param);
    for (int i = 0; i < rule->state_count; i++) ok = ok && same(&state[i]);
    tap(ok, "%s%s, four steps", rule->name, nesterov ? " with nesterov" : "");
    for (int i = 0; i < rule->state_count; i++) pair_free(&state[i]);
    pair_free(&param);
    pair_free(&gradient);
    device->backend->memory_free(device, bad, sizeof zero);
}

/* --- norms --- */

/* Sums of very different sizes, of which one may be infinite. */
static void test_decide(int64_t count, double clip, bool finite, double loss_scale) {
    struct optim_limits limits = {clip, 1 / loss_scale, loss_scale != 1};
    size_t bytes = (size_t)count * sizeof(double);
    double *sums = mem_new(bytes);
    struct exact_sum total = {0}, on;
    struct optim_decision want, have;
    int32_t stop = 0, stopped = 0;
    for (int64_t i = 0; i < count; i++)
        sums[i] = ldexp(fabs((double)rng_normal(rng_key(seed, 30), (uint64_t)i)),
                        (int)(i * 37 % 400) - 200);
    if (!finite) sums[count / 2] = INFINITY;
    double *far_sums = upload(sums, bytes);
    struct exact_sum *far_total = upload(&total, sizeof total);
    struct optim_decision *far_decision = upload(&(struct optim_decision){0}, sizeof want);
    int32_t *far_stop = upload(&stop, sizeof stop);
    const struct backend *backend = device->backend;
    bool ok = backend->array_sum(device, far_sums, count, far_total, NULL) == STATUS_OK &&
              backend->array_decide(device, far_total, NULL, &limits, far_decision, far_stop,
                                    NULL) == STATUS_OK;
    host_array_sum(NULL, sums, count, &total, NULL);
    host_array_decide(NULL, &total, NULL, &limits, &want, &stop, NULL);
    device_copy_out(device, &on, far_total, sizeof on);
    device_copy_out(device, &have, far_decision, sizeof have);
    device_copy_out(device, &stopped, far_stop, sizeof stopped);
    ok = ok && exact_total(&on) == exact_total(&total) && have.norm == want.norm &&
         have.scale == want.scale && have.skip == want.skip && stopped == stop;
    tap(ok, "norm of %lld sums, clip %g, loss scale %g, %s", (long long)count, clip, loss_scale,
        finite ? "finite" : "one is not");
    backend->memory_free(device, far_sums, bytes);
    backend->memory_free(device, far_total, sizeof total);
    backend->memory_free(device, far_decision, sizeof want);
    backend->memory_free(device, far_stop, sizeof stop);
    free(sums);
}

/* --- memory, streams, events --- */

static void test_memory(void) {
    enum { BYTES = 100000 };
    unsigned char *host = memset(mem_new(BYTES), 1, BYTES);
    void *memory = NULL;
    bool ok = device->backend->memory_new(device, BYTES, "a test", &memory) == STATUS_OK;
    device_copy_out(device, host, memory, BYTES);
    for (int i = 0; i < BYTES; i++) ok = ok && host[i] == 0;
    tap(ok && (uintptr_t)memory % 64 == 0, "memory is zeroed and aligned");
    device->backend->memory_free(device, memory, BYTES);
    char said[512] = "";
    log_capture(said, sizeof said);
    enum status status =
        device->backend->memory_new(device, (size_t)1 << 50, "far too much", &memory);
    log_capture(NULL, 0);
    tap(status == STATUS_MEMORY && strstr(said, "far too much"), "too much memory: %s",
        status_text(status));
    free(host);
}

/* A second stream reads what the first writes, a hundred times, with nothing but events between. */
static void test_streams(void) {
    enum { LENGTH = 1 << 20, ROUNDS = 100 };
    const struct backend *backend = device->backend;
    struct pair a = pair_new(DTYPE_F32, LENGTH, 20), b = pair_new(DTYPE_F32, LENGTH, 21);
    struct stream *first = NULL, *second = NULL;
    struct event *written = NULL, *read = NULL;
    bool ok = backend->stream_new(device, &first) == STATUS_OK &&
              backend->stream_new(device, &second) == STATUS_OK &&
              backend->event_new(device, false, &written) == STATUS_OK &&
              backend->event_new(device, false, &read) == STATUS_OK;
    for (int r = 0; r < ROUNDS && ok; r++) {
        if (r > 0) backend->stream_wait_event(first, read);
        ok = ok && backend->array_fill(device, &a.device, (float)r, first) == STATUS_OK;
        backend->event_record(written, first);
        backend->stream_wait_event(second, written);
        ok = ok && backend->array_add(device, &b.device, &a.device, second) == STATUS_OK;
        backend->event_record(read, second);
        host_array_fill(NULL, &a.host, (float)r, NULL);
        host_array_add(NULL, &b.host, &a.host, NULL);
    }
    ok = ok && backend->stream_wait(device, second) == STATUS_OK;
    tap(ok && same(&b), "two streams and their events");
    backend->event_free(device, written);
    backend->event_free(device, read);
    backend->stream_free(device, first);
    backend->stream_free(device, second);
    pair_free(&a);
    pair_free(&b);
}

int main(int argc, char **argv) {
    struct tap_options options = tap_begin(argc, argv);
    int rules;
    const struct optim_rule *const *all = optim_all(&rules);
    if (!tap_open(&options, &device)) return 0;
    seed = options.seed;
    test_memory();
    test_streams();
    for (int t = 0; t < TYPES; t++)
        for (int c = 0; c < COUNTS; c++) {
            test_elementwise(types[t], counts[c]);
            test_squares(types[t], counts[c]);
            test_check(types[t], counts[c]);
        }
    for (int c = 1; c < 5000; c = c * 5 + 1)
        for (int clips = 0; clips < 2; clips++) test_decide(c, clips, true, clips ? 1 : 1024);
    test_decide(300, 1, false, 1);
    test_decide(300, 1, false, 65536);
    for (int i = 0; i < rules; i++) test_rule(all[i], false);
    test_rule(optim_find("sgd"), true);
    device_close(&device);
    return tap_end();
}
