/* Multi-head attention in bf16: batched matmuls of oneDNN over strided views of q, k and v, with
 * loops of our own for softmax, mask and dropout between them. Heads are never copied apart: a view
 * of [B,T,3C] or [B,T,C] as [B,h,T,D] has the strides to say it. The scale 1/sqrt(D) goes into the
 * softmax, where it is free. Scores and their gradients come from products as f32, and are rounded
 * when they are probabilities, or what the next product reads. In f32: attention.c. */
#include <math.h>
#include <string.h>

#include "backend/cpu/attention.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/softmax_row.h"
#include "base/rng.h"

/* Most tokens in bf16: a row is computed in f32 on the stack. */
enum { NARROW_TOKENS = 8192 };

static int64_t scores(const struct cpu_attention *a) {
    return a->batch * a->heads * a->tokens * a->tokens;
}

/* The second piece of scratch, where the first holds scores. */
static void *behind_scores(const struct cpu_attention *a, void *scratch) {
    return (char *)scratch + cpu_padded((size_t)scores(a) * sizeof(float));
}

/* --- views --- */

static const struct dnn_md *view(const struct cpu_attention *a, int64_t stride, bool transposed) {
    int64_t dim[] = {a->batch, a->heads, a->tokens, a->depth};
    int64_t step[] = {a->tokens * stride, a->depth, stride, 1};
    int64_t dim_t[] = {a->batch, a->heads, a->depth, a->tokens},
            step_t[] = {step[0], step[1], 1, stride};
    return transposed ? dnn_md_new(a->type, 4, dim_t, step_t) : dnn_md_new(a->type, 4, dim, step);
}

/* Scores or probabilities, `row` elements from one row to the next. */
static const struct dnn_md *square(const struct cpu_attention *a, enum dtype type, int64_t row,
                                   bool transposed) {
    int64_t T = a->tokens, dim[] = {a->batch, a->heads, T, T};
    int64_t step[] = {a->heads * T * row, T * row, transposed ? 1 : row, transposed ? row : 1};
    return dnn_md_new(type, 4, dim, step);
}

/* One matmul; frees the descriptors. */
static enum status multiply(struct cpu_kernel *kernel, const struct dnn_md *a,
                            struct cpu_bind from_a, const struct dnn_md *b, struct cpu_bind from_b,
                            const struct dnn_md *y, struct cpu_bind to) {
    struct dnn_spec spec = {.kind = DNN_MATMUL, .src = a, .weights = b, .dst = y};
    from_a.argument = DNNL_ARG_SRC;
    from_b.argument = DNNL_ARG_WEIGHTS;
    to.argument = DNNL_ARG_DST;
    enum status status = cpu_step(kernel, &spec, 3, (struct cpu_bind[]){from_a, from_b, to});
    dnn_md_free(a);
    dnn_md_free(b);
    dnn_md_free(y);
    return status;
}

/* Where part 0, 1, 2 (q, k, v) of the inputs from `first` on lies, or of the gradients among the
 * outputs. */
static struct cpu_bind part(const struct cpu_attention *a, enum cpu_place place, int first,
                            int which) {
    if (!a->packed) return (struct cpu_bind){0, place, first + which, 0};
    return (struct cpu_bind){0, place, first, (size_t)(which * a->channels) * dtype_bytes(a->type)};
}

/* --- loops --- */

/* In bf16 scratch begins with the scores. */
static void run_softmax(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        void *scratch) {
    struct cpu_attention a = cpu_attention_of(&kernel->call);
    const int32_t *mask = a.mask < 0 ? NULL : in[a.mask];
    float *p = scratch, scale = 1.0f / sqrtf((float)a.depth);
    int64_t T = a.tokens, rows = a.heads * T;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a.batch * rows; r++) {
        struct softmax_block block = {.s = p + r * T,
                                      .p = p + r * T,
                                      .rows = 1,
                                      .seen = a.causal ? r % T + 1 : T,
                                      .tokens = T,
                                      .scale = scale,
                                      .mask = mask ? mask + r / rows * T : NULL};
        softmax_rows_any.forward(&block);
        cpu_write(a.type, p + r * T, out[1], r * T, T);
    }
}

/* What dropout leaves of p, as the product reads it. */
static void drop_narrow(const struct cpu_kernel *kernel, const struct cpu_attention *a,
                        const uint64_t *key, const uint16_t *p, uint16_t *used) {
    int64_t count = a->heads * a->tokens * a->tokens;
    const struct op_attrs *attrs = &kernel->call.attrs;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < a->batch; b++) {
        struct cpu_drop drop;
        cpu_drop_begin(&drop, rng_key(key[b], attrs->attention.place), attrs->attention.dropout,
                       count);
        cpu_drop_narrow(&drop, p + b * count, used + b * count);
    }
}

static void run_drop(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                     void *scratch) {
    struct cpu_attention a = cpu_attention_of(&kernel->call);
    drop_narrow(kernel, &a, in[a.key], out[1], behind_scores(&a, scratch));
}

/* Backward: scratch holds the gradient of p, and behind it p as it was used (after dropout). */
static void run_drop_bwd(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                         void *scratch) {
    (void)out;
    struct cpu_attention a = cpu_attention_of(&kernel->call);
    const struct op_attrs *attrs = &kernel->call.attrs;
    const uint64_t *key = in[a.key];
    int64_t count = a.heads * a.tokens * a.tokens;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < a.batch; b++) {
        float *dp = (float *)scratch + b * count;
        struct cpu_drop drop;
        cpu_drop_begin(&drop, rng_key(key[b], attrs->attention.place), attrs->attention.dropout,
                       count);
        cpu_drop(&drop, 0, count, 1, (const float *[]){dp}, (float *[]){dp});
    }
    drop_narrow(kernel, &a, key, in[1], behind_scores(&a, scratch));
}

/* The gradient of a row of scores is rounded to where the row begins: rows lie 2 T apart.
 */
static void run_softmax_bwd(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                            void *scratch) {
    (void)out;
    struct cpu_attention a = cpu_attention_of(&kernel->call);
    float *dp = scratch, scale = 1.0f / sqrtf((float)a.depth);
    int64_t T = a.tokens;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a.batch * a.heads * T; r++) {
        float room[NARROW_TOKENS], *row = dp + r * T;
        struct softmax_block block = {.s = row, .rows = 1, .seen = T, .tokens = T, .scale = scale};
        block.p = (float *)cpu_read(a.type, in[1], r * T, T, room);
        softmax_rows_any.backward(&block);
        memcpy(room, row, (size_t)T * sizeof *row);
        cpu_write(a.type, room, row, 0, T);
    }
}

/* --- kernels --- */

/* oneDNN 3.7 takes strides over a single row wrongly. */
static bool takes(const struct cpu_attention *a) {
    return a->tokens > 1 && a->tokens <= NARROW_TOKENS;
}

enum status cpu_attention_narrow(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    struct cpu_attention a = cpu_attention_of(&kernel->call);
    size_t count = (size_t)scores(&a);
    if (!takes(&a)) return STATUS_NO;
    struct cpu_bind p = {0, CPU_OUT, 1, 0}, y = {0, CPU_OUT, 0, 0}, used = p,
                    raw = {0, CPU_SCRATCH, 0, cpu_scratch(kernel, 4 * count)};
    if (a.key >= 0)
        used =
            (struct cpu_bind){0, CPU_SCRATCH, 0, cpu_scratch(kernel, count * dtype_bytes(a.type))};
    TRY(multiply(kernel, view(&a, a.stride, false), part(&a, CPU_IN, 0, 0),
                 view(&a, a.stride, true), part(&a, CPU_IN, 0, 1),
                 square(&a, DTYPE_F32, a.tokens, false), raw));
    cpu_step_loop(kernel, run_softmax);
    if (a.key >= 0) cpu_step_loop(kernel, run_drop);
    return multiply(kernel, square(&a, a.type, a.tokens, false), used, view(&a, a.stride, false),
                    part(&a, CPU_IN, 0, 2), view(&a, a.channels, false), y);
}

enum status cpu_attention_narrow_bwd(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    struct cpu_attention a = cpu_attention_of(&kernel->call);
    if (!takes(&a)) return STATUS_NO;
    size_t count = (size_t)scores(&a);
    int64_t T = a.tokens, row = 2 * T; /* of ds */
    struct cpu_bind dy = {0, CPU_IN, 0, 0}, used = {0, CPU_IN, 1, 0},
                    ds = {0, CPU_SCRATCH, 0, cpu_scratch(kernel, 4 * count)};
    if (a.key >= 0)
        used =
            (struct cpu_bind){0, CPU_SCRATCH, 0, cpu_scratch(kernel, count * dtype_bytes(a.type))};
    TRY(multiply(kernel, view(&a, a.channels, false), dy, view(&a, a.stride, true),
                 part(&a, CPU_IN, 2, 2), square(&a, DTYPE_F32, T, false), ds));
    if (a.key >= 0) cpu_step_loop(kernel, run_drop_bwd);
    TRY(multiply(kernel, square(&a, a.type, T, true), used, view(&a, a.channels, false), dy,
                 view(&a, a.stride, false), part(&a, CPU_OUT, 0, 2)));
    cpu_step_loop(kernel, run_softmax_bwd);
    TRY(multiply(kernel, square(&a, a.type, row, false), ds, view(&a, a.stride, false),
                 part(&a, CPU_IN, 2, 1), view(&a, a.stride, false), part(&a, CPU_OUT, 0, 0)));
    return multiply(kernel, square(&a, a.type, row, true), ds, view(&a, a.stride, false),
                    part(&a, CPU_IN, 2, 0), view(&a, a.stride, false), part(&a, CPU_OUT, 0, 1));
}
