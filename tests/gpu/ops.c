/* gpu-ops [--backend NAME] [--seed N] [--only TEXT] [--types f32,tf32,bf16,f16]: every operation of
 * a device against the reference kernels, in TAP.
 *
 * The calls are those of tests/unit/op/cases.c and the backward calls that their gradient rules
 * emit, with inputs drawn anew from the seed. Each call reads the reference's values, so that
 * errors do not add up; its outputs and scratch memory are poisoned before. The measure is the norm
 * of the difference over the norm of what is right: 1e-5 in f32, 1e-3 in tf32, 1e-2 in bf16 and
 * f16. What an operation may not change is compared before and after; a second run must give the
 * same bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../unit/op/chain.h"
#include "backend/backend.h"
#include "backend/copy.h"
#include "base/log.h"
#include "base/mem.h"
#include "tap.h"

/* A type of run: what is narrow, whether products may round to tf32, the limit of the error. */
struct precision {
    const char *name;
    enum dtype dtype;
    bool tf32;
    double limit;
};
static const struct precision precisions[] = {{"f32", DTYPE_F32, false, 1e-5},
                                              {"tf32", DTYPE_F32, true, 1e-3},
                                              {"bf16", DTYPE_BF16, false, 1e-2},
                                              {"f16", DTYPE_F16, false, 1e-2}};

struct trial {
    struct device *device;
    const struct chain *chain;
    const struct precision *precision;
    bool images;              /* tensors of rank 4 as a convolution wants them */
    void *kept[CHAIN_VALUES]; /* what backends save in their own way */
    const struct layout *kept_as[CHAIN_VALUES];
    double worst;  /* error of the chain as a part of the limit */
    char why[256]; /* the first failure */
};

#define WRONG(trial, ...)                                                                          \
    do {                                                                                           \
        if (!(trial)->why[0]) snprintf((trial)->why, sizeof(trial)->why, __VA_ARGS__);             \
    } while (0)

static void *bytes_new(struct device *device, size_t bytes, int fill) {
    void *memory = NULL, *host = memset(mem_new(bytes + 1), fill, bytes + 1);
    CHECK(device->backend->memory_new(device, bytes, "a test", &memory) == STATUS_OK, "%zu", bytes);
    CHECK(device_copy_in(device, memory, host, bytes) == STATUS_OK, "%zu", bytes);
    free(host);
    return memory;
}

static void *bytes_of(struct device *device, const void *memory, size_t bytes) {
    void *host = mem_new(bytes + 1);
    CHECK(device_copy_out(device, host, memory, bytes) == STATUS_OK, "%zu", bytes);
    return host;
}

/* The norm of the difference over the norm of what is right; infinite where a value is no number.
 */
static double error_of(const struct chain_value *value, const void *have) {
    int64_t count = shape_count(&value->type.shape);
    size_t bytes = dtype_bytes(value->type.dtype);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        double h = dtype_value(value->type.dtype, (const char *)have + (size_t)i * bytes),
               w = value->wide
                       ? (double)value->wide[i]
                       : dtype_value(value->type.dtype, (char *)value->data + (size_t)i * bytes);
        if (isnan(h)) return INFINITY;
        difference += (h - w) * (h - w);
        norm += w * w;
    }
    if (difference == 0) return 0;
    return norm == 0 ? INFINITY : sqrt(difference / norm);
}

static const struct layout *given(const struct trial *trial, const struct chain_call *c, int in) {
    const struct tensor_type *type = &c->call.in[in];
    struct device *device = trial->device;
    if (trial->kept[c->in[in]]) return trial->kept_as[c->in[in]];
    if (!trial->images || type->shape.rank != 4 || type->dtype == DTYPE_I32)
        return device->backend->plain(device, type);
    struct op_call conv = {.op = OP_CONV2D, .in_count = 2, .out_count = 1};
    const struct layout *none[OP_MAX_IN] = {0};
    struct kernel *kernel = NULL;
    int64_t channels = type->shape.dim[1];
    conv.attrs.conv.stride[0] = conv.attrs.conv.stride[1] = conv.attrs.conv.groups = 1;
    conv.attrs.conv.dilation[0] = conv.attrs.conv.dilation[1] = 1;
    conv.in[0] = conv.out[0] = *type;
    conv.in[1] = (struct tensor_type){type->dtype, SHAPE(channels, channels, 1, 1)};
    CHECK(kernel_create(device, &conv, none, &kernel) == STATUS_OK, "no convolution");
    const struct layout *layout = kernel->in[0];
    kernel_free(&kernel);
    return layout;
}

static void run(struct trial *trial, struct kernel *kernel, void *const in[], void *const out[]) {
    struct device *device = trial->device;
    size_t bytes = kernel->scratch_bytes;
    void *scratch = bytes ? bytes_new(device, bytes, 0xFF) : NULL;
    if (kernel_run(kernel, in, out, scratch, NULL) != STATUS_OK)
        WRONG(trial, "%s fails", kernel->name);
    if (device->backend->stream_wait(device, NULL) != STATUS_OK)
        WRONG(trial, "%s fails", kernel->name);
    if (scratch) device->backend->memory_free(device, scratch, bytes);
}

/* Dropout is right where the same elements are zero. */
static bool same_zeros(const struct chain_value *value, const void *have) {
    size_t bytes = dtype_bytes(value->type.dtype);
    for (int64_t i = 0; i < shape_count(&value->type.shape); i++) {
        double w = dtype_value(value->type.dtype, (char *)value->data + (size_t)i * bytes),
               h = dtype_value(value->type.dtype, (const char *)have + (size_t)i * bytes);
        if ((w == 0) != (h == 0)) return false;
    }
    return true;
}

static void judge_output(struct trial *trial, const struct chain_call *c, struct kernel *kernel,
                         int index, void *memory) {
    const struct chain_value *value = &trial->chain->values[c->out[index]];
    void *plain = mem_new(tensor_type_bytes(&value->type) + 1);
    CHECK(layout_to_plain(trial->device, kernel->out[index], memory, plain) == STATUS_OK, "copy");
    double error = error_of(value, plain), limit = trial->precision->limit;
    if (error / limit > trial->worst) trial->worst = error / limit;
    if (!(error <= limit))
        WRONG(trial, "%s (%s), output %d: %.3g of the norm, %.0e is allowed",
              op_def(c->call.op)->name, kernel->name, index, error, limit);
    if (c->call.op == OP_DROPOUT && !same_zeros(value, plain))
        WRONG(trial, "another mask of dropout");
    free(plain);
}

static void judge_input(struct trial *trial, const struct chain_call *c, struct kernel *kernel,
                        int index, void *memory) {
    size_t bytes = tensor_type_bytes(&c->call.in[index]);
    struct chain_value after = {.type = c->call.in[index], .data = c->after[index]};
    void *plain = mem_new(bytes + 1);
    CHECK(layout_to_plain(trial->device, kernel->in[index], memory, plain) == STATUS_OK, "copy");
    bool changes = op_def(c->call.op)->flags & OP_SIDE_EFFECT;
    if (changes ? !(error_of(&after, plain) <= 1e-6) : memcmp(plain, c->after[index], bytes) != 0)
        WRONG(trial, "%s (%s): input %d afterwards", op_def(c->call.op)->name, kernel->name, index);
    free(plain);
}

/* A second run, into the first input where that is allowed, has the same bits. */
static void judge_again(struct trial *trial, const struct chain_call *c, struct kernel *kernel,
                        void *const in[], void *const first[]) {
    struct device *device = trial->device;
    void *out[OP_MAX_OUT] = {0};
    bool in_place = op_def(c->call.op)->flags & OP_IN_PLACE && kernel->in[0] == kernel->out[0];
    for (int i = 0; i < c->call.out_count; i++)
        out[i] = bytes_new(device, kernel->out[i]->bytes, 0xFF);
    void *aside = out[0];
    if (in_place) out[0] = in[0];
    run(trial, kernel, in, out);
    for (int i = 0; i < c->call.out_count; i++) {
        void *a = bytes_of(device, first[i], kernel->out[i]->bytes),
             *b = bytes_of(device, out[i], kernel->out[i]->bytes);
        if (memcmp(a, b, kernel->out[i]->bytes) != 0)
            WRONG(trial, "%s (%s), output %d: other bits when run again%s",
                  op_def(c->call.op)->name, kernel->name, i, in_place ? " in place" : "");
        free(a);
        free(b);
    }
    out[0] = aside;
    for (int i = 0; i < c->call.out_count; i++)
        device->backend->memory_free(device, out[i], kernel->out[i]->bytes);
}

static void upload(struct trial *trial, const struct chain_call *c, struct kernel *kernel,
                   void *in[]) {
    for (int i = 0; i < c->call.in_count; i++) {
        in[i] = trial->kept[c->in[i]];
        if (in[i]) {
            if (kernel->in[i] != trial->kept_as[c->in[i]])
                WRONG(trial, "%s: input %d is wanted in another layout than it was saved in",
                      op_def(c->call.op)->name, i);
            continue;
        }
        in[i] = bytes_new(trial->device, kernel->in[i]->bytes, 0xFF);
        CHECK(layout_from_plain(trial->device, kernel->in[i], trial->chain->values[c->in[i]].data,
                                in[i]) == STATUS_OK,
              "copy");
    }
}

static void judge_call(struct trial *trial, const struct chain_call *c) {
    struct device *device = trial->device;
    const struct layout *layouts[OP_MAX_IN] = {0};
    void *in[OP_MAX_IN] = {0}, *out[OP_MAX_OUT] = {0};
    struct kernel *kernel = NULL;
    struct op_call call = c->call;
    if (op_def(call.op)->flags & OP_VIEW) return;
    for (int i = 0; i < call.in_count; i++) layouts[i] = given(trial, c, i);
    if (call.op == OP_REORDER) call.attrs.reorder.to = layouts[0];
    if (kernel_create(device, &call, layouts, &kernel) != STATUS_OK) {
        WRONG(trial, "%s: no kernel", op_def(call.op)->name);
        return;
    }
    upload(trial, c, kernel, in);
    for (int i = 0; i < call.out_count; i++)
        out[i] = bytes_new(device, kernel->out[i]->bytes, 0xFF);
    run(trial, kernel, in, out);
    for (int i = 0; i < call.in_count; i++)
        if (!trial->kept[c->in[i]]) judge_input(trial, c, kernel, i, in[i]);
    for (int i = 0; i < call.out_count; i++)
        if (!trial->chain->values[c->out[i]].opaque) judge_output(trial, c, kernel, i, out[i]);
    if (!(op_def(call.op)->flags & OP_SIDE_EFFECT)) judge_again(trial, c, kernel, in, out);
    for (int i = 0; i < call.in_count; i++)
        if (!trial->kept[c->in[i]])
            device->backend->memory_free(device, in[i], kernel->in[i]->bytes);
    for (int i = 0; i < call.out_count; i++) {
        bool keep = trial->chain->values[c->out[i]].opaque;
        if (keep) trial->kept[c->out[i]] = out[i], trial->kept_as[c->out[i]] = kernel->out[i];
        if (!keep) device->backend->memory_free(device, out[i], kernel->out[i]->bytes);
    }
    kernel_free(&kernel);
}

static void judge_case(struct device *device, const struct op_case *of,
                       const struct precision *precision, bool images) {
    struct chain *chain = precision->dtype == DTYPE_F32
                              ? chain_new(of, NULL, NULL)
                              : chain_new_narrow_of(of, NULL, precision->dtype);
    struct trial trial = {
        .device = device, .chain = chain, .precision = precision, .images = images};
    device->tf32 = precision->tf32;
    for (int c = 0; c < chain->call_count && !trial.why[0]; c++)
        judge_call(&trial, &chain->calls[c]);
    for (int i = 0; i < chain->value_count; i++)
        if (trial.kept[i])
            device->backend->memory_free(device, trial.kept[i], trial.kept_as[i]->bytes);
    tap(!trial.why[0], "%s, %s%s%s%s", precision->name, of->name, images ? ", images" : "",
        trial.why[0] ? ": " : "", trial.why);
    chain_free(&chain);
}

static bool has_image(const struct op_case *of) {
    for (int i = 0; i < of->in_count; i++)
        if (of->in[i].shape.rank == 4) return true;
    return false;
}

/* A device that lacks a type says so in a comment. */
static bool takes(struct device *device, const struct precision *precision) {
    char said[256] = "";
    log_capture(said, sizeof said);
    bool ok = device->backend->takes(device, precision->dtype) == STATUS_OK;
    log_capture(NULL, 0);
    if (!ok) printf("# %s: not on this device\n", precision->name);
    return ok;
}

int main(int argc, char **argv) {
    struct tap_options options = tap_begin(argc, argv);
    struct device *device = NULL;
    int count;
    const struct op_case *cases = op_cases(&count);
    if (!tap_open(&options, &device)) return 0;
    chain_seed = options.seed;
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
        if (!tap_asks(&options, precisions[p].name)) continue;
        if (!takes(device, &precisions[p])) continue;
        for (int i = 0; i < count; i++) {
            if (options.only && !strstr(cases[i].name, options.only)) continue;
            judge_case(device, &cases[i], &precisions[p], false);
            if (has_image(&cases[i])) judge_case(device, &cases[i], &precisions[p], true);
        }
    }
    device_close(&device);
    return tap_end();
}
