/* Elementwise operations: loops over the bytes as they lie, in whatever layout the inputs share.
 * Padding stays zero, because each of these functions is zero at zero. Memory is the limit (or exp,
 * in gelu), so plain C that the compiler turns into vectors does as well as a library and saves a
 * pass where two inputs are combined.
 *
 * ReLU after oneDNN's convolutions and inner products is done here too, not by its post-op: that
 * one is max(x, 0) with the operands such that a NaN becomes 0 (seen with 2.6 and 3.7, on SSE4.1,
 * AVX2 and AVX-512, direct, Winograd and gemm kernels alike), and a network that computes rubbish
 * would train on. The price is a pass over a result that mostly lies in the cache. Its tanh keeps
 * a NaN. */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/eltwise.h"
#include "backend/cpu/scalar.h"
#include "base/clones.h"
#include "base/log.h"
#include "base/rng.h"

#define TANH_GELU_K 0.79788456f
#define TANH_GELU_C 0.044715f

/* Written so that a NaN passes, as in torch; still one instruction (max, its second operand x). */
static inline float relu(float x) {
    return x < 0.0f ? 0.0f : x;
}

static inline float gelu(float x) {
    float density;
    return x * scalar_phi(x, &density);
}

static inline float gelu_slope(float x) {
    float density, phi = scalar_phi(x, &density);
    return phi + x * density * 0.39894228f;
}

/* x * (1 + tanh(u)) / 2 is x * sigmoid(2u). */
static inline float gelu_tanh_gate(float x) {
    float u = TANH_GELU_K * (x + TANH_GELU_C * x * x * x);
    return 1.0f / (1.0f + scalar_exp(-2.0f * u));
}

/* Beyond 30 the gate is 0 or 1, and the square must not overflow: 0 times infinity is no number.
 */
static inline float gelu_tanh_slope(float x) {
    float near = x < -30.0f ? -30.0f : x > 30.0f ? 30.0f : x;
    float gate = gelu_tanh_gate(x), du = TANH_GELU_K * (1.0f + 3.0f * TANH_GELU_C * near * near);
    return gate + 2.0f * gate * (1.0f - gate) * x * du;
}

static inline float silu_gate(float x) {
    return 1.0f / (1.0f + scalar_exp(-x));
}

static inline float silu_slope(float x) {
    float gate = silu_gate(x);
    return gate * (1.0f + x * (1.0f - gate));
}

/* One span function a row; `a` and `b` are the elements, the result may overwrite either input. */
#define SPAN(name, result)                                                                         \
    VECTOR_CLONES static void name(const float *first, const float *second, float *to,             \
                                   int64_t count) {                                                \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {                                  \
            float a = first[i], b = second[i];                                                     \
            (void)b;                                                                               \
            to[i] = result;                                                                        \
        }                                                                                          \
    }
SPAN(relu_span, relu(a))
SPAN(gelu_span, gelu(a))
SPAN(gelu_tanh_span, a *gelu_tanh_gate(a))
SPAN(tanh_span, scalar_tanh(a))
SPAN(silu_span, a *silu_gate(a))
SPAN(relu_bwd_span, b <= 0.0f ? 0.0f : a)
SPAN(gelu_bwd_span, a *gelu_slope(b))
SPAN(gelu_tanh_bwd_span, a *gelu_tanh_slope(b))
SPAN(tanh_bwd_span, a *(1.0f - b * b))
SPAN(silu_bwd_span, a *silu_slope(b))
SPAN(add_span, a + b)
SPAN(add_relu_span, relu(a + b))
SPAN(add_tanh_span, scalar_tanh(a + b))
#undef SPAN

static eltwise_span *gelu_of(bool backward) {
#if defined(__x86_64__)
    if (cpu_has_avx512()) return backward ? gelu_bwd_span_512 : gelu_span_512;
    if (cpu_has_avx2()) return backward ? gelu_bwd_span_256 : gelu_span_256;
#endif
    return backward ? gelu_bwd_span : gelu_span;
}

/* NULL: there is none of our own. */
static eltwise_span *function_span(enum activation activation, bool backward) {
    static eltwise_span *const spans[ACTIVATION_COUNT][2] = {
        [ACTIVATION_RELU] = {relu_span, relu_bwd_span},
        [ACTIVATION_GELU_TANH] = {gelu_tanh_span, gelu_tanh_bwd_span},
        [ACTIVATION_TANH] = {tanh_span, tanh_bwd_span},
        [ACTIVATION_SILU] = {silu_span, silu_bwd_span},
    };
    return activation == ACTIVATION_GELU ? gelu_of(backward) : spans[activation][backward];
}

static eltwise_span *span_of(const struct op_call *call) {
    const struct op_function *function = op_def(call->op)->function;
    if (function) return function_span(function->activation, call->op == function->backward);
    return call->attrs.activation == ACTIVATION_RELU   ? add_relu_span
           : call->attrs.activation == ACTIVATION_TANH ? add_tanh_span
                                                       : add_span;
}

eltwise_span *eltwise_activation(enum activation activation) {
    return function_span(activation, false);
}

/* Blocks of bf16 are widened and rounded while they lie in the first-level cache. */
enum { NARROW_BLOCK = 2048 };

/* body(first, second, to) for elements [begin, end); `second` is read from element `from` on. */
static void apply(const struct op_call *call, void *const in[], void *to, eltwise_span *body,
                  int64_t begin, int64_t end, int64_t from) {
    int second = call->in_count > 1, n = NARROW_BLOCK;
    enum dtype a_type = call->in[0].dtype, b_type = call->in[second].dtype,
               y_type = call->out[0].dtype;
    if (a_type == DTYPE_F32 && b_type == DTYPE_F32 && y_type == DTYPE_F32) {
        body((const float *)in[0] + begin, (const float *)in[second] + from, (float *)to + begin,
             end - begin);
        return;
    }
    float room[3][NARROW_BLOCK];
    for (int64_t at = begin; at < end; at += n) {
        int64_t count = end - at < n ? end - at : n;
        const float *a = cpu_read(a_type, in[0], at, count, room[0]),
                    *b = second ? cpu_read(b_type, in[second], from + at - begin, count, room[1])
                                : a;
        float *y = cpu_room(y_type, to, at, room[2]);
        body(a, b, y, count);
        cpu_write(y_type, y, to, at, count);
    }
}

static void run_span(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                     void *scratch) {
    (void)scratch;
    eltwise_span *body = span_of(&kernel->call);
    CPU_PIECES(kernel->count, begin, end)
    apply(&kernel->call, in, out[0], body, begin, end, begin);
}

static const struct layout *typed(const struct cpu_kernel *kernel, const struct layout *layout,
                                  enum dtype dtype) {
    return layout->type.dtype == dtype ? layout
                                       : cpu_layout_as(cpu_device_of(kernel), layout, dtype);
}

/* Has the layout a twin of each element type? */
static bool suits_all(const struct cpu_kernel *kernel, const struct layout *layout) {
    for (int i = 0; i < kernel->call.in_count; i++)
        if (!typed(kernel, layout, kernel->call.in[i].dtype)) return false;
    return typed(kernel, layout, kernel->call.out[0].dtype) != NULL;
}

/* The layout all operands take: the first that is not plain, since making blocked from plain costs
 * as much as the other way and the next kernel is likely to want it blocked. */
static const struct layout *shared_layout(const struct cpu_kernel *kernel,
                                          const struct layout *const in[]) {
    for (int i = 0; i < kernel->call.in_count; i++)
        if (in[i] && !in[i]->plain && cpu_md(in[i]) &&
            shape_equal(&in[i]->type.shape, &kernel->call.out[0].shape) && suits_all(kernel, in[i]))
            return in[i];
    return kernel->base.out[0];
}

enum status cpu_eltwise(struct cpu_kernel *kernel, const struct layout *const in[]) {
    if (!span_of(&kernel->call)) return STATUS_NO;
    const struct layout *layout = shared_layout(kernel, in);
    for (int i = 0; i < kernel->call.in_count; i++)
        kernel->base.in[i] = typed(kernel, layout, kernel->call.in[i].dtype);
    kernel->base.out[0] = typed(kernel, layout, kernel->call.out[0].dtype);
    kernel->count = (int64_t)(layout->bytes / dtype_bytes(layout->type.dtype));
    cpu_step_loop(kernel, run_span);
    cpu_name(kernel, "loop:eltwise");
    return STATUS_OK;
}

static void run_relu_in_place(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                              void *scratch) {
    (void)in, (void)scratch;
    const struct layout *layout = kernel->base.out[0];
    struct op_call relu = {.op = OP_RELU, .in_count = 1, .out_count = 1};
    relu.in[0] = relu.out[0] = kernel->call.out[0];
    CPU_PIECES((int64_t)(layout->bytes / dtype_bytes(layout->type.dtype)), begin, end)
    apply(&relu, out, out[0], relu_span, begin, end, begin);
}

void cpu_step_relu(struct cpu_kernel *kernel) {
    if (kernel->call.attrs.activation == ACTIVATION_RELU) cpu_step_loop(kernel, run_relu_in_place);
}

/* --- add with a second operand shared by the batch --- */

static void run_add_rows(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                         void *scratch) {
    (void)scratch;
    int64_t columns = kernel->columns;
    eltwise_span *body = span_of(&kernel->call);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < kernel->rows; r++)
        apply(&kernel->call, in, out[0], body, r * columns, (r + 1) * columns, 0);
}

enum status cpu_add(struct cpu_kernel *kernel, const struct layout *const in[]) {
    const struct shape *a = &kernel->call.in[0].shape, *b = &kernel->call.in[1].shape;
    if (shape_equal(a, b)) return cpu_eltwise(kernel, in);
    kernel->rows = a->dim[0];
    kernel->columns = shape_span(a, 1, a->rank);
    if (shape_count(b) != kernel->columns) return STATUS_NO;
    cpu_step_loop(kernel, run_add_rows);
    cpu_name(kernel, "loop:eltwise");
    return STATUS_OK;
}

/* --- dropout --- */

VECTOR_CLONES static void drop_span(const float *x, const uint32_t *words, uint32_t limit,
                                    float factor, float *y, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) /* a NaN that is dropped stays one */
        y[i] = x[i] * (words[i] >= limit ? factor : 0.0f);
}

/* A uniform number is the upper 24 bits of a word: it is below p where the word is below p 2^32,
 * rounded up to these bits. */
void cpu_drop_begin(struct cpu_drop *drop, uint64_t key, float p, int64_t last) {
    drop->key = key;
    drop->limit = (uint32_t)ceilf(p * 0x1p24f) << 8;
    drop->factor = 1.0f / (1.0f - p);
    drop->begin = drop->end = 0;
    drop->last = last;
}

/* Words of the elements from `first` on; those of a block come together. */
static void make_words(struct cpu_drop *drop, int64_t first) {
    drop->begin = first / 4 * 4;
    int64_t left = drop->last - drop->begin, count = left < CPU_DROP_WORDS ? left : CPU_DROP_WORDS;
    drop->end = drop->begin + count;
    rng_words(drop->key, (uint64_t)first / 4, (count + 3) / 4, drop->words);
}

void cpu_drop(struct cpu_drop *drop, int64_t first, int64_t count, int tensors,
              const float *const x[], float *const y[]) {
    for (int64_t at = 0, n; at < count; at += n) {
        int64_t next = first + at;
        if (next < drop->begin || next >= drop->end) make_words(drop, next);
        n = drop->end - next < count - at ? drop->end - next : count - at;
        for (int i = 0; i < tensors; i++)
            drop_span(x[i] + at, drop->words + (next - drop->begin), drop->limit, drop->factor,
                      y[i] + at, n);
    }
}

void cpu_drop_narrow(struct cpu_drop *drop, const uint16_t *x, uint16_t *y) {
    float room[NARROW_BLOCK];
    for (int64_t at = 0; at < drop->last; at += NARROW_BLOCK) {
        int64_t n = drop->last - at < NARROW_BLOCK ? drop->last - at : NARROW_BLOCK;
        bf16_widen(x + at, room, n);
        cpu_drop(drop, at, n, 1, (const float *[]){room}, (float *[]){room});
        bf16_narrow(room, y + at, n);
    }
}

static void run_dropout(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        void *scratch) {
    (void)scratch;
    const uint64_t *key = in[1];
    float p = kernel->call.attrs.dropout.probability;
    bool narrow = kernel->call.in[0].dtype == DTYPE_BF16;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < kernel->rows; b++) {
        int64_t at = b * kernel->columns;
        struct cpu_drop drop;
        cpu_drop_begin(&drop, rng_key(key[b], kernel->call.attrs.dropout.place), p,
                       kernel->columns);
        if (narrow)
            cpu_drop_narrow(&drop, (const uint16_t *)in[0] + at, (uint16_t *)out[0] + at);
        else
            cpu_drop(&drop, 0, kernel->columns, 1, (const float *[]){(const float *)in[0] + at},
                     (float *[]){(float *)out[0] + at});
    }
}

enum status cpu_dropout(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in; /* plain: random numbers belong to logical elements */
    if (kernel->call.in[0].dtype != kernel->call.out[0].dtype) return STATUS_NO;
    const struct shape *x = &kernel->call.in[0].shape;
    kernel->rows = x->dim[0];
    kernel->columns = shape_span(x, 1, x->rank);
    cpu_step_loop(kernel, run_dropout);
    cpu_name(kernel, "loop:dropout");
    return STATUS_OK;
}

/* --- reorder --- */

static void run_copy(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                     void *scratch) {
    (void)scratch;
    const char *from = in[0];
    char *to = out[0];
    CPU_PIECES(kernel->count, begin, end) memcpy(to + begin, from + begin, (size_t)(end - begin));
}

/* Weights of grouped convolutions have one dimension more than their type; row major is the same
 * bytes either way. */
static const struct dnn_md *plain_twin(const struct layout *plain, const struct layout *other) {
    struct dnn_blocks blocks;
    if (!dnn_md_blocks(cpu_md(other), &blocks)) return dnn_md_copy(cpu_md(plain));
    return dnn_md_new(plain->type.dtype, blocks.rank, blocks.dim, NULL);
}

enum status cpu_reorder(struct cpu_kernel *kernel, const struct layout *const in[]) {
    const struct layout *from = in[0] ? in[0] : kernel->base.in[0],
                        *to = kernel->call.attrs.reorder.to;
    if (!to) to = from;
    kernel->base.in[0] = from;
    kernel->base.out[0] = to;
    if (from == to) {
        kernel->count = (int64_t)from->bytes;
        cpu_step_loop(kernel, run_copy);
        cpu_name(kernel, "loop:copy");
        return STATUS_OK;
    }
    if (cpu_round_weights(kernel, in) == STATUS_OK) return STATUS_OK;
    CHECK(cpu_md(from) && cpu_md(to), "no reorder from %s to %s", from->text, to->text);
    struct dnn_spec spec = {.kind = DNN_REORDER};
    spec.src = from->plain ? plain_twin(from, to) : dnn_md_copy(cpu_md(from));
    spec.dst = to->plain ? plain_twin(to, from) : dnn_md_copy(cpu_md(to));
    struct cpu_bind bind[] = {{DNNL_ARG_FROM, CPU_IN, 0, 0}, {DNNL_ARG_TO, CPU_OUT, 0, 0}};
    enum status status = cpu_step(kernel, &spec, 2, bind);
    dnn_spec_free(&spec);
    CHECK(status == STATUS_OK, "oneDNN has no reorder from %s to %s", from->text, to->text);
    return status;
}
