/* What is proven of an instruction by itself: operands in range, flags that mean something, stages
 * and groups of the rank's own, in the list it belongs to. */
#include <stdio.h>
#include <string.h>

#include "program/verify.h"

static const struct place nobody = {NULL, 0};

void verify_know_rows(struct known_row rows[INSTR_COUNT_]) {
    for (int op = 0; op < INSTR_COUNT_; op++) {
        const struct instr_row *row = &instr_rows[op];
        rows[op] = (struct known_row){.needs = row->needs ? facts_named(row->needs) : 0,
                                      .gives = row->gives ? facts_named(row->gives) : 0,
                                      .reads_seeds = strchr(row->reads, 'k'),
                                      .writes_losses = strchr(row->writes, 'l')};
        for (int i = 0; i < OPERAND_COUNT; i++) {
            const char *at = strchr(row->operands, operand_rows[i].letter);
            if (at) rows[op].operands |= 1u << i;
            if (at && at > row->operands && at[-1] == '?') rows[op].optional |= 1u << i;
        }
    }
}

static bool has_operand(const struct walk *walk, int operand) {
    return walk->verifier->rows[walk->instr->op].operands >> operand & 1;
}

/* Where steps overlap, what stands before backward may be of a later one. */
static bool runs_ahead(const struct walk *walk) {
    enum instr_op op = (enum instr_op)walk->instr->op;
    bool forward = op == INSTR_LOAD || op == INSTR_RECV_F || op == INSTR_F || op == INSTR_SEND_F;
    return forward && walk->list == LIST_BODY && !verify_last_stage(walk);
}

/* One past the largest value of an operand. */
static int operand_limit(const struct walk *walk, char letter) {
    switch (letter) {
    case 's': return walk->program->grid.stages * walk->program->grid.chunks;
    case 'm':
        if (program_is_forward(walk->program)) return 1; /* of a round */
        if (walk->instr->op == INSTR_CALL) return walk->program->micro_batches;
        return walk->micros * (1 + (runs_ahead(walk) ? walk->program->ahead : 0));
    case 'a': return walk->own->chunk[verify_chunk(walk)].slots;
    case 'g':
    case 'h': return walk->own->grads;
    case 'e':
    case 'b': return walk->own->chunk[verify_chunk(walk)].buckets;
    case 'q': return walk->program->group_count;
    case 'p': return walk->program->grid.stages;
    case 'v': return walk->list == LIST_BODY ? walk->own->chunk[verify_chunk(walk)].older + 1 : 1;
    default: return PROGRAM_MAX_SMALL;
    }
}

/* Operands that an instruction does not have are 0: another value would be passed over. */
static enum status check_operand(const struct walk *walk, int operand, int value) {
    const struct operand_row *row = &operand_rows[operand];
    if (!has_operand(walk, operand)) {
        if (value == 0) return STATUS_OK;
        return verify_broken(walk, RULE_OPERANDS, nobody, "%s has no operand %c",
                             instr_row(walk->instr)->name, row->letter);
    }
    bool optional = walk->verifier->rows[walk->instr->op].optional >> operand & 1;
    if (value == INSTR_ALL && optional) return STATUS_OK;
    if (value < 0) return verify_broken(walk, RULE_OPERANDS, nobody, "a negative operand");
    if (value < operand_limit(walk, row->letter)) return STATUS_OK;
    return verify_broken(walk, RULE_OPERANDS, nobody, "%s %d of %d", row->words, value,
                         operand_limit(walk, row->letter));
}

static enum status check_operands(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct grid *grid = &walk->program->grid;
#define OPERAND(letter, field, ...) TRY(check_operand(walk, OPERAND_##field, instr->field));
#include "program/operand.def"
#undef OPERAND
    if (has_operand(walk, OPERAND_stage) && instr->op != INSTR_CALL &&
        grid_position(grid, instr->stage) != walk->cell.position)
        return verify_broken(walk, RULE_HOLDER, nobody, "stage %d is not this rank's",
                             instr->stage);
    if (has_operand(walk, OPERAND_group) && instr->group != INSTR_ALL &&
        group_of(grid, walk->program->group[instr->group], walk->rank) < 0)
        return verify_broken(walk, RULE_HOLDER, nobody, "this rank is in no such group");
    return STATUS_OK;
}

/* The executor would ignore a flag without meaning, which would mislead readers of the program. */
static enum status check_flags(const struct walk *walk) {
    for (int bit = 0; walk->instr->flags >> bit; bit++) {
        if (!(walk->instr->flags >> bit & 1)) continue;
        if (bit >= FLAG_COUNT || !strstr(instr_row(walk->instr)->flags, flag_words[bit]))
            return verify_broken(walk, RULE_FLAGS, nobody, "%s has no such flag",
                                 instr_row(walk->instr)->name);
    }
    return STATUS_OK;
}

/* The lists that an instruction may stand in. */
static const char *own_lists(const struct instr *instr, char text[64]) {
    text[0] = 0;
    for (int l = 0; l < LIST_COUNT; l++) {
        size_t used = strlen(text);
        if (instr_may_stand(instr, (enum list_name)l))
            snprintf(text + used, 64 - used, "%s%s", used ? " or " : "", list_names[l]);
    }
    return text;
}

static enum status check_list(const struct walk *walk) {
    char lists[64];
    if (instr_may_stand(walk->instr, walk->list)) return STATUS_OK;
    return verify_broken(walk, RULE_LIST, nobody, "%s belongs into %s, not into %s",
                         instr_row(walk->instr)->name, own_lists(walk->instr, lists),
                         list_names[walk->list]);
}

/* Forward is cut into segments where passes touch one bucket after the other. */
static enum status check_segment(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    bool forward = instr->op == INSTR_F || instr->op == INSTR_STATS_F;
    bool apart = walk->program->sliced & (SLICED_GRADIENTS | SLICED_PARAMS);
    if (!forward || apart || instr->segment == INSTR_ALL) return STATUS_OK;
    return verify_broken(walk, RULE_SLICED, nobody,
                         "forward has segments where gradients or parameters are sliced");
}

enum status verify_form(const struct walk *walk) {
    TRY(check_operands(walk));
    TRY(verify_not_frozen(walk));
    TRY(check_segment(walk));
    TRY(check_flags(walk));
    return check_list(walk);
}
