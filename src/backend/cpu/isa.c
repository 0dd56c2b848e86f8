/* Which instruction set oneDNN may use: tried in a child before it is trusted.
 *
 * Some virtual machines announce instructions that trap. So a child process runs a small
 * convolution and a small matmul, in bf16 too where there are instructions for it (AMX above all);
 * if it dies, the next lower set is tried, and the highest that lives becomes oneDNN's limit. The
 * child is forked before this process makes its first primitive, because the limit cannot change
 * afterwards. It runs alone (one OpenMP thread): a forked copy has no team. Ranks take the word of
 * the launcher, which has tried before. */
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "backend/registry.h"
#include "base/log.h"

struct isa {
    const char *name;
    dnnl_cpu_isa_t isa;
};

/* Highest first; names of what oneDNN may answer as effective. */
static const struct isa isas[] = {
    {"avx512_core_amx", dnnl_cpu_isa_avx512_core_amx},
    {"avx512_core_bf16", dnnl_cpu_isa_avx512_core_bf16},
    {"avx512_core_vnni", dnnl_cpu_isa_avx512_core_vnni},
    {"avx512_core", dnnl_cpu_isa_avx512_core},
    {"avx2_vnni", dnnl_cpu_isa_avx2_vnni},
    {"avx2", dnnl_cpu_isa_avx2},
    {"avx", dnnl_cpu_isa_avx},
    {"sse41", dnnl_cpu_isa_sse41},
};
enum { ISA_COUNT = sizeof isas / sizeof isas[0], CHILD_LIMIT_S = 20 };

static const char *isa_name(dnnl_cpu_isa_t isa) {
    for (int i = 0; i < ISA_COUNT; i++)
        if (isas[i].isa == isa) return isas[i].name;
    return isa > dnnl_cpu_isa_avx512_core ? "avx512_core and newer" : "default";
}

/* --- the trial --- */

enum { TRIAL_FLOATS = 16 * 16 * 16 };

/* Runs one primitive on zeros; a trap ends the child. */
static bool trial_run(dnnl_engine_t engine, const struct dnn_spec *spec, const int arguments[3]) {
    static float zeros[4][TRIAL_FLOATS] __attribute__((aligned(64)));
    static char scratchpad[1 << 20] __attribute__((aligned(64)));
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_exec_arg_t exec[4];
    if (dnn_describe(engine, spec, &pd) != STATUS_OK ||
        dnnl_primitive_create(&primitive, pd) != dnnl_success ||
        dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success ||
        dnn_md_bytes(dnn_pd_md(pd, DNNL_ARG_SCRATCHPAD)) > sizeof scratchpad)
        return false;
    for (int i = 0; i < 3; i++) {
        exec[i] =
            (dnnl_exec_arg_t){arguments[i], dnn_memory_new(engine, dnn_pd_md(pd, arguments[i]))};
        if (dnn_md_bytes(dnn_pd_md(pd, arguments[i])) > sizeof zeros[i]) return false;
        dnnl_memory_set_data_handle(exec[i].memory, zeros[i]);
    }
    exec[3] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD,
                                dnn_memory_new(engine, dnn_pd_md(pd, DNNL_ARG_SCRATCHPAD))};
    dnnl_memory_set_data_handle(exec[3].memory, scratchpad);
    return dnnl_primitive_execute(primitive, stream, 4, exec) == dnnl_success &&
           dnnl_stream_wait(stream) == dnnl_success;
}

/* In the child: nothing is given back, the process ends. */
static bool trial(void) {
    dnnl_engine_t engine = NULL;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) return false;
    struct dnn_spec conv = {.kind = DNN_CONV, .stride = {1, 1}, .dilation = {1, 1}, .pad = {1, 1}};
    conv.src = conv.dst = dnn_md_any(DTYPE_F32, 4, (int64_t[]){1, 16, 8, 8});
    conv.weights = dnn_md_any(DTYPE_F32, 4, (int64_t[]){16, 16, 3, 3});
    struct dnn_spec matmul = {.kind = DNN_MATMUL};
    matmul.src = matmul.weights = matmul.dst = dnn_md_new(DTYPE_F32, 2, (int64_t[]){32, 32}, NULL);
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (!trial_run(engine, &conv, arguments) || !trial_run(engine, &matmul, arguments))
        return false;
    if ((dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) !=
        dnnl_cpu_isa_avx512_core_bf16)
        return true;
    conv.src = conv.dst = dnn_md_any(DTYPE_BF16, 4, (int64_t[]){1, 16, 8, 8});
    conv.weights = dnn_md_any(DTYPE_BF16, 4, (int64_t[]){16, 16, 3, 3});
    matmul.src = matmul.weights = matmul.dst = dnn_md_new(DTYPE_BF16, 2, (int64_t[]){32, 32}, NULL);
    trial_run(engine, &conv, arguments); /* only a trap counts: f32 does not need them */
    trial_run(engine, &matmul, arguments);
    return true;
}

/* Does a child live that may use `isa` (NULL: whatever oneDNN takes by itself)? */
static bool survives(const struct isa *isa) {
    pid_t child = fork();
    if (child < 0) return true; /* no process to spare: trust it */
    if (child == 0) {
        alarm(CHILD_LIMIT_S);
        omp_set_num_threads(1);
        if (isa && dnnl_set_max_cpu_isa(isa->isa) != dnnl_success) _exit(2);
        _exit(trial() ? 0 : 1);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return true; /* somebody else reaps our children: no news of it */
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* --- once per process --- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum status probe_status;
static char probe_text[96];
static const char first_choice[] = "any"; /* that oneDNN makes by itself works */
static const char *tried_isa;
static dnnl_cpu_isa_t effective;

/* What the process that started this one has tried already. */
static bool is_tried(const char *name) {
    const char *tried = getenv(BACKEND_TRIED_ISA);
    return tried && strcmp(tried, name) == 0;
}

static void keep_first_choice(void) {
    snprintf(probe_text, sizeof probe_text, "%s", isa_name(dnnl_get_effective_cpu_isa()));
    tried_isa = first_choice;
}

static void limit_to(const struct isa *isa) {
    dnnl_set_max_cpu_isa(isa->isa);
    snprintf(probe_text, sizeof probe_text, "%s (higher ones announced here fail)", isa->name);
    log_warning("oneDNN's first choice of instructions traps on this machine; using %s", isa->name);
    tried_isa = isa->name;
}

static void find_isa(void) {
    if (is_tried(first_choice)) {
        keep_first_choice();
        return;
    }
    for (int i = 0; i < ISA_COUNT; i++) {
        if (!is_tried(isas[i].name)) continue;
        limit_to(&isas[i]);
        return;
    }
    if (survives(NULL)) {
        keep_first_choice();
        return;
    }
    for (int i = 0; i < ISA_COUNT; i++) {
        if (!survives(&isas[i])) continue;
        limit_to(&isas[i]);
        return;
    }
    probe_status = fail(STATUS_USAGE, "oneDNN runs with no instruction set on this machine\n"
                                      "--device ref needs none");
}

/* Kernels ask often: oneDNN's answer, which cannot change any more, is kept. */
static void probe(void) {
    find_isa();
    effective = dnnl_get_effective_cpu_isa();
}

enum status cpu_probe_isa(char *text, size_t bytes) {
    pthread_once(&once, probe);
    if (text && bytes) snprintf(text, bytes, "%s", probe_text);
    return probe_status;
}

const char *cpu_tried_isa(void) {
    return tried_isa;
}

static bool has(dnnl_cpu_isa_t isa) {
    cpu_probe_isa(NULL, 0);
    return (effective & isa) == isa;
}

bool cpu_has_avx512(void) {
    return has(dnnl_cpu_isa_avx512_core);
}

bool cpu_has_avx2(void) {
    return has(dnnl_cpu_isa_avx2);
}

enum cpu_bf16 cpu_bf16(void) {
    if (has(dnnl_cpu_isa_avx512_core_bf16)) return CPU_BF16_FAST;
    return cpu_has_avx512() ? CPU_BF16_EMULATED : CPU_BF16_NONE;
}
