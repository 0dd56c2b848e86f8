/* What is proven of slots: each holds the micro-batch an instruction names and has come as far as
 * the column "slot" says; each micro-batch that has samples runs once, those without are not
 * touched; running statistics are moved by one replica of the rank, its micro-batches in order. */
#include "program/verify.h"

static const char *const state_names[] = {"free", "loaded", "forward done", "input gradients done",
                                          "done"};

static bool is_free(const struct slot *slot) {
    return slot->state == SLOT_FREE || slot->state == SLOT_DONE;
}

static enum status need_free(const struct walk *walk, const struct slot *slot) {
    if (is_free(slot)) return STATUS_OK;
    return verify_broken(walk, "slot %d still holds micro-batch %d (%s)", walk->instr->slot,
                         slot->micro, state_names[slot->state]);
}

static enum status load(struct walk *walk, struct slot *slot) {
    int micro = walk->instr->micro;
    if (!verify_present(walk, micro))
        return verify_broken(walk, "micro-batch %d has no samples in this step", micro);
    if (walk->loaded[micro]) return verify_broken(walk, "micro-batch %d was loaded before", micro);
    TRY(need_free(walk, slot));
    *slot = (struct slot){SLOT_LOADED, micro, 0, 0};
    walk->loaded[micro] = true;
    return STATUS_OK;
}

/* Of the replicas on one device the first moves the running statistics, in the order of its
 * micro-batches; a replica with ranks of its own moves its own. */
static enum status track(struct walk *walk) {
    int micro = walk->instr->micro;
    if (micro < walk->tracked)
        return verify_broken(walk, "running statistics saw micro-batch %d before it",
                             walk->tracked - 1);
    walk->tracked = micro + 1;
    return STATUS_OK;
}

static enum status forward(struct walk *walk, struct slot *slot) {
    int micro = walk->instr->micro, replica = micro / walk->program->micro_batches;
    bool pure = walk->instr->flags & INSTR_PURE;
    slot->stage = walk->instr->stage;
    if (pure != (replica > 0))
        return verify_broken(walk,
                             "running statistics are replica %d's, micro-batch %d is replica %d's",
                             walk->cell.first_replica, micro, walk->cell.first_replica + replica);
    return pure ? STATUS_OK : track(walk);
}

/* Segments of backward come in order; the last one ends it. */
static enum status backward(struct walk *walk, struct slot *slot) {
    int segment = walk->instr->segment;
    if (segment == INSTR_ALL && slot->segment > 0)
        return verify_broken(walk, "segments below %d were run already", slot->segment);
    if (segment != INSTR_ALL && segment != slot->segment)
        return verify_broken(walk, "segment %d is next", slot->segment);
    slot->segment++;
    if (segment != INSTR_ALL && slot->segment < walk->own->buckets) slot->state = SLOT_FORWARD;
    return STATUS_OK;
}

static bool any_present(const struct walk *walk, int micro) {
    const struct program *program = walk->program;
    const int64_t *samples = walk->verifier->samples;
    int count = program->micro_batches;
    for (int m = micro % count; samples && m < program->grid.replicas * count; m += count)
        if (samples[m] > 0) return true;
    return !samples;
}

/* STATS_F and STATS_B: the part of a rank without samples where the others share statistics. */
static enum status stand_in(struct walk *walk, const struct slot *slot) {
    int micro = walk->instr->micro;
    if (!walk->verifier->shares)
        return verify_broken(walk, "nobody shares statistics (no F or B has a group)");
    if (verify_present(walk, micro))
        return verify_broken(walk, "micro-batch %d has samples: F runs it", micro);
    if (!any_present(walk, micro)) return verify_broken(walk, "no rank has samples to share here");
    TRY(need_free(walk, slot));
    return walk->instr->op == INSTR_STATS_F ? track(walk) : STATUS_OK;
}

static enum status advance(struct walk *walk, struct slot *slot) {
    const struct slot_change *change = &instr_row(walk->instr)->slot;
    if (slot->state != change->from)
        return verify_broken(walk, "slot %d is %s, must be %s", walk->instr->slot,
                             state_names[slot->state], state_names[change->from]);
    if (slot->micro != walk->instr->micro)
        return verify_broken(walk, "slot %d holds micro-batch %d", walk->instr->slot, slot->micro);
    if (walk->instr->op != INSTR_F && slot->stage != walk->instr->stage)
        return verify_broken(walk, "slot %d holds stage %d", walk->instr->slot, slot->stage);
    slot->state = change->to;
    return STATUS_OK;
}

enum status verify_slot(struct walk *walk) {
    const struct instr_row *row = instr_row(walk->instr);
    struct slot *slot = &walk->slots[walk->instr->slot];
    if (!row->slot.has_slot) return STATUS_OK;
    if (walk->instr->op == INSTR_LOAD) return load(walk, slot);
    if (row->slot.to == SLOT_FREE) return stand_in(walk, slot);
    TRY(advance(walk, slot));
    if (walk->instr->op == INSTR_F) return forward(walk, slot);
    return walk->instr->op == INSTR_B ? backward(walk, slot) : STATUS_OK;
}
