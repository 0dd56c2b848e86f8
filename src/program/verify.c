/* The verifier: walks the bodies of the ranks with an abstract state instead of data.
 *
 * A slot knows which micro-batch it holds and how far that has come; a bucket of a gradient buffer
 * knows which micro-batches it holds and in which order they were added. Ranks are walked in turn,
 * each until it ends or must wait for another, as they would run; when all wait, the program would
 * hang, and the instruction where the first one waits is the answer.
 *
 * Pipelines whose ranks have the same programs and the same micro-batches with samples do the same:
 * one of them is walked for all. What the ranks of such pipelines do to one another is what the
 * walked one does to itself: if the walked ranks can end, so can all, each like its likeness. */
#include "program/verify.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/order.h"

enum status verify_broken(const struct walk *walk, const char *format, ...) {
    char why[256], line[INSTR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return fail(STATUS_USAGE, "program refused at %s: %s",
                instr_text(walk->instr, walk->rank, line), why);
}

bool verify_present(const struct walk *walk, int micro) {
    const int64_t *samples = walk->verifier->samples;
    return !samples || samples[walk->first_micro + micro] > 0;
}

int verify_chunk(const struct walk *walk) {
    return grid_chunk(&walk->program->grid, walk->instr->stage);
}

bool verify_first_stage(const struct walk *walk) {
    return walk->instr->stage == 0;
}

bool verify_last_stage(const struct walk *walk) {
    return walk->instr->stage == walk->program->grid.stages * walk->program->grid.chunks - 1;
}

/* --- operands and flags --- */

/* One past the largest value of an operand. */
static int operand_limit(const struct walk *walk, char letter) {
    switch (letter) {
    case 's': return walk->program->grid.stages * walk->program->grid.chunks;
    case 'm': return walk->micros;
    case 'a': return walk->own->chunk[verify_chunk(walk)].slots;
    case 'g':
    case 'h': return walk->own->grads;
    case 'e':
    case 'b': return walk->own->chunk[verify_chunk(walk)].buckets;
    case 'q': return walk->program->group_count;
    case 'p': return walk->program->grid.stages;
    default: return PROGRAM_MAX_SMALL;
    }
}

/* Operands that an instruction does not have are 0: another value would be passed over. */
static enum status check_operand(const struct walk *walk, const struct operand_row *row,
                                 const char *operands) {
    char letter = row->letter;
    int value = instr_operand(walk->instr, letter);
    const char *at = strchr(operands, letter);
    if (!at) {
        if (value == 0) return STATUS_OK;
        return verify_broken(walk, "%s has no operand %c", instr_row(walk->instr)->name, letter);
    }
    if (value == INSTR_ALL && at > operands && at[-1] == '?') return STATUS_OK;
    if (value < 0) return verify_broken(walk, "a negative operand");
    if (value < operand_limit(walk, letter)) return STATUS_OK;
    return verify_broken(walk, "%s %d of %d", row->words, value, operand_limit(walk, letter));
}

static enum status check_operands(const struct walk *walk) {
    const struct instr_row *row = instr_row(walk->instr);
    for (int i = 0; i < OPERAND_COUNT; i++)
        TRY(check_operand(walk, &operand_rows[i], row->operands));
    if (strchr(row->operands, 's') &&
        grid_position(&walk->program->grid, walk->instr->stage) != walk->cell.position)
        return verify_broken(walk, "stage %d is not this rank's", walk->instr->stage);
    if (strchr(row->operands, 'q') && walk->instr->group != INSTR_ALL &&
        group_of(&walk->program->grid, walk->program->group[walk->instr->group], walk->rank) < 0)
        return verify_broken(walk, "this rank is in no such group");
    return STATUS_OK;
}

/* A flag where it has no meaning would be passed over by the executor, and mislead who reads the
 * program. */
static enum status check_flags(const struct walk *walk) {
    for (int bit = 0; bit < 8; bit++) {
        const char *name = instr_flag_name(bit);
        if (!(walk->instr->flags >> bit & 1)) continue;
        if (!name || !strstr(instr_row(walk->instr)->flags, name))
            return verify_broken(walk, "%s has no such flag", instr_row(walk->instr)->name);
    }
    return STATUS_OK;
}

static enum status check_list(const struct walk *walk, enum list_name list) {
    const struct instr_row *row = instr_row(walk->instr);
    if (row->list == list) return STATUS_OK;
    return verify_broken(walk, "%s belongs into %s, not into %s", row->name, list_names[row->list],
                         list_names[list]);
}

/* --- walking --- */

static bool holds_last_stage(const struct walk *walk) {
    const struct grid *grid = &walk->program->grid;
    return walk->cell.role == GRID_STAGE &&
           grid_position(grid, grid->stages * grid->chunks - 1) == walk->cell.position;
}

/* Labels are counted by the ranks that have the loss, once for each replica. */
static enum status check_count(struct walk *walk) {
    const struct program *program = walk->program;
    enum group_family family = program->group[walk->instr->group];
    if (!holds_last_stage(walk)) return verify_broken(walk, "this rank has no loss");
    if (family != GROUP_REPLICAS &&
        group_size(&program->grid, family, 0) != group_size(&program->grid, GROUP_REPLICAS, 0))
        return verify_broken(walk, "labels are counted once for each replica: its group is "
                                   "the replicas");
    walk->counted = true;
    return STATUS_OK;
}

static enum status check_report(struct walk *walk) {
    if (walk->reported) return verify_broken(walk, "a second REPORT would add up the losses again");
    if (walk->program->group[walk->instr->group] != GROUP_WORLD)
        return verify_broken(walk, "all ranks must hear of it: its group is the world");
    walk->reported = true;
    return STATUS_OK;
}

/* Seeds are set before they are read; losses are reported once, when all are there. */
static enum status check_sequence(struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct instr_row *row = instr_row(instr);
    bool has_loss = strchr(row->operands, 's') ? verify_last_stage(walk) : holds_last_stage(walk);
    if (instr->op == INSTR_COUNT) TRY(check_count(walk));
    if (strchr(row->reads, 'k') && has_loss && !walk->counted)
        return verify_broken(walk, "no COUNT before the first backward");
    if (instr->op == INSTR_REPORT) return check_report(walk);
    if (strchr(row->writes, 'l') && has_loss && walk->reported)
        return verify_broken(walk, "the losses were reported before it");
    return STATUS_OK;
}

static enum status visit(struct walk *walk) {
    if (!walk->arrived) {
        TRY(check_operands(walk));
        TRY(check_flags(walk));
        TRY(check_list(walk, LIST_BODY));
        TRY(verify_await(walk));
        if (walk->waits) return STATUS_OK;
        TRY(check_sequence(walk));
    }
    TRY(verify_share(walk));
    if (walk->waits) return STATUS_OK;
    TRY(verify_slot(walk));
    TRY(verify_gradient(walk));
    TRY(verify_params(walk));
    TRY(verify_message(walk));
    return verify_post(walk);
}

/* Start and drain hold single instructions that need nothing of one another. */
static enum status check_other_lists(struct walk *walk) {
    for (int l = 0; l < LIST_COUNT; l++) {
        const struct instr_list *list = &walk->own->list[l];
        for (int i = 0; l != LIST_BODY && i < list->count; i++) {
            walk->instr = &list->items[i];
            TRY(check_list(walk, (enum list_name)l));
            TRY(check_operands(walk));
            TRY(check_flags(walk));
            TRY(verify_post(walk));
        }
    }
    return STATUS_OK;
}

/* Walks a rank on until it ends or waits; *moved tells whether it did anything. */
static enum status walk_on(struct walk *walk, bool *moved) {
    const struct instr_list *body = &walk->own->list[LIST_BODY];
    for (; walk->at < body->count; walk->at++) {
        walk->instr = &body->items[walk->at];
        walk->waits = false;
        TRY(visit(walk));
        if (walk->waits) return STATUS_OK;
        *moved = true;
    }
    if (walk->together > 0)
        return verify_broken(walk, "replicas that share statistics are missing behind it");
    walk->waits = false;
    TRY(verify_await_all(walk));
    if (walk->waits) return STATUS_OK;
    if (walk->cell.role == GRID_STAGE && !walk->stepped)
        return fail(STATUS_USAGE,
                    "program refused: rank %d has no STEP in its body (%d instructions)",
                    walk->rank, body->count);
    return verify_params_at_end(walk);
}

/* All members of a group must have come as often as the one that came most often. */
static enum status check_all_came(const struct verifier *verifier) {
    for (int w = 0; w < verifier->walk_count; w++) {
        const struct walk *walk = &verifier->walks[w];
        for (int g = 0; g < verifier->program->group_count; g++) {
            const struct program *program = verifier->program;
            int index = group_of(&program->grid, program->group[g], walk->rank);
            if (index < 0 || walk->posted[g] == verifier->groups[g][index].count) continue;
            const struct meeting *missed = &verifier->groups[g][index].items[walk->posted[g]];
            struct walk other = {.rank = missed->rank, .instr = missed->instr};
            return verify_broken(&other, "it would wait for ever: rank %d never comes to meet it",
                                 walk->rank);
        }
    }
    return STATUS_OK;
}

static enum status walk_all(struct verifier *verifier) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int w = 0; w < verifier->walk_count; w++) TRY(walk_on(&verifier->walks[w], &moved));
    }
    for (int w = 0; w < verifier->walk_count; w++) {
        if (verifier->walks[w].waits)
            return verify_broken(&verifier->walks[w],
                                 "it would wait for ever: another rank never comes to meet it");
    }
    TRY(check_all_came(verifier));
    return verify_all_received(verifier);
}

/* Do sums of ranks, added by the tree of a reduction, give the order of the header? */
static enum status check_header_order(const struct verifier *verifier) {
    const struct program *program = verifier->program;
    int pipelines = group_count(&program->grid, GROUP_PIPELINE), count = 0;
    int each = program->grid.replicas_each;
    if (pipelines == 1) return STATUS_OK;
    /* Then each micro-batch is summed over the ranks for itself, which STEP proves. */
    if (program->sum == SUM_REPLICAS_FIRST && each == 1) return STATUS_OK;
    uint64_t *part = MEM_ARRAY(uint64_t, pipelines);
    for (int p = 0; p < pipelines; p++) {
        struct order_scope own = {p * each, each, 0};
        uint64_t sum = order_defined(program, verifier->samples, own);
        if (sum) part[count++] = sum;
    }
    struct order_scope all = {0, program->grid.replicas, 0};
    bool same = order_tree(part, count) == order_defined(program, verifier->samples, all);
    free(part);
    if (same) return STATUS_OK;
    return fail(STATUS_USAGE,
                "program refused: sums over ranks cannot be in the order \"sum %s\" with %d "
                "micro-batches a rank",
                sum_order_name(program->sum), each * program->micro_batches);
}

/* --- who is walked --- */

static bool same_samples(const struct verifier *verifier, int a, int b) {
    const struct program *program = verifier->program;
    int count = program->grid.replicas_each * program->micro_batches;
    for (int m = 0; verifier->samples && m < count; m++) {
        if ((verifier->samples[a * count + m] > 0) != (verifier->samples[b * count + m] > 0))
            return false;
    }
    return true;
}

static bool same_pipeline(const struct verifier *verifier, int a, int b) {
    const struct program *program = verifier->program;
    for (int p = 0; p < program->grid.stages; p++) {
        int one = group_rank(&program->grid, GROUP_PIPELINE, a, p),
            other = group_rank(&program->grid, GROUP_PIPELINE, b, p);
        if (program->kind_of[one] != program->kind_of[other]) return false;
    }
    return same_samples(verifier, a, b);
}

static void walk_new(struct verifier *verifier, int rank, int pipeline) {
    const struct program *program = verifier->program;
    struct walk *walk = &verifier->walks[verifier->walk_count++];
    *walk = (struct walk){.verifier = verifier,
                          .program = program,
                          .own = program_of(program, rank),
                          .cell = grid_cell(&program->grid, rank),
                          .rank = rank,
                          .micros = program_micros(program, rank),
                          .first_micro = program_first_micro(program, rank),
                          .pipeline = pipeline,
                          .in_backward = -1};
    walk->slots = MEM_ARRAY(struct slot, sizes_slot(walk->own->chunk, walk->own->chunks, 0));
    walk->grads = MEM_ARRAY(struct grad, walk->own->grads);
    walk->params =
        MEM_ARRAY(struct param_bucket, sizes_bucket(walk->own->chunk, walk->own->chunks, 0) + 1);
    verify_params_at_begin(walk);
    walk->loaded = MEM_ARRAY(bool, walk->micros * walk->own->chunks + 1);
    for (int m = 0; m < walk->micros; m++) {
        if (!verify_present(walk, m)) continue;
        walk->present++;
        walk->present_content += order_leaf(m);
    }
    for (int g = 0; g < program->group_count; g++) {
        int index = group_of(&program->grid, program->group[g], rank);
        if (index >= 0) verifier->groups[g][index].members++;
    }
}

static void walk_free(struct walk *walk) {
    for (int g = 0; g < walk->own->grads; g++) free(walk->grads[g].bucket);
    free(walk->slots);
    free(walk->grads);
    free(walk->params);
    free(walk->loaded);
}

/* Pipelines that differ from all before them, by their number; returns how many. */
static int different_pipelines(const struct verifier *verifier, int *out) {
    int count = 0, pipelines = group_count(&verifier->program->grid, GROUP_PIPELINE);
    for (int p = 0; p < pipelines; p++) {
        int like = count - 1;
        while (like >= 0 && !same_pipeline(verifier, out[like], p)) like--;
        if (like < 0) out[count++] = p;
    }
    return count;
}

static void choose_walks(struct verifier *verifier) {
    const struct program *program = verifier->program;
    const struct grid *grid = &program->grid;
    int *pipeline = MEM_ARRAY(int, group_count(grid, GROUP_PIPELINE) + 1);
    int count = different_pipelines(verifier, pipeline);
    verifier->pipeline_count = count;
    verifier->channels =
        MEM_ARRAY(struct channel, count * (grid->stages * grid->chunks - 1) * 2 + 1);
    verifier->walks =
        MEM_ARRAY(struct walk, count * grid->stages + grid->drivers + grid->servers + 1);
    for (int g = 0; g < program->group_count; g++)
        verifier->groups[g] =
            MEM_ARRAY(struct meeting_group, group_count(grid, program->group[g]) + 1);
    for (int r = 0; r < grid->drivers; r++) walk_new(verifier, r, -1);
    for (int i = 0; i < count; i++) {
        for (int p = 0; p < grid->stages; p++)
            walk_new(verifier, group_rank(grid, GROUP_PIPELINE, pipeline[i], p), i);
    }
    for (int r = program->ranks - grid->servers; r < program->ranks; r++) walk_new(verifier, r, -1);
    free(pipeline);
}

static void verifier_free(struct verifier *verifier) {
    const struct program *program = verifier->program;
    for (int w = 0; w < verifier->walk_count; w++) walk_free(&verifier->walks[w]);
    for (int g = 0; g < program->group_count; g++) {
        int count = group_count(&program->grid, program->group[g]);
        for (int i = 0; i < count; i++) free(verifier->groups[g][i].items);
        free(verifier->groups[g]);
    }
    int channels = verifier->pipeline_count * (program->grid.stages * program->grid.chunks - 1) * 2;
    for (int c = 0; c < channels; c++) free(verifier->channels[c].sent);
    free(verifier->channels);
    free(verifier->walks);
}

enum status program_verify(const struct program *program, const int64_t *samples) {
    struct verifier verifier = {
        .program = program, .samples = samples, .shares = program_shares(program)};
    choose_walks(&verifier);
    enum status status = check_header_order(&verifier);
    for (int w = 0; w < verifier.walk_count && status == STATUS_OK; w++)
        status = check_other_lists(&verifier.walks[w]);
    if (status == STATUS_OK) status = walk_all(&verifier);
    verifier_free(&verifier);
    return status;
}
