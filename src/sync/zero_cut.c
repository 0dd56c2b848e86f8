/* Cutting passes into segments, for sync policy zero: see zero.h.
 *
 * Members of a group must come to the same scatters and gathers in the same order, whichever
 * micro-batches they have. Replica 0 has all that any replica has (a short step is dealt so), and
 * its order of passes is the order of all: where a replica lacks one, it stands in at that place.
 */
#include "sync/zero.h"

#include <stdlib.h>

#include "base/mem.h"

struct cutter {
    const struct zero *zero;
    const struct rank_program *rank;
    const struct instr_list *order;
    int next;           /* in the order: what comes next on all replicas */
    int grad;           /* that STEP reads, before anything is sliced */
    int buffers, micro; /* of windows; of the pass under way */
    struct {
        int left;       /* weight passes of the order that are still to come */
        bool started;   /* the gradient buffer has something of this rank's */
        bool scattered; /* the slices have something */
        int late;       /* micro-batches of what is shared that are joined, */
        int late_done;  /* and scattered */
        bool forwarded; /* its first forward has come */
    } chunk[GRID_MAX_CHUNKS];
    struct zero_list out;
};

static int chunk_of(const struct cutter *cutter, const struct instr *instr) {
    return grid_chunk(cutter->zero->grid, instr->stage);
}

static struct zero_item *push(struct cutter *cutter, const struct instr *instr) {
    struct zero_list *out = &cutter->out;
    out->items = mem_grow(out->items, &out->capacity, (size_t)out->count + 1, sizeof *out->items);
    struct zero_item *item = &out->items[out->count++];
    *item = (struct zero_item){.instr = *instr, .use = -1};
    return item;
}

static bool slices(const struct cutter *cutter, unsigned what) {
    return cutter->zero->config->sliced & what;
}

/* ... that must be gathered. */
static bool reads_params(const struct cutter *cutter, const struct instr *pass) {
    return slices(cutter, SLICED_PARAMS) && pass->op != INSTR_W;
}

static bool makes_weights(const struct instr *pass) {
    return pass->op == INSTR_B || pass->op == INSTR_W;
}

/* The buffer that the micro-batch under way is written to. */
static int window_of(const struct cutter *cutter) {
    return GRAD_WINDOWS + cutter->micro % cutter->buffers;
}

/* A bucket of the buffer that backward writes. */
static struct instr of_bucket(const struct cutter *cutter, enum instr_op op, int stage,
                              int bucket) {
    struct instr instr = instr_make(op);
    instr.stage = (int16_t)stage;
    instr.bucket = (int16_t)bucket;
    instr.grad = (int16_t)(slices(cutter, SLICED_GRADIENTS) ? window_of(cutter) : cutter->grad);
    return instr;
}

static void push_bucket(struct cutter *cutter, enum instr_op op, int stage, int bucket) {
    struct instr instr = of_bucket(cutter, op, stage, bucket);
    bool windows = slices(cutter, SLICED_GRADIENTS);
    if (op == INSTR_SCATTER) {
        instr.other = (int16_t)(windows ? GRAD_SLICES : instr.grad);
        instr.group = (int16_t)cutter->zero->group;
        if (windows && !cutter->chunk[chunk_of(cutter, &instr)].scattered) instr.flags = INSTR_NEW;
    }
    if (op == INSTR_JOIN) instr.group = (int16_t)cutter->zero->tied;
    push(cutter, &instr);
}

/* Whole gradients are scattered behind the last pass; sums by the tree come later still. */
static bool by_tree(const struct cutter *cutter) {
    return cutter->zero->sum == SUM_TREE && !slices(cutter, SLICED_GRADIENTS);
}

static bool scatters(const struct cutter *cutter, const struct instr *pass) {
    if (!makes_weights(pass) || by_tree(cutter)) return false;
    return slices(cutter, SLICED_GRADIENTS) || cutter->chunk[chunk_of(cutter, pass)].left == 1;
}

/* A bucket that another stage shares, on another rank: joined as soon as it is whole here, and
 * scattered as late as can be, since that waits for the other rank. On this rank: whole when the
 * other stage has come as far, at the end. Says whether it is one. */
static bool share_bucket(struct cutter *cutter, int stage, int bucket) {
    const struct program_tie *tie = program_tie_at(cutter->zero->program, stage, bucket);
    if (!tie) return false;
    if (tie_is_apart(tie)) {
        push_bucket(cutter, INSTR_TIE, stage, bucket);
        push_bucket(cutter, INSTR_JOIN, stage, bucket);
    }
    cutter->chunk[grid_chunk(cutter->zero->grid, stage)].late++;
    return true;
}

/* Before more is written there, and at the end: micro-batches in order, which replica 0 has from
 * the first on. */
static void scatter_late(struct cutter *cutter, int stage) {
    const struct program_tie *tie = program_tie_of(cutter->zero->program, stage);
    int chunk = grid_chunk(cutter->zero->grid, stage), micro = cutter->micro;
    bool scattered = cutter->chunk[chunk].scattered;
    for (int *done = &cutter->chunk[chunk].late_done; *done < cutter->chunk[chunk].late; ++*done) {
        int bucket = tie->stage == stage ? tie->bucket : tie->other_bucket;
        cutter->micro = *done;
        cutter->chunk[chunk].scattered = *done > 0;
        if (!tie_is_apart(tie)) push_bucket(cutter, INSTR_TIE, stage, bucket);
        push_bucket(cutter, INSTR_SCATTER, stage, bucket);
    }
    cutter->micro = micro;
    cutter->chunk[chunk].scattered = scattered;
}

/* Parameters that are whole come in bucket by bucket, from the step before: the first forward needs
 * them one by one, and the others find them there. */
static bool meets_gathers(const struct cutter *cutter, const struct instr *pass) {
    return pass->op == INSTR_F && !(pass->flags & INSTR_AGAIN) &&
           slices(cutter, SLICED_GRADIENTS) && !slices(cutter, SLICED_PARAMS) &&
           !cutter->chunk[chunk_of(cutter, pass)].forwarded;
}

/* One segment; of a pass that is absent, what its replica must still do: `stand` is its part where
 * statistics are shared, or NULL. */
static void segment(struct cutter *cutter, const struct instr *pass, int bucket, bool absent,
                    const struct instr *stand) {
    bool windows = slices(cutter, SLICED_GRADIENTS) && makes_weights(pass);
    bool empty = windows ? absent : !cutter->chunk[chunk_of(cutter, pass)].started && absent;
    struct instr instr = stand ? *stand : *pass;
    instr.segment = (int16_t)bucket;
    if (windows && !stand) {
        instr.grad = (int16_t)window_of(cutter);
        instr.flags |= INSTR_NEW;
    }
    struct zero_item *item = push(cutter, &instr);
    item->absent = absent && !stand;
    const struct chunk_sizes *sizes = &cutter->rank->chunk[chunk_of(cutter, pass)];
    bool kept = sizes->kept && bucket == sizes->buckets - 1;
    if (reads_params(cutter, pass) && !kept) item->use = bucket;
    if (!scatters(cutter, pass)) return;
    if (empty) push_bucket(cutter, INSTR_ZERO, pass->stage, bucket);
    if (share_bucket(cutter, pass->stage, bucket)) return;
    push_bucket(cutter, INSTR_TIE, pass->stage, bucket);
    push_bucket(cutter, INSTR_SCATTER, pass->stage, bucket);
}

/* A pass, or a segment of it where the schedule has cut it. */
static void pass(struct cutter *cutter, const struct instr *pass, bool absent,
                 const struct instr *stand) {
    int chunk = chunk_of(cutter, pass), count = cutter->rank->chunk[chunk].buckets;
    bool forward = instr_is_forward(pass), one = pass->segment != INSTR_ALL;
    bool cut = reads_params(cutter, pass) || scatters(cutter, pass) || meets_gathers(cutter, pass);
    cut &= count > 0; /* a frozen stage has no buckets */
    if (pass->op == INSTR_F) cutter->chunk[chunk].forwarded = true;
    bool full = cutter->buffers == 1 && makes_weights(pass) && pass->segment <= 0;
    if (full) scatter_late(cutter, pass->stage);
    cutter->micro = pass->micro;
    if (!cut && (!absent || stand))
        push(cutter, stand ? stand : pass)->instr.segment = pass->segment;
    if (cut && one) segment(cutter, pass, pass->segment, absent, stand);
    for (int i = 0; cut && !one && i < count; i++)
        segment(cutter, pass, forward ? count - 1 - i : i, absent, stand);
    if (!makes_weights(pass) || (one && pass->segment < count - 1)) return;
    cutter->chunk[chunk].left--;
    cutter->chunk[chunk].scattered = true;
    cutter->chunk[chunk].started |= !absent;
}

/* --- in the order of all replicas --- */

/* The pass of the order that an instruction is, or stands in for; the end: none. */
static int find(const struct cutter *cutter, const struct instr *instr) {
    int at = cutter->next;
    for (; at < cutter->order->count; at++) {
        const struct instr *one = &cutter->order->items[at];
        if (one->stage != instr->stage || one->micro != instr->micro) continue;
        bool same = one->op == instr->op && one->segment == instr->segment;
        bool forward = instr->op == INSTR_STATS_F && one->op == INSTR_F,
             backward = instr->op == INSTR_STATS_B && (one->op == INSTR_B || one->op == INSTR_I);
        if (same || forward || backward) break;
    }
    return at;
}

/* What other replicas run before that place and this one does not. */
static void absent_until(struct cutter *cutter, int end) {
    for (; cutter->next < end; cutter->next++)
        pass(cutter, &cutter->order->items[cutter->next], true, NULL);
}

static void own_pass(struct cutter *cutter, const struct instr *instr) {
    absent_until(cutter, find(cutter, instr));
    cutter->next++;
    pass(cutter, instr, false, NULL);
}

/* Behind all passes. */
static void end_passes(struct cutter *cutter, int position) {
    absent_until(cutter, cutter->order->count);
    for (int c = cutter->rank->chunks - 1; c >= 0; c--)
        scatter_late(cutter, grid_stage(cutter->zero->grid, position, c));
    for (int c = 0; by_tree(cutter) && c < cutter->rank->chunks; c++)
        for (int b = 0; b < cutter->rank->chunk[c].buckets; b++)
            push_bucket(cutter, INSTR_SCATTER, grid_stage(cutter->zero->grid, position, c), b);
}

/* All of the pass, where the schedule has cut it; it recomputes nothing between. */
static void stand_in(struct cutter *cutter, const struct instr *instr) {
    int at = find(cutter, instr);
    for (; at < cutter->order->count; at = find(cutter, instr)) {
        absent_until(cutter, at);
        pass(cutter, &cutter->order->items[cutter->next++], true, instr);
    }
}

static void one(struct cutter *cutter, const struct instr *instr, int position) {
    switch ((enum instr_op)instr->op) {
    case INSTR_F:
    case INSTR_R:
    case INSTR_B:
    case INSTR_I:
    case INSTR_W: own_pass(cutter, instr); return;
    case INSTR_STATS_F:
    case INSTR_STATS_B: stand_in(cutter, instr); return;
    case INSTR_ZERO:
    case INSTR_TIE:
    case INSTR_JOIN: /* buckets have their own */
        if (!by_tree(cutter)) return;
        break;
    case INSTR_REPORT: end_passes(cutter, position); break;
    default: break;
    }
    push(cutter, instr);
}

struct zero_list zero_cut(const struct zero *zero, const struct rank_program *rank, int position) {
    const struct instr_list *body = &rank->list[LIST_BODY];
    struct cutter cutter = {.zero = zero,
                            .rank = rank,
                            .order = &zero->order[position],
                            .buffers = zero_buffers(zero, position)};
    for (int i = 0; i < cutter.order->count; i++) {
        const struct instr *pass = &cutter.order->items[i];
        bool once = pass->segment <= 0; /* of those that are cut already, too */
        if (makes_weights(pass) && once) cutter.chunk[chunk_of(&cutter, pass)].left++;
    }
    for (int i = 0; i < body->count; i++)
        if (body->items[i].op == INSTR_STEP) cutter.grad = body->items[i].grad;
    for (int i = 0; i < body->count; i++) one(&cutter, &body->items[i], position);
    return cutter.out;
}
