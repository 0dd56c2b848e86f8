/* What is proven of calls: the driver (rank 0, without a stage) has a channel to each rank of its
 * one pipeline; a rank serves the calls for it one by one, in the order they were made, each as
 * what it is; and where there are calls, each F, B or I, and STEP stands behind its own SERVE.
 *
 * Both wait where they stand: CALL for a credit, SERVE for the call. */
#include "base/mem.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};
enum { WHAT = INSTR_FORWARD | INSTR_BACKWARD | INSTR_UPDATE };

bool verify_has_calls(const struct program *program) {
    for (int k = 0; k < program->kind_count; k++) {
        const struct instr_list *body = &program->kinds[k].list[LIST_BODY];
        for (int i = 0; i < body->count; i++)
            if (instr_row(&body->items[i])->meets == MEETS_CALL) return true;
    }
    return false;
}

static bool is_call(const struct instr *instr) {
    return instr->op == INSTR_CALL;
}

/* One pass with its micro-batch, or the update of the whole rank. */
static enum status check_what(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    unsigned what = instr->flags & WHAT;
    if (what != INSTR_FORWARD && what != INSTR_BACKWARD && what != INSTR_UPDATE)
        return verify_broken(walk, RULE_CALLS, nobody, "it names one of forward, backward, update");
    if (instr->flags & INSTR_CLIP && what != INSTR_UPDATE)
        return verify_broken(walk, RULE_FLAGS, nobody, "nothing but an update is clipped");
    if ((what == INSTR_UPDATE) == (instr->micro == INSTR_ALL)) return STATUS_OK;
    return verify_broken(walk, RULE_CALLS, nobody, "%s",
                         what == INSTR_UPDATE ? "an update has no micro-batch"
                                              : "of which micro-batch?");
}

static enum status check_ends(const struct walk *walk) {
    const struct grid *grid = &walk->program->grid;
    if (grid->drivers != 1 || group_count(grid, GROUP_PIPELINE) != 1)
        return verify_broken(walk, RULE_CALLS, nobody,
                             "calls are those of one driver to one pipeline; here are %d and %d",
                             grid->drivers, group_count(grid, GROUP_PIPELINE));
    bool driver = walk->cell.role == GRID_DRIVER;
    if (driver == is_call(walk->instr)) return STATUS_OK;
    return verify_broken(walk, RULE_CALLS, nobody, "%s",
                         driver ? "a driver calls, it serves nobody"
                                : "this rank has a stage: the driver calls");
}

static struct channel *channel_of(const struct walk *walk) {
    return &walk->verifier->calls[grid_position(&walk->program->grid, walk->instr->stage)];
}

static enum status post(struct walk *walk, struct channel *channel) {
    TRY(check_ends(walk));
    TRY(check_what(walk));
    if (walk->instr->flags & INSTR_UPDATE) TRY(verify_clips(walk));
    if (!is_call(walk->instr)) {
        channel->received++;
        return STATUS_OK;
    }
    channel->items = mem_grow(channel->items, &channel->capacity, (size_t)channel->count + 1,
                              sizeof *channel->items);
    channel->items[channel->count++] =
        (struct message){.sent = {.instr = walk->instr, .rank = walk->rank}};
    channel->sent++;
    verify_wake_end(channel, true);
    return STATUS_OK;
}

/* The call has come; it gives its credit back. */
static enum status take(struct walk *walk, struct channel *channel) {
    struct place sent = channel->items[channel->taken++].sent;
    const struct instr *own = walk->instr;
    verify_wake_end(channel, false);
    if (sent.instr->stage != own->stage || sent.instr->micro != own->micro ||
        (sent.instr->flags & WHAT) != (own->flags & WHAT))
        return verify_broken(walk, RULE_CALLS, sent, "another call comes there");
    if (walk->served)
        return verify_broken(walk, RULE_CALLS, verify_own(walk, walk->served),
                             "what was called for before has not been done");
    walk->served = own;
    return STATUS_OK;
}

enum status verify_call(struct walk *walk) {
    if (instr_row(walk->instr)->meets != MEETS_CALL) return STATUS_OK;
    struct channel *channel = channel_of(walk);
    if (!walk->arrived) TRY(post(walk, channel));
    struct pending pending = {.channel = channel,
                              .number =
                                  (is_call(walk->instr) ? channel->sent : channel->received) - 1,
                              .instr = walk->instr};
    walk->arrived = !verify_done(walk->verifier, &pending);
    if (walk->arrived) verify_wait(walk, &pending);
    return walk->arrived || is_call(walk->instr) ? STATUS_OK : take(walk, channel);
}

/* What a driver calls for, of an instruction; 0: it belongs to another, or needs no call. */
static unsigned called_as(const struct instr *instr) {
    switch (instr->op) {
    case INSTR_F: return INSTR_FORWARD;
    case INSTR_B:
    case INSTR_I: return instr->segment > 0 ? 0 : INSTR_BACKWARD;
    case INSTR_STEP: return INSTR_UPDATE;
    default: return 0;
    }
}

enum status verify_served(struct walk *walk) {
    const struct instr *instr = walk->instr, *served = walk->served;
    unsigned as = called_as(instr);
    if (!walk->verifier->has_calls || !as) return STATUS_OK;
    bool same =
        served && (served->flags & WHAT) == as &&
        (as == INSTR_UPDATE || (served->stage == instr->stage && served->micro == instr->micro));
    if (!same)
        return verify_broken(walk, RULE_CALLS, verify_own(walk, served),
                             "no SERVE of it stands before it");
    walk->served = NULL;
    return STATUS_OK;
}

enum status verify_calls_end(struct walk *walk) {
    if (!walk->served) return STATUS_OK;
    struct walk at = {.rank = walk->rank, .instr = walk->served};
    return verify_broken(&at, RULE_CALLS, nobody, "what it was called for does not follow");
}

enum status verify_all_served(const struct verifier *verifier) {
    for (int p = 0; p < verifier->program->grid.stages; p++) {
        const struct channel *channel = &verifier->calls[p];
        if (channel->received >= channel->sent) continue;
        struct place lost = channel->items[channel->received].sent;
        struct walk driver = {.rank = lost.rank, .instr = lost.instr};
        return verify_broken(&driver, RULE_CALLS, nobody, "no rank serves it");
    }
    return STATUS_OK;
}
