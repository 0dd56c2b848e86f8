/* Multi-head attention from register tiles (gemm.h), head by head.
 *
 * A head's operands are read where they lie, in q, k and v or in their packed form, by their
 * strides; only k (backward: v) is packed, turned, because its columns become vectors. Scores exist
 * for one tile of rows forward and for a block of them backward, in the nearest cache;
 * probabilities are written as they are made, since backward wants them. Rows are padded to whole
 * vectors. The scale 1/sqrt(D) goes into the softmax, where it is free. Heads are spread over the
 * team; what is done for one does not depend on it. Rejected: batched matmuls of oneDNN, which ran
 * at 48 (forward) and 64 (backward) of 110 GFLOP/s with 65 tokens. */
#include <math.h>
#include <string.h>

#include "backend/cpu/attention.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/softmax_row.h"
#include "backend/cpu/team.h"
#include "backend/cpu/tiling.h"
#include "base/rng.h"

/* BLOCK_ROWS: queries whose gradients of scores are kept at a time, a multiple of every tile's
 * rows. FEW: so many columns beyond the last panel are dot products, not a panel of their own. */
enum { BLOCK_ROWS = 96, FEW = 2 };

struct cpu_attention cpu_attention_of(const struct op_call *call) {
    int first = call->op == OP_ATTENTION ? 0 : 2, used = call->attrs.attention.packed ? 1 : 3;
    const struct shape *q = &call->in[first].shape;
    struct cpu_attention a = {
        .batch = q->dim[0], .heads = call->attrs.attention.heads, .tokens = q->dim[1]};
    a.packed = call->attrs.attention.packed;
    a.stride = q->dim[2];
    a.channels = a.packed ? a.stride / 3 : a.stride;
    a.depth = a.channels / a.heads;
    a.type = call->in[first].dtype;
    a.masked = call->attrs.attention.masked;
    a.causal = call->attrs.attention.causal;
    a.mask = a.masked ? first + used : -1;
    a.key = call->attrs.attention.dropout > 0 ? first + used + a.masked : -1;
    return a;
}

/* Floats between two rows of scores. */
static int64_t pitch(const struct cpu_attention *a) {
    return parts(a->tokens, SOFTMAX_WIDE) * SOFTMAX_WIDE;
}

/* --- a head --- */

/* What comes next is in memory: it is on its way while this is worked on, a part of it with each
 * tile. First the probabilities of the next rows, which lie in one piece through all heads; then
 * what the next head reads and writes: each of `of` is `rows` of `lines`, and is asked for a column
 * of lines at a time. */
struct ahead {
    const float *p;
    int64_t p_lines;
    struct {
        const float *x;
        int64_t step, rows, lines;
    } of[7];
    int count, at;
    int64_t row, line;
};

/* LINE: floats. AHEAD_FLOATS: a larger operand would drive this head's out of the second cache, and
 * is read often enough to wait for it once. */
enum { LINE = 16, AHEAD_FLOATS = 16384 };

/* The lines of a tile that has room for so many. Field by field: what was just written in parts is
 * slow to read as a whole. */
static inline void ahead_next(struct ahead *ahead, int64_t room, struct gemm_fetch *out) {
    out->lines = 0;
    if (ahead->p_lines > 0) {
        out->first = ahead->p, out->step = LINE, out->lines = least(room, ahead->p_lines);
        ahead->p += out->lines * LINE, ahead->p_lines -= out->lines;
    } else if (ahead->at < ahead->count) {
        int64_t step = ahead->of[ahead->at].step, rows = ahead->of[ahead->at].rows;
        out->first = ahead->of[ahead->at].x + ahead->line * LINE + ahead->row * step;
        out->step = step;
        out->lines = least(room, rows - ahead->row);
        ahead->row += out->lines;
        if (rows - ahead->row <= FEW)
            for (; ahead->row < rows; ahead->row++)
                __builtin_prefetch(ahead->of[ahead->at].x + ahead->line * LINE + ahead->row * step);
        if (ahead->row == rows) ahead->row = 0, ahead->line++;
        if (ahead->line == ahead->of[ahead->at].lines) ahead->line = 0, ahead->at++;
    }
}

static void ahead_add(struct ahead *ahead, const float *x, int64_t step, int64_t rows,
                      int64_t floats) {
    int at = ahead->count++;
    ahead->of[at].x = x, ahead->of[at].step = step, ahead->of[at].rows = rows;
    ahead->of[at].lines = parts(floats, LINE);
}

/* Where a head's operands begin, and a thread's scratch. */
struct head {
    struct cpu_attention a;
    const struct gemm_isa *isa;
    const struct softmax_rows *softmax;
    const float *q, *k, *v, *dy, *p_in;
    float *dq, *dk, *dv, *y, *p_out;
    const int32_t *mask; /* of its sample */
    struct cpu_drop *drop;
    int64_t first; /* of its probabilities among the sample's */
    float scale;
    float *turned, *scores, *used;
    struct ahead *ahead;
};

static inline void run_tile(const struct head *h, struct gemm_tile *tile) {
    ahead_next(h->ahead, tile->depth / h->isa->fetch_steps, &tile->fetch);
    h->isa->tile(tile);
}

/* Rows of probabilities are begun with: as many are next. */
static void ahead_rows(const struct head *h, const float *p, int64_t rows) {
    h->ahead->p = p + rows * h->a.tokens;
    h->ahead->p_lines = parts(rows * h->a.tokens, LINE);
}

static int64_t turned_floats(const struct cpu_attention *a, const struct gemm_isa *isa) {
    return parts(a->tokens, isa->columns) * isa->columns * a->depth;
}

/* Scratch of a thread: a turned operand, and the rows that are worked on, twice where dropout makes
 * them two. */
static int64_t own_floats(const struct cpu_attention *a, int64_t rows) {
    int64_t floats = turned_floats(a, gemm_isa()) + (a->key < 0 ? 1 : 2) * rows * pitch(a);
    return parts(floats, SOFTMAX_WIDE) * SOFTMAX_WIDE;
}

/* Columns of a product with a turned operand that panels make; the few left are dot products. */
static int64_t in_panels(const struct head *h, int64_t columns) {
    int wide = h->isa->columns;
    return columns % wide <= FEW ? columns / wide * wide : columns;
}

/* Packs x[T,D], turned, in panels [D][columns]. */
static void turn(const struct head *h, const float *x) {
    int wide = h->isa->columns;
    int64_t count = in_panels(h, h->a.tokens);
    for (int64_t at = 0; at < count; at += wide)
        gemm_pack(x + at * h->a.stride, 1, h->a.stride, h->a.depth, (int)least(wide, count - at),
                  wide, h->turned + at * h->a.depth);
}

/* s[rows,columns] = x[rows,D] times the turned operand z, of which few columns beyond a panel are
 * taken from where they lie. Columns of a panel beyond the last one are made too, where a row has
 * room: whole vectors are stored faster. */
static void times_turned(const struct head *h, const float *x, int64_t x_row, const float *z,
                         int64_t rows, int64_t columns, float *s) {
    int wide = h->isa->columns;
    int64_t whole = in_panels(h, columns);
    for (int64_t at = 0; at < whole; at += wide)
        run_tile(h, &(struct gemm_tile){.a = x,
                                        .b = h->turned + at * h->a.depth,
                                        .c = s + at,
                                        .a_row = x_row,
                                        .a_step = 1,
                                        .b_step = wide,
                                        .c_row = pitch(&h->a),
                                        .depth = h->a.depth,
                                        .rows = (int)rows,
                                        .columns = (int)least(wide, pitch(&h->a) - at),
                                        .near = true,
                                        .fresh = true});
    for (int64_t at = whole; at < columns; at++)
        h->softmax->dots(x, x_row, z + at * h->a.stride, h->a.depth, rows, s + at, pitch(&h->a));
}

/* A product whose columns are a head's D: c[rows,D] (+)= x b[depth,D], row tile by row tile. */
struct product {
    const float *x, *b;
    float *c;
    int64_t x_row, x_step, b_step, c_row, depth;
    bool fresh;
};

static void times_head(const struct head *h, const struct product *m, int64_t rows) {
    for (int64_t at = 0; at < h->a.depth; at += h->isa->columns)
        run_tile(h, &(struct gemm_tile){.a = m->x,
                                        .b = m->b + at,
                                        .c = m->c + at,
                                        .a_row = m->x_row,
                                        .a_step = m->x_step,
                                        .b_step = m->b_step,
                                        .c_row = m->c_row,
                                        .depth = m->depth,
                                        .rows = (int)rows,
                                        .columns = (int)least(h->isa->columns, h->a.depth - at),
                                        .fresh = m->fresh});
}

/* Keys that the query in this row may see, mask apart. */
static int64_t keys_of(const struct head *h, int64_t row) {
    return h->a.causal ? row + 1 : h->a.tokens;
}

/* Dropout of row `row` of one or two tensors. */
static void drop_row(const struct head *h, int64_t row, int tensors, const float *const x[],
                     float *const y[]) {
    cpu_drop(h->drop, h->first + row * h->a.tokens, h->a.tokens, tensors, x, y);
}

static struct softmax_block block_of(const struct head *h, float *s, float *p, int64_t rows,
                                     int64_t seen) {
    return (struct softmax_block){.s = s,
                                  .p = p,
                                  .s_step = pitch(&h->a),
                                  .p_step = h->a.tokens,
                                  .rows = rows,
                                  .seen = seen,
                                  .tokens = h->a.tokens,
                                  .scale = h->scale,
                                  .mask = h->mask};
}

/* --- forward --- */

static void attend_rows(const struct head *h, int64_t first, int64_t rows) {
    const struct cpu_attention *a = &h->a;
    int64_t step = pitch(a), keys = keys_of(h, first + rows - 1);
    float *p = h->p_out + first * a->tokens;
    ahead_rows(h, p, rows);
    times_turned(h, h->q + first * a->stride, a->stride, h->k, rows, keys, h->scores);
    struct softmax_block block = block_of(h, h->scores, p, rows, keys_of(h, first));
    block.more = a->causal;
    h->softmax->forward(&block);
    bool drops = a->key >= 0;
    for (int64_t i = 0; drops && i < rows; i++)
        drop_row(h, first + i, 1, (const float *[]){p + i * a->tokens},
                 (float *[]){h->scores + i * step});
    times_head(h,
               &(struct product){.x = drops ? h->scores : p,
                                 .b = h->v,
                                 .c = h->y + first * a->channels,
                                 .x_row = drops ? step : a->tokens,
                                 .x_step = 1,
                                 .b_step = a->stride,
                                 .c_row = a->channels,
                                 .depth = keys,
                                 .fresh = true},
               rows);
}

static void attend(struct head *h) {
    turn(h, h->k);
    for (int64_t row = 0; row < h->a.tokens; row += h->isa->rows)
        attend_rows(h, row, least(h->isa->rows, h->a.tokens - row));
}

/* --- backward --- */

/* The gradients of the scores of rows [first, first + rows), and the probabilities as they were
 * used, over the keys [0, keys). */
static void score_gradients(const struct head *h, int64_t first, int64_t rows, int64_t keys,
                            float *ds, float *used) {
    const struct cpu_attention *a = &h->a;
    int64_t step = pitch(a);
    const float *p = h->p_in + first * a->tokens;
    ahead_rows(h, p, rows);
    times_turned(h, h->dy + first * a->channels, a->channels, h->v, rows, keys, ds);
    for (int64_t i = 0; a->key >= 0 && i < rows; i++) {
        float *row = ds + i * step;
        drop_row(h, first + i, 2, (const float *[]){row, p + i * a->tokens},
                 (float *[]){row, used + i * step});
    }
    struct softmax_block block = block_of(h, ds, (float *)p, rows, keys);
    h->softmax->backward(&block);
}

/* dk (+)= ds' q and dv (+)= p' dy over a block of queries, tile by tile of the keys. A causal key
 * is first seen by the queries of its own block. */
static void key_gradients(const struct head *h, int64_t first, int64_t rows, int64_t keys,
                          const float *used, int64_t used_step) {
    const struct cpu_attention *a = &h->a;
    for (int64_t at = 0; at < keys; at += h->isa->rows) {
        int64_t count = least(h->isa->rows, keys - at);
        bool fresh = a->causal ? at >= first : first == 0;
        struct product dk = {.x = h->scores + at,
                             .b = h->q + first * a->stride,
                             .c = h->dk + at * a->stride,
                             .x_row = 1,
                             .x_step = pitch(a),
                             .b_step = a->stride,
                             .c_row = a->stride,
                             .depth = rows,
                             .fresh = fresh},
                       dv = dk;
        dv.x = used + at, dv.x_step = used_step;
        dv.b = h->dy + first * a->channels, dv.b_step = a->channels;
        dv.c = h->dv + at * a->stride;
        times_head(h, &dk, count);
        times_head(h, &dv, count);
    }
}

static void attend_bwd_block(const struct head *h, int64_t first, int64_t rows) {
    const struct cpu_attention *a = &h->a;
    int64_t step = pitch(a), keys = keys_of(h, first + rows - 1);
    for (int64_t row = 0; row < rows; row += h->isa->rows) {
        int64_t count = least(h->isa->rows, rows - row);
        float *ds = h->scores + row * step;
        score_gradients(h, first + row, count, keys, ds, h->used + row * step);
        times_head(h,
                   &(struct product){.x = ds,
                                     .b = h->k,
                                     .c = h->dq + (first + row) * a->stride,
                                     .x_row = step,
                                     .x_step = 1,
                                     .b_step = a->stride,
                                     .c_row = a->stride,
                                     .depth = keys,
                                     .fresh = true},
                   count);
    }
    if (a->key >= 0)
        key_gradients(h, first, rows, keys, h->used, step);
    else
        key_gradients(h, first, rows, keys, h->p_in + first * a->tokens, a->tokens);
}

static void attend_bwd(struct head *h) {
    turn(h, h->v);
    for (int64_t row = 0; row < h->a.tokens; row += BLOCK_ROWS)
        attend_bwd_block(h, row, least(BLOCK_ROWS, h->a.tokens - row));
}

/* --- kernels --- */

/* Part 0, 1, 2 (q, k, v, or their gradients) among the tensors from `first` on. */
static float *part(const struct cpu_attention *a, void *const tensor[], int which) {
    return a->packed ? (float *)tensor[0] + which * a->channels : (float *)tensor[which];
}

static struct head head_of(const struct cpu_kernel *kernel, const struct cpu_attention *a,
                           void *const in[], int64_t index, float *own, struct cpu_drop *drop) {
    int64_t sample = index / a->heads, head = index % a->heads;
    const struct op_attrs *attrs = &kernel->call.attrs;
    struct head h = {.a = *a,
                     .isa = gemm_isa(),
                     .softmax = softmax_rows(),
                     .scale = 1.0f / sqrtf((float)a->depth)};
    int64_t at = sample * a->tokens * a->stride + head * a->depth;
    void *const *operands = in + (kernel->call.op == OP_ATTENTION ? 0 : 2);
    h.q = part(a, operands, 0) + at;
    h.k = part(a, operands, 1) + at;
    h.v = part(a, operands, 2) + at;
    if (a->mask >= 0) h.mask = (const int32_t *)in[a->mask] + sample * a->tokens;
    h.drop = drop;
    h.first = head * a->tokens * a->tokens;
    if (a->key >= 0)
        cpu_drop_begin(drop,
                       rng_key(((const uint64_t *)in[a->key])[sample], attrs->attention.place),
                       attrs->attention.dropout, h.first + a->tokens * a->tokens);
    h.turned = own;
    h.scores = own + turned_floats(a, h.isa);
    return h;
}

/* Floats to the next head's operands, and in y. */
static int64_t next_at(const struct cpu_attention *a, int64_t index, int64_t stride) {
    int64_t head = index % a->heads;
    return head + 1 < a->heads ? a->depth : a->tokens * stride - head * a->depth;
}

/* In the order in which the next head wants them. Backward has dy. */
static struct ahead ahead_of(const struct head *h, int64_t index) {
    const struct cpu_attention *a = &h->a;
    struct ahead ahead = {.count = 0};
    if (index + 1 == a->batch * a->heads || a->tokens * a->depth > AHEAD_FLOATS) return ahead;
    int64_t next = next_at(a, index, a->stride);
    const float *forward[] = {h->k, h->q, h->v},
                *backward[] = {h->v, h->k, h->q, h->dq, h->dk, h->dv};
    ahead_add(&ahead, (h->dy ? h->dy : h->y) + next_at(a, index, a->channels), a->channels,
              a->tokens, a->depth);
    for (int i = 0; i < (h->dy ? 6 : 3); i++)
        ahead_add(&ahead, (h->dy ? backward : forward)[i] + next, a->stride, a->tokens, a->depth);
    return ahead;
}

static int64_t y_at(const struct cpu_attention *a, int64_t index) {
    return index / a->heads * a->tokens * a->channels + index % a->heads * a->depth;
}

/* All heads of a call. */
struct heads {
    const struct cpu_kernel *kernel;
    struct cpu_attention a;
    void *const *in, *const *out;
    float *scratch;
    int64_t rows, own; /* under way at a time; floats of scratch that they take */
};

static struct heads heads_of(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                             void *scratch) {
    struct heads all = {.kernel = kernel,
                        .a = cpu_attention_of(&kernel->call),
                        .in = in,
                        .out = out,
                        .scratch = scratch};
    bool forward = kernel->call.op == OP_ATTENTION;
    all.rows = forward ? gemm_isa()->rows : least(BLOCK_ROWS, all.a.tokens);
    all.own = own_floats(&all.a, all.rows);
    return all;
}

static void one_head(const void *work, int64_t i, int thread) {
    const struct heads *all = work;
    const struct cpu_attention *a = &all->a;
    struct cpu_drop drop;
    struct head h = head_of(all->kernel, a, all->in, i, all->scratch + thread * all->own, &drop);
    h.y = (float *)all->out[0] + y_at(a, i);
    h.p_out = (float *)all->out[1] + i * a->tokens * a->tokens;
    struct ahead ahead = ahead_of(&h, i);
    h.ahead = &ahead;
    attend(&h);
}

static void one_head_bwd(const void *work, int64_t i, int thread) {
    const struct heads *all = work;
    const struct cpu_attention *a = &all->a;
    struct cpu_drop drop;
    struct head h = head_of(all->kernel, a, all->in, i, all->scratch + thread * all->own, &drop);
    int64_t at = i / a->heads * a->tokens * a->stride + i % a->heads * a->depth;
    h.dy = (const float *)all->in[0] + y_at(a, i);
    h.p_in = (const float *)all->in[1] + i * a->tokens * a->tokens;
    h.used = h.scores + all->rows * pitch(a);
    h.dq = part(a, all->out, 0) + at;
    h.dk = part(a, all->out, 1) + at;
    h.dv = part(a, all->out, 2) + at;
    struct ahead ahead = ahead_of(&h, i);
    h.ahead = &ahead;
    attend_bwd(&h);
}

static void run_attention(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                          void *scratch) {
    struct heads all = heads_of(kernel, in, out, scratch);
    cpu_team_run(kernel->base.device->threads, all.a.batch * all.a.heads, one_head, &all);
}

static void run_attention_bwd(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                              void *scratch) {
    struct heads all = heads_of(kernel, in, out, scratch);
    cpu_team_run(kernel->base.device->threads, all.a.batch * all.a.heads, one_head_bwd, &all);
}

static enum status create(struct cpu_kernel *kernel, cpu_loop *loop) {
    int64_t own = heads_of(kernel, NULL, NULL, NULL).own;
    cpu_scratch(kernel, (size_t)(kernel->base.device->threads * own) * sizeof(float));
    cpu_name(kernel, "attention:%d", gemm_isa()->columns / 2);
    cpu_step_loop(kernel, loop);
    return STATUS_OK;
}

enum status cpu_attention(struct cpu_kernel *kernel, const struct layout *const in[]) {
    if (kernel->call.in[0].dtype == DTYPE_BF16) return cpu_attention_narrow(kernel, in);
    return create(kernel, run_attention);
}

enum status cpu_attention_bwd(struct cpu_kernel *kernel, const struct layout *const in[]) {
    if (kernel->call.in[0].dtype == DTYPE_BF16) return cpu_attention_narrow_bwd(kernel, in);
    return create(kernel, run_attention_bwd);
}
