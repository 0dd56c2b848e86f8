/* What is proven of the lists that are no step: each instruction may stand there and members of a
 * group meet; a round of evaluation runs each stage of the rank once, on the samples of the round;
 * losses are added up once, over all ranks; each rank has its own running statistics back; a
 * checkpoint is opened, written and committed, in this order and by all ranks. */
#include "base/log.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};

/* All that a stage has to do in a round. */
static unsigned round_facts(const struct walk *walk) {
    const struct grid *grid = &walk->program->grid;
    return facts_of_stage(walk->instr->stage, grid->stages * grid->chunks, 0) &
           facts_named("lrfks");
}

/* The stages of a rank come in the order of the model, one whole before the next: so no rank waits
 * for one that waits for it. */
static enum status load(struct walk *walk) {
    const struct grid *grid = &walk->program->grid;
    int chunk = walk->rounds_done;
    if (walk->round_facts)
        return verify_broken(walk, RULE_EVALUATION, nobody, "the stage before it is not done");
    if (chunk >= grid->chunks || grid_stage(grid, walk->cell.position, chunk) != walk->instr->stage)
        return verify_broken(walk, RULE_EVALUATION, nobody, "stage %d is not the next of the round",
                             walk->instr->stage);
    walk->round_stage = walk->instr->stage;
    walk->round_facts = facts_named("l");
    return STATUS_OK;
}

static enum status advance(struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct instr_row *row = instr_row(instr);
    int count = walk->own->chunk[verify_chunk(walk)].buckets;
    unsigned all = round_facts(walk), missing = facts_named(row->needs) & all & ~walk->round_facts,
             gives = facts_named(row->gives);
    if ((row->meets == MEETS_SHARERS && instr->group != INSTR_ALL) || instr->flags)
        return verify_broken(walk, RULE_EVALUATION, nobody,
                             "in eval statistics are neither shared nor moved");
    if (walk->round_facts == 0 || walk->round_stage != instr->stage || missing)
        return verify_broken(walk, RULE_EVALUATION, nobody, "the round of stage %d is not as far",
                             instr->stage);
    if (gives & (walk->round_facts | ~all))
        return verify_broken(walk, RULE_EVALUATION, nobody, "it was done before");
    if (row->meets == MEETS_PEER) TRY(verify_peer(walk));
    if (instr->op == INSTR_F && instr->segment != INSTR_ALL) {
        if (instr->segment != count - 1 - walk->round_segments)
            return verify_broken(walk, RULE_EVALUATION, nobody, "segment %d is next",
                                 count - 1 - walk->round_segments);
        walk->round_segments = instr->segment ? walk->round_segments + 1 : 0;
        if (instr->segment > 0) return STATUS_OK;
    }
    if (walk->round_segments > 0)
        return verify_broken(walk, RULE_EVALUATION, nobody, "segment %d of F is next",
                             count - 1 - walk->round_segments);
    walk->round_facts |= gives;
    if (walk->round_facts != all) return STATUS_OK;
    walk->round_facts = 0;
    walk->rounds_done++;
    return STATUS_OK;
}

int verify_output_stage(const struct program *program) {
    for (int k = 0; k < program->kind_count; k++) {
        const struct instr_list *round = &program->kinds[k].list[LIST_EVAL];
        for (int i = 0; i < round->count; i++)
            if (round->items[i].op == INSTR_OUTPUT) return round->items[i].stage;
    }
    return -1;
}

/* Behind the round of its stage. */
static enum status output(struct walk *walk) {
    int stage = walk->verifier->output_stage;
    if (!program_is_forward(walk->program))
        return verify_broken(walk, RULE_FORWARD, nobody, "the program has steps");
    if (walk->round_facts || walk->rounds_done == 0 || walk->round_stage != walk->instr->stage)
        return verify_broken(walk, RULE_FORWARD, nobody, "stage %d is not done",
                             walk->instr->stage);
    if (walk->instr->stage != stage)
        return verify_broken(walk, RULE_FORWARD, nobody, "the output is of stage %d", stage);
    if (walk->outputs++)
        return verify_broken(walk, RULE_FORWARD, nobody, "it was handed out before");
    return STATUS_OK;
}

static enum status broadcast(struct walk *walk) {
    walk->broadcast = true;
    if (verify_group_is(walk->program, walk->instr->group, GROUP_REPLICAS)) return STATUS_OK;
    return verify_broken(walk, RULE_BROADCAST, nobody, "group %d is not the replicas of this rank",
                         walk->instr->group);
}

static enum status replace(struct walk *walk) {
    if (!verify_group_is(walk->program, walk->instr->group, GROUP_REPLICAS))
        return verify_broken(walk, RULE_EVALUATION, nobody,
                             "group %d is not the replicas of this stage", walk->instr->group);
    if (walk->replaced)
        return verify_broken(walk, RULE_EVALUATION, nobody, "the own statistics are kept already");
    walk->replaced = true;
    return STATUS_OK;
}

static enum status restore(struct walk *walk) {
    if (!walk->replaced)
        return verify_broken(walk, RULE_EVALUATION, nobody, "no STATS_ALL or STATS_MEAN before it");
    walk->replaced = false;
    return STATUS_OK;
}

static enum status need_everyone(const struct walk *walk) {
    if (verify_group_is(walk->program, walk->instr->group, GROUP_WORLD)) return STATUS_OK;
    return verify_broken(walk, RULE_EVALUATION, nobody, "its group is not all ranks");
}

static enum status report(struct walk *walk) {
    if (walk->eval_reports++)
        return verify_broken(walk, RULE_EVALUATION, nobody,
                             "a second REPORT would add up the losses again");
    return need_everyone(walk);
}

/* Tensors that slices cut are put together before they are written. */
static enum status need_collected(const struct walk *walk) {
    int count = sizes_bucket(walk->own->chunk, walk->own->chunks, 0);
    char name[VERIFY_BUCKET_BYTES];
    for (int b = 0; walk->program->sliced && b < count; b++)
        if (!walk->params[b].collected)
            return verify_broken(walk, RULE_SAVING, nobody, "no COLLECT of %s before it",
                                 verify_bucket_name(walk, b, name));
    return STATUS_OK;
}

/* OPEN, WRITE and COMMIT are numbers 0, 1, 2. */
static enum status save(struct walk *walk, int number) {
    static const char *const names[] = {"OPEN", "WRITE", "COMMIT", "nothing"};
    if (number != walk->saved)
        return verify_broken(walk, RULE_SAVING, nobody, "%s is next", names[walk->saved]);
    walk->saved++;
    return number == 1 ? need_collected(walk) : need_everyone(walk);
}

static enum status collect(struct walk *walk) {
    if (walk->saved != 1)
        return verify_broken(walk, RULE_SAVING, nobody, "it stands between OPEN and WRITE");
    if (!verify_group_is(walk->program, walk->instr->group, GROUP_REPLICAS))
        return verify_broken(walk, RULE_SAVING, nobody,
                             "group %d is not the replicas of this stage", walk->instr->group);
    if (walk->program->sliced & SLICED_GRADIENTS && walk->instr->grad != GRAD_WINDOWS)
        return verify_broken(walk, RULE_SAVING, nobody, "buffer %d holds slices, no whole bucket",
                             walk->instr->grad);
    int bucket = sizes_bucket(walk->own->chunk, verify_chunk(walk), walk->instr->bucket);
    walk->params[bucket].collected = true;
    return STATUS_OK;
}

static enum status visit(struct walk *walk) {
    TRY(verify_mean(walk));
    if (walk->list == LIST_EVAL && (walk->instr->micro != 0 || walk->instr->slot != 0))
        return verify_broken(walk, RULE_EVALUATION, nobody,
                             "a round of evaluation has micro-batch 0 in slot 0 alone");
    switch (walk->instr->op) {
    case INSTR_LOAD: return load(walk);
    case INSTR_RECV_F:
    case INSTR_F:
    case INSTR_SEND_F: return advance(walk);
    case INSTR_OUTPUT: return output(walk);
    case INSTR_REPORT: return report(walk);
    case INSTR_BCAST: return broadcast(walk);
    case INSTR_STATS_MEAN:
    case INSTR_STATS_ALL: return replace(walk);
    case INSTR_STATS_OWN: return restore(walk);
    case INSTR_OPEN: return save(walk, 0);
    case INSTR_COLLECT: return collect(walk);
    case INSTR_WRITE: return save(walk, 1);
    case INSTR_COMMIT: return save(walk, 2);
    default: return STATUS_OK;
    }
}

/* What a list posted is awaited at its end. */
static enum status visit_list(struct walk *walk, enum list_name name) {
    const struct instr_list *list = &walk->own->list[name];
    walk->list = name;
    for (int i = 0; i < list->count; i++) {
        walk->instr = &list->items[i];
        TRY(verify_form(walk));
        TRY(visit(walk));
        if (name == LIST_EVAL) TRY(verify_params(walk));
        TRY(verify_post(walk));
    }
    TRY(verify_params_at_end(walk));
    TRY(verify_mean_end(walk, name));
    walk->under_way_count = 0;
    return STATUS_OK;
}

static enum status lacks(const struct walk *walk, enum rule rule, enum list_name list,
                         const char *what) {
    struct walk end = verify_end_of(walk, list);
    return verify_broken(&end, rule, nobody, "the list %s has no %s", list_names[list], what);
}

enum status verify_forward(const struct walk *walk) {
    static const enum list_name none[] = {LIST_BODY, LIST_LAST, LIST_DRAIN, LIST_SAVE};
    for (int i = 0; program_is_forward(walk->program) && i < 4; i++) {
        struct walk end = verify_end_of(walk, none[i]);
        if (end.instr)
            return verify_broken(&end, RULE_FORWARD, nobody, "the program has no micro-batches");
    }
    if (!program_is_forward(walk->program) || walk->cell.role != GRID_STAGE ||
        walk->own->grads == 0)
        return STATUS_OK;
    return fail(STATUS_USAGE,
                "program refused by rule %d in the header: rank %d has %d gradient buffers, and "
                "micro-batches are %d",
                RULE_FORWARD, walk->rank, walk->own->grads, walk->program->micro_batches);
}

enum status verify_other_lists(struct walk *walk) {
    for (int l = 0; l < LIST_COUNT; l++)
        if (!list_is_step((enum list_name)l)) TRY(visit_list(walk, (enum list_name)l));
    bool shared =
        walk->cell.role == GRID_STAGE && group_size(&walk->program->grid, GROUP_REPLICAS, 0) > 1;
    return shared && !walk->broadcast ? lacks(walk, RULE_BROADCAST, LIST_START, "BCAST")
                                      : STATUS_OK;
}

enum status verify_between(const struct walk *walk) {
    int stages = walk->cell.role == GRID_STAGE ? walk->program->grid.chunks : 0;
    if (walk->rounds_done < stages)
        return lacks(walk, RULE_EVALUATION, LIST_EVAL, "F of each of its stages");
    if (walk->eval_reports == 0) return lacks(walk, RULE_EVALUATION, LIST_EVAL_END, "REPORT");
    bool forward = program_is_forward(walk->program);
    int output = forward ? walk->verifier->output_stage : 0;
    bool gives = output < 0 || grid_position(&walk->program->grid, output) == walk->cell.position;
    if (forward && stages && gives && !walk->outputs)
        return lacks(walk, RULE_FORWARD, LIST_EVAL, "OUTPUT");
    if (walk->saved < 3 && !forward)
        return lacks(walk, RULE_SAVING, LIST_SAVE, "OPEN, WRITE and COMMIT");
    if (walk->replaced) return lacks(walk, RULE_EVALUATION, LIST_EVAL_END, "STATS_OWN");
    bool shared = group_size(&walk->program->grid, GROUP_REPLICAS, 0) > 1 && stages > 0;
    bool given = walk->own->list[LIST_EVAL_START].count > 0;
    return shared && !given ? lacks(walk, RULE_EVALUATION, LIST_EVAL_START, "STATS_ALL")
                            : STATUS_OK;
}
