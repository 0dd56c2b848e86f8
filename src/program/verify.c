/* The verifier: walks the bodies of all ranks with an abstract state instead of data.
 *
 * A slot knows which micro-batch it holds and how far that has come; a bucket of a gradient buffer
 * knows which micro-batches it holds and in which order they were added. Ranks are walked in turn,
 * each until it ends or must wait for another (at NORM, or where statistics are shared), as they
 * would run; when all wait, the program would hang, and the instruction where the first one waits
 * is the answer. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/order.h"
#include "program/program.h"

enum slot_state { SLOT_FREE, SLOT_LOADED, SLOT_FORWARD, SLOT_HALF, SLOT_DONE };

static const char *const slot_texts[] = {"free", "loaded", "forward done", "input gradients done",
                                         "done"};

struct slot {
    enum slot_state state;
    int micro, segment; /* the next segment of backward */
};

struct bucket {
    bool started, tied, posted; /* posted: REDUCE took it */
    uint64_t order;             /* of the additions that made it; 0: nothing added */
    int *micros, count;         /* the micro-batches whose gradients are in here, as they came */
    size_t capacity;
};

struct grad {
    bool normed;           /* NORM saw it as it is */
    struct bucket *bucket; /* NULL: not touched yet; see bucket_of */
};

struct walk {
    const struct program *program;
    const int64_t *samples;
    struct walk *all; /* one a rank */
    int rank, micro_total;
    struct slot *slots;
    struct grad *grads;
    bool *ran;    /* per micro-batch */
    int tracked;  /* micro-batches of replica 0 below this one have moved the running statistics */
    int at;       /* next instruction of the body */
    int reduces;  /* posted so far */
    int *reduced; /* buckets, in the order posted */
    bool counted, stepped, waits;
    bool shares;  /* the program's F and B share statistics */
    int *meeting; /* what was shared so far, in order: see meeting_of */
    int meetings; /* how many there are */
    size_t meeting_capacity;
    bool arrived;    /* at the last of them, not past it */
    int together;    /* one rank: how many of the replicas that share have come */
    int in_backward; /* micro-batch whose backward is under way between segments, or -1 */
    const struct instr *instr;
};

static enum status broken(const struct walk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum status broken(const struct walk *walk, const char *format, ...) {
    char why[256], line[INSTR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return fail(STATUS_USAGE, "program refused at %s: %s",
                instr_text(walk->instr, walk->rank, line), why);
}

static bool present(const struct walk *walk, int micro) {
    return !walk->samples || walk->samples[micro] > 0;
}

/* A flag where it has no meaning would be passed over by the executor, and mislead who reads the
 * program. */
static enum status check_flags(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    bool weights = instr->op == INSTR_B || instr->op == INSTR_W,
         meets = instr->op == INSTR_F || instr->op == INSTR_B || instr->op == INSTR_I;
    unsigned may = (instr->op == INSTR_F ? INSTR_PURE : 0) | (weights ? INSTR_NEW : 0) |
                   (meets ? INSTR_SHARES : 0);
    if (instr->flags & ~may)
        return broken(walk, "%s has no such flag", instr_name((enum instr_op)instr->op));
    if (meets && walk->shares != !!(instr->flags & INSTR_SHARES))
        return broken(walk, "some instructions share statistics (\"stats\") and this one does not");
    return STATUS_OK;
}

static enum status check_operands(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct program *program = walk->program;
    if (instr->stage < 0 || instr->micro < 0 || instr->slot < 0 || instr->grad < 0 ||
        instr->other < 0 || instr->segment < INSTR_ALL || instr->bucket < INSTR_ALL)
        return broken(walk, "a negative operand");
    if (instr->stage >= program->stages)
        return broken(walk, "stage %d of %d", instr->stage, program->stages);
    if (instr->micro >= walk->micro_total)
        return broken(walk, "micro-batch %d of %d", instr->micro, walk->micro_total);
    if (instr->slot >= program->slots)
        return broken(walk, "slot %d of %d", instr->slot, program->slots);
    if (instr->grad >= program->grads || instr->other >= program->grads)
        return broken(walk, "gradient buffer %d of %d",
                      instr->grad > instr->other ? instr->grad : instr->other, program->grads);
    if (instr->segment >= program->buckets || instr->bucket >= program->buckets)
        return broken(walk, "bucket %d of %d",
                      instr->segment > instr->bucket ? instr->segment : instr->bucket,
                      program->buckets);
    return STATUS_OK;
}

/* The slot must hold this micro-batch in state `from`, and goes to `to`. */
static enum status advance(struct walk *walk, enum slot_state from, enum slot_state to) {
    struct slot *slot = &walk->slots[walk->instr->slot];
    if (slot->state != from)
        return broken(walk, "slot %d is %s, must be %s", walk->instr->slot, slot_texts[slot->state],
                      slot_texts[from]);
    if (slot->micro != walk->instr->micro)
        return broken(walk, "slot %d holds micro-batch %d", walk->instr->slot, slot->micro);
    slot->state = to;
    return STATUS_OK;
}

static enum status load(struct walk *walk) {
    struct slot *slot = &walk->slots[walk->instr->slot];
    const struct program *program = walk->program;
    int micro = walk->instr->micro;
    if (!present(walk, micro))
        return broken(walk, "micro-batch %d has no samples in this step", micro);
    if (walk->ran[micro]) return broken(walk, "micro-batch %d was loaded before", micro);
    if (program->ranks > 1 && micro / program->micro_batches != walk->rank)
        return broken(walk, "micro-batch %d belongs to rank %d", micro,
                      micro / program->micro_batches);
    if (slot->state != SLOT_FREE && slot->state != SLOT_DONE)
        return broken(walk, "slot %d still holds micro-batch %d (%s)", walk->instr->slot,
                      slot->micro, slot_texts[slot->state]);
    *slot = (struct slot){SLOT_LOADED, micro, 0};
    walk->ran[micro] = true;
    return STATUS_OK;
}

/* On one device running statistics are replica 0's, in the order of its micro-batches; with a rank
 * a replica each keeps its own. */
static enum status forward(struct walk *walk) {
    TRY(advance(walk, SLOT_LOADED, SLOT_FORWARD));
    int micro = walk->instr->micro, replica = micro / walk->program->micro_batches;
    bool pure = walk->instr->flags & INSTR_PURE, own = walk->program->ranks > 1;
    if (pure != (!own && replica > 0))
        return broken(walk, "running statistics are replica %s, micro-batch %d is replica %d's",
                      own ? "by replica" : "0's", micro, replica);
    if (pure) return STATUS_OK;
    if (micro < walk->tracked)
        return broken(walk, "running statistics saw micro-batch %d before it", walk->tracked - 1);
    walk->tracked = micro + 1;
    return STATUS_OK;
}

/* --- shared statistics --- */

static bool any_present(const struct walk *walk, int micro) {
    int count = walk->program->micro_batches;
    for (int m = micro % count; m < walk->micro_total; m += count)
        if (present(walk, m)) return true;
    return false;
}

static enum status stand_in(struct walk *walk) {
    int micro = walk->instr->micro, owner = micro / walk->program->micro_batches;
    struct slot *slot = &walk->slots[walk->instr->slot];
    if (!walk->shares) return broken(walk, "nobody shares statistics (no \"stats\")");
    if (owner != walk->rank) return broken(walk, "micro-batch %d belongs to rank %d", micro, owner);
    if (present(walk, micro)) return broken(walk, "micro-batch %d has samples: F runs it", micro);
    if (!any_present(walk, micro)) return broken(walk, "no rank has samples to share here");
    if (slot->state != SLOT_FREE && slot->state != SLOT_DONE)
        return broken(walk, "slot %d still holds micro-batch %d (%s)", walk->instr->slot,
                      slot->micro, slot_texts[slot->state]);
    if (walk->instr->op == INSTR_STATS_B) return STATUS_OK;
    if (micro < walk->tracked)
        return broken(walk, "running statistics saw micro-batch %d before it", walk->tracked - 1);
    walk->tracked = micro + 1;
    return STATUS_OK;
}

/* What ranks meet for at an instruction: COUNT, or statistics, told apart by the place of the
 * micro-batch in its replica's step, doubled, and 1 for backward; -1: nothing. The segments of a
 * backward are one. */
enum { MEET_COUNT = INT_MAX };

static int meeting_of(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    bool stands_in = instr->op == INSTR_STATS_F || instr->op == INSTR_STATS_B;
    if (instr->op == INSTR_COUNT && walk->program->ranks > 1) return MEET_COUNT;
    if (!stands_in && !(instr->flags & INSTR_SHARES)) return -1;
    if (instr->op == INSTR_B && instr->segment > 0) return -1;
    return instr->micro % walk->program->micro_batches * 2 +
           (instr->op != INSTR_F && instr->op != INSTR_STATS_F);
}

static enum status broken_meeting(const struct walk *walk, int other, int what) {
    if (what == MEET_COUNT) return broken(walk, "rank %d counts labels (COUNT) there", other);
    return broken(walk, "rank %d shares the statistics of %s %d of its step there", other,
                  what % 2 ? "backward" : "forward", what / 2);
}

/* Between two segments of a backward that shares there is no other meeting: the others would wait
 * in the midst of theirs. */
static enum status check_midst(struct walk *walk, bool meets) {
    const struct instr *instr = walk->instr;
    bool goes_on = instr->op == INSTR_B && instr->segment > 0;
    if (meets && walk->in_backward >= 0)
        return broken(walk, "meets other ranks in the midst of the backward of micro-batch %d",
                      walk->in_backward);
    bool open = instr->op == INSTR_B && instr->segment != INSTR_ALL &&
                instr->segment < walk->program->buckets - 1;
    if (meets || goes_on) walk->in_backward = open && walk->shares ? instr->micro : -1;
    return STATUS_OK;
}

static void arrive(struct walk *walk, int what) {
    size_t need = (size_t)walk->meetings + 1;
    walk->meeting = mem_grow(walk->meeting, &walk->meeting_capacity, need, sizeof(int));
    walk->meeting[walk->meetings++] = what;
    walk->arrived = true;
}

static int sharers_of(const struct walk *walk, int micro) {
    int count = 0, each = walk->program->micro_batches;
    for (int m = micro % each; m < walk->micro_total; m += each) count += present(walk, m);
    return count;
}

/* One rank runs the replicas that share as one: they stand one behind the other, all of them. That
 * they have slots of their own follows, since nothing is loaded between. */
static enum status meet_here(struct walk *walk) {
    const struct instr *instr = walk->instr;
    int what = meeting_of(walk), *last = walk->meeting;
    if (walk->together > 0 && what != last[walk->meetings - 1])
        return broken(walk, "replicas that share statistics stand before it, but not all of them");
    if (what < 0) return STATUS_OK;
    if (walk->program->replicas == 1)
        return broken(walk, "there is no other replica to share statistics with");
    if (instr->op == INSTR_STATS_F || instr->op == INSTR_STATS_B)
        return broken(walk, "a replica without samples needs no part on one rank");
    if (instr->op == INSTR_B && instr->segment != INSTR_ALL)
        return broken(walk, "on one rank a backward that shares statistics is not cut");
    if (walk->together == 0) arrive(walk, what);
    if (++walk->together == sharers_of(walk, instr->micro)) walk->together = 0;
    return STATUS_OK;
}

/* Ranks meet for the same things in the same order; each waits for all. */
static enum status meet(struct walk *walk) {
    if (walk->program->ranks == 1) return meet_here(walk);
    int what = meeting_of(walk);
    if (!walk->arrived) {
        TRY(check_midst(walk, what >= 0));
        if (what < 0) return STATUS_OK;
        arrive(walk, what);
    }
    int number = walk->meetings - 1;
    for (int r = 0; r < walk->program->ranks; r++) {
        const struct walk *other = &walk->all[r];
        if (other->meetings <= number)
            walk->waits = true;
        else if (other->meeting[number] != what)
            return broken_meeting(walk, r, other->meeting[number]);
    }
    walk->arrived = walk->waits;
    return STATUS_OK;
}

/* --- gradient buffers --- */

/* Made when an instruction first names the buffer: the work is that of the instructions, whatever
 * the header says. */
static struct bucket *bucket_of(const struct walk *walk, int grad, int index) {
    struct grad *of = &walk->grads[grad];
    if (!of->bucket) of->bucket = MEM_ARRAY(struct bucket, walk->program->buckets);
    return &of->bucket[index];
}

static void bucket_add(struct bucket *into, const int *micros, int count) {
    size_t need = (size_t)into->count + (size_t)count;
    into->micros = mem_grow(into->micros, &into->capacity, need, sizeof *micros);
    for (int i = 0; i < count; i++) into->micros[into->count++] = micros[i];
}

static void bucket_count(const struct bucket *bucket, int *times) {
    for (int i = 0; i < bucket->count; i++) times[bucket->micros[i]]++;
}

/* The first half of backward reads the loss seeds, which COUNT sets. */
static enum status need_count(struct walk *walk) {
    if (walk->counted) return STATUS_OK;
    return broken(walk, "no COUNT before the first backward");
}

static enum status accumulate_bucket(struct walk *walk, int index) {
    struct bucket *bucket = bucket_of(walk, walk->instr->grad, index);
    bool fresh = walk->instr->flags & INSTR_NEW;
    if (fresh) {
        bucket->count = 0;
        bucket->started = true;
        bucket->tied = bucket->posted = false;
    }
    if (!bucket->started)
        return broken(walk, "gradient buffer %d was never started (\"new\")", walk->instr->grad);
    if (bucket->tied) return broken(walk, "gradient buffer %d was tied already", walk->instr->grad);
    uint64_t leaf = order_leaf(walk->instr->micro);
    bucket->order = fresh ? leaf : order_sum(bucket->order, leaf);
    bucket_add(bucket, &walk->instr->micro, 1);
    return STATUS_OK;
}

static enum status accumulate(struct walk *walk) {
    int first = walk->instr->segment, count = 1;
    if (first == INSTR_ALL || walk->instr->op == INSTR_W) first = 0, count = walk->program->buckets;
    walk->grads[walk->instr->grad].normed = false;
    for (int b = first; b < first + count; b++) TRY(accumulate_bucket(walk, b));
    return STATUS_OK;
}

/* Segments of backward come in order; the last one ends it. */
static enum status backward(struct walk *walk) {
    struct slot *slot = &walk->slots[walk->instr->slot];
    int segment = walk->instr->segment;
    TRY(need_count(walk));
    TRY(advance(walk, SLOT_FORWARD, SLOT_FORWARD));
    if (segment == INSTR_ALL && slot->segment > 0)
        return broken(walk, "segments below %d were run already", slot->segment);
    if (segment != INSTR_ALL && segment != slot->segment)
        return broken(walk, "segment %d is next", slot->segment);
    slot->segment++;
    if (segment == INSTR_ALL || slot->segment == walk->program->buckets) slot->state = SLOT_DONE;
    return accumulate(walk);
}

static enum status zero(struct walk *walk) {
    for (int m = 0; walk->program->ranks > 1 && m < walk->program->micro_batches; m++) {
        if (present(walk, walk->rank * walk->program->micro_batches + m))
            return broken(walk, "this rank has samples");
    }
    for (int b = 0; b < walk->program->buckets; b++) {
        struct bucket *bucket = bucket_of(walk, walk->instr->grad, b);
        bucket->started = true;
        bucket->tied = bucket->posted = false;
        bucket->order = 0;
        bucket->count = 0;
    }
    walk->grads[walk->instr->grad].normed = false;
    return STATUS_OK;
}

static enum status tie_bucket(struct walk *walk, int index) {
    struct bucket *bucket = bucket_of(walk, walk->instr->grad, index);
    if (!bucket->started || bucket->tied)
        return broken(walk, "gradient buffer %d %s", walk->instr->grad,
                      bucket->tied ? "is tied already" : "is empty");
    bucket->tied = true;
    return STATUS_OK;
}

static enum status tie(struct walk *walk) {
    if (walk->instr->bucket != INSTR_ALL) return tie_bucket(walk, walk->instr->bucket);
    for (int b = 0; b < walk->program->buckets; b++) TRY(tie_bucket(walk, b));
    return STATUS_OK;
}

static enum status sum(struct walk *walk) {
    struct grad *into = &walk->grads[walk->instr->grad], *from = &walk->grads[walk->instr->other];
    if (into == from) return broken(walk, "a buffer added to itself");
    for (int b = 0; b < walk->program->buckets; b++) {
        struct bucket *to = bucket_of(walk, walk->instr->grad, b),
                      *of = bucket_of(walk, walk->instr->other, b);
        if (!to->tied || !of->tied)
            return broken(walk, "both buffers must be whole (TIE) before they are added");
        if (to->posted || of->posted) return broken(walk, "bucket %d is being reduced", b);
        bucket_add(to, of->micros, of->count);
        to->order = order_sum(to->order, of->order);
        of->started = of->tied = false;
    }
    into->normed = from->normed = false;
    return STATUS_OK;
}

static enum status reduce(struct walk *walk) {
    struct bucket *bucket = bucket_of(walk, walk->instr->grad, walk->instr->bucket);
    if (walk->program->ranks == 1) return broken(walk, "there is no other rank to reduce with");
    if (!bucket->tied) return broken(walk, "bucket %d is not whole (no TIE)", walk->instr->bucket);
    if (bucket->posted) return broken(walk, "bucket %d was posted already", walk->instr->bucket);
    if (walk->reduces >= walk->program->buckets)
        return broken(walk, "more reductions than buckets");
    bucket->posted = true;
    walk->reduced[walk->reduces++] = walk->instr->bucket;
    return STATUS_OK;
}

/* What the reduction of a bucket gives: the tree over the ranks' contributions. */
static uint64_t reduced_order(const struct walk *walk, int index, int *times) {
    int ranks = walk->program->ranks, count = 0;
    uint64_t *orders = MEM_ARRAY(uint64_t, ranks);
    for (int r = 0; r < ranks; r++) {
        const struct bucket *bucket = bucket_of(&walk->all[r], walk->instr->grad, index);
        if (bucket->order) orders[count++] = bucket->order;
        bucket_count(bucket, times);
    }
    uint64_t order = order_tree(orders, count);
    free(orders);
    return order;
}

static enum status check_bucket(struct walk *walk, int index, bool check_order) {
    const struct bucket *bucket = bucket_of(walk, walk->instr->grad, index);
    if (!bucket->tied)
        return broken(walk, "gradient buffer %d is not whole (no TIE)", walk->instr->grad);
    if (walk->program->ranks > 1 && !bucket->posted)
        return broken(walk, "bucket %d was not reduced over the replicas", index);
    int *times = MEM_ARRAY(int, walk->micro_total);
    bool alone = walk->program->ranks == 1;
    if (alone) bucket_count(bucket, times);
    uint64_t order = alone ? bucket->order : reduced_order(walk, index, times);
    enum status status = STATUS_OK;
    for (int m = 0; m < walk->micro_total && status == STATUS_OK; m++) {
        if (times[m] != (present(walk, m) ? 1 : 0))
            status = broken(walk, "the gradient of micro-batch %d is in buffer %d %d times", m,
                            walk->instr->grad, times[m]);
    }
    free(times);
    TRY(status);
    if (check_order && order != order_defined(walk->program, walk->samples))
        return broken(walk, "the gradients were not added in the order \"sum %s\" of the header",
                      sum_order_name(walk->program->sum));
    return STATUS_OK;
}

static enum status check_whole(struct walk *walk, bool check_order) {
    for (int b = 0; b < walk->program->buckets; b++) TRY(check_bucket(walk, b, check_order));
    return STATUS_OK;
}

/* NORM awaits what was posted: every rank must post the same buckets in the same order. */
static enum status norm(struct walk *walk) {
    if (walk->program->ranks > 1 && walk->grads[walk->instr->grad].normed)
        return broken(walk, "a second NORM would add up the ranks' losses again");
    for (int r = 0; r < walk->program->ranks; r++) {
        const struct walk *other = &walk->all[r];
        int both = other->reduces < walk->reduces ? other->reduces : walk->reduces;
        if (memcmp(other->reduced, walk->reduced, (size_t)both * sizeof(int)) != 0)
            return broken(walk, "ranks %d and %d reduce their buckets in different orders",
                          walk->rank, r);
        if (other->reduces < walk->reduces) {
            walk->waits = true;
            return STATUS_OK;
        }
    }
    TRY(check_whole(walk, false));
    walk->grads[walk->instr->grad].normed = true;
    return STATUS_OK;
}

/* Without NORM nothing would stop a gradient that is not finite, and clipping would use the step
 * before's. */
static enum status step(struct walk *walk) {
    TRY(check_whole(walk, true));
    if (!walk->grads[walk->instr->grad].normed)
        return broken(walk, "no NORM of gradient buffer %d before it", walk->instr->grad);
    if (walk->stepped) return broken(walk, "a second STEP");
    walk->stepped = true;
    return STATUS_OK;
}

static enum status visit(struct walk *walk) {
    TRY(check_operands(walk));
    TRY(check_flags(walk));
    TRY(meet(walk));
    if (walk->waits) return STATUS_OK;
    switch ((enum instr_op)walk->instr->op) {
    case INSTR_COUNT: walk->counted = true; return STATUS_OK;
    case INSTR_LOAD: return load(walk);
    case INSTR_F: return forward(walk);
    case INSTR_B: return backward(walk);
    case INSTR_I: TRY(need_count(walk)); return advance(walk, SLOT_FORWARD, SLOT_HALF);
    case INSTR_W: TRY(advance(walk, SLOT_HALF, SLOT_DONE)); return accumulate(walk);
    case INSTR_STATS_F:
    case INSTR_STATS_B: return stand_in(walk);
    case INSTR_ZERO: return zero(walk);
    case INSTR_TIE: return tie(walk);
    case INSTR_SUM: return sum(walk);
    case INSTR_REDUCE: return reduce(walk);
    case INSTR_NORM: return norm(walk);
    case INSTR_STEP: return step(walk);
    case INSTR_BCAST: return broken(walk, "BCAST belongs into start");
    case INSTR_COUNT_: break;
    }
    return broken(walk, "not an instruction");
}

/* BCAST is the one instruction of start; nothing belongs into drain yet. */
static enum status check_other_lists(struct walk *walk) {
    for (int l = 0; l < LIST_COUNT; l++) {
        const struct instr_list *list = &walk->program->rank[walk->rank].list[l];
        for (int i = 0; l != LIST_BODY && i < list->count; i++) {
            walk->instr = &list->items[i];
            if (l == LIST_START && list->items[i].op == INSTR_BCAST) continue;
            return broken(walk, "%s belongs into the body, not into %s",
                          instr_name((enum instr_op)list->items[i].op), list_names[l]);
        }
    }
    return STATUS_OK;
}

static enum status no_step(const struct program *program, int rank) {
    return fail(STATUS_USAGE, "program refused: rank %d has no STEP in its body (%d instructions)",
                rank, program->rank[rank].list[LIST_BODY].count);
}

/* Walks a rank on until it ends or waits; *moved tells whether it did anything. */
static enum status walk_on(struct walk *walk, bool *moved) {
    const struct instr_list *body = &walk->program->rank[walk->rank].list[LIST_BODY];
    for (; walk->at < body->count; walk->at++) {
        walk->instr = &body->items[walk->at];
        walk->waits = false;
        TRY(visit(walk));
        if (walk->waits) return STATUS_OK;
        *moved = true;
    }
    if (walk->together > 0)
        return broken(walk, "replicas that share statistics are missing behind it");
    return walk->stepped ? STATUS_OK : no_step(walk->program, walk->rank);
}

static enum status walk_all(struct walk *all, int ranks) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < ranks; r++) TRY(walk_on(&all[r], &moved));
    }
    for (int r = 0; r < ranks; r++) {
        if (all[r].waits)
            return broken(&all[r], "it would wait for ever: another rank never %s",
                          all[r].arrived ? "comes to meet it" : "reduces as much");
    }
    return STATUS_OK;
}

static void walk_new(struct walk *walk, struct walk *all, const struct program *program, int rank,
                     const int64_t *samples) {
    int total = program->replicas * program->micro_batches;
    *walk = (struct walk){.program = program,
                          .samples = samples,
                          .all = all,
                          .rank = rank,
                          .micro_total = total,
                          .shares = program_shares(program),
                          .in_backward = -1,
                          .slots = MEM_ARRAY(struct slot, program->slots),
                          .grads = MEM_ARRAY(struct grad, program->grads),
                          .ran = MEM_ARRAY(bool, total),
                          .reduced = MEM_ARRAY(int, program->buckets)};
}

static void walk_free(struct walk *walk) {
    for (int g = 0; g < walk->program->grads; g++) {
        for (int b = 0; walk->grads[g].bucket && b < walk->program->buckets; b++)
            free(walk->grads[g].bucket[b].micros);
        free(walk->grads[g].bucket);
    }
    free(walk->slots);
    free(walk->grads);
    free(walk->ran);
    free(walk->reduced);
    free(walk->meeting);
}

enum status program_verify(const struct program *program, const int64_t *samples) {
    if (program->ranks > 1 && program->ranks != program->replicas)
        return fail(STATUS_USAGE, "program refused: %d ranks for %d replicas", program->ranks,
                    program->replicas);
    for (int r = 0; r < program->ranks; r++) /* before memory is taken for each */
        if (program->rank[r].list[LIST_BODY].count == 0) return no_step(program, r);
    struct walk *all = MEM_ARRAY(struct walk, program->ranks);
    for (int r = 0; r < program->ranks; r++) walk_new(&all[r], all, program, r, samples);
    enum status status = STATUS_OK;
    for (int r = 0; r < program->ranks && status == STATUS_OK; r++)
        status = check_other_lists(&all[r]);
    if (status == STATUS_OK) status = walk_all(all, program->ranks);
    for (int r = 0; r < program->ranks; r++) walk_free(&all[r]);
    free(all);
    return status;
}
