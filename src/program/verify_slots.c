/* What is proven of slots: each holds the micro-batch an instruction names and has the facts that
 * the column "needs" asks for; each micro-batch that has samples is run once by each stage, those
 * without are not touched; running statistics are moved by one replica of the rank, its
 * micro-batches in order. */
#include <string.h>

#include "program/ahead.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};

static unsigned all_facts(const struct walk *walk) {
    const struct grid *grid = &walk->program->grid;
    return facts_of_stage(walk->instr->stage, grid->stages * grid->chunks, walk->program->frozen);
}

static bool is_free(const struct walk *walk, const struct verify_slot *slot) {
    return slot->facts == 0 || slot->facts == all_facts(walk);
}

/* The first of some facts, in words. */
static const char *fact_name(unsigned facts) {
    int fact = 0;
    while (fact < FACT_COUNT - 1 && !(facts >> fact & 1)) fact++;
    return fact_words[fact];
}

static const char *last_fact(unsigned facts) {
    int fact = FACT_COUNT - 1;
    while (fact > 0 && !(facts >> fact & 1)) fact--;
    return fact_words[fact];
}

static enum status need_free(const struct walk *walk, const struct verify_slot *slot) {
    if (is_free(walk, slot)) return STATUS_OK;
    return verify_broken(walk, RULE_SLOT, verify_own(walk, slot->last),
                         "slot %d still holds micro-batch %d (%s)", walk->instr->slot, slot->micro,
                         last_fact(slot->facts));
}

/* Looked for only where the program is refused. */
static const struct instr *earlier_load(const struct walk *walk) {
    const struct instr *instr = walk->own->list[walk->list].items;
    while (instr->op != INSTR_LOAD || instr->stage != walk->instr->stage ||
           instr->micro != walk->instr->micro)
        instr++;
    return instr;
}

static enum status load(struct walk *walk, struct verify_slot *slot) {
    int micro = verify_micro(walk), count = walk->micros * verify_ahead_steps(walk->program);
    bool *loaded = &walk->loaded[verify_chunk(walk) * count + micro];
    if (!verify_present(walk, micro))
        return verify_broken(walk, RULE_SAMPLES, nobody,
                             "micro-batch %d has no samples in this step", micro);
    if (*loaded)
        return verify_broken(walk, RULE_SAMPLES, verify_own(walk, earlier_load(walk)),
                             "micro-batch %d was loaded before", micro);
    TRY(need_free(walk, slot));
    *slot = (struct verify_slot){
        .facts = facts_named(instr_row(walk->instr)->gives), .micro = micro, .last = walk->instr};
    *loaded = true;
    if (++walk->live > walk->peak) walk->peak = walk->live;
    return STATUS_OK;
}

/* Of the replicas on one device the first moves the running statistics, in the order of its
 * micro-batches; a replica with ranks of its own moves its own. Each segment has its own. */
static enum status track(struct walk *walk) {
    const struct instr *instr = walk->instr;
    int chunk = verify_chunk(walk), count = walk->own->chunk[chunk].buckets;
    bool cut = instr->segment != INSTR_ALL;
    for (int e = cut ? instr->segment : 0; e < (cut ? instr->segment + 1 : count); e++) {
        const struct instr **tracked = &walk->tracked[sizes_bucket(walk->own->chunk, chunk, e)];
        int *saw = &walk->tracked_micro[sizes_bucket(walk->own->chunk, chunk, e)];
        if (*tracked && verify_micro(walk) <= *saw)
            return verify_broken(walk, RULE_STATISTICS, verify_own(walk, *tracked),
                                 "running statistics saw micro-batch %d before it", *saw);
        *tracked = instr;
        *saw = verify_micro(walk);
    }
    return STATUS_OK;
}

/* Forward begins with the last segment. */
static bool is_first_segment(const struct walk *walk) {
    int segment = walk->instr->segment;
    return segment == INSTR_ALL || segment == walk->own->chunk[verify_chunk(walk)].buckets - 1;
}

/* What is made again, all at once or segment by segment, is laid out in memory for the rank. */
static enum status check_form(struct walk *walk, struct verify_slot *slot) {
    unsigned form = walk->instr->flags & INSTR_AGAIN;
    bool blocks = form == INSTR_BLOCK;
    if (form == INSTR_AGAIN)
        return verify_broken(walk, RULE_FLAGS, nobody, "either \"light\" or \"block\"");
    if (!is_first_segment(walk) && form != slot->form)
        return verify_broken(walk, RULE_PASSES, verify_own(walk, slot->last),
                             "the segments of an F keep alike");
    if (form && walk->light[!blocks])
        return verify_broken(walk, RULE_PASSES, verify_own(walk, walk->light[!blocks]),
                             "a rank makes activations again by stage or by block, not both");
    if (form) walk->light[blocks] = walk->instr;
    slot->form = form;
    return STATUS_OK;
}

static enum status forward(struct walk *walk) {
    int micro = walk->instr->micro,
        replica = walk->program->ahead ? 0 : micro / walk->program->micro_batches;
    bool pure = walk->instr->flags & INSTR_PURE;
    if (pure != (replica > 0))
        return verify_broken(walk, RULE_STATISTICS, nobody,
                             "running statistics are replica %d's, micro-batch %d is replica %d's",
                             walk->cell.first_replica, micro, walk->cell.first_replica + replica);
    return pure ? STATUS_OK : track(walk);
}

/* R of a slot whose F keeps what came into each segment: that of the next segment of backward; the
 * last one gives its facts. */
static enum status make_block(struct walk *walk, struct verify_slot *slot, unsigned *gives) {
    int count = walk->own->chunk[verify_chunk(walk)].buckets, segment = walk->instr->segment;
    bool all = segment == INSTR_ALL && count == 1;
    if (slot->again != slot->done || (!all && segment != slot->again))
        return verify_broken(walk, RULE_PASSES, verify_own(walk, slot->last),
                             slot->again != slot->done ? "backward of segment %d is next"
                                                       : "segment %d is made again next",
                             slot->again - (slot->again != slot->done));
    if (++slot->again < count) *gives = 0;
    return STATUS_OK;
}

/* Its segment was made again: the activations that it reads are there. */
static bool has_block(const struct walk *walk, const struct verify_slot *slot) {
    int count = walk->own->chunk[verify_chunk(walk)].buckets;
    bool one = walk->instr->segment != INSTR_ALL || count == 1;
    return slot->form == INSTR_BLOCK && one && slot->again == slot->done + 1;
}

/* Segments of a pass come in order, those of forward from the last to the first; only the last one
 * gives its facts. */
static enum status count_segment(struct walk *walk, struct verify_slot *slot, unsigned *gives) {
    const struct instr *instr = walk->instr;
    int count = walk->own->chunk[verify_chunk(walk)].buckets;
    int next = instr_is_forward(instr) ? count - 1 - slot->done : slot->done;
    struct place before = verify_own(walk, slot->last);
    if (slot->done > 0 && slot->pass != instr->op)
        return verify_broken(walk, RULE_PASSES, before,
                             "%d segments of %s were run, and not the rest", slot->done,
                             instr_rows[slot->pass].name);
    if (instr->segment == INSTR_ALL && slot->done > 0)
        return verify_broken(walk, RULE_PASSES, before,
                             "some segments were run already: segment %d is next", next);
    if (instr->segment != INSTR_ALL && instr->segment != next)
        return verify_broken(walk, RULE_PASSES, before, "segment %d is next", next);
    slot->pass = instr->op;
    slot->done = instr->segment == INSTR_ALL ? count : slot->done + 1;
    if (slot->done < count)
        *gives = 0;
    else
        slot->done = 0;
    return STATUS_OK;
}

/* Forward is cut, as backward is, where passes touch one bucket after the other. */
static enum status check_cut(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    bool apart = walk->program->sliced & (SLICED_GRADIENTS | SLICED_PARAMS);
    if (instr->op != INSTR_R || apart || instr->segment == INSTR_ALL) return STATUS_OK;
    return verify_broken(walk, RULE_SLICED, nobody,
                         "of a light F all is made again at once (\"block\": segment by segment)");
}

static bool any_present(const struct walk *walk, int micro) {
    const struct program *program = walk->program;
    const int64_t *samples = verify_samples(walk);
    int count = program->micro_batches;
    for (int m = micro % count; samples && m < program->grid.replicas * count; m += count)
        if (samples[m] > 0) return true;
    return !samples;
}

/* STATS_F and STATS_B: the part of a rank without samples where the others share statistics. */
static enum status stand_in(struct walk *walk, const struct verify_slot *slot) {
    int micro = walk->instr->micro;
    if (!walk->verifier->shares)
        return verify_broken(walk, RULE_SHARED, nobody,
                             "nobody shares statistics (no F or B has a group)");
    if (verify_present(walk, micro))
        return verify_broken(walk, RULE_SHARED, nobody, "micro-batch %d has samples: F runs it",
                             micro);
    if (!any_present(walk, micro))
        return verify_broken(walk, RULE_SHARED, nobody, "no rank has samples to share here");
    TRY(need_free(walk, slot));
    return walk->instr->op == INSTR_STATS_F ? track(walk) : STATUS_OK;
}

/* What R makes lies in memory that all slots share, until its backward has ended. */
static enum status check_again(struct walk *walk) {
    const struct instr *instr = walk->instr, *again = walk->again;
    if (!again || !instr_runs_nodes(instr)) return STATUS_OK;
    if (instr->stage == again->stage && instr->slot == again->slot) return STATUS_OK;
    return verify_broken(walk, RULE_PASSES, verify_own(walk, again),
                         "R of stage %d on micro-batch %d stands before it, whose backward is next",
                         again->stage, again->micro);
}

static void track_again(struct walk *walk, const struct verify_slot *slot) {
    if (walk->instr->op == INSTR_R) walk->again = walk->instr;
    if (walk->again && slot->facts >> FACT_INPUTS & 1 && instr_runs_nodes(walk->instr))
        walk->again = NULL;
}

/* Facts that the stage cannot have are not asked for. A pass in segments has not given its facts
 * yet, and no other pass comes between. */
static enum status advance(struct walk *walk, struct verify_slot *slot) {
    const struct known_row *known = &walk->verifier->rows[walk->instr->op];
    unsigned can = all_facts(walk), missing = known->needs & can & ~slot->facts;
    unsigned gives = instr_gives(walk->instr);
    bool block = walk->instr->op == INSTR_R && slot->form == INSTR_BLOCK;
    if (walk->instr->op == INSTR_F) gives &= can; /* a frozen stage keeps nothing */
    if (has_block(walk, slot)) missing &= ~(1u << FACT_KEPT);
    if (slot->facts == 0 || slot->micro != verify_micro(walk) || is_free(walk, slot))
        return verify_broken(walk, RULE_SLOT, verify_own(walk, slot->last),
                             "slot %d does not hold micro-batch %d", walk->instr->slot,
                             walk->instr->micro);
    if (missing)
        return verify_broken(walk, RULE_PASSES, verify_own(walk, slot->last),
                             "slot %d is not \"%s\" yet", walk->instr->slot, fact_name(missing));
    if (gives & slot->facts)
        return verify_broken(walk, RULE_PASSES, verify_own(walk, slot->last),
                             "slot %d is \"%s\" already", walk->instr->slot,
                             fact_name(gives & slot->facts));
    if (walk->instr->op == INSTR_F) TRY(check_form(walk, slot));
    if (block) TRY(make_block(walk, slot, &gives));
    bool cut = !block && strchr(instr_row(walk->instr)->operands, 'e');
    if (cut) TRY(check_cut(walk));
    if (cut) TRY(count_segment(walk, slot, &gives));
    slot->facts |= gives;
    slot->last = walk->instr;
    walk->live -= slot->facts == can;
    return STATUS_OK;
}

static int slot_number(const struct walk *walk) {
    return ahead_slot(walk->program, &walk->own->chunk[verify_chunk(walk)], walk->instr,
                      walk->step);
}

enum status verify_slot(struct walk *walk) {
    const struct instr_row *row = instr_row(walk->instr);
    if (!row->needs) return STATUS_OK;
    TRY(check_again(walk));
    struct verify_slot *slot =
        &walk->slots[sizes_slot(walk->own->chunk, verify_chunk(walk), slot_number(walk))];
    if (row->needs[0] == '-') return row->gives[0] ? load(walk, slot) : stand_in(walk, slot);
    TRY(advance(walk, slot));
    track_again(walk, slot);
    return walk->instr->op == INSTR_F ? forward(walk) : STATUS_OK;
}

/* What a stage can have differs by chunk: the slots of each are looked at with it. */
enum status verify_slots_free(struct walk *walk) {
    const struct grid *grid = &walk->program->grid;
    int stages = grid->stages * grid->chunks, slot = 0;
    for (int c = 0; walk->cell.role == GRID_STAGE && c < walk->own->chunks; c++) {
        int stage = grid_stage(grid, walk->cell.position, c);
        unsigned all = facts_of_stage(stage, stages, walk->program->frozen);
        for (int end = slot + walk->own->chunk[c].slots; slot < end; slot++) {
            const struct verify_slot *of = &walk->slots[slot];
            if (of->facts == 0 || of->facts == all) continue;
            struct walk last = {.rank = walk->rank, .instr = of->last};
            return verify_broken(&last, RULE_FINISHED, nobody,
                                 "the step ends with micro-batch %d in its slot (%s)", of->micro,
                                 last_fact(of->facts));
        }
    }
    return STATUS_OK;
}
