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

static inline float gelu_tanh_slope(float x) {
    float gate = gelu_tanh_gate(x), du = TANH_GELU_K * (1.0f + 3.0f * TANH_GELU_C * x * x);
    return gate + 2.0f * x * gate * (1.0f - gate) * du;
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
SPAN(relu_bwd_span, b <= 0.0f ? 0.0f : a)
SPAN(gelu_bwd_span, a *gelu_slope(b))
SPAN(gelu_tanh_bwd_span, a *gelu_tanh_slope(b))
SPAN(tanh_bwd_span, a *(1.0f - b * b))
SPAN(add_span, a + b)
SPAN(add_relu_span, relu(a + b))
SPAN(add_tanh_span, scalar_tanh(a + b))
#undef SPAN

static eltwise_span *span_of(const struct op_call *call) {
#if defined(__x86_64__)
    if (call->op == OP_GELU && cpu_has_avx512()) return gelu_span_512;
    if (call->op == OP_GELU_BWD && cpu_has_avx512()) return gelu_bwd_span_512;
#endif
    switch (call->op) {
    case OP_RELU: return relu_span;
    case OP_GELU: return gelu_span;
    case OP_GELU_TANH: return gelu_tanh_span;
    case OP_TANH: return tanh_span;
    case OP_RELU_BWD: return relu_bwd_span;
    case OP_GELU_BWD: return gelu_bwd_span;
    case OP_GELU_TANH_BWD: return gelu_tanh_bwd_span;
    case OP_TANH_BWD: return tanh_bwd_span;
    default: break;
    }
    return call->attrs.activation == ACTIVATION_RELU   ? add_relu_span
           : call->attrs.activation == ACTIVATION_TANH ? add_tanh_span
                                                       : add_span;
}

static void run_span(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                     void *scratch) {
    (void)scratch;
    const float *first = in[0], *second = kernel->call.in_count > 1 ? in[1] : in[0];
    float *to = out[0];
    eltwise_span *body = span_of(&kernel->call);
    CPU_PIECES(kernel->count, begin, end)
    body(first + begin, second + begin, to + begin, end - begin);
}

/* The layout all operands take: the first that is not plain, since making blocked from plain costs
 * as much as the other way and the next kernel is likely to want it blocked. */
static const struct layout *shared_layout(const struct cpu_kernel *kernel,
                                          const struct layout *const in[]) {
    for (int i = 0; i < kernel->call.in_count; i++)
        if (in[i] && !in[i]->plain && cpu_md(in[i]) &&
            tensor_type_equal(&in[i]->type, &kernel->call.out[0]))
            return in[i];
    return kernel->base.out[0];
}

enum status cpu_eltwise(struct cpu_kernel *kernel, const struct layout *const in[]) {
    const struct layout *layout = shared_layout(kernel, in);
    for (int i = 0; i < kernel->call.in_count; i++) kernel->base.in[i] = layout;
    kernel->base.out[0] = layout;
    kernel->count = (int64_t)(layout->bytes / sizeof(float));
    cpu_step_loop(kernel, run_span);
    cpu_name(kernel, "loop:eltwise");
    return STATUS_OK;
}

static void run_relu_in_place(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                              void *scratch) {
    (void)in, (void)scratch;
    float *y = out[0];
    int64_t count = (int64_t)(kernel->base.out[0]->bytes / sizeof(float));
    CPU_PIECES(count, begin, end) relu_span(y + begin, y + begin, y + begin, end - begin);
}

void cpu_step_relu(struct cpu_kernel *kernel) {
    if (kernel->call.attrs.activation == ACTIVATION_RELU) cpu_step_loop(kernel, run_relu_in_place);
}

/* --- add with a second operand shared by the batch --- */

static void run_add_rows(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                         void *scratch) {
    (void)scratch;
    const float *a = in[0], *b = in[1];
    float *y = out[0];
    int64_t columns = kernel->columns;
    eltwise_span *body = span_of(&kernel->call);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < kernel->rows; r++) body(a + r * columns, b, y + r * columns, columns);
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

enum { DROPOUT_BLOCKS = 256 };

VECTOR_CLONES static void drop_span(const float *x, const uint32_t *words, float p, float factor,
                                    float *y, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float uniform = (float)(int32_t)(words[i] >> 8) * 0x1p-24f;
        y[i] = x[i] * (uniform >= p ? factor : 0.0f); /* a NaN that is dropped stays one */
    }
}

/* A word is of a place in the sample: those of the first block begin before it. */
void cpu_drop(uint64_t key, float p, int64_t first, int64_t count, int tensors,
              const float *const x[], float *const y[]) {
    uint32_t words[4 * DROPOUT_BLOCKS];
    int64_t skip = first % 4;
    for (int64_t at = 0; at < count; skip = 0) {
        int64_t room = 4 * DROPOUT_BLOCKS - skip, n = count - at < room ? count - at : room;
        rng_words(key, (uint64_t)(first + at) / 4, (skip + n + 3) / 4, words);
        for (int i = 0; i < tensors; i++)
            drop_span(x[i] + at, words + skip, p, 1.0f / (1.0f - p), y[i] + at, n);
        at += n;
    }
}

static void run_dropout(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                        void *scratch) {
    (void)scratch;
    const float *x = in[0];
    const uint64_t *key = in[1];
    float *y = out[0];
    const struct op_attrs *attrs = &kernel->call.attrs;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < kernel->rows; b++)
        cpu_drop(rng_key(key[b], attrs->dropout.place), attrs->dropout.probability, 0,
                 kernel->columns, 1, (const float *[]){x + b * kernel->columns},
                 (float *[]){y + b * kernel->columns});
}

enum status cpu_dropout(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in; /* plain: random numbers belong to logical elements */
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
    CHECK(cpu_md(from) && cpu_md(to), "no reorder from %s to %s", from->text, to->text);
    struct dnn_spec spec = {.kind = DNN_REORDER};
    spec.src = from->plain ? plain_twin(from, to) : dnn_md_copy(cpu_md(from));
    spec.dst = to->plain ? plain_twin(to, from) : dnn_md_copy(cpu_md(to));
    struct cpu_bind bind[] = {{DNNL_ARG_FROM, CPU_IN, 0, 0}, {DNNL_ARG_TO, CPU_OUT, 0, 0}};
    enum status status = cpu_step(kernel, &spec, 2, bind);
    dnn_md_free(spec.src);
    dnn_md_free(spec.dst);
    CHECK(status == STATUS_OK, "oneDNN has no reorder from %s to %s", from->text, to->text);
    return status;
}
