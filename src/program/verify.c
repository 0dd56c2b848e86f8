/* The verifier of one rank's step: walks the body with an abstract state instead of data. A slot
 * knows which micro-batch it holds and how far that has come; a gradient buffer knows how often it
 * holds each micro-batch. */
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
    int micro;
};

struct grad {
    bool started, tied, normed; /* normed: NORM saw it as it is */
    int *times;                 /* per micro-batch of the step: how often its gradient is in here */
    uint64_t order;             /* of the additions that made it */
};

struct walk {
    const struct program *program;
    const int64_t *samples;
    int rank, micro_total;
    struct slot *slots;
    struct grad *grads;
    bool *ran;   /* per micro-batch */
    int tracked; /* micro-batches of replica 0 below this one have moved the running statistics */
    bool counted, stepped;
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
    unsigned may = instr->op == INSTR_F                           ? INSTR_PURE
                   : instr->op == INSTR_B || instr->op == INSTR_W ? INSTR_NEW
                                                                  : 0;
    if (instr->flags & ~may)
        return broken(walk, "%s has no such flag", instr_name((enum instr_op)instr->op));
    return STATUS_OK;
}

static enum status check_operands(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    if (instr->stage < 0 || instr->micro < 0 || instr->slot < 0 || instr->grad < 0 ||
        instr->other < 0)
        return broken(walk, "a negative operand");
    if (instr->stage >= walk->program->stages)
        return broken(walk, "stage %d of %d", instr->stage, walk->program->stages);
    if (instr->micro >= walk->micro_total)
        return broken(walk, "micro-batch %d of %d", instr->micro, walk->micro_total);
    if (instr->slot >= walk->program->slots)
        return broken(walk, "slot %d of %d", instr->slot, walk->program->slots);
    if (instr->grad >= walk->program->grads || instr->other >= walk->program->grads)
        return broken(walk, "gradient buffer %d of %d",
                      instr->grad > instr->other ? instr->grad : instr->other,
                      walk->program->grads);
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
    int micro = walk->instr->micro;
    if (!present(walk, micro))
        return broken(walk, "micro-batch %d has no samples in this step", micro);
    if (walk->ran[micro]) return broken(walk, "micro-batch %d was loaded before", micro);
    if (slot->state != SLOT_FREE && slot->state != SLOT_DONE)
        return broken(walk, "slot %d still holds micro-batch %d (%s)", walk->instr->slot,
                      slot->micro, slot_texts[slot->state]);
    *slot = (struct slot){SLOT_LOADED, micro};
    walk->ran[micro] = true;
    return STATUS_OK;
}

/* Running statistics are replica 0's, in the order of its micro-batches. */
static enum status forward(struct walk *walk) {
    TRY(advance(walk, SLOT_LOADED, SLOT_FORWARD));
    int micro = walk->instr->micro, replica = micro / walk->program->micro_batches;
    bool pure = walk->instr->flags & INSTR_PURE;
    if (pure != (replica > 0))
        return broken(walk, "running statistics are replica 0's, micro-batch %d is replica %d's",
                      micro, replica);
    if (pure) return STATUS_OK;
    if (micro < walk->tracked)
        return broken(walk, "running statistics saw micro-batch %d before it", walk->tracked - 1);
    walk->tracked = micro + 1;
    return STATUS_OK;
}

/* The first half of backward reads the loss seeds, which COUNT sets. */
static enum status backward(struct walk *walk, enum slot_state to) {
    if (!walk->counted) return broken(walk, "no COUNT before the first backward");
    return advance(walk, SLOT_FORWARD, to);
}

static enum status accumulate(struct walk *walk) {
    struct grad *grad = &walk->grads[walk->instr->grad];
    if (walk->instr->flags & INSTR_NEW) {
        memset(grad->times, 0, (size_t)walk->micro_total * sizeof *grad->times);
        grad->started = true;
        grad->tied = false;
    }
    if (!grad->started)
        return broken(walk, "gradient buffer %d was never started (\"new\")", walk->instr->grad);
    if (grad->tied) return broken(walk, "gradient buffer %d was tied already", walk->instr->grad);
    grad->normed = false;
    uint64_t leaf = order_leaf(walk->instr->micro);
    grad->order = walk->instr->flags & INSTR_NEW ? leaf : order_sum(grad->order, leaf);
    grad->times[walk->instr->micro]++;
    return STATUS_OK;
}

static enum status tie(struct walk *walk) {
    struct grad *grad = &walk->grads[walk->instr->grad];
    if (!grad->started || grad->tied)
        return broken(walk, "gradient buffer %d %s", walk->instr->grad,
                      grad->tied ? "is tied already" : "is empty");
    grad->tied = true;
    return STATUS_OK;
}

static enum status sum(struct walk *walk) {
    struct grad *into = &walk->grads[walk->instr->grad], *from = &walk->grads[walk->instr->other];
    if (into == from) return broken(walk, "a buffer added to itself");
    if (!into->tied || !from->tied)
        return broken(walk, "both buffers must be whole (TIE) before they are added");
    for (int m = 0; m < walk->micro_total; m++) into->times[m] += from->times[m];
    into->order = order_sum(into->order, from->order);
    from->started = from->tied = into->normed = from->normed = false;
    return STATUS_OK;
}

static enum status check_whole(struct walk *walk) {
    const struct grad *grad = &walk->grads[walk->instr->grad];
    if (!grad->tied)
        return broken(walk, "gradient buffer %d is not whole (no TIE)", walk->instr->grad);
    for (int m = 0; m < walk->micro_total; m++) {
        if (grad->times[m] != (present(walk, m) ? 1 : 0))
            return broken(walk, "the gradient of micro-batch %d is in buffer %d %d times", m,
                          walk->instr->grad, grad->times[m]);
    }
    return STATUS_OK;
}

static enum status norm(struct walk *walk) {
    TRY(check_whole(walk));
    walk->grads[walk->instr->grad].normed = true;
    return STATUS_OK;
}

/* Without NORM nothing would stop a gradient that is not finite, and clipping would use the step
 * before's. */
static enum status step(struct walk *walk) {
    TRY(check_whole(walk));
    if (!walk->grads[walk->instr->grad].normed)
        return broken(walk, "no NORM of gradient buffer %d before it", walk->instr->grad);
    if (walk->grads[walk->instr->grad].order != order_defined(walk->program, walk->samples))
        return broken(walk, "the gradients were not added in the order \"sum %s\" of the header",
                      sum_order_name(walk->program->sum));
    if (walk->stepped) return broken(walk, "a second STEP");
    walk->stepped = true;
    return STATUS_OK;
}

static enum status visit(struct walk *walk) {
    TRY(check_operands(walk));
    TRY(check_flags(walk));
    switch ((enum instr_op)walk->instr->op) {
    case INSTR_COUNT: walk->counted = true; return STATUS_OK;
    case INSTR_LOAD: return load(walk);
    case INSTR_F: return forward(walk);
    case INSTR_B: TRY(backward(walk, SLOT_DONE)); return accumulate(walk);
    case INSTR_I: return backward(walk, SLOT_HALF);
    case INSTR_W: TRY(advance(walk, SLOT_HALF, SLOT_DONE)); return accumulate(walk);
    case INSTR_TIE: return tie(walk);
    case INSTR_SUM: return sum(walk);
    case INSTR_NORM: return norm(walk);
    case INSTR_STEP: return step(walk);
    case INSTR_COUNT_: break;
    }
    return broken(walk, "not an instruction");
}

/* No instruction belongs into start or drain yet, and none would be run there. */
static enum status check_other_lists(struct walk *walk) {
    for (int l = 0; l < LIST_COUNT; l++) {
        const struct instr_list *list = &walk->program->rank[walk->rank].list[l];
        if (l == LIST_BODY || list->count == 0) continue;
        walk->instr = &list->items[0];
        return broken(walk, "%s belongs into the body, not into %s",
                      instr_name((enum instr_op)list->items[0].op), list_names[l]);
    }
    return STATUS_OK;
}

static enum status walk_body(struct walk *walk) {
    const struct instr_list *body = &walk->program->rank[walk->rank].list[LIST_BODY];
    TRY(check_other_lists(walk));
    for (int i = 0; i < body->count; i++) {
        walk->instr = &body->items[i];
        TRY(visit(walk));
    }
    if (!walk->stepped)
        return fail(STATUS_USAGE,
                    "program refused: rank %d has no STEP in its body (%d instructions)",
                    walk->rank, body->count);
    return STATUS_OK;
}

static enum status verify_rank(const struct program *program, int rank, const int64_t *samples) {
    int total = program->replicas * program->micro_batches;
    struct walk walk = {.program = program,
                        .samples = samples,
                        .rank = rank,
                        .micro_total = total,
                        .slots = MEM_ARRAY(struct slot, program->slots),
                        .grads = MEM_ARRAY(struct grad, program->grads),
                        .ran = MEM_ARRAY(bool, total)};
    for (int g = 0; g < program->grads; g++) walk.grads[g].times = MEM_ARRAY(int, total);
    enum status status = walk_body(&walk);
    for (int g = 0; g < program->grads; g++) free(walk.grads[g].times);
    free(walk.slots);
    free(walk.grads);
    free(walk.ran);
    return status;
}

enum status program_verify(const struct program *program, const int64_t *samples) {
    for (int r = 0; r < program->ranks; r++) TRY(verify_rank(program, r, samples));
    return STATUS_OK;
}
