/* Attention: products by cuBLASLt, a head at a time over all samples, and softmax with mask,
 * causality and dropout by a kernel of ours between them. Scores are f32; the probabilities are
 * kept, as the operation says. */
#include <stdio.h>

#include "backend/cuda/product.h"
#include "base/log.h"

enum { PART_SCORES, PART_KEPT, PART_WORK, PART_DS };
enum { SCORES, VALUES }; /* forward: q k', p v */
enum { DP, DV, DQ, DK }; /* backward: dy v', p' dy, ds k, ds' q */
enum { ALIGN = 64 };

/* Sizes of a call, and where its operands are. */
struct attention {
    int64_t batch, tokens, channels, heads, depth, stride;
    enum dtype dtype; /* of q, k and v */
    bool packed;
    int first; /* input that q or qkv is */
};

static struct attention attention_of(const struct op_call *call) {
    int first = call->op == OP_ATTENTION ? 0 : 2;
    const struct shape *x = &call->in[first].shape;
    bool packed = call->attrs.attention.packed;
    int64_t channels = x->dim[2] / (packed ? 3 : 1);
    return (struct attention){.batch = x->dim[0],
                              .tokens = x->dim[1],
                              .channels = channels,
                              .heads = call->attrs.attention.heads,
                              .depth = channels / call->attrs.attention.heads,
                              .stride = x->dim[2],
                              .dtype = call->in[first].dtype,
                              .packed = packed,
                              .first = first};
}

static const void *at(const void *base, enum dtype dtype, int64_t element) {
    return (const char *)base + (size_t)element * dtype_bytes(dtype);
}

/* q, k or v (part 0, 1, 2) of the operands, or of the gradients among `tensors`. */
static void *part_of(const struct attention *a, void *const tensors[], int part) {
    if (!a->packed) return tensors[part];
    return (void *)at(tensors[0], a->dtype, part * a->channels);
}

static size_t aligned(size_t bytes) {
    size_t align = ALIGN;
    while (bytes % align) align /= 2;
    return align;
}

/* [T,D] of one head, sample after sample; `stride` from token to token. */
static struct cuda_matrix tokens_of(const struct attention *a, enum dtype dtype, int64_t stride,
                                    bool transpose) {
    return (struct cuda_matrix){dtype, stride, a->tokens * stride, transpose,
                                aligned((size_t)a->depth * dtype_bytes(dtype))};
}

/* [T,T] of one head. */
static struct cuda_matrix square_of(const struct attention *a, enum dtype dtype, bool transpose) {
    int64_t square = a->tokens * a->tokens;
    return (struct cuda_matrix){dtype, a->tokens, a->heads * square, transpose,
                                aligned((size_t)square * dtype_bytes(dtype))};
}

static enum status add_product(struct cuda_kernel *kernel, int index, int64_t inner,
                               int64_t columns, float scale, struct cuda_matrix left,
                               struct cuda_matrix right, struct cuda_matrix result, size_t *work) {
    struct attention a = attention_of(&kernel->call);
    struct cuda_product_spec spec = {a.tokens, inner,  columns, a.batch, left,
                                     right,    result, scale,   false};
    TRY(cuda_product_new(cuda_kernel_device(kernel), &spec, &kernel->product[index]));
    size_t bytes = cuda_product_scratch(kernel->product[index]);
    if (bytes > *work) *work = bytes;
    return STATUS_OK;
}

/* One product of every head: element offsets of a head in each operand. */
static enum status run_heads(const struct cuda_kernel *kernel, int index, struct cuda_reals left,
                             int64_t left_head, struct cuda_reals right, int64_t right_head,
                             struct cuda_reals to, int64_t to_head, void *scratch,
                             CUstream stream) {
    for (int64_t h = 0; h < kernel->call.attrs.attention.heads; h++)
        TRY(cuda_product_run(cuda_kernel_device(kernel), kernel->product[index],
                             at(left.data, left.dtype, h * left_head),
                             at(right.data, right.dtype, h * right_head), NULL,
                             (void *)at(to.data, to.dtype, h * to_head),
                             cuda_part_at(kernel, PART_WORK, scratch), stream));
    return STATUS_OK;
}

/* Behind q, k and v: mask and key, where there are any. */
static const int32_t *mask_of(const struct attention *a, const struct op_call *call,
                              void *const in[]) {
    return call->attrs.attention.masked ? in[a->first + (a->packed ? 1 : 3)] : NULL;
}

static const uint64_t *key_of(const struct attention *a, const struct op_call *call,
                              void *const in[]) {
    int index = a->first + (a->packed ? 1 : 3) + call->attrs.attention.masked;
    return call->attrs.attention.dropout > 0 ? in[index] : NULL;
}

/* Are the probabilities that products read others than those kept? */
static bool keeps_apart(const struct op_call *call, enum dtype p) {
    return call->attrs.attention.dropout > 0 || p != attention_of(call).dtype;
}

static size_t squares_bytes(const struct attention *a, enum dtype dtype) {
    return (size_t)(a->batch * a->heads * a->tokens * a->tokens) * dtype_bytes(dtype);
}

/* --- forward --- */

static enum status run_forward(struct cuda_kernel *kernel, void *const in[], void *const out[],
                               void *scratch, CUstream stream) {
    const struct op_call *call = &kernel->call;
    struct attention a = attention_of(call);
    struct cuda_reals q = {part_of(&a, in, 0), a.dtype}, k = {part_of(&a, in, 1), a.dtype},
                      v = {part_of(&a, in, 2), a.dtype}, p = cuda_out(kernel, 1, out),
                      y = cuda_out(kernel, 0, out), scores = {p.data, DTYPE_F32}, kept = {0};
    int64_t square = a.tokens * a.tokens;
    if (p.dtype != DTYPE_F32) scores.data = cuda_part_at(kernel, PART_SCORES, scratch);
    if (keeps_apart(call, (enum dtype)p.dtype))
        kept = (struct cuda_reals){cuda_part_at(kernel, PART_KEPT, scratch), a.dtype};
    TRY(run_heads(kernel, SCORES, q, a.depth, k, a.depth, scores, square, scratch, stream));
    struct cuda_attention args = {.scores = scores,
                                  .p = p,
                                  .kept = kept,
                                  .mask = mask_of(&a, call, in),
                                  .key = key_of(&a, call, in),
                                  .place = call->attrs.attention.place,
                                  .batch = a.batch,
                                  .heads = a.heads,
                                  .tokens = a.tokens,
                                  .causal = call->attrs.attention.causal,
                                  .dropout = call->attrs.attention.dropout};
    TRY(cuda_launch_rows(cuda_kernel_device(kernel), CUDA_KERNEL_attention,
                         a.batch * a.heads * a.tokens, &args, stream));
    return run_heads(kernel, VALUES, kept.data ? kept : p, square, v, a.depth, y, a.depth, scratch,
                     stream);
}

static float scale_of(const struct attention *a) {
    return (float)(1 / __builtin_sqrt((double)a->depth));
}

enum status cuda_attention(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    struct attention a = attention_of(call);
    enum dtype p = call->out[1].dtype, y = call->out[0].dtype;
    size_t work = 0;
    cuda_want_plain(kernel);
    kernel->run = run_forward;
    if (p != DTYPE_F32) cuda_part(kernel, PART_SCORES, squares_bytes(&a, DTYPE_F32));
    if (keeps_apart(call, p)) cuda_part(kernel, PART_KEPT, squares_bytes(&a, a.dtype));
    TRY(add_product(kernel, SCORES, a.depth, a.tokens, scale_of(&a),
                    tokens_of(&a, a.dtype, a.stride, false), tokens_of(&a, a.dtype, a.stride, true),
                    square_of(&a, DTYPE_F32, false), &work));
    TRY(add_product(kernel, VALUES, a.tokens, a.depth, 1, square_of(&a, a.dtype, false),
                    tokens_of(&a, a.dtype, a.stride, false), tokens_of(&a, y, a.channels, false),
                    &work));
    cuda_part(kernel, PART_WORK, work);
    snprintf(kernel->name, sizeof kernel->name, "cublaslt:attention");
    return STATUS_OK;
}

/* --- backward --- */

static enum status run_products(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                struct cuda_reals kept, struct cuda_reals ds, void *scratch,
                                CUstream stream) {
    struct attention a = attention_of(&kernel->call);
    int64_t square = a.tokens * a.tokens;
    struct cuda_reals q = {part_of(&a, in + a.first, 0), a.dtype},
                      k = {part_of(&a, in + a.first, 1), a.dtype}, dy = cuda_in(kernel, 0, in);
    enum dtype made = kernel->call.out[0].dtype;
    struct attention to = a;
    to.dtype = made;
    struct cuda_reals dq = {part_of(&to, out, 0), made}, dk = {part_of(&to, out, 1), made},
                      dv = {part_of(&to, out, 2), made};
    TRY(run_heads(kernel, DV, kept, square, dy, a.depth, dv, a.depth, scratch, stream));
    TRY(run_heads(kernel, DQ, ds, square, k, a.depth, dq, a.depth, scratch, stream));
    return run_heads(kernel, DK, ds, square, q, a.depth, dk, a.depth, scratch, stream);
}

static enum status run_backward(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                void *scratch, CUstream stream) {
    const struct op_call *call = &kernel->call;
    struct attention a = attention_of(call);
    struct cuda_reals v = {part_of(&a, in + a.first, 2), a.dtype}, p = cuda_in(kernel, 1, in),
                      dp = {cuda_part_at(kernel, PART_SCORES, scratch), DTYPE_F32}, ds = dp,
                      kept = {0};
    if (a.dtype != DTYPE_F32)
        ds = (struct cuda_reals){cuda_part_at(kernel, PART_DS, scratch), a.dtype};
    if (keeps_apart(call, (enum dtype)p.dtype))
        kept = (struct cuda_reals){cuda_part_at(kernel, PART_KEPT, scratch), a.dtype};
    TRY(run_heads(kernel, DP, cuda_in(kernel, 0, in), a.depth, v, a.depth, dp, a.tokens * a.tokens,
                  scratch, stream));
    struct cuda_attention_bwd args = {.dp = dp,
                                      .p = p,
                                      .ds = ds,
                                      .kept = kept,
                                      .mask = mask_of(&a, call, in),
                                      .key = key_of(&a, call, in),
                                      .place = call->attrs.attention.place,
                                      .batch = a.batch,
                                      .heads = a.heads,
                                      .tokens = a.tokens,
                                      .causal = call->attrs.attention.causal,
                                      .dropout = call->attrs.attention.dropout};
    TRY(cuda_launch_rows(cuda_kernel_device(kernel), CUDA_KERNEL_attention_bwd,
                         a.batch * a.heads * a.tokens, &args, stream));
    return run_products(kernel, in, out, kept.data ? kept : p, ds, scratch, stream);
}

enum status cuda_attention_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    struct attention a = attention_of(call);
    enum dtype made = call->out[0].dtype, dy = call->in[0].dtype;
    size_t work = 0;
    CHECK(dy == a.dtype, "attention of %s with a gradient of %s", dtype_name(a.dtype),
          dtype_name(dy));
    struct cuda_matrix x = tokens_of(&a, a.dtype, a.stride, false),
                       g = tokens_of(&a, dy, a.channels, false),
                       to = tokens_of(&a, made, a.stride, false);
    cuda_want_plain(kernel);
    kernel->run = run_backward;
    cuda_part(kernel, PART_SCORES, squares_bytes(&a, DTYPE_F32));
    if (a.dtype != DTYPE_F32) cuda_part(kernel, PART_DS, squares_bytes(&a, a.dtype));
    if (keeps_apart(call, call->in[1].dtype))
        cuda_part(kernel, PART_KEPT, squares_bytes(&a, a.dtype));
    TRY(add_product(kernel, DP, a.depth, a.tokens, 1, g, tokens_of(&a, a.dtype, a.stride, true),
                    square_of(&a, DTYPE_F32, false), &work));
    TRY(add_product(kernel, DV, a.tokens, a.depth, 1, square_of(&a, a.dtype, true), g, to, &work));
    TRY(add_product(kernel, DQ, a.tokens, a.depth, scale_of(&a), square_of(&a, a.dtype, false), x,
                    to, &work));
    TRY(add_product(kernel, DK, a.tokens, a.depth, scale_of(&a), square_of(&a, a.dtype, true), x,
                    to, &work));
    cuda_part(kernel, PART_WORK, work);
    snprintf(kernel->name, sizeof kernel->name, "cublaslt:attention_bwd");
    return STATUS_OK;
}
