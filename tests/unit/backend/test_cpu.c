/* What the cpu backend promises beyond right results (those are tests/unit/op's): a fixed team,
 * interned layouts and sums that do not depend on the team's
 * size. */
#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/copy.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/eltwise.h"
#include "backend/host.h"
#include "backend/registry.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

#include "cpu_calls.h"

Test(backend_cpu, says_what_it_is) {
    struct device *device = open_cpu(1);
    char text[128], isa[96];
    device->backend->describe(device, text, sizeof text);
    cr_assert(cpu_probe_isa(isa, sizeof isa) == STATUS_OK);
    cr_expect(strncmp(text, "oneDNN ", 7) == 0, "%s", text);
    cr_expect(strlen(isa) > 2 && strstr(text, isa), "\"%s\" is not in \"%s\"", isa, text);
    cr_expect(strstr(text, "1 thread"), "%s", text);
    device_close(&device);
}

/* Each in a process of its own, which asks once. */
Test(backend_cpu, takes_the_word_of_the_process_that_tried_before) {
    char isa[96], text[256] = "";
    setenv(BACKEND_TRIED_ISA, "sse41", 1);
    log_capture(text, sizeof text);
    cr_assert(cpu_probe_isa(isa, sizeof isa) == STATUS_OK);
    log_capture(NULL, 0);
    cr_expect(strncmp(isa, "sse41 ", 6) == 0 && !cpu_has_avx2(), "%s", isa);
    cr_expect(strstr(text, "using sse41"), "%s", text);
    cr_expect_str_eq(backend_tried_isa(), "sse41");
}

Test(backend_cpu, tries_where_nobody_did) {
    char isa[96];
    setenv(BACKEND_TRIED_ISA, "mmx", 1);
    cr_expect_null(backend_tried_isa());
    cr_assert(cpu_probe_isa(isa, sizeof isa) == STATUS_OK);
    cr_expect(backend_tried_isa() && strcmp(backend_tried_isa(), "mmx") != 0);
}

Test(backend_cpu, equal_layouts_are_one) {
    struct device *device = open_cpu(1);
    struct tensor_type type = {DTYPE_F32, SHAPE(2, 16, 4, 4)},
                       other = {DTYPE_F32, SHAPE(2, 16, 16)};
    const struct backend *cpu = device->backend;
    cr_expect(cpu->plain(device, &type) == cpu->plain(device, &type));
    cr_expect(cpu->plain(device, &type) != cpu->plain(device, &other));
    const struct dnn_md *a = dnn_md_blocked(DTYPE_F32, type.shape.dim, 8);
    const struct dnn_md *b = dnn_md_blocked(DTYPE_F32, type.shape.dim, 8);
    const struct layout *blocked = cpu_layout((struct cpu_device *)device, &type, a);
    cr_expect(blocked == cpu_layout((struct cpu_device *)device, &type, b));
    cr_expect(blocked != cpu->plain(device, &type) && !blocked->plain);
    cr_expect_str_eq(blocked->text, "aBcd8b");
    dnn_md_free(a);
    dnn_md_free(b);
    device_close(&device);
}

static size_t most_taken;

static enum status take_memory(struct device *device, size_t bytes, const char *what, void **out) {
    if (bytes > most_taken) most_taken = bytes;
    return host_memory_new(device, bytes, what, out);
}

/* Kernels read and write the caller's memory. */
Test(backend_cpu, plain_copies_are_made_where_they_are_wanted) {
    struct device *device = open_cpu(1);
    struct op_call call = convolution(2, 64, 8, 2);
    struct kernel *kernel = NULL;
    const struct layout *none[OP_MAX_IN] = {0};
    char why[256];
    cr_assert(op_infer(&call, why, sizeof why) == STATUS_OK, "%s", why);
    cr_assert_eq(kernel_create(device, &call, none, &kernel), STATUS_OK);
    const struct layout *blocked = kernel->in[1];
    cr_assert(!blocked->plain);
    struct backend watched = *device->backend;
    watched.memory_new = take_memory;
    device->backend = &watched;
    void *memory = to_layout(device, blocked, 5);
    float *plain = mem_new(tensor_type_bytes(&call.in[1]));
    cr_assert_eq(layout_to_plain(device, blocked, memory, plain), STATUS_OK);
    for (int64_t i = 0; i < shape_count(&call.in[1].shape); i++)
        cr_assert(plain[i] == rng_normal(5, (uint64_t)i), "element %lld", (long long)i);
    cr_expect_lt(most_taken, tensor_type_bytes(&call.in[1]));
    free(plain), free(memory);
    kernel_free(&kernel);
    device->backend = backend_find("cpu");
    device_close(&device);
}

Test(backend_cpu, images_are_understood) {
    struct device *device = open_cpu(1);
    struct tensor_type type = {DTYPE_F32, SHAPE(2, 20, 3, 5)};
    const struct dnn_md *blocked = dnn_md_blocked(DTYPE_F32, type.shape.dim, 16);
    int64_t last[] = {20 * 15, 1, 20 * 5, 20};
    const struct dnn_md *channels_last = dnn_md_new(DTYPE_F32, 4, type.shape.dim, last);
    struct cpu_image image;
    cr_assert(cpu_image(cpu_layout((struct cpu_device *)device, &type, NULL), &image));
    cr_expect(image.lanes == 1 && image.blocks == 20 && image.pixels == 15);
    cr_assert(cpu_image(cpu_layout((struct cpu_device *)device, &type, blocked), &image));
    cr_expect(image.lanes == 16 && image.blocks == 2 && image.height == 3 && image.width == 5);
    cr_assert(cpu_image(cpu_layout((struct cpu_device *)device, &type, channels_last), &image));
    cr_expect(image.lanes == 20 && image.blocks == 1 && image.channels_last);
    dnn_md_free(blocked);
    dnn_md_free(channels_last);
    device_close(&device);
}

static struct kernel *norm_kernel(struct device *device, struct op_call *call,
                                  const struct layout *const in[]) {
    struct kernel *kernel = NULL;
    char why[256];
    cr_assert(op_infer(call, why, sizeof why) == STATUS_OK, "%s", why);
    cr_assert_eq(kernel_create(device, call, in, &kernel), STATUS_OK);
    return kernel;
}

/* The bits that stopped gradients lie in the order of x: masks of two orders are two layouts, also
 * where they are as large. */
Test(backend_cpu, a_mask_is_read_in_the_order_it_was_written) {
    struct device *device = open_cpu(1);
    struct tensor_type image = {DTYPE_F32, SHAPE(2, 16, 8, 8)}, row = {DTYPE_F32, SHAPE(16)};
    struct op_call call = {
        .op = OP_BATCH_NORM, .in_count = 4, .in = {image, row, row, image}, .out_count = 4};
    call.attrs.norm.epsilon = 1e-5f;
    call.attrs.activation = ACTIVATION_RELU;
    const struct layout *mask[2];
    for (int i = 0; i < 2; i++) {
        const struct dnn_md *md = dnn_md_blocked(DTYPE_F32, image.shape.dim, i ? 16 : 8);
        const struct layout *x = cpu_layout((struct cpu_device *)device, &image, md),
                            *in[OP_MAX_IN] = {x, NULL, NULL, x};
        struct kernel *kernel = norm_kernel(device, &call, in);
        mask[i] = kernel->out[3];
        kernel_free(&kernel);
        dnn_md_free(md);
    }
    cr_expect_eq(mask[0]->bytes, mask[1]->bytes);
    cr_expect(mask[0] != mask[1], "both are %s", mask[0]->text);
    device_close(&device);
}

static int team_size(void) {
    int count = 0;
#pragma omp parallel reduction(+ : count)
    count += 1;
    return count;
}

/* Settings that a thread has from the environment, and that would make another team. */
Test(backend_cpu, a_team_is_made_whole) {
    for (int i = 0; i < 3; i++) {
        omp_set_dynamic(i == 1);
        omp_set_max_active_levels(i == 2 ? 0 : 1);
        struct device *device = open_cpu(3);
        cr_expect(!omp_get_dynamic() && omp_get_max_active_levels() >= 1);
        cr_expect_eq(team_size(), 3, "case %d: a team of %d", i, team_size());
        device_close(&device);
    }
}

static sigset_t masks[2];

Test(backend_cpu, signals_are_not_for_the_workers) {
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    struct device *device = open_cpu(2);
#pragma omp parallel
    pthread_sigmask(SIG_BLOCK, NULL, &masks[omp_get_thread_num()]);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    cr_expect(sigismember(&masks[1], SIGTERM) == 1 && sigismember(&masks[1], SIGUSR1) == 1);
    cr_expect(sigismember(&after, SIGTERM) == sigismember(&before, SIGTERM));
    device_close(&device);
}

Test(backend_cpu, what_cannot_be_opened) {
    struct device *device = NULL;
    char text[512] = "";
    enum status status = STATUS_OK;
    log_capture(text, sizeof text);
    cr_expect(device_open("cpu", 1, 1, &device) == STATUS_USAGE);
#pragma omp parallel num_threads(2)
#pragma omp single
    status = device_open("cpu", 0, 2, &device);
    cr_expect(status == STATUS_USAGE && strstr(text, "parallel region"), "%s", text);
    cr_expect_null(device);
    log_capture(NULL, 0);
}

/* oneDNN refuses a primitive without its arguments. */
Test(backend_cpu, a_primitive_that_fails_is_reported) {
    struct device *device = open_cpu(1);
    char why[256], said[512] = "";
    const struct layout *none[OP_MAX_IN] = {0};
    struct op_call call = convolution(4, 64, 12, 2);
    struct kernel *kernel = NULL;
    void *in[OP_MAX_IN] = {0}, *out[OP_MAX_OUT] = {0};
    cr_assert(op_infer(&call, why, sizeof why) == STATUS_OK, "%s", why);
    cr_assert(kernel_create(device, &call, none, &kernel) == STATUS_OK);
    for (int k = 0; k < call.in_count; k++) in[k] = to_layout(device, kernel->in[k], 7);
    out[0] = aligned_bytes(kernel->out[0]->bytes);
    void *scratch = aligned_bytes(kernel->scratch_bytes);
    ((struct cpu_kernel *)kernel)->step[0].exec[0].arg = 0;
    log_capture(said, sizeof said);
    cr_expect_eq(kernel_run(kernel, in, out, scratch, NULL), STATUS_BUG);
    log_capture(NULL, 0);
    cr_expect(strstr(said, kernel->name) && strstr(said, "conv2d"), "%s", said);
    kernel_free(&kernel);
    for (int k = 0; k < call.in_count; k++) free(in[k]);
    free(out[0]);
    free(scratch);
    device_close(&device);
}

/* Our own reductions: the same bits whatever the team. */
Test(backend_cpu, sums_do_not_depend_on_the_team) {
    struct tensor_type image = {DTYPE_F32, SHAPE(6, 24, 9, 7)}, channels = {DTYPE_F32, SHAPE(24)};
    struct tensor_type rows = {DTYPE_F32, SHAPE(3, 50, 40)}, moments = {DTYPE_F32, SHAPE(3, 50)};
    struct tensor_type columns = {DTYPE_F32, SHAPE(40)};
    struct op_call calls[] = {
        {.op = OP_BATCH_NORM,
         .attrs.norm = {1e-5f, 0.1f},
         .in_count = 3,
         .in = {image, channels, channels}},
        {.op = OP_LAYER_NORM_BWD,
         .attrs.norm = {1e-5f, 0},
         .in_count = 5,
         .in = {rows, rows, columns, moments, moments}},
        {.op = OP_SUM_BATCH, .in_count = 1, .in = {image}},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct device *one = open_cpu(1);
        struct result a = run(one, calls[i]);
        device_close(&one);
        struct device *three = open_cpu(3);
        struct result b = run(three, calls[i]);
        device_close(&three);
        char why[256];
        cr_assert(op_infer(&calls[i], why, sizeof why) == STATUS_OK);
        for (int o = 0; o < calls[i].out_count; o++)
            cr_expect(memcmp(a.out[o], b.out[o], tensor_type_bytes(&calls[i].out[o])) == 0,
                      "%s: output %d differs", op_def(calls[i].op)->name, o);
        result_free(&a);
        result_free(&b);
    }
}

/* Against the error function in double: gelu within 4e-7 of the larger of 1 and |x|, its slope
 * within 4e-7, wherever they are not flat and beyond. */
static void check_gelu(const char *name, eltwise_span *span, bool back) {
    enum { COUNT = 40001 };
    float *x = MEM_ARRAY(float, COUNT), *dy = MEM_ARRAY(float, COUNT), *y = MEM_ARRAY(float, COUNT);
    double worst = 0;
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i - COUNT / 2) / 2000.0f, dy[i] = 1.0f;
    span(back ? dy : x, x, y, COUNT);
    for (int i = 0; i < COUNT; i++) {
        double at = x[i], phi = 0.5 * erfc(-at / sqrt(2));
        double want = back ? phi + at * exp(-at * at / 2) / sqrt(2 * M_PI) : at * phi;
        double off = fabs(y[i] - want) / (back ? 1 : fmax(1, fabs(at)));
        worst = isnan(off) ? INFINITY : fmax(off, worst);
    }
    cr_expect(worst > 0 && worst < 4e-7, "%s%s is off by %g", name, back ? "'s slope" : "", worst);
    free(x), free(dy), free(y);
}

/* An element's bits do not depend on where in a span it stands. */
static void check_gelu_ends(const char *name, eltwise_span *span) {
    enum { COUNT = 40 };
    float x[COUNT], dy[COUNT], y[COUNT], part[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = rng_normal(1, (uint64_t)i), dy[i] = (float)i + 1;
    span(dy, x, y, COUNT);
    for (int first = 0; first < COUNT; first++) {
        part[COUNT - 1] = -7.0f;
        span(dy + first, x + first, part, COUNT - 1 - first);
        size_t bytes = (size_t)(COUNT - 1 - first) * sizeof *y;
        cr_expect_eq(memcmp(part, y + first, bytes), 0, "%s: from %d on", name, first);
        cr_expect(part[COUNT - 1] == -7.0f, "%s: from %d on, written behind", name, first);
    }
}

Test(backend_cpu, gelu_is_right_to_the_last_digits) {
    check_gelu("chosen", eltwise_activation(ACTIVATION_GELU), false);
#if defined(__x86_64__)
    struct {
        const char *name;
        bool there;
        eltwise_span *forward, *backward;
    } loops[] = {{"avx2", cpu_has_avx2(), gelu_span_256, gelu_bwd_span_256},
                 {"avx512", cpu_has_avx512(), gelu_span_512, gelu_bwd_span_512}};
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        if (!loops[i].there) continue;
        check_gelu(loops[i].name, loops[i].forward, false);
        check_gelu(loops[i].name, loops[i].backward, true);
        check_gelu_ends(loops[i].name, loops[i].forward);
        check_gelu_ends(loops[i].name, loops[i].backward);
    }
#endif
}

/* The uniform number of a word at the limit is not below the probability, that of the last word
 * before it is. */
Test(backend_cpu, dropout_compares_as_uniform_numbers_do) {
    static const float probabilities[] = {0.1f, 0.5f, 0.3f, 1e-7f, 0x1p-24f, 1 - 0x1p-24f};
    for (size_t i = 0; i < sizeof probabilities / sizeof probabilities[0]; i++) {
        float p = probabilities[i];
        struct cpu_drop drop;
        cpu_drop_begin(&drop, 1, p, 1);
        cr_expect((float)(drop.limit >> 8) * 0x1p-24f >= p, "%a", (double)p);
        cr_expect((float)((drop.limit - 1) >> 8) * 0x1p-24f < p, "%a", (double)p);
    }
    struct cpu_drop none;
    cpu_drop_begin(&none, 1, 0, 1);
    cr_expect_eq(none.limit, 0);
}

/* --- bf16 --- */

static struct kernel *reorder_kernel(struct device *device, const struct layout *from,
                                     const struct layout *to) {
    struct op_call call = {.op = OP_REORDER, .in_count = 1, .out_count = 1};
    struct kernel *kernel = NULL;
    call.attrs.reorder.to = to;
    call.in[0] = from->type;
    call.out[0] = to->type;
    cr_assert_eq(kernel_create(device, &call, &from, &kernel), STATUS_OK);
    return kernel;
}

static void run_reorder(struct kernel *kernel, void *from, void *to) {
    void *scratch = aligned_bytes(kernel->scratch_bytes);
    cr_assert_eq(kernel_run(kernel, &from, &to, scratch, NULL), STATUS_OK);
    free(scratch);
}

/* Rounded from `from` to what the product wants: the bytes that oneDNN makes of rounded rows. */
static void check_rounding(struct device *device, const struct layout *from,
                           const struct layout *to) {
    int64_t count = shape_count(&from->type.shape);
    float *plain = MEM_ARRAY(float, count);
    uint16_t *rounded = MEM_ARRAY(uint16_t, count);
    for (int64_t i = 0; i < count; i++) {
        plain[i] = rng_normal(11, (uint64_t)i);
        rounded[i] = bf16_from_f32(plain[i]);
    }
    void *source = aligned_bytes(from->bytes), *have = aligned_bytes(to->bytes),
         *want = aligned_bytes(to->bytes);
    memset(have, 0xFF, to->bytes);
    cr_assert_eq(layout_from_plain(device, from, plain, source), STATUS_OK);
    cr_assert_eq(layout_from_plain(device, to, rounded, want), STATUS_OK);
    struct kernel *kernel = reorder_kernel(device, from, to);
    run_reorder(kernel, source, have);
    cr_expect(memcmp(have, want, to->bytes) == 0, "%lldx%lld, %s to %s by %s",
              (long long)from->type.shape.dim[0], (long long)from->type.shape.dim[1], from->text,
              to->text, kernel->name);
    kernel_free(&kernel);
    free(plain);
    free(rounded);
    free(source);
    free(have);
    free(want);
}

Test(backend_cpu, weights_are_rounded_into_blocks) {
    static const int64_t shapes[][2] = {{64, 64}, {10, 64}, {70, 50}, {96, 33}, {129, 16}, {5, 3}};
    struct device *device = open_cpu(2);
    if (cpu_bf16() != CPU_BF16_FAST) cr_skip_test("no bf16 on this machine");
    int loops = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const struct layout *none[OP_MAX_IN] = {0};
        struct op_call call = {.op = OP_LINEAR, .in_count = 2};
        struct kernel *kernel = NULL;
        char why[128];
        call.in[0] = (struct tensor_type){DTYPE_F32, SHAPE(24, shapes[s][1])};
        call.in[1] = (struct tensor_type){DTYPE_F32, SHAPE(shapes[s][0], shapes[s][1])};
        cr_assert_eq(op_infer(&call, why, sizeof why), STATUS_OK, "%s", why);
        const struct layout *plain = device->backend->plain(device, &call.in[1]);
        call.in[0].dtype = call.in[1].dtype = call.out[0].dtype = DTYPE_BF16;
        cr_assert_eq(kernel_create(device, &call, none, &kernel), STATUS_OK);
        cr_assert_not_null(kernel->rounded_from[1]);
        check_rounding(device, plain, kernel->in[1]);
        check_rounding(device, kernel->rounded_from[1], kernel->in[1]);
        struct kernel *reorder = reorder_kernel(device, kernel->rounded_from[1], kernel->in[1]);
        loops += strcmp(reorder->name, "loop:round") == 0;
        kernel_free(&reorder);
        kernel_free(&kernel);
    }
    cr_expect_gt(loops, 3);
    device_close(&device);
}

/* Neither the team nor the number of rows or samples shows in what our products make of one of
 * them. (Without AVX2 linear layers are oneDNN's, where both show.) */
static void check_any_team_and_batch(void) {
    for (int i = 0; i < 2; i++) {
        struct op_call many = {.op = OP_LINEAR, .in_count = 2}, few;
        many.in[0] = (struct tensor_type){DTYPE_F32, SHAPE(400, 96)};
        many.in[1] = (struct tensor_type){DTYPE_F32, SHAPE(80, 96)};
        if (i == 1) {
            many = (struct op_call){.op = OP_ATTENTION, .in_count = 1};
            many.attrs.attention.heads = 2, many.attrs.attention.packed = true;
            many.in[0] = (struct tensor_type){DTYPE_F32, SHAPE(5, 35, 96)};
        }
        few = many;
        few.in[0].shape.dim[0] = i == 0 ? 260 : 2;
        int64_t part = i == 0 ? 260 * 80 : 2 * 35 * 32, all = i == 0 ? 400 * 80 : 5 * 35 * 32;
        struct device *one = open_cpu(1);
        struct result a = run(one, many), b = run(one, few);
        device_close(&one);
        struct device *three = open_cpu(3);
        struct result c = run(three, many);
        device_close(&three);
        if (cpu_has_avx2() || i == 1) {
            cr_expect(memcmp(a.out[0], c.out[0], (size_t)all * sizeof(float)) == 0,
                      "%s: three threads give other bits", a.name);
            cr_expect(memcmp(a.out[0], b.out[0], (size_t)part * sizeof(float)) == 0,
                      "%s: a smaller batch gives other bits", a.name);
        }
        result_free(&a), result_free(&b), result_free(&c);
    }
}

Test(backend_cpu, products_are_the_same_for_any_team_and_batch) {
    check_any_team_and_batch();
}

/* oneDNN reads its limit when it is first asked: a test is a process of its own. */
Test(backend_cpu, products_are_the_same_for_any_team_and_batch_in_avx2) {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    check_any_team_and_batch();
}

/* Who makes the gradient, and whether its weights are plain. */
static void check_gradient(struct device *device, enum op op, int64_t rows, int64_t inputs,
                           bool ours, bool plain) {
    const struct layout *none[OP_MAX_IN] = {0};
    bool weight = op == OP_LINEAR_BWD_WEIGHT;
    struct op_call call = {.op = op, .in_count = 2};
    struct tensor_type w = {DTYPE_F32, SHAPE(512, inputs)}, dy = {DTYPE_F32, SHAPE(rows, 512)},
                       x = {DTYPE_F32, SHAPE(rows, inputs)};
    struct kernel *kernel = NULL;
    char why[256];
    call.in[0] = weight ? x : dy, call.in[1] = weight ? dy : w;
    cr_assert(op_infer(&call, why, sizeof why) == STATUS_OK, "%s", why);
    cr_assert(kernel_create(device, &call, none, &kernel) == STATUS_OK);
    cr_expect_eq(strncmp(kernel->name, "gemm:", 5) == 0, ours, "%lld x %lld: %s", (long long)rows,
                 (long long)inputs, kernel->name);
    if (plain) cr_expect((weight ? kernel->out[0] : kernel->in[1])->plain, "%s", kernel->name);
    kernel_free(&kernel);
}

/* Large gradients of a linear layer are oneDNN's, which packs them, and their weights stay plain on
 * any processor. Of others, those of inputs are made by our own product, and those of weights whose
 * rows alias. */
static void check_gradients(void) {
    struct device *device = open_cpu(1);
    bool ours = cpu_has_avx2();
    for (int i = 0; i < 2; i++) {
        enum op op = i ? OP_LINEAR_BWD_WEIGHT : OP_LINEAR_BWD_DATA;
        check_gradient(device, op, 512, 1024, false, true);
        check_gradient(device, op, 511, 1024, ours, ours);
        check_gradient(device, op, 512, 192, ours && i == 0, true);
        check_gradient(device, op, 255, 192, false, true);
    }
    device_close(&device);
}

Test(backend_cpu, large_gradients_of_linear_layers_are_packed_by_onednn) {
    check_gradients();
}

Test(backend_cpu, large_gradients_of_linear_layers_are_packed_by_onednn_in_avx2) {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    check_gradients();
}

/* With its operand kept, without, and as an operation of its own: an activation of a linear layer
 * has the same bits, whoever makes the product. */
Test(backend_cpu, activation_of_a_linear_layer_is_the_activation) {
    static const int64_t sizes[][3] = {{9, 24, 40}, {270, 24, 70}, {270, 1024, 40}};
    static const enum activation activations[] = {ACTIVATION_GELU, ACTIVATION_GELU_TANH,
                                                  ACTIVATION_SILU};
    struct device *device = open_cpu(2);
    for (int i = 0; i < 9; i++) {
        int64_t rows = sizes[i / 3][0], inputs = sizes[i / 3][1], outputs = sizes[i / 3][2];
        struct op_call call = {.op = OP_LINEAR, .in_count = 3};
        call.in[0] = (struct tensor_type){DTYPE_F32, SHAPE(rows, inputs)};
        call.in[1] = (struct tensor_type){DTYPE_F32, SHAPE(outputs, inputs)};
        call.in[2] = (struct tensor_type){DTYPE_F32, SHAPE(outputs)};
        size_t bytes = (size_t)(rows * outputs) * sizeof(float);
        struct result plain = run(device, call);
        call.attrs.activation = activations[i % 3];
        struct result alone = run(device, call);
        call.attrs.saves = true;
        struct result kept = run(device, call);
        eltwise_activation(call.attrs.activation)(plain.out[0], plain.out[0], plain.out[0],
                                                  rows * outputs);
        cr_expect_eq(memcmp(kept.out[0], plain.out[0], bytes), 0, "%s: another function",
                     kept.name);
        cr_expect_eq(memcmp(kept.out[0], alone.out[0], bytes), 0, "%s: keeping shows", kept.name);
        eltwise_activation(call.attrs.activation)(kept.out[1], kept.out[1], kept.out[1],
                                                  rows * outputs);
        cr_expect_eq(memcmp(kept.out[0], kept.out[1], bytes), 0, "%s: not its operand", kept.name);
        result_free(&plain), result_free(&alone), result_free(&kept);
    }
    device_close(&device);
}
