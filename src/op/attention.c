/* Multi-head self-attention: p = softmax(q k' / sqrt(D)), y = dropout(p) v, with heads side by side
 * in the channels.
 *
 * Operands come packed as one qkv[B,T,3C] (q, k and v one after another, each split into heads, as
 * timm projects them) or as three [B,T,C]. A key that the mask or causality forbids gets
 * probability zero, and a row that may attend to nothing is all zero: adding a large negative
 * number instead would make such a row attend to everything. The saved p is the one before dropout;
 * backward draws the same keyed random numbers again. */
#include "op/rule.h"

#include <math.h>

#include "base/rng.h"

/* Where the operands of a call are: `stride` floats from one token to the next in q, k and v alike.
 */
struct attention {
    int64_t batch, tokens, channels, heads, depth, stride;
    const float *q, *k, *v;
    const int32_t *mask; /* [B,T], NULL: all tokens are there */
    const uint64_t *key; /* [B], NULL: no dropout */
    const struct op_attrs *attrs;
};

static struct attention attention_of(const struct op_call *call, const struct shape *first,
                                     void *const in[]) {
    const struct op_attrs *attrs = &call->attrs;
    bool packed = attrs->attention.packed;
    int64_t C = first->dim[2] / (packed ? 3 : 1);
    struct attention a = {
        .batch = first->dim[0],
        .tokens = first->dim[1],
        .channels = C,
        .heads = attrs->attention.heads,
        .depth = C / attrs->attention.heads,
        .stride = first->dim[2],
        .q = in[0],
        .k = packed ? (const float *)in[0] + C : in[1],
        .v = packed ? (const float *)in[0] + 2 * C : in[2],
        .attrs = attrs,
    };
    void *const *next = in + (packed ? 1 : 3);
    if (attrs->attention.masked) a.mask = *next++;
    if (attrs->attention.dropout > 0) a.key = *next;
    return a;
}

/* --- shapes --- */

static int operand_count(const struct op_attrs *attrs) {
    return (attrs->attention.packed ? 1 : 3) + attrs->attention.masked +
           (attrs->attention.dropout > 0);
}

static enum status check_heads(const struct op_attrs *attrs, const struct shape *x, char *why,
                               size_t why_bytes) {
    int heads = attrs->attention.heads, parts = attrs->attention.packed ? 3 : 1;
    if (x->rank != 3) MISFIT("%s is %s; rank 3 is needed", parts == 3 ? "qkv" : "q", TEXT(*x));
    if (heads < 1 || x->dim[2] % (parts * (int64_t)heads))
        MISFIT("%s is %s: %lld channels do not divide into %d x %d heads", parts == 3 ? "qkv" : "q",
               TEXT(*x), (long long)x->dim[2], parts, heads);
    float p = attrs->attention.dropout;
    if (!(p >= 0 && p < 1)) MISFIT("dropout is %g; [0,1) is needed", (double)p);
    return STATUS_OK;
}

/* The operands of attention itself, which start at input `first`. */
static enum status check_operands(const struct op_call *call, int first, char *why,
                                  size_t why_bytes) {
    const struct op_attrs *attrs = &call->attrs;
    const struct shape *x = &call->in[first].shape;
    int need = first + operand_count(attrs), next = first;
    if (call->in_count != need)
        MISFIT("%d inputs; %d are needed (packed %d, masked %d, dropout %g)", call->in_count, need,
               attrs->attention.packed, attrs->attention.masked, (double)attrs->attention.dropout);
    TRY(check_heads(attrs, x, why, why_bytes));
    for (int i = 0; i < (attrs->attention.packed ? 1 : 3); i++, next++) {
        if (call->in[next].dtype != DTYPE_F32)
            MISFIT("input %d is of type %s; f32 is needed", next, dtype_name(call->in[next].dtype));
        TRY(op_wants(call, next, next == first + 1 ? "k" : "v", x, "q", why, why_bytes));
    }
    if (attrs->attention.masked) {
        if (call->in[next].dtype != DTYPE_I32)
            MISFIT("mask is of type %s; i32 is needed", dtype_name(call->in[next].dtype));
        TRY(op_wants(call, next++, "mask", &SHAPE(x->dim[0], x->dim[1]), "q", why, why_bytes));
    }
    if (attrs->attention.dropout > 0) {
        if (call->in[next].dtype != DTYPE_I64)
            MISFIT("key is of type %s; i64 is needed", dtype_name(call->in[next].dtype));
        TRY(op_wants(call, next, "key", &SHAPE(x->dim[0]), "q's batch", why, why_bytes));
    }
    return STATUS_OK;
}

static struct shape y_shape(const struct op_attrs *attrs, const struct shape *x) {
    return SHAPE(x->dim[0], x->dim[1], x->dim[2] / (attrs->attention.packed ? 3 : 1));
}

static struct shape p_shape(const struct op_attrs *attrs, const struct shape *x) {
    return SHAPE(x->dim[0], attrs->attention.heads, x->dim[1], x->dim[1]);
}

static enum status attention_infer(struct op_call *call, char *why, size_t why_bytes) {
    TRY(check_operands(call, 0, why, why_bytes));
    struct shape y = y_shape(&call->attrs, &call->in[0].shape);
    struct shape p = p_shape(&call->attrs, &call->in[0].shape);
    op_out(call, DTYPE_F32, &y);
    op_out(call, DTYPE_F32, &p);
    return STATUS_OK;
}

static enum status attention_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    if (call->in_count < 3) MISFIT("%d inputs; at least 3 are needed", call->in_count);
    TRY(check_operands(call, 2, why, why_bytes));
    const struct shape *x = &call->in[2].shape;
    struct shape y = y_shape(&call->attrs, x), p = p_shape(&call->attrs, x);
    if (call->in[0].dtype != DTYPE_F32 || call->in[1].dtype != DTYPE_F32)
        MISFIT("dy and p are of types %s and %s; f32 is needed", dtype_name(call->in[0].dtype),
               dtype_name(call->in[1].dtype));
    TRY(op_wants(call, 0, "dy", &y, "q", why, why_bytes));
    TRY(op_wants(call, 1, "p", &p, "q", why, why_bytes));
    for (int i = 0; i < (call->attrs.attention.packed ? 1 : 3); i++) op_out(call, DTYPE_F32, x);
    return STATUS_OK;
}

/* --- cost: two matrix products forward, four backward --- */

static double product_flops(const struct shape *p, const struct shape *y) {
    return 2 * (double)shape_count(p) * (double)y->dim[2] / (double)p->dim[1];
}

static struct op_cost attention_cost(const struct op_call *call) {
    const struct shape *y = &call->out[0].shape, *p = &call->out[1].shape;
    return op_cost_of(call, 2 * product_flops(p, y) + 13 * (double)shape_count(p));
}

static struct op_cost attention_bwd_cost(const struct op_call *call) {
    const struct shape *y = &call->in[0].shape, *p = &call->in[1].shape;
    return op_cost_of(call, 4 * product_flops(p, y) + 4 * (double)shape_count(p));
}

static void attention_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad)) return;
    const struct op_call *call = grad->call;
    int parts = call->attrs.attention.packed ? 1 : 3, in[OP_MAX_IN], out[OP_MAX_OUT];
    bool wanted = false;
    for (int i = 0; i < parts; i++) wanted = wanted || grad->need[i];
    if (!wanted) return;
    in[0] = grad->d_out[0];
    in[1] = grad->out[1];
    for (int i = 0; i < call->in_count; i++) in[2 + i] = grad->in[i];
    grad->emit(grad, OP_ATTENTION_BWD, &call->attrs, OP_HALF_I, 2 + call->in_count, in, out);
    for (int i = 0; i < parts; i++)
        if (grad->need[i]) grad->d_in[i] = out[i];
}

/* --- reference kernels --- */

/* Offset of token t of head h in q, k or v. */
static int64_t token_at(const struct attention *a, int64_t b, int64_t h, int64_t t) {
    return (b * a->tokens + t) * a->stride + h * a->depth;
}

/* Offset of token t of head h in y. */
static int64_t y_at(const struct attention *a, int64_t b, int64_t h, int64_t t) {
    return (b * a->tokens + t) * a->channels + h * a->depth;
}

static int64_t p_at(const struct attention *a, int64_t b, int64_t h, int64_t t) {
    return ((b * a->heads + h) * a->tokens + t) * a->tokens;
}

static bool may_attend(const struct attention *a, int64_t b, int64_t t, int64_t to) {
    if (a->attrs->attention.causal && to > t) return false;
    return !a->mask || a->mask[b * a->tokens + to] != 0;
}

/* What dropout multiplies p[h,t,to] of sample b with. */
static double keep_factor(const struct attention *a, int64_t b, int64_t h, int64_t t, int64_t to) {
    if (!a->key) return 1;
    float dropout = a->attrs->attention.dropout;
    uint64_t stream = rng_key(a->key[b], a->attrs->attention.place);
    int64_t element = (h * a->tokens + t) * a->tokens + to;
    return rng_uniform(stream, (uint64_t)element) >= dropout ? 1.0 / (1.0 - dropout) : 0;
}

static double dot(const float *a, const float *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)a[i] * b[i];
    return sum;
}

/* One row of p: the softmax over the allowed keys. */
static void probability_row(const struct attention *a, int64_t b, int64_t h, int64_t t, float *p) {
    double scale = 1 / sqrt((double)a->depth), most = -INFINITY, sum = 0;
    const float *q = a->q + token_at(a, b, h, t);
    for (int64_t to = 0; to < a->tokens; to++) {
        p[to] = 0;
        if (!may_attend(a, b, t, to)) continue;
        p[to] = (float)(scale * dot(q, a->k + token_at(a, b, h, to), a->depth));
        most = p[to] > most ? p[to] : most;
    }
    for (int64_t to = 0; to < a->tokens; to++)
        if (may_attend(a, b, t, to)) sum += exp(p[to] - most);
    for (int64_t to = 0; to < a->tokens; to++)
        if (may_attend(a, b, t, to)) p[to] = (float)(exp(p[to] - most) / sum);
}

static void attend_row(const struct attention *a, int64_t b, int64_t h, int64_t t, const float *p,
                       float *y) {
    for (int64_t d = 0; d < a->depth; d++) {
        double sum = 0;
        for (int64_t to = 0; to < a->tokens; to++)
            sum += keep_factor(a, b, h, t, to) * p[to] * a->v[token_at(a, b, h, to) + d];
        y[d] = (float)sum;
    }
}

static void attention_run(const struct op_call *call, void *const in[], void *const out[],
                          void *scratch) {
    (void)scratch;
    struct attention a = attention_of(call, &call->in[0].shape, in);
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t h = 0; h < a.heads; h++)
            for (int64_t t = 0; t < a.tokens; t++) {
                float *p = (float *)out[1] + p_at(&a, b, h, t);
                probability_row(&a, b, h, t, p);
                attend_row(&a, b, h, t, p, (float *)out[0] + y_at(&a, b, h, t));
            }
}

/* Sums of one head: dq, dk and dv of every token [T,D], and one row of ds [T]. */
static size_t attention_bwd_scratch(const struct op_call *call) {
    const struct shape *p = &call->in[1].shape;
    size_t tokens = (size_t)p->dim[2], depth = (size_t)(call->in[0].shape.dim[2] / p->dim[1]);
    return (3 * tokens * depth + tokens) * sizeof(double);
}

/* ds, the gradient of the scaled scores of row t: p (dp - sum p dp), with dp the gradient behind
 * dropout. */
static void score_gradient(const struct attention *a, int64_t b, int64_t h, int64_t t,
                           const float *p, const float *dy, double *ds) {
    double sum = 0;
    for (int64_t to = 0; to < a->tokens; to++) {
        ds[to] = 0;
        if (!may_attend(a, b, t, to)) continue;
        ds[to] = keep_factor(a, b, h, t, to) * dot(dy, a->v + token_at(a, b, h, to), a->depth);
        sum += ds[to] * p[to];
    }
    for (int64_t to = 0; to < a->tokens; to++)
        if (may_attend(a, b, t, to)) ds[to] = p[to] * (ds[to] - sum);
}

static void backward_row(const struct attention *a, int64_t b, int64_t h, int64_t t, const float *p,
                         const float *dy, double *sums) {
    int64_t D = a->depth, part = a->tokens * D;
    double *dq = sums + t * D, *dk = sums + part, *dv = sums + 2 * part, *ds = sums + 3 * part;
    double scale = 1 / sqrt((double)D);
    score_gradient(a, b, h, t, p, dy, ds);
    for (int64_t to = 0; to < a->tokens; to++) {
        if (!may_attend(a, b, t, to)) continue; /* not even what is not finite reaches it */
        const float *q = a->q + token_at(a, b, h, t), *k = a->k + token_at(a, b, h, to);
        double kept = keep_factor(a, b, h, t, to) * p[to];
        for (int64_t d = 0; d < D; d++) {
            dq[d] += scale * ds[to] * k[d];
            dk[to * D + d] += scale * ds[to] * q[d];
            dv[to * D + d] += kept * dy[d];
        }
    }
}

static void attention_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                              void *scratch) {
    struct attention a = attention_of(call, &call->in[2].shape, in + 2);
    bool packed = call->attrs.attention.packed;
    int64_t part = a.tokens * a.depth;
    double *sums = scratch;
    float *into[3];
    for (int i = 0; i < 3; i++)
        into[i] = packed ? (float *)out[0] + i * a.channels : (float *)out[i];
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t h = 0; h < a.heads; h++) {
            for (int64_t i = 0; i < 3 * part; i++) sums[i] = 0;
            for (int64_t t = 0; t < a.tokens; t++)
                backward_row(&a, b, h, t, (const float *)in[1] + p_at(&a, b, h, t),
                             (const float *)in[0] + y_at(&a, b, h, t), sums);
            for (int64_t i = 0; i < 3; i++)
                for (int64_t t = 0; t < a.tokens; t++)
                    for (int64_t d = 0; d < a.depth; d++)
                        into[i][token_at(&a, b, h, t) + d] =
                            (float)sums[i * part + t * a.depth + d];
        }
}

static void attention_text(const struct op_call *call, struct op_line *line) {
    const struct op_attrs *attrs = &call->attrs;
    op_say(line, "%d head%s", attrs->attention.heads, attrs->attention.heads == 1 ? "" : "s");
    if (attrs->attention.masked) op_say(line, "masked");
    if (attrs->attention.causal) op_say(line, "causal");
    if (attrs->attention.dropout > 0) op_say(line, "dropout %g", (double)attrs->attention.dropout);
}

const struct op_def op_attention = {
    .name = "attention",
    .flags = OP_PRODUCT,
    .infer = attention_infer,
    .cost = attention_cost,
    .grad = attention_grad,
    .run = attention_run,
    .narrow_out = OP_FIRST(2),
    .narrow_in = OP_FIRST(3),
    .text = attention_text,
};

const struct op_def op_attention_bwd = {
    .name = "attention_bwd",
    .flags = OP_PRODUCT,
    .infer = attention_bwd_infer,
    .cost = attention_bwd_cost,
    .run = attention_bwd_run,
    .scratch_bytes = attention_bwd_scratch,
    .narrow_out = OP_FIRST(3),
    .narrow_in = OP_FIRST(5),
    .text = attention_text,
};
