/* The cpu backend: the reference table overlaid by oneDNN and by loops of our own.
 *
 * Each operation has at most one creator below; where there is none, or it answers STATUS_NO (a
 * type or layout it does not take), the reference kernel of the operation runs on plain layouts and
 * explain shows "ref". Creators take f32, and bf16 where the row says so; other operations on bf16
 * run between conversions (narrow.c). One device belongs to one thread; its OpenMP team is
 * fixed when it opens, because a primitive made for one team size and run on another writes part of
 * its result. */
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/blend.h"
#include "backend/cpu/cpu.h"
#include "backend/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "op/precision.h"

/* Makes a kernel; `narrow` says whether of bf16 tensors too. */
static const struct {
    cpu_creator *create;
    bool narrow;
} creators[OP_COUNT] = {
#define OP(NAME, name, doc)
#define ACTIVATION(NAME, name, doc)                                                                \
    [OP_##NAME] = {cpu_eltwise, true}, [OP_##NAME##_BWD] = {cpu_eltwise, true},
#include "op/op.def"
#undef OP
    [OP_CONV2D] = {cpu_conv, true},
    [OP_CONV2D_BWD_DATA] = {cpu_conv, true},
    [OP_CONV2D_BWD_WEIGHT] = {cpu_conv, true},
    [OP_LINEAR] = {cpu_linear, true},
    [OP_LINEAR_BWD_DATA] = {cpu_linear_bwd_data, true},
    [OP_LINEAR_BWD_WEIGHT] = {cpu_linear_bwd_weight, true},
    [OP_MATMUL] = {cpu_matmul, true},
    [OP_BATCH_NORM] = {cpu_batch_norm, true},
    [OP_BATCH_NORM_BWD] = {cpu_batch_norm_bwd, true},
    [OP_BATCH_NORM_EVAL] = {cpu_batch_norm_eval, true},
    [OP_BATCH_NORM_STATS] = {cpu_batch_norm_stats, true},
    [OP_BATCH_NORM_APPLY] = {cpu_batch_norm_apply, true},
    [OP_BATCH_NORM_BWD_STATS] = {cpu_batch_norm_bwd_stats, true},
    [OP_BATCH_NORM_BWD_APPLY] = {cpu_batch_norm_bwd_apply, true},
    [OP_LAYER_NORM] = {cpu_layer_norm, true},
    [OP_LAYER_NORM_BWD] = {cpu_layer_norm_bwd, true},
    [OP_DROPOUT] = {cpu_dropout, true},
    [OP_SOFTMAX] = {cpu_softmax, false},
    [OP_LOG_SOFTMAX] = {cpu_softmax, false},
    [OP_SOFTMAX_BWD] = {cpu_softmax, false},
    [OP_LOG_SOFTMAX_BWD] = {cpu_softmax, false},
    [OP_CROSS_ENTROPY] = {cpu_cross_entropy, false},
    [OP_CROSS_ENTROPY_BWD] = {cpu_cross_entropy_bwd, false},
    [OP_TOP_K] = {cpu_top_k, false},
    [OP_ATTENTION] = {cpu_attention, true},
    [OP_ATTENTION_BWD] = {cpu_attention_bwd, true},
    [OP_MAX_POOL] = {cpu_pool, false},
    [OP_MAX_POOL_BWD] = {cpu_pool_bwd, false},
    [OP_AVG_POOL] = {cpu_pool, false},
    [OP_AVG_POOL_BWD] = {cpu_pool_bwd, false},
    [OP_ADD] = {cpu_add, true},
    [OP_SUM_BATCH] = {cpu_sum_batch, false},
    [OP_EMBEDDING_BWD] = {cpu_embedding_bwd, false},
    [OP_TRANSPOSE] = {cpu_transpose, true},
    [OP_REORDER] = {cpu_reorder, true},
};

static struct cpu_device *own(struct device *device) {
    return (struct cpu_device *)device;
}

static const struct layout *plain(struct device *device, const struct tensor_type *type) {
    return cpu_layout(own(device), type, NULL);
}

/* --- devices --- */

/* Threads that a parallel region really has; the workers start here. Signals are for a rank's own
 * thread (base/thread.h), so the workers must inherit a mask that blocks them. */
static int count_team(void) {
    sigset_t all, before;
    int count = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
#pragma omp parallel reduction(+ : count)
    count += 1;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return count;
}

/* OpenMP's settings belong to a thread and come from the environment. What can be set is set; the
 * answers of OpenMP do not tell the rest, so a team is run and counted. */
static enum status fix_team(int threads) {
    if (omp_in_parallel())
        return fail(STATUS_USAGE, "a device cannot be opened inside an OpenMP parallel region");
    omp_set_num_threads(threads);
    omp_set_dynamic(0);
    if (omp_get_max_active_levels() < 1) omp_set_max_active_levels(1);
    int got = count_team();
    if (got == threads) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--threads %d: OpenMP runs a team of %d (its thread limit is %d)\n"
                "  unset OMP_THREAD_LIMIT, or give --threads %d",
                threads, got, omp_get_thread_limit(), got);
}

static void cpu_close(struct device *device) {
    struct cpu_device *cpu = own(device);
    cpu_layouts_free(cpu);
    if (cpu->stream) dnnl_stream_destroy(cpu->stream);
    if (cpu->engine) dnnl_engine_destroy(cpu->engine);
    free(cpu);
}

extern const struct backend backend_cpu;

static enum status cpu_open(int index, int threads, struct device **out) {
    if (index != 0) return fail(STATUS_USAGE, "device cpu:%d: there is one cpu device, 0", index);
    TRY(cpu_probe_isa(NULL, 0)); /* forks: before there are workers */
    TRY(fix_team(threads));
    struct cpu_device *cpu = MEM_NEW(struct cpu_device);
    cpu->base = (struct device){.backend = &backend_cpu, .index = index, .threads = threads};
    if (dnnl_engine_create(&cpu->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&cpu->stream, cpu->engine, dnnl_stream_default_flags) != dnnl_success) {
        cpu_close(&cpu->base);
        return fail(STATUS_USAGE, "oneDNN has no CPU engine here");
    }
    *out = &cpu->base;
    return STATUS_OK;
}

static void cpu_isa(int index, char *text, size_t bytes) {
    (void)index;
    snprintf(text, bytes, "unknown");
    cpu_probe_isa(text, bytes);
}

static void cpu_describe(struct device *device, char *text, size_t bytes) {
    const dnnl_version_t *version = dnnl_version();
    char isa[96];
    cpu_isa(device->index, isa, sizeof isa);
    snprintf(text, bytes, "oneDNN %d.%d.%d, %s, %d thread%s", version->major, version->minor,
             version->patch, isa, device->threads, device->threads == 1 ? "" : "s");
}

/* --- kernels --- */

static void run_reference(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                          void *scratch) {
    op_def(kernel->call.op)->run(&kernel->call, in, out, scratch);
}

static void kernel_start(struct cpu_kernel *kernel, struct device *device,
                         const struct op_call *call) {
    memset(kernel, 0, sizeof *kernel);
    kernel->base.device = device;
    kernel->call = *call;
    for (int i = 0; i < call->in_count; i++) kernel->base.in[i] = plain(device, &call->in[i]);
    for (int i = 0; i < call->out_count; i++) kernel->base.out[i] = plain(device, &call->out[i]);
}

static void kernel_clear(struct cpu_kernel *kernel) {
    for (int i = 0; i < kernel->step_count; i++) {
        struct cpu_step *step = &kernel->step[i];
        if (step->primitive) dnnl_primitive_destroy(step->primitive);
        for (int j = 0; j < step->count; j++) dnnl_memory_destroy(step->exec[j].memory);
    }
    if (!kernel->inner) return;
    kernel_clear(kernel->inner);
    free(kernel->inner);
}

static void create_reference(struct cpu_kernel *kernel) {
    const struct op_def *def = op_def(kernel->call.op);
    if (def->scratch_bytes) kernel->base.scratch_bytes = def->scratch_bytes(&kernel->call);
    cpu_step_loop(kernel, run_reference);
    cpu_name(kernel, "ref");
}

static bool has_f16(const struct op_call *call) {
    for (int i = 0; i < call->in_count; i++)
        if (call->in[i].dtype == DTYPE_F16) return true;
    return false;
}

static bool cpu_supports(struct device *device, const struct op_call *call) {
    (void)device;
    return !has_f16(call) && (!op_call_is_narrow(call) || cpu_bf16() != CPU_BF16_NONE);
}

/* Emulation is for tests on machines that lack the instructions. */
static enum status cpu_takes(struct device *device, enum dtype dtype) {
    const char *asked = getenv("STRETTO_CPU_BF16");
    bool emulate = asked && strcmp(asked, "emulate") == 0;
    char isa[96];
    if (dtype == DTYPE_F32) return STATUS_OK;
    if (dtype != DTYPE_BF16)
        return fail(STATUS_USAGE, "--dtype %s: device cpu has f32 and bf16", dtype_name(dtype));
    if (cpu_bf16() == CPU_BF16_FAST || (cpu_bf16() == CPU_BF16_EMULATED && emulate))
        return STATUS_OK;
    cpu_isa(device->index, isa, sizeof isa);
    return fail(STATUS_USAGE, "--dtype bf16: oneDNN has no bf16 instructions here (%s); use f32",
                isa);
}

/* By the operation's creator, else (STATUS_NO) in f32 between conversions or by the reference. */
static enum status kernel_fill(struct cpu_kernel *kernel, struct device *device,
                               const struct op_call *call, const struct layout *const in[]) {
    bool is_narrow = op_call_is_narrow(call);
    enum status status = STATUS_NO;
    kernel_start(kernel, device, call);
    if (creators[call->op].create && (!is_narrow || creators[call->op].narrow))
        status = creators[call->op].create(kernel, in);
    if (status != STATUS_NO) return status;
    kernel_clear(kernel);
    kernel_start(kernel, device, call);
    if (is_narrow) return cpu_widened(kernel, in);
    create_reference(kernel);
    return STATUS_OK;
}

static enum status cpu_kernel_create(struct device *device, const struct op_call *call,
                                     const struct layout *const in[], struct kernel **out) {
    struct cpu_kernel *kernel = MEM_NEW(struct cpu_kernel);
    enum status status = kernel_fill(kernel, device, call, in);
    if (status != STATUS_OK) {
        kernel_clear(kernel);
        free(kernel);
        return status;
    }
    *out = &kernel->base;
    return STATUS_OK;
}

static void cpu_kernel_free(struct kernel *kernel) {
    kernel_clear((struct cpu_kernel *)kernel);
    free(kernel);
}

static enum status run_primitive(const struct cpu_kernel *kernel, const struct cpu_step *step,
                                 void *const in[], void *const out[], void *scratch) {
    for (int i = 0; i < step->count; i++) {
        const struct cpu_bind *bind = &step->bind[i];
        char *base = bind->place == CPU_IN    ? in[bind->index]
                     : bind->place == CPU_OUT ? out[bind->index]
                                              : scratch;
        dnnl_memory_set_data_handle(step->exec[i].memory, base + bind->offset_bytes);
    }
    dnnl_stream_t stream = cpu_device_of(kernel)->stream;
    dnnl_status_t status = dnnl_primitive_execute(step->primitive, stream, step->count, step->exec);
    if (status == dnnl_success) return STATUS_OK;
    return fail(status == dnnl_out_of_memory ? STATUS_MEMORY : STATUS_BUG,
                "%s of %s: oneDNN status %d", kernel->name, op_def(kernel->call.op)->name,
                (int)status);
}

static enum status run_step(const struct cpu_kernel *kernel, const struct cpu_step *step,
                            void *const in[], void *const out[], void *scratch) {
    if (!step->loop) return run_primitive(kernel, step, in, out, scratch);
    step->loop(kernel, in, out, scratch);
    return STATUS_OK;
}

void cpu_run_inner(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                   void *scratch) {
    const struct cpu_kernel *inner = kernel->inner;
    for (int i = 0; i < inner->step_count; i++)
        CHECK(run_step(inner, &inner->step[i], in, out, scratch) == STATUS_OK, "%s failed",
              inner->name);
}

static enum status cpu_kernel_run(struct kernel *base, void *const in[], void *const out[],
                                  void *scratch, struct stream *stream) {
    (void)stream;
    const struct cpu_kernel *kernel = (const struct cpu_kernel *)base;
    for (int i = 0; i < kernel->step_count; i++)
        TRY(run_step(kernel, &kernel->step[i], in, out, scratch));
    return STATUS_OK;
}

/* --- cost --- */

/* A roofline a thread: arithmetic and memory do not overlap well in code that is one or the other.
 * The constants are of server cores of 2022; profiles replace them where they matter. */
static double cpu_cost_ns(struct device *device, const struct op_call *call) {
    struct op_cost cost = op_cost(call);
    double flops_per_ns = cpu_has_avx512() ? 120 : 60, bytes_per_ns = 12, launch_ns = 500;
    bool dense = op_def(call->op)->flags & OP_PRODUCT;
    if (!dense) flops_per_ns /= 8;
    if (dense && op_call_is_narrow(call)) flops_per_ns *= 2; /* products of two in a lane */
    double threads = device->threads;
    return launch_ns + cost.flops / (flops_per_ns * threads) +
           cost.bytes / (bytes_per_ns * threads);
}

/* --- memory --- */

/* oneDNN makes all its gemm kernels when the first one runs. */
static void multiply_once(void) {
    enum { SIDE = 32 };
    static float zeros[3][SIDE * SIDE];
    dnnl_sgemm('N', 'N', SIDE, SIDE, SIDE, 1, zeros[0], SIDE, zeros[1], SIDE, 0, zeros[2], SIDE);
}

/* Those of bf16 apart, by a product whose weights lie in the other order: other products are not
 * made by gemm. */
static void multiply_narrow(const struct cpu_device *device) {
    enum { SIDE = 32 };
    static float zeros[3][SIDE * SIDE];
    static const int64_t dim[] = {SIDE, SIDE}, across[] = {1, SIDE};
    struct cpu_device wet = *device; /* which may be dry */
    struct cpu_kernel kernel = {.base = {.device = &wet.base}};
    struct dnn_spec spec = {.kind = DNN_INNER,
                            .src = dnn_md_new(DTYPE_BF16, 2, dim, NULL),
                            .weights = dnn_md_new(DTYPE_BF16, 2, dim, across),
                            .dst = dnn_md_new(DTYPE_BF16, 2, dim, NULL)};
    struct cpu_bind bind[] = {{DNNL_ARG_SRC, CPU_IN, 0, 0},
                              {DNNL_ARG_WEIGHTS, CPU_IN, 1, 0},
                              {DNNL_ARG_DST, CPU_OUT, 0, 0}};
    wet.base.dry = false;
    if (cpu_step(&kernel, &spec, 3, bind) == STATUS_OK) {
        void *scratch = mem_new(kernel.base.scratch_bytes + 1);
        (void)run_step(&kernel, &kernel.step[0], (void *[]){zeros[0], zeros[1]},
                       (void *[]){zeros[2]}, scratch);
        free(scratch);
    }
    kernel_clear(&kernel);
    dnn_spec_free(&spec);
}

static void cpu_warm_up(struct device *device, enum op op, bool narrow) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static atomic_flag narrow_done = ATOMIC_FLAG_INIT;
    if (!(op_def(op)->flags & OP_PRODUCT) || creators[op].create == cpu_conv) return;
    pthread_once(&once, multiply_once);
    if (narrow && !atomic_flag_test_and_set(&narrow_done))
        multiply_narrow((const struct cpu_device *)device);
}

const struct backend backend_cpu = {
    .name = "cpu",
    .warm_up = cpu_warm_up,
    .help = "CPU kernels of oneDNN and of our own",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .isa = cpu_isa,
    .tried_isa = cpu_tried_isa,
    .takes = cpu_takes,
    .supports = cpu_supports,
    .cost_ns = cpu_cost_ns,
    .plain = plain,
    .kernel_create = cpu_kernel_create,
    .kernel_free = cpu_kernel_free,
    .kernel_run = cpu_kernel_run,
    .memory_new = host_memory_new,
    .memory_free = host_memory_free,
    .pinned_new = host_memory_new,
    .pinned_free = host_memory_free,
    .pin = host_pin,
    .unpin = host_unpin,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .array_copy = host_array_copy,
    .array_fill = cpu_array_fill,
    .blend = &backend_host_blend,
    .array_add = cpu_array_add,
    .array_squares = cpu_array_squares,
    .array_sum = host_array_sum,
    .array_decide = host_array_decide,
    .array_check = cpu_array_check,
    .array_update = cpu_array_update,
    .stream_new = host_stream_new,
    .stream_free = host_stream_free,
    .stream_wait = host_stream_wait,
    .event_new = host_event_new,
    .event_free = host_event_free,
    .event_record = host_event_record,
    .stream_wait_event = host_stream_wait_event,
    .event_wait = host_event_wait,
    .event_done = host_event_done,
    .event_ns = host_event_ns,
};
