/* Calls of the cpu backend, for its tests. */
#ifndef TESTS_CPU_CALLS_H
#define TESTS_CPU_CALLS_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/copy.h"
#include "backend/cpu/cpu.h"
#include "base/mem.h"
#include "base/rng.h"

static inline struct device *open_cpu(int threads) {
    struct device *device = NULL;
    cr_assert(device_open("cpu", 0, threads, &device) == STATUS_OK);
    return device;
}

/* One call on plain inputs drawn at random; its outputs in plain order, then the kernel's name. */
struct result {
    float *out[OP_MAX_OUT];
    char name[CPU_NAME_BYTES];
};

static inline void *aligned_bytes(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    cr_assert_not_null(memory);
    return memory;
}

static inline void *to_layout(struct device *device, const struct layout *layout, uint64_t key) {
    int64_t count = shape_count(&layout->type.shape);
    float *plain = MEM_ARRAY(float, count);
    void *memory = aligned_bytes(layout->bytes);
    for (int64_t i = 0; i < count; i++) plain[i] = rng_normal(key, (uint64_t)i);
    cr_assert(layout_from_plain(device, layout, plain, memory) == STATUS_OK);
    free(plain);
    return memory;
}

static inline struct result run(struct device *device, struct op_call call) {
    char why[256];
    const struct layout *none[OP_MAX_IN] = {0};
    struct kernel *kernel = NULL;
    void *in[OP_MAX_IN] = {0}, *out[OP_MAX_OUT] = {0};
    cr_assert(op_infer(&call, why, sizeof why) == STATUS_OK, "%s", why);
    cr_assert(kernel_create(device, &call, none, &kernel) == STATUS_OK);
    void *scratch = aligned_bytes(kernel->scratch_bytes);
    for (int i = 0; i < call.in_count; i++)
        in[i] = to_layout(device, kernel->in[i], 7 + (uint64_t)i);
    for (int i = 0; i < call.out_count; i++) out[i] = aligned_bytes(kernel->out[i]->bytes);
    cr_assert_eq(kernel_run(kernel, in, out, scratch, NULL), STATUS_OK);
    struct result result = {.out = {0}};
    snprintf(result.name, sizeof result.name, "%s", kernel->name);
    for (int i = 0; i < call.out_count; i++) {
        result.out[i] = mem_new(tensor_type_bytes(&call.out[i]));
        cr_assert(layout_to_plain(device, kernel->out[i], out[i], result.out[i]) == STATUS_OK);
        free(out[i]);
    }
    for (int i = 0; i < call.in_count; i++) free(in[i]);
    free(scratch);
    kernel_free(&kernel);
    return result;
}

static inline void result_free(struct result *result) {
    for (int i = 0; i < OP_MAX_OUT; i++) free(result->out[i]);
}

static inline struct op_call convolution(int64_t batch, int64_t channels, int64_t size,
                                         int stride) {
    struct op_call call = {.op = OP_CONV2D, .in_count = 2};
    call.attrs.conv.stride[0] = call.attrs.conv.stride[1] = stride;
    call.attrs.conv.pad[0] = call.attrs.conv.pad[1] = 1;
    call.attrs.conv.dilation[0] = call.attrs.conv.dilation[1] = 1;
    call.attrs.conv.groups = 1;
    call.in[0] = (struct tensor_type){DTYPE_F32, SHAPE(batch, channels, size, size)};
    call.in[1] = (struct tensor_type){DTYPE_F32, SHAPE(channels, channels, 3, 3)};
    return call;
}

#endif
