/* Arithmetic on arrays: every backend against the definition, to the last bit, for every type, on
 * teams of several sizes, at counts around the pieces it is cut into. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/host.h"
#include "base/log.h"
#include "base/mem.h"

enum { MOST = 300 * NORM_BLOCK };

static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
static const int64_t counts[] = {0, 1, 15, 1023, 1024, 1025, 16384, 65536, 65537, MOST};
enum { TYPES = sizeof types / sizeof *types, COUNTS = sizeof counts / sizeof *counts };

static float value(int64_t i, int key) {
    return sinf((float)i + 0.1f * (float)key) * (1 + (float)(i % 97));
}

static void set(const struct elements *e, int64_t i, float v) {
    if (e->dtype == DTYPE_F32)
        ((float *)e->data)[i] = v;
    else
        ((uint16_t *)e->data)[i] = e->dtype == DTYPE_BF16 ? bf16_from_f32(v) : f16_from_f32(v);
}

static float get(const struct elements *e, int64_t i) {
    if (e->dtype == DTYPE_F32) return ((float *)e->data)[i];
    uint16_t bits = ((uint16_t *)e->data)[i];
    return e->dtype == DTYPE_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

/* Memory of the device, which here is the host's. */
static struct elements elements_new(enum dtype dtype, int64_t count, int key) {
    struct elements e = {dtype, mem_new((size_t)count * dtype_bytes(dtype) + 1), count};
    for (int64_t i = 0; i < count; i++) set(&e, i, value(i, key));
    return e;
}

/* Runs `check` for every backend and team, type and count. */
static void everywhere(void (*check)(struct device *device, enum dtype dtype, int64_t count)) {
    for (int b = 0; backend_all()[b]; b++) {
        if (backend_all()[b]->apart) continue; /* tests/gpu/arrays.c */
        for (int threads = 1; threads <= 3; threads += 2) {
            struct device *device = NULL;
            cr_assert(device_open(backend_all()[b]->name, 0, threads, &device) == STATUS_OK);
            for (int t = 0; t < TYPES; t++)
                for (int c = 0; c < COUNTS; c++) check(device, types[t], counts[c]);
            device_close(&device);
        }
    }
}

static void check_fill(struct device *device, enum dtype dtype, int64_t count) {
    struct elements e = elements_new(dtype, count, 0);
    cr_assert(device->backend->array_fill(device, &e, -0.0f, NULL) == STATUS_OK);
    for (int64_t i = 0; i < count; i++)
        cr_assert(get(&e, i) == 0 && signbit(get(&e, i)), "%s, %s: element %d of %d",
                  device->backend->name, dtype_name(dtype), (int)i, (int)count);
    free(e.data);
}

Test(backend_arrays, fill) {
    everywhere(check_fill);
}

static void check_add(struct device *device, enum dtype dtype, int64_t count) {
    struct elements a = elements_new(dtype, count, 0), b = elements_new(dtype, count, 1),
                    want = elements_new(dtype, count, 0);
    for (int64_t i = 0; i < count; i++) set(&want, i, get(&a, i) + get(&b, i));
    cr_assert(device->backend->array_add(device, &a, &b, NULL) == STATUS_OK);
    cr_expect(memcmp(a.data, want.data, elements_bytes(&a)) == 0, "%s, %d of %s",
              device->backend->name, (int)count, dtype_name(dtype));
    free(a.data);
    free(b.data);
    free(want.data);
}

Test(backend_arrays, add) {
    everywhere(check_add);
}

static void check_copy(struct device *device, enum dtype dtype, int64_t count) {
    struct elements a = elements_new(dtype, count, 0), b = elements_new(dtype, count, 1);
    cr_assert(device->backend->array_copy(device, a.data, b.data, elements_bytes(&b), NULL) ==
              STATUS_OK);
    cr_expect(memcmp(a.data, b.data, elements_bytes(&a)) == 0);
    free(a.data);
    free(b.data);
}

Test(backend_arrays, copy) {
    everywhere(check_copy);
}

/* By definition: sixteen running sums in f64, one for each place modulo 16, added in order. */
static double by_definition(const struct elements *e, int64_t begin) {
    double lane[16] = {0}, sum = 0;
    for (int64_t i = begin; i < begin + NORM_BLOCK && i < e->count; i++)
        lane[(i - begin) % 16] += (double)get(e, i) * get(e, i);
    for (int k = 0; k < 16; k++) sum += lane[k];
    return sum;
}

static void check_squares(struct device *device, enum dtype dtype, int64_t count) {
    struct elements e = elements_new(dtype, count, 2);
    int64_t blocks = (count + NORM_BLOCK - 1) / NORM_BLOCK;
    double *sums = MEM_ARRAY(double, blocks + 1);
    sums[blocks] = -1;
    cr_assert(device->backend->array_squares(device, &e, sums, NULL) == STATUS_OK);
    for (int64_t b = 0; b < blocks; b++)
        cr_assert_eq(sums[b], by_definition(&e, b * NORM_BLOCK), "%s, %d of %s, block %d",
                     device->backend->name, (int)count, dtype_name(dtype), (int)b);
    cr_expect_eq(sums[blocks], -1, "written behind the last block");
    free(sums);
    free(e.data);
}

Test(backend_arrays, squares) {
    everywhere(check_squares);
}

/* The largest floats do not overflow: squares are f64. */
static void check_infinite(struct device *device, enum dtype dtype, int64_t count) {
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    struct elements e = elements_new(dtype, count, 3);
    int64_t blocks = (count + NORM_BLOCK - 1) / NORM_BLOCK;
    double *sums = MEM_ARRAY(double, blocks + 1);
    for (int64_t i = 0; i < count; i++) set(&e, i, dtype == DTYPE_F16 ? 6e4f : 3e38f);
    int64_t places[] = {0, count / 2, count - 1};
    for (int p = 0; p < 12 && count > 0; p++) {
        int64_t at = places[p / 4];
        float kept = get(&e, at);
        int32_t told = 0;
        cr_assert(device->backend->array_check(device, &e, &told, NULL) == STATUS_OK);
        cr_assert_eq(told, 0);
        set(&e, at, bad[p % 4]);
        cr_assert(device->backend->array_check(device, &e, &told, NULL) == STATUS_OK);
        cr_assert(device->backend->array_squares(device, &e, sums, NULL) == STATUS_OK);
        cr_assert_eq(told, 1, "%s: %g at %d of %d", device->backend->name, bad[p % 4], (int)at,
                     (int)count);
        for (int64_t b = 0; b < blocks; b++)
            cr_assert_eq(isfinite(sums[b]) != 0, b != at / NORM_BLOCK);
        set(&e, at, kept);
    }
    free(sums);
    free(e.data);
}

Test(backend_arrays, nothing_infinite_hides) {
    everywhere(check_infinite);
}

/* What was told of one array is not taken back by the next. */
Test(backend_arrays, bad_stays_bad) {
    struct device *device = NULL;
    struct elements e = elements_new(DTYPE_F32, 10, 0);
    int32_t told = 1;
    cr_assert(device_open("cpu", 0, 1, &device) == STATUS_OK);
    cr_assert(device->backend->array_check(device, &e, &told, NULL) == STATUS_OK);
    cr_expect_eq(told, 1);
    device_close(&device);
    free(e.data);
}
