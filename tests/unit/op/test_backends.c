/* Every backend in the registry against the reference kernels, call by call over every chain.
 *
 * Each call is made three times: with plain layouts; with the layouts of all but the first input
 * left to the kernel; and with images in the layout that a convolution of the same backend prefers,
 * which is how they meet the other operations in a network. Inputs are the reference's values
 * (errors do not add up along a chain) but for what a backend saves in its own way. Outputs and
 * scratch are poisoned before each run, so a byte left unwritten is seen. A new backend is tested
 * by its row in backend.def.
 *
 * Then once more with a NaN or an infinity in one element of one input: what is not finite in the
 * reference must not be finite in a backend either, or training would go on with rubbish. That the
 * reference does as torch does is shown in test_values.c. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/copy.h"
#include "base/log.h"
#include "base/mem.h"
#include "chain.h"

enum mode { MODE_PLAIN, MODE_CHOOSE, MODE_IMAGE, MODE_COUNT };
static const char *const mode_name[] = {"plain", "kernel's choice", "image layout"};

/* A tensor in device memory. */
struct slab {
    const struct layout *layout;
    void *memory;
};

/* One run of one chain on one device. */
struct bench {
    struct device *device;
    const struct chain *chain;
    enum mode mode;
    bool spoilt;                    /* an input is not finite: outputs are compared by kind */
    struct slab kept[CHAIN_VALUES]; /* opaque values, from the call that made them to those that
                                       read them */
    const struct chain_call *call;  /* under test */
    struct kernel *kernel;
};

#define EXPECT(bench, condition, format, ...)                                                      \
    cr_expect(condition, "%s, %s: %s (%s, %s): " format, (bench)->device->backend->name,           \
              (bench)->chain->of->name, op_def((bench)->call->call.op)->name,                      \
              (bench)->kernel ? (bench)->kernel->name : "no kernel", mode_name[(bench)->mode],     \
              __VA_ARGS__)

/* --- device memory --- */

static void *device_bytes(struct device *device, size_t bytes, int fill) {
    void *memory = NULL, *host = memset(mem_new(bytes), fill, bytes);
    cr_assert(device->backend->memory_new(device, bytes, "a test", &memory) == STATUS_OK);
    device_copy_in(device, memory, host, bytes);
    free(host);
    return memory;
}

static struct slab slab_new(struct device *device, const struct layout *layout, int fill) {
    return (struct slab){layout, device_bytes(device, layout->bytes, fill)};
}

static void slab_free(struct device *device, struct slab *slab) {
    if (slab->memory) device->backend->memory_free(device, slab->memory, slab->layout->bytes);
    *slab = (struct slab){0};
}

static void *slab_bytes(struct device *device, const struct slab *slab) {
    void *host = mem_new(slab->layout->bytes);
    device_copy_out(device, host, slab->memory, slab->layout->bytes);
    return host;
}

static void *slab_plain(struct device *device, const struct slab *slab) {
    void *host = mem_new(tensor_type_bytes(&slab->layout->type));
    cr_assert(layout_to_plain(device, slab->layout, slab->memory, host) == STATUS_OK);
    return host;
}

/* --- comparing --- */

static double element(enum dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case DTYPE_F32: return ((const float *)data)[i];
    case DTYPE_F64: return ((const double *)data)[i];
    case DTYPE_BF16: return bf16_to_f32(((const uint16_t *)data)[i]);
    case DTYPE_I32: return ((const int32_t *)data)[i];
    case DTYPE_I64: return (double)((const int64_t *)data)[i];
    default: return ((const unsigned char *)data)[i];
    }
}

/* The largest difference as a part of the rms; infinite where a value is not a number. */
static double worst_error(const struct tensor_type *type, const void *want, const void *have) {
    int64_t count = shape_count(&type->shape);
    double squares = 0, worst = 0;
    for (int64_t i = 0; i < count; i++) {
        double w = element(type->dtype, want, i), d = fabs(element(type->dtype, have, i) - w);
        squares += w * w;
        if (isnan(d)) return INFINITY;
        worst = d > worst ? d : worst;
    }
    return worst == 0 ? 0 : worst / sqrt(squares / (double)count);
}

/* Of a bf16 tensor: what is left of the largest difference from the unrounded values beyond the
 * rounding itself, which may go the other way after the smallest difference in f32. */
static double worst_narrow_error(const struct chain_value *value, const uint16_t *have) {
    int64_t count = shape_count(&value->type.shape);
    double squares = 0, worst = 0;
    for (int64_t i = 0; i < count; i++) {
        double w = value->wide[i], d = fabs(bf16_to_f32(have[i]) - w);
        squares += w * w;
        if (isnan(d)) return INFINITY;
        d -= fabs(w) * 0x1p-8;
        worst = d > worst ? d : worst;
    }
    return worst == 0 ? 0 : worst / sqrt(squares / (double)count);
}

/* Products inside of attention read rounded probabilities and gradients of scores; an element may
 * be four times the rms. */
static double limit_of(const struct bench *bench) {
    enum op op = bench->call->call.op;
    if (bench->chain->narrow && (op == OP_ATTENTION || op == OP_ATTENTION_BWD)) return 0x1p-5;
    return bench->chain->of->tolerance > 0 ? bench->chain->of->tolerance : 2e-5;
}

/* NaN, infinities and the rest. */
static int kind_of(double value) {
    return isfinite(value) ? 0 : isnan(value) ? 2 : value < 0 ? -1 : 1;
}

/* Operations that add many products may meet inf - inf where the reference does not, or multiply
 * with the zeros of padding, or (Winograd) spread a tile's values over the tile: there, nothing may
 * become finite. All others must give the same kind. */
static bool kinds_agree(const struct bench *bench, double want, double have) {
    enum op op = bench->call->call.op;
    bool sums = op < OP_RELU || op == OP_ATTENTION || op == OP_ATTENTION_BWD;
    return sums ? isfinite(want) || !isfinite(have) : kind_of(want) == kind_of(have);
}

static void check_kinds(const struct bench *bench, const char *what, int at,
                        const struct tensor_type *type, const void *want, const void *have) {
    for (int64_t i = 0; i < shape_count(&type->shape); i++) {
        double w = element(type->dtype, want, i), h = element(type->dtype, have, i);
        if (kinds_agree(bench, w, h)) continue;
        EXPECT(bench, false, "%s %d, element %lld is %g, the reference says %g", what, at,
               (long long)i, h, w);
        return;
    }
}

static void check_output(const struct bench *bench, int out, const struct slab *slab) {
    const struct chain_value *value = &bench->chain->values[bench->call->out[out]];
    double limit = limit_of(bench);
    void *have = slab_plain(bench->device, slab);
    if (bench->spoilt) {
        check_kinds(bench, "output", out, &value->type, value->data, have);
        free(have);
        return;
    }
    double error = value->wide ? worst_narrow_error(value, have)
                               : worst_error(&value->type, value->data, have);
    EXPECT(bench, error <= limit, "output %d is off by %.3g of its rms, %.3g is allowed", out,
           error, limit);
    if (!slab->layout->plain) { /* padding must be zero: later kernels compute with it */
        struct slab again = slab_new(bench->device, slab->layout, 0);
        cr_assert(layout_from_plain(bench->device, slab->layout, have, again.memory) == STATUS_OK);
        void *a = slab_bytes(bench->device, slab), *b = slab_bytes(bench->device, &again);
        EXPECT(bench, memcmp(a, b, slab->layout->bytes) == 0, "output %d: padding is not zero",
               out);
        free(a);
        free(b);
        slab_free(bench->device, &again);
    }
    free(have);
}

/* Inputs must be untouched, or changed as the reference changes them. */
static void check_input(const struct bench *bench, int in, const struct slab *slab) {
    const struct tensor_type *type = &bench->call->call.in[in];
    bool changes = op_def(bench->call->call.op)->flags & OP_SIDE_EFFECT;
    void *have = slab_plain(bench->device, slab);
    double error = worst_error(type, bench->call->after[in], have);
    if (bench->spoilt) {
        check_kinds(bench, "input", in, type, bench->call->after[in], have);
        error = 0;
    }
    EXPECT(bench, error <= (changes ? 1e-6 : 0), "input %d is off by %.3g of its rms afterwards",
           in, error);
    free(have);
}

/* --- one call --- */

/* The layout that a 3x3 convolution wants its image in. */
static const struct layout *image_layout(struct device *device, const struct tensor_type *type) {
    const struct layout *none[OP_MAX_IN] = {0};
    struct op_call call = {.op = OP_CONV2D, .in_count = 2};
    char why[256];
    struct kernel *kernel = NULL;
    int64_t C = type->shape.dim[1];
    call.attrs.conv.stride[0] = call.attrs.conv.stride[1] = 1;
    call.attrs.conv.pad[0] = call.attrs.conv.pad[1] = 1;
    call.attrs.conv.dilation[0] = call.attrs.conv.dilation[1] = 1;
    call.attrs.conv.groups = 1;
    call.in[0] = (struct tensor_type){DTYPE_F32, type->shape};
    call.in[1] = (struct tensor_type){DTYPE_F32, SHAPE(C, C, 3, 3)};
    cr_assert(op_infer(&call, why, sizeof why) == STATUS_OK, "%s", why);
    call.in[0].dtype = call.in[1].dtype = call.out[0].dtype = type->dtype;
    cr_assert(kernel_create(device, &call, none, &kernel) == STATUS_OK);
    const struct layout *layout = kernel->in[0];
    kernel_free(&kernel);
    return layout;
}

static bool is_real(enum dtype dtype) {
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16;
}

static const struct layout *layout_given(const struct bench *bench, int in) {
    const struct tensor_type *type = &bench->call->call.in[in];
    const struct slab *kept = &bench->kept[bench->call->in[in]];
    if (kept->layout) return kept->layout;
    if (bench->mode == MODE_IMAGE && is_real(type->dtype) && type->shape.rank == 4)
        return image_layout(bench->device, type);
    if (bench->mode != MODE_PLAIN && is_real(type->dtype) && in > 0) return NULL;
    return bench->device->backend->plain(bench->device, type);
}

static struct slab upload(const struct bench *bench, int in) {
    const struct layout *layout = bench->kernel->in[in];
    struct slab slab = slab_new(bench->device, layout, 0xFF);
    const void *data = bench->chain->values[bench->call->in[in]].data;
    cr_assert(layout_from_plain(bench->device, layout, data, slab.memory) == STATUS_OK);
    return slab;
}

static void run_kernel(const struct bench *bench, const struct slab *in, const struct slab *out) {
    struct device *device = bench->device;
    void *inputs[OP_MAX_IN] = {0}, *outputs[OP_MAX_OUT] = {0}, *scratch = NULL;
    size_t bytes = bench->kernel->scratch_bytes;
    for (int i = 0; i < bench->call->call.in_count; i++) inputs[i] = in[i].memory;
    for (int i = 0; i < bench->call->call.out_count; i++) outputs[i] = out[i].memory;
    if (bytes) scratch = device_bytes(device, bytes, 0xFF);
    cr_assert(kernel_run(bench->kernel, inputs, outputs, scratch, NULL) == STATUS_OK);
    cr_assert(device->backend->stream_wait(device, NULL) == STATUS_OK);
    if (bytes) device->backend->memory_free(device, scratch, bytes);
}

/* Runs again, the first input given up for the first output where that is allowed: the bits must be
 * the same. */
static void check_again(const struct bench *bench, struct slab *in, const struct slab *first) {
    const struct op_call *call = &bench->call->call;
    bool in_place = op_def(call->op)->flags & OP_IN_PLACE && bench->kernel->in[0] == first->layout;
    struct slab out[OP_MAX_OUT] = {{0}};
    for (int i = 0; i < call->out_count; i++)
        out[i] = slab_new(bench->device, bench->kernel->out[i], 0xFF);
    struct slab aside = out[0];
    if (in_place) out[0] = in[0];
    run_kernel(bench, in, out);
    for (int i = 0; i < call->out_count; i++) {
        void *a = slab_bytes(bench->device, &first[i]), *b = slab_bytes(bench->device, &out[i]);
        EXPECT(bench, memcmp(a, b, first[i].layout->bytes) == 0, "run again%s, output %d differs",
               in_place ? " in place" : "", i);
        free(a);
        free(b);
    }
    out[0] = aside;
    for (int i = 0; i < call->out_count; i++) slab_free(bench->device, &out[i]);
}

static void run_slabs(struct bench *bench, struct slab *in, struct slab *out) {
    const struct chain_call *c = bench->call;
    bool changes = op_def(c->call.op)->flags & OP_SIDE_EFFECT;
    for (int i = 0; i < c->call.out_count; i++)
        out[i] = slab_new(bench->device, bench->kernel->out[i], 0xFF);
    run_kernel(bench, in, out);
    for (int i = 0; i < c->call.in_count; i++)
        if (!bench->kept[c->in[i]].layout) check_input(bench, i, &in[i]);
    for (int i = 0; i < c->call.out_count; i++)
        if (!bench->chain->values[c->out[i]].opaque) check_output(bench, i, &out[i]);
    if (!changes) check_again(bench, in, out);
    for (int i = 0; i < c->call.out_count; i++) {
        if (bench->chain->values[c->out[i]].opaque)
            bench->kept[c->out[i]] = out[i];
        else
            slab_free(bench->device, &out[i]);
    }
}

static void check_call(struct bench *bench, const struct chain_call *c) {
    const struct layout *given[OP_MAX_IN] = {0};
    struct slab in[OP_MAX_IN] = {{0}}, out[OP_MAX_OUT] = {{0}};
    bench->call = c;
    if (op_def(c->call.op)->flags & OP_VIEW) return; /* nothing runs */
    for (int i = 0; i < c->call.in_count; i++) given[i] = layout_given(bench, i);
    struct op_call call = c->call;
    if (call.op == OP_REORDER) call.attrs.reorder.to = given[0];
    enum status status = kernel_create(bench->device, &call, given, &bench->kernel);
    EXPECT(bench, status == STATUS_OK, "no kernel (%s)", status_text(status));
    if (status != STATUS_OK) return;
    for (int i = 0; i < c->call.in_count; i++) {
        const struct slab *kept = &bench->kept[c->in[i]];
        if (kept->layout)
            EXPECT(bench, kept->layout == bench->kernel->in[i],
                   "input %d, kept by the forward kernel, is wanted in another layout", i);
        in[i] = kept->layout ? *kept : upload(bench, i);
    }
    run_slabs(bench, in, out);
    for (int i = 0; i < c->call.in_count; i++)
        if (!bench->kept[c->in[i]].layout) slab_free(bench->device, &in[i]);
    kernel_free(&bench->kernel);
}

static void check_chain(struct device *device, const struct chain *chain, enum mode mode,
                        bool spoilt) {
    struct bench bench = {.device = device, .chain = chain, .mode = mode, .spoilt = spoilt};
    for (int c = 0; c < chain->call_count; c++) check_call(&bench, &chain->calls[c]);
    for (int i = 0; i < chain->value_count; i++)
        if (bench.kept[i].layout) slab_free(device, &bench.kept[i]);
}

/* False when this machine has no such device. */
static bool open_device(const struct backend *backend, int threads, struct device **out) {
    enum status status = device_open(backend->name, 0, threads, out);
    bool everywhere = strcmp(backend->name, "ref") == 0 || strcmp(backend->name, "cpu") == 0;
    if (status == STATUS_USAGE && !everywhere) { /* built in, but this machine has no such device */
        fprintf(stderr, "%s: no device here, not tested\n", backend->name);
        return false;
    }
    cr_assert(status == STATUS_OK, "%s: %s", backend->name, status_text(status));
    return true;
}

static void check_backend(const struct backend *backend, int threads) {
    struct device *device = NULL;
    int count;
    const struct op_case *cases = op_cases(&count);
    if (!open_device(backend, threads, &device)) return;
    for (int i = 0; i < count; i++) {
        struct chain *chain = chain_new(&cases[i], NULL, NULL);
        for (enum mode mode = 0; mode < MODE_COUNT; mode++) check_chain(device, chain, mode, false);
        chain_free(&chain);
    }
    device_close(&device);
    cr_assert_null(device);
}

Test(op_backends, agree_with_ref) {
    for (int i = 0; backend_all()[i]; i++) check_backend(backend_all()[i], 1);
}

Test(op_backends, agree_with_ref_on_two_threads) {
    for (int i = 0; backend_all()[i]; i++) check_backend(backend_all()[i], 2);
}

/* Loops and tiles of our own follow oneDNN's limit, which it reads when it is first asked: a test
 * is a process of its own. A processor without AVX-512 runs the same as above. */
Test(op_backends, agree_with_ref_in_avx2) {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    for (int i = 0; backend_all()[i]; i++) check_backend(backend_all()[i], 1);
}

/* --- bf16 --- */

/* False where the device has none; the reference has it everywhere. */
static bool open_narrow(const struct backend *backend, int threads, struct device **out) {
    if (!open_device(backend, threads, out)) return false;
    char said[256];
    log_capture(said, sizeof said);
    bool takes = backend->takes(*out, DTYPE_BF16) == STATUS_OK;
    log_capture(NULL, 0);
    if (!takes) device_close(out);
    return takes;
}

static void check_narrow(const struct backend *backend, int threads) {
    struct device *device = NULL;
    int count;
    const struct op_case *cases = op_cases(&count);
    if (!open_narrow(backend, threads, &device)) return;
    for (int i = 0; i < count; i++) {
        struct chain *chain = chain_new_narrow(&cases[i], NULL);
        for (enum mode mode = 0; mode < MODE_COUNT; mode++) check_chain(device, chain, mode, false);
        chain_free(&chain);
    }
    device_close(&device);
}

Test(op_backends, bf16_is_f32_rounded_once) {
    for (int i = 0; backend_all()[i]; i++) check_narrow(backend_all()[i], 1);
}

Test(op_backends, bf16_on_two_threads) {
    for (int i = 0; backend_all()[i]; i++) check_narrow(backend_all()[i], 2);
}

/* --- values that are not finite --- */

static int spoilt_input; /* OP_MAX_IN: the gradient of the output */
static float spoilt_value;

static void draw_spoilt(const struct op_case *of, int input, const struct tensor_type *type,
                        void *data) {
    chain_draw_random(of, input, type, data);
    if (input == spoilt_input && type->dtype == DTYPE_F32)
        ((float *)data)[shape_count(&type->shape) / 2] = spoilt_value;
}

/* One input after another, each with the three values. */
static void check_spoilt(struct device *device, const struct op_case *of, bool narrow) {
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i <= of->in_count; i++) {
        spoilt_input = i == of->in_count ? OP_MAX_IN : i;
        if (i < of->in_count && of->in[i].dtype != DTYPE_F32) continue;
        for (int v = 0; v < 3; v++) {
            spoilt_value = values[v];
            struct chain *chain =
                narrow ? chain_new_narrow(of, draw_spoilt) : chain_new(of, NULL, draw_spoilt);
            check_chain(device, chain, of->in[0].shape.rank == 4 ? MODE_IMAGE : MODE_PLAIN, true);
            chain_free(&chain);
        }
    }
}

Test(op_backends, what_is_not_finite_stays_so) {
    int count;
    const struct op_case *cases = op_cases(&count);
    for (int i = 0; backend_all()[i]; i++) {
        struct device *device = NULL;
        if (!open_device(backend_all()[i], 1, &device)) continue;
        for (int c = 0; c < count; c++) check_spoilt(device, &cases[c], false);
        device_close(&device);
    }
}

Test(op_backends, what_is_not_finite_stays_so_in_bf16) {
    int count;
    const struct op_case *cases = op_cases(&count);
    for (int i = 0; backend_all()[i]; i++) {
        struct device *device = NULL;
        if (!open_narrow(backend_all()[i], 1, &device)) continue;
        for (int c = 0; c < count; c++) check_spoilt(device, &cases[c], true);
        device_close(&device);
    }
}

static float far_input;

static void draw_far(const struct op_case *of, int input, const struct tensor_type *type,
                     void *data) {
    chain_draw_random(of, input, type, data);
    if (input != OP_MAX_IN) ((float *)data)[shape_count(&type->shape) / 2] = far_input;
}

/* Where a slope is 0 or 1 to the last bit, and its terms overflow. */
Test(op_backends, slopes_of_activations_far_from_zero) {
    static const float inputs[] = {-3e38f, -1e20f, -1e10f, -80, -12, 12, 80, 1e10f, 1e20f, 3e38f};
    int count;
    const struct op_case *cases = op_cases(&count);
    for (int i = 0; backend_all()[i]; i++) {
        struct device *device = NULL;
        if (!open_device(backend_all()[i], 1, &device)) continue;
        for (int c = 0; c < count; c++) {
            enum op op = cases[c].op;
            if (!op_def(op)->function) continue;
            for (size_t x = 0; x < sizeof inputs / sizeof inputs[0]; x++) {
                far_input = inputs[x];
                struct chain *chain = chain_new(&cases[c], NULL, draw_far);
                check_chain(device, chain, MODE_PLAIN, true);
                chain_free(&chain);
            }
        }
        device_close(&device);
    }
}

/* Every row of op.def is met by some case, forward or as part of a gradient. */
Test(op_backends, every_operation_has_a_case) {
    bool seen[OP_COUNT] = {0};
    int count;
    const struct op_case *cases = op_cases(&count);
    for (int i = 0; i < count; i++) {
        struct chain *chain = chain_new(&cases[i], NULL, NULL);
        for (int c = 0; c < chain->call_count; c++) seen[chain->calls[c].call.op] = true;
        chain_free(&chain);
    }
    for (int op = 0; op < OP_COUNT; op++)
        cr_expect(seen[op], "%s has no case in cases.c", op_def((enum op)op)->name);
}

/* What the harness relies on: the comparison sees a wrong element, a missing one, and nothing else.
 */
Test(op_backends, comparison_can_fail) {
    struct tensor_type type = {DTYPE_F32, SHAPE(4)};
    float want[] = {1, -1, 1, -1}, close[] = {1, -1, 1, -1.00001f}, missing[] = {1, -1, NAN, -1};
    cr_assert(worst_error(&type, want, want) == 0);
    cr_assert(worst_error(&type, want, close) > 9e-6 && worst_error(&type, want, close) < 1.1e-5);
    cr_assert(isinf(worst_error(&type, want, missing)));
}
