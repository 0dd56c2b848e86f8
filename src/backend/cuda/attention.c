/* Attention: q, k and v are copied so that each head's tokens lie together, products of all heads
 * of all samples are one call of cuBLASLt, and softmax with mask, causality and dropout is a kernel
 * of ours between them. Scores are f32; the probabilities are kept, as the operation says.
 *
 * Rejected: a call a head on operands where they lie, which saves the copies and lost more by its
 * launches. */
#include <stdio.h>

#include "backend/cuda/product.h"

enum { PART_SCORES, PART_KEPT, PART_WORK, PART_DS, PART_HEADS };
enum { HEADS_Q, HEADS_K, HEADS_V, HEADS_Y, HEADS_DQ, HEADS_DK, HEADS_DV }; /* within the last */
enum { SCORES, VALUES };                                                   /* forward: q k', p v */
enum { DP, DV, DQ, DK }; /* backward: dy v', p' dy, ds k, ds' q */
enum { ALIGN = 64 };

/* Sizes of a call, and where its operands are. */
struct attention {
    int64_t batch, tokens, channels, heads, depth, stride;
    int64_t step;     /* of a row of scores in scratch memory: tokens, in whole groups of eight */
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
                              .step = (x->dim[1] + 7) / 8 * 8,
                              .dtype = call->in[first].dtype,
                              .packed = packed,
                              .first = first};
}

/* q, k or v (part 0, 1, 2) of the operands, or of the gradients among `tensors`. */
static struct cuda_reals part_of(const struct attention *a, enum dtype dtype, void *const tensors[],
                                 int part) {
    if (!a->packed) return (struct cuda_reals){tensors[part], dtype};
    size_t offset = (size_t)(part * a->channels) * dtype_bytes(dtype);
    return (struct cuda_reals){(char *)tensors[0] + offset, dtype};
}

/* --- products --- */

static size_t aligned(size_t bytes) {
    size_t align = ALIGN;
    while (bytes % align) align /= 2;
    return align;
}

/* [T,D] of one head after another. */
static struct cuda_matrix tokens_of(const struct attention *a, enum dtype dtype, bool transpose) {
    int64_t head = a->tokens * a->depth;
    return (struct cuda_matrix){dtype, a->depth, head, transpose,
                                aligned((size_t)head * dtype_bytes(dtype))};
}

/* [T,T] of one head after another, in scratch memory: rows of an odd length would cost cuBLASLt its
 * fast kernels. */
static struct cuda_matrix square_of(const struct attention *a, enum dtype dtype, bool transpose) {
    int64_t square = a->tokens * a->step;
    return (struct cuda_matrix){dtype, a->step, square, transpose,
                                aligned((size_t)square * dtype_bytes(dtype))};
}

static enum status add_product(struct cuda_kernel *kernel, int index, int64_t inner,
                               int64_t columns, float scale, struct cuda_matrix left,
                               struct cuda_matrix right, struct cuda_matrix result, size_t *work) {
    struct attention a = attention_of(&kernel->call);
    struct cuda_product_spec spec = {.rows = a.tokens,
                                     .inner = inner,
                                     .columns = columns,
                                     .batch = a.batch * a.heads,
                                     .a = left,
                                     .b = right,
                                     .c = result,
                                     .scale = scale};
    TRY(cuda_product_new(cuda_kernel_device(kernel), &spec, &kernel->product[index]));
    size_t bytes = cuda_product_scratch(kernel->product[index]);
    if (bytes > *work) *work = bytes;
    return STATUS_OK;
}

static enum status run_product(const struct cuda_kernel *kernel, int index, struct cuda_reals left,
                               struct cuda_reals right, struct cuda_reals to, void *scratch,
                               CUstream stream) {
    return cuda_product_run(cuda_kernel_device(kernel), kernel->product[index], left.data,
                            right.data, NULL, to.data, cuda_part_at(kernel, PART_WORK, scratch),
                            stream);
}

static float scale_of(const struct attention *a) {
    return (float)(1 / __builtin_sqrt((double)a->depth));
}

/* --- heads --- */

/* Room for one of HEADS_*: a tensor [B,h,T,D] of any type. */
static size_t heads_bytes(const struct attention *a) {
    size_t bytes = (size_t)(a->batch * a->tokens * a->channels) * sizeof(float);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static struct cuda_reals heads_at(const struct cuda_kernel *kernel, int which, enum dtype dtype,
                                  void *scratch) {
    struct attention a = attention_of(&kernel->call);
    char *base = cuda_part_at(kernel, PART_HEADS, scratch);
    return (struct cuda_reals){base + (size_t)which * heads_bytes(&a), dtype};
}

/* Between [B,T,...], `stride` from token to token, and [B,h,T,D]. */
static enum status move_heads(const struct cuda_kernel *kernel, struct cuda_reals tokens,
                              int64_t stride, struct cuda_reals heads, bool gather,
                              CUstream stream) {
    struct attention a = attention_of(&kernel->call);
    struct cuda_copy args = {.from = gather ? tokens : heads,
                             .to = gather ? heads : tokens,
                             .dim = {a.batch, a.heads, a.tokens, a.depth},
                             .count = a.batch * a.tokens * a.channels,
                             .rank = 4};
    int64_t apart[] = {a.tokens * stride, a.depth, stride, 1},
            together[] = {a.tokens * a.channels, a.tokens * a.depth, a.depth, 1};
    for (int d = 0; d < 4; d++) {
        args.from_step[d] = gather ? apart[d] : together[d];
        args.to_step[d] = gather ? together[d] : apart[d];
    }
    cuda_copy_widen(&args);
    return cuda_launch_wide(cuda_kernel_device(kernel), CUDA_KERNEL_copy, args.count, &args,
                            stream);
}

/* q, k and v of the inputs, head by head. */
static enum status gather_operands(const struct cuda_kernel *kernel, void *const in[],
                                   void *scratch, CUstream stream) {
    struct attention a = attention_of(&kernel->call);
    for (int part = 0; part < 3; part++)
        TRY(move_heads(kernel, part_of(&a, a.dtype, in + a.first, part), a.stride,
                       heads_at(kernel, HEADS_Q + part, a.dtype, scratch), true, stream));
    return STATUS_OK;
}

/* --- mask, key, kept probabilities --- */

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

/* Are the probabilities that products read others than those kept, or in longer rows? */
static bool keeps_apart(const struct op_call *call, enum dtype p) {
    struct attention a = attention_of(call);
    return call->attrs.attention.dropout > 0 || p != a.dtype || a.step != a.tokens;
}

/* Are the scores where the probabilities will be? */
static bool in_place(const struct attention *a, enum dtype p) {
    return p == DTYPE_F32 && a->step == a->tokens;
}

static size_t squares_bytes(const struct attention *a, enum dtype dtype) {
    return (size_t)(a->batch * a->heads * a->tokens * a->step) * dtype_bytes(dtype);
}

/* Which kernel has a row in its registers: of so many keys a lane, or none. */
static int length_of(const struct attention *a) {
    enum { SHORT = 256, LONG = 1024 };
    return a->tokens <= SHORT ? 0 : a->tokens <= LONG ? 1 : 2;
}

/* --- forward --- */

static enum status run_forward(struct cuda_kernel *kernel, void *const in[], void *const out[],
                               void *scratch, CUstream stream) {
    const struct op_call *call = &kernel->call;
    struct attention a = attention_of(call);
    struct cuda_reals p = cuda_out(kernel, 1, out), y = cuda_out(kernel, 0, out), kept = {0},
                      scores = {p.data, DTYPE_F32},
                      heads = heads_at(kernel, HEADS_Y, call->out[0].dtype, scratch);
    if (!in_place(&a, call->out[1].dtype)) scores.data = cuda_part_at(kernel, PART_SCORES, scratch);
    if (keeps_apart(call, call->out[1].dtype))
        kept = (struct cuda_reals){cuda_part_at(kernel, PART_KEPT, scratch), a.dtype};
    TRY(gather_operands(kernel, in, scratch, stream));
    TRY(run_product(kernel, SCORES, heads_at(kernel, HEADS_Q, a.dtype, scratch),
                    heads_at(kernel, HEADS_K, a.dtype, scratch), scores, scratch, stream));
    struct cuda_attention args = {.scores = scores,
                                  .p = p,
                                  .kept = kept,
                                  .step = a.step,
                                  .mask = mask_of(&a, call, in),
                                  .key = key_of(&a, call, in),
                                  .place = call->attrs.attention.place,
                                  .batch = a.batch,
                                  .heads = a.heads,
                                  .tokens = a.tokens,
                                  .causal = call->attrs.attention.causal,
                                  .dropout = call->attrs.attention.dropout};
    static const enum cuda_kernel_id ids[] = {CUDA_KERNEL_attention_short,
                                              CUDA_KERNEL_attention_long, CUDA_KERNEL_attention};
    TRY(cuda_launch_warps(cuda_kernel_device(kernel), ids[length_of(&a)],
                          a.batch * a.heads * a.tokens, &args, stream));
    TRY(run_product(kernel, VALUES, kept.data ? kept : p,
                    heads_at(kernel, HEADS_V, a.dtype, scratch), heads, scratch, stream));
    return move_heads(kernel, y, a.channels, heads, false, stream);
}

enum status cuda_attention(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    struct attention a = attention_of(call);
    enum dtype p = call->out[1].dtype, y = call->out[0].dtype;
    struct cuda_matrix x = tokens_of(&a, a.dtype, false);
    size_t work = 0;
    cuda_want_plain(kernel);
    kernel->run = run_forward;
    if (!in_place(&a, p)) cuda_part(kernel, PART_SCORES, squares_bytes(&a, DTYPE_F32));
    if (keeps_apart(call, p)) cuda_part(kernel, PART_KEPT, squares_bytes(&a, a.dtype));
    cuda_part(kernel, PART_HEADS, (HEADS_Y + 1) * heads_bytes(&a));
    TRY(add_product(kernel, SCORES, a.depth, a.tokens, scale_of(&a), x,
                    tokens_of(&a, a.dtype, true), square_of(&a, DTYPE_F32, false), &work));
    TRY(add_product(kernel, VALUES, a.tokens, a.depth, 1, square_of(&a, a.dtype, false), x,
                    tokens_of(&a, y, false), &work));
    cuda_part(kernel, PART_WORK, work);
    snprintf(kernel->name, sizeof kernel->name, "cublaslt:attention");
    return STATUS_OK;
}

/* --- backward --- */

static enum status run_products(struct cuda_kernel *kernel, void *const out[],
                                struct cuda_reals kept, struct cuda_reals ds, void *scratch,
                                CUstream stream) {
    struct attention a = attention_of(&kernel->call);
    enum dtype made = kernel->call.out[0].dtype;
    TRY(run_product(kernel, DV, kept, heads_at(kernel, HEADS_Y, a.dtype, scratch),
                    heads_at(kernel, HEADS_DV, made, scratch), scratch, stream));
    TRY(run_product(kernel, DQ, ds, heads_at(kernel, HEADS_K, a.dtype, scratch),
                    heads_at(kernel, HEADS_DQ, made, scratch), scratch, stream));
    TRY(run_product(kernel, DK, ds, heads_at(kernel, HEADS_Q, a.dtype, scratch),
                    heads_at(kernel, HEADS_DK, made, scratch), scratch, stream));
    for (int part = 0; part < 3; part++)
        TRY(move_heads(kernel, part_of(&a, made, out, part), a.stride,
                       heads_at(kernel, HEADS_DQ + part, made, scratch), false, stream));
    return STATUS_OK;
}

static enum status run_backward(struct cuda_kernel *kernel, void *const in[], void *const out[],
                                void *scratch, CUstream stream) {
    const struct op_call *call = &kernel->call;
    struct attention a = attention_of(call);
    struct cuda_reals p = cuda_in(kernel, 1, in), kept = {0},
                      dy = heads_at(kernel, HEADS_Y, a.dtype, scratch),
                      dp = {cuda_part_at(kernel, PART_SCORES, scratch), DTYPE_F32}, ds = dp;
    if (a.dtype != DTYPE_F32)
        ds = (struct cuda_reals){cuda_part_at(kernel, PART_DS, scratch), a.dtype};
    if (keeps_apart(call, call->in[1].dtype))
        kept = (struct cuda_reals){cuda_part_at(kernel, PART_KEPT, scratch), a.dtype};
    TRY(gather_operands(kernel, in, scratch, stream));
    TRY(move_heads(kernel, cuda_in(kernel, 0, in), a.channels, dy, true, stream));
    TRY(run_product(kernel, DP, dy, heads_at(kernel, HEADS_V, a.dtype, scratch), dp, scratch,
                    stream));
    struct cuda_attention_bwd args = {.dp = dp,
                                      .p = p,
                                      .ds = ds,
                                      .kept = kept,
                                      .step = a.step,
                                      .mask = mask_of(&a, call, in),
                                      .key = key_of(&a, call, in),
                                      .place = call->attrs.attention.place,
                                      .batch = a.batch,
                                      .heads = a.heads,
                                      .tokens = a.tokens,
                                      .causal = call->attrs.attention.causal,
                                      .dropout = call->attrs.attention.dropout};
    static const enum cuda_kernel_id ids[] = {
        CUDA_KERNEL_attention_bwd_short, CUDA_KERNEL_attention_bwd_long, CUDA_KERNEL_attention_bwd};
    TRY(cuda_launch_warps(cuda_kernel_device(kernel), ids[length_of(&a)],
                          a.batch * a.heads * a.tokens, &args, stream));
    return run_products(kernel, out, kept.data ? kept : p, ds, scratch, stream);
}

enum status cuda_attention_bwd(struct cuda_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct op_call *call = &kernel->call;
    struct attention a = attention_of(call);
    struct cuda_matrix x = tokens_of(&a, a.dtype, false),
                       to = tokens_of(&a, call->out[0].dtype, false);
    size_t work = 0;
    cuda_want_plain(kernel);
    kernel->run = run_backward;
    cuda_part(kernel, PART_SCORES, squares_bytes(&a, DTYPE_F32));
    if (a.dtype != DTYPE_F32) cuda_part(kernel, PART_DS, squares_bytes(&a, a.dtype));
    if (keeps_apart(call, call->in[1].dtype))
        cuda_part(kernel, PART_KEPT, squares_bytes(&a, a.dtype));
    cuda_part(kernel, PART_HEADS, (HEADS_DV + 1) * heads_bytes(&a));
    TRY(add_product(kernel, DP, a.depth, a.tokens, 1, x, tokens_of(&a, a.dtype, true),
                    square_of(&a, DTYPE_F32, false), &work));
    TRY(add_product(kernel, DV, a.tokens, a.depth, 1, square_of(&a, a.dtype, true), x, to, &work));
    TRY(add_product(kernel, DQ, a.tokens, a.depth, scale_of(&a), square_of(&a, a.dtype, false), x,
                    to, &work));
    TRY(add_product(kernel, DK, a.tokens, a.depth, scale_of(&a), square_of(&a, a.dtype, true), x,
                    to, &work));
    cuda_part(kernel, PART_WORK, work);
    snprintf(kernel->name, sizeof kernel->name, "cublaslt:attention_bwd");
    return STATUS_OK;
}
