/* The verifier: walks the steps of the ranks with an abstract state instead of data.
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
#include "base/shown.h"
#include "program/ahead.h"
#include "program/order.h"

enum status verify_broken(const struct walk *walk, enum rule rule, struct place against,
                          const char *format, ...) {
    char why[256], line[INSTR_TEXT_BYTES], other[INSTR_TEXT_BYTES] = "";
    va_list args;
    va_start(args, format);
    shown_vformat(why, sizeof why, format, args);
    va_end(args);
    if (against.instr) instr_text(against.instr, against.rank, other);
    if (walk->instr)
        instr_text(walk->instr, walk->rank, line);
    else
        snprintf(line, sizeof line, "the empty list %s of rank %d", list_names[walk->list],
                 walk->rank);
    return fail(STATUS_USAGE, "program refused by rule %d at %s: %-s%-s%s", rule, line, why,
                against.instr ? "\n  against " : "", other);
}

struct walk verify_end_of(const struct walk *walk, enum list_name list) {
    const struct instr_list *of = &walk->own->list[list];
    return (struct walk){.rank = walk->rank,
                         .list = list,
                         .instr = of->count > 0 ? &of->items[of->count - 1] : NULL};
}

struct place verify_own(const struct walk *walk, const struct instr *instr) {
    return (struct place){instr, walk->rank};
}

const int64_t *verify_samples(const struct walk *walk) {
    return walk->list == LIST_LAST ? walk->verifier->samples : NULL;
}

bool verify_present(const struct walk *walk, int micro) {
    const int64_t *samples = verify_samples(walk);
    return !samples || samples[walk->first_micro + micro] > 0;
}

int verify_chunk(const struct walk *walk) {
    return grid_chunk(&walk->program->grid, walk->instr->stage);
}

const char *verify_bucket_name(const struct walk *walk, int index, char text[VERIFY_BUCKET_BYTES]) {
    const struct chunk_sizes *sizes = walk->own->chunk;
    int chunk = 0;
    if (walk->cell.role != GRID_STAGE) {
        snprintf(text, VERIFY_BUCKET_BYTES, "bucket %d", index);
        return text;
    }
    while (index >= sizes[chunk].buckets) index -= sizes[chunk++].buckets;
    snprintf(text, VERIFY_BUCKET_BYTES, "bucket %d of stage %d", index,
             grid_stage(&walk->program->grid, walk->cell.position, chunk));
    return text;
}

bool verify_first_stage(const struct walk *walk) {
    return walk->instr->stage == 0;
}

bool verify_last_stage(const struct walk *walk) {
    return walk->instr->stage == walk->program->grid.stages * walk->program->grid.chunks - 1;
}

bool verify_group_is(const struct program *program, int group, enum group_family family) {
    const struct grid *grid = &program->grid;
    if (group == INSTR_ALL) return group_size(grid, family, 0) == 1;
    enum group_family own = program->group[group];
    int size = group_size(grid, own, 0);
    if (own == family) return true;
    if (own == GROUP_TIED || family == GROUP_TIED) return false;
    return size == group_size(grid, family, 0) &&
           (size == 1 || own == GROUP_WORLD || family == GROUP_WORLD);
}

/* --- walking --- */

static const struct place nobody = {NULL, 0};

static bool has_last_stage(const struct walk *walk) {
    const struct grid *grid = &walk->program->grid;
    return walk->cell.role == GRID_STAGE &&
           grid_position(grid, grid->stages * grid->chunks - 1) == walk->cell.position;
}

/* Labels are counted by the ranks that have the loss, once for each replica. */
static enum status check_count(struct walk *walk) {
    if (!has_last_stage(walk))
        return verify_broken(walk, RULE_SEEDS, nobody, "this rank has no loss");
    bool ahead = walk->program->ahead > 0, apart = program_is_apart(walk->program);
    if ((ahead || apart) && walk->instr->group != INSTR_ALL)
        return verify_broken(walk, ahead ? RULE_AHEAD : verify_rule_of_apart(walk), nobody,
                             "%s: labels are those of the rank alone",
                             ahead ? "steps overlap" : "replicas train apart");
    if (!ahead && !apart && !verify_group_is(walk->program, walk->instr->group, GROUP_REPLICAS))
        return verify_broken(walk, RULE_SEEDS, nobody,
                             "labels are counted once for each replica: its group is the replicas");
    walk->counted = walk->instr;
    return STATUS_OK;
}

static enum status check_report(struct walk *walk) {
    if (walk->reported)
        return verify_broken(walk, RULE_LOSSES, verify_own(walk, walk->reported),
                             "a second REPORT would add up the losses again");
    bool ahead = walk->program->ahead > 0;
    if (ahead && walk->instr->group != INSTR_ALL)
        return verify_broken(walk, RULE_AHEAD, nobody,
                             "steps overlap: no replica waits for another one to report");
    if (program_chosen(walk->program) >= 0) {
        TRY(verify_told_own(walk));
    } else if (!ahead && !verify_group_is(walk->program, walk->instr->group, GROUP_WORLD))
        return verify_broken(walk, RULE_LOSSES, nobody,
                             "all ranks must hear of it: its group is the world");
    walk->reported = walk->instr;
    return STATUS_OK;
}

/* Seeds are set before they are read; losses are reported once, when all are there. */
static enum status check_sequence(struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct known_row *row = &walk->verifier->rows[instr->op];
    if (instr->op == INSTR_COUNT) return check_count(walk);
    if (!row->reads_seeds && !row->writes_losses) return STATUS_OK;
    bool has_loss =
        row->operands >> OPERAND_stage & 1 ? verify_last_stage(walk) : has_last_stage(walk);
    if (row->reads_seeds && has_loss && !walk->counted)
        return verify_broken(walk, RULE_SEEDS, nobody, "no COUNT before it");
    if (instr->op == INSTR_REPORT) return check_report(walk);
    if (row->writes_losses && has_loss && walk->reported)
        return verify_broken(walk, RULE_LOSSES, verify_own(walk, walk->reported),
                             "the losses were reported before it");
    return STATUS_OK;
}

static enum status visit(struct walk *walk) {
    if (!walk->arrived) {
        TRY(verify_form(walk));
        TRY(verify_await(walk));
        if (walk->waits) return STATUS_OK;
        TRY(check_sequence(walk));
    }
    TRY(verify_share(walk));
    if (walk->waits) return STATUS_OK;
    TRY(verify_call(walk));
    if (walk->waits) return STATUS_OK;
    TRY(verify_served(walk));
    TRY(verify_version(walk));
    TRY(verify_outer(walk));
    TRY(verify_chosen(walk));
    TRY(verify_slot(walk));
    TRY(verify_gradient(walk));
    TRY(verify_params(walk));
    TRY(verify_message(walk));
    return verify_post(walk);
}

/* Where steps overlap, some are left in slots and channels by all but the last one. */
static bool is_last_walked(const struct walk *walk) {
    return walk->program->ahead == 0 || walk->step == verify_ahead_steps(walk->program) - 1;
}

static enum status check_end(struct walk *walk) {
    if (walk->together > 0)
        return verify_broken(walk, RULE_SHARED, nobody,
                             "replicas that share statistics are missing behind it");
    TRY(verify_await_step(walk));
    if (walk->waits) return STATUS_OK;
    if (is_last_walked(walk)) TRY(verify_slots_free(walk));
    TRY(verify_calls_end(walk));
    TRY(verify_params_at_end(walk));
    TRY(verify_outer_done(walk));
    TRY(verify_chosen_done(walk));
    walk->ended = true;
    if (program_is_forward(walk->program)) return STATUS_OK;
    if (!verify_trains(walk) || walk->stepped || walk->step < 0) return STATUS_OK;
    struct walk end = verify_end_of(walk, walk->list);
    return verify_broken(&end, RULE_STEP, nobody, "the %s of rank %d ends without STEP",
                         walk->list == LIST_BODY ? "body" : "last step", walk->rank);
}

static void count_present(struct walk *walk) {
    walk->present = 0;
    walk->present_content = 0;
    for (int m = 0; m < walk->micros; m++) {
        if (!verify_present(walk, m)) continue;
        walk->present++;
        walk->present_content += order_leaf(m);
    }
    if (!program_is_forward(walk->program))
        walk->defined =
            order_of_rank(walk->program, verify_samples(walk),
                          (struct order_scope){walk->cell.first_replica, walk->cell.replica_count,
                                               walk->first_micro});
}

/* All that is the step's is as at first, what is under way goes on. */
static void begin_step(struct walk *walk, enum list_name list) {
    int slots = sizes_slot(walk->own->chunk, walk->own->chunks, 0),
        buckets = sizes_bucket(walk->own->chunk, walk->own->chunks, 0);
    if (walk->program->ahead == 0) {
        memset(walk->slots, 0, (size_t)slots * sizeof *walk->slots);
        memset(walk->loaded, 0, (size_t)(walk->micros * walk->own->chunks) * sizeof *walk->loaded);
        memset(walk->tracked, 0, (size_t)(buckets + 1) * sizeof *walk->tracked);
        walk->live = 0;
    }
    for (int g = 0; g < walk->own->grads; g++) {
        struct verify_bucket *bucket = walk->grads[g].bucket;
        if (bucket) memset(bucket, 0, (size_t)buckets * sizeof *bucket);
        walk->grads[g] = (struct grad){.bucket = bucket};
    }
    walk->counted = walk->reported = walk->stepped = walk->averaged = walk->asked = walk->again =
        NULL;
    walk->at = 0;
    walk->peak = walk->live;
    walk->ended = false;
    if (walk->list == list) return;
    walk->list = list;
    count_present(walk);
}

/* Of bodies that fill a pipeline, or drain it. What no step can have is refused where it stands. */
static bool is_left_out(const struct walk *walk) {
    return walk->program->ahead > 0 && instr_may_stand(walk->instr, LIST_BODY) &&
           !ahead_runs(walk->program, walk->instr, walk->step, 0,
                       verify_ahead_steps(walk->program));
}

/* Walks a rank on until it ends or waits. */
static enum status walk_on(struct walk *walk) {
    const struct instr_list *list = &walk->own->list[walk->list];
    walk->waits = false;
    for (; walk->at < list->count; walk->at++) {
        walk->instr = &list->items[walk->at];
        if (is_left_out(walk)) continue;
        TRY(visit(walk));
        if (walk->waits) return STATUS_OK;
    }
    return check_end(walk);
}

/* All members of a group must have come equally often. */
static enum status check_all_came(const struct verifier *verifier) {
    for (int w = 0; w < verifier->walk_count; w++) {
        const struct walk *walk = &verifier->walks[w];
        for (int g = 0; g < verifier->program->group_count; g++) {
            int index = verify_group_index(walk, g);
            if (index < 0 || walk->posted[g] == verifier->groups[g][index].count) continue;
            const struct meeting *missed = &verifier->groups[g][index].items[walk->posted[g]];
            struct walk other = {.rank = missed->first.rank, .instr = missed->first.instr};
            return verify_broken(&other, RULE_MEETINGS, nobody, "rank %d never comes to meet it",
                                 walk->rank);
        }
    }
    return STATUS_OK;
}

static void note_peaks(const struct verifier *verifier, struct step_proof *out) {
    for (int w = 0; w < verifier->walk_count; w++) {
        const struct walk *walk = &verifier->walks[w];
        if (walk->peak <= out->peak_slots) continue;
        out->peak_slots = walk->peak;
        out->peak_rank = walk->rank;
    }
}

static enum status walk_step(struct verifier *verifier, enum list_name list) {
    for (int w = 0; w < verifier->walk_count; w++) begin_step(&verifier->walks[w], list);
    for (int w = 0; w < verifier->walk_count; w++) verify_wake(&verifier->walks[w]);
    while (verifier->queue_count > 0) {
        struct walk *walk = verifier->queue[verifier->queue_first];
        verifier->queue_first = (verifier->queue_first + 1) % verifier->walk_count;
        verifier->queue_count--;
        walk->queued = false;
        TRY(walk_on(walk));
    }
    if (verifier->in_order) TRY(verify_none_held_up(verifier));
    TRY(verify_none_waits(verifier));
    TRY(check_all_came(verifier));
    if (verifier->walk_count == 0 || is_last_walked(&verifier->walks[0]))
        TRY(verify_all_received(verifier));
    note_peaks(verifier, list == LIST_BODY ? &verifier->proof.body : &verifier->proof.last);
    return verify_all_served(verifier);
}

/* Walks a step after those before it. *others: whether, on any rank, it leaves something else
 * under way than the one before it did. */
static enum status walk_next(struct verifier *verifier, enum list_name list, bool *others) {
    TRY(walk_step(verifier, list));
    *others = false;
    for (int w = 0; w < verifier->walk_count; w++) {
        verifier->walks[w].step++;
        uint64_t left = verify_left(&verifier->walks[w]);
        *others |= verifier->walks[w].left != left;
        verifier->walks[w].left = left;
    }
    return STATUS_OK;
}

/* Fills a pipeline, has it full for a while, and drains it: see ahead.h for why that stands for any
 * number of steps. */
static enum status walk_ahead(struct verifier *verifier) {
    bool others;
    for (int step = -verifier->program->ahead; step < verify_ahead_steps(verifier->program);
         step++) {
        for (int w = 0; w < verifier->walk_count; w++) verifier->walks[w].step = step;
        TRY(walk_next(verifier, LIST_BODY, &others));
    }
    return STATUS_OK;
}

/* A step, and where it leaves something under way one more, that begins with it. That one leaves
 * the same, so all further steps are like it. Where there is a short last step, it comes first,
 * then a body: if they leave the same, what follows either is like what follows the other; else
 * each pair is looked at. A step that is right behind another is right at the beginning, where
 * nothing is under way. What is left behind the last of all is done: all have come to it. */
static enum status walk_all(struct verifier *verifier) {
    bool last = verifier->samples, leaves, others;
    enum list_name first = last ? LIST_LAST : LIST_BODY;
    if (verifier->program->ahead > 0) return walk_ahead(verifier);
    TRY(walk_next(verifier, first, &leaves));
    if (!last && !leaves) return STATUS_OK;
    TRY(walk_next(verifier, LIST_BODY, &others));
    if (!last || (!leaves && !others)) return STATUS_OK;
    if (others) TRY(walk_next(verifier, LIST_BODY, &others));
    TRY(walk_next(verifier, LIST_LAST, &others));
    return others ? walk_next(verifier, LIST_LAST, &others) : STATUS_OK;
}

/* --- which ranks are walked --- */

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
                          .pipeline = pipeline};
    walk->map = resource_map(program, walk->own->grads, walk->own->chunks, walk->own->chunk);
    walk->slots = MEM_ARRAY(struct verify_slot, sizes_slot(walk->own->chunk, walk->own->chunks, 0));
    walk->grads = MEM_ARRAY(struct grad, walk->own->grads);
    int buckets = sizes_bucket(walk->own->chunk, walk->own->chunks, 0);
    walk->params = MEM_ARRAY(struct param_bucket, buckets + 1);
    walk->tracked = MEM_ARRAY(const struct instr *, buckets + 1);
    walk->tracked_micro = MEM_ARRAY(int, buckets + 1);
    verify_params_at_begin(walk);
    walk->loaded =
        MEM_ARRAY(bool, walk->micros *verify_ahead_steps(program) * walk->own->chunks + 1);
    for (int g = 0; g < program->group_count; g++) {
        int index = verify_group_index(walk, g);
        if (index >= 0) verifier->groups[g][index].members++;
    }
}

static void walk_free(struct walk *walk) {
    for (int g = 0; g < walk->own->grads; g++) free(walk->grads[g].bucket);
    free(walk->slots);
    free(walk->grads);
    free(walk->params);
    free(walk->tracked);
    free(walk->tracked_micro);
    free(walk->loaded);
    free(walk->under_way);
    free(walk->ordered);
}

/* Pipelines that differ from all before them, by their number; returns how many. */
static int different_pipelines(const struct verifier *verifier, int *out) {
    int count = 0, pipelines = group_count(&verifier->program->grid, GROUP_PIPELINE);
    for (int p = 0; p < pipelines; p++) {
        int like = count - 1;
        while (like >= 0 && (verifier->choice || !same_pipeline(verifier, out[like], p))) like--;
        if (like < 0) out[count++] = p;
    }
    return count;
}

static void choose_walks(struct verifier *verifier) {
    const struct program *program = verifier->program;
    const struct grid *grid = &program->grid;
    SCOPED_FREE int *pipeline = MEM_ARRAY(int, group_count(grid, GROUP_PIPELINE) + 1);
    int count = different_pipelines(verifier, pipeline);
    verifier->pipeline_count = count;
    verifier->channels =
        MEM_ARRAY(struct channel, count * (grid->stages * grid->chunks - 1) * 2 + 1);
    verifier->calls = MEM_ARRAY(struct channel, grid->stages);
    verifier->walks =
        MEM_ARRAY(struct walk, count * grid->stages + grid->drivers + grid->servers + 1);
    for (int g = 0; g < program->group_count; g++)
        verifier->groups[g] = MEM_ARRAY(struct meeting_group, verify_group_count(verifier, g) + 1);
    for (int r = 0; r < grid->drivers; r++) walk_new(verifier, r, -1);
    for (int i = 0; i < count; i++) {
        for (int p = 0; p < grid->stages; p++)
            walk_new(verifier, group_rank(grid, GROUP_PIPELINE, pipeline[i], p), i);
    }
    for (int r = program->ranks - grid->servers; r < program->ranks; r++) walk_new(verifier, r, -1);
    verifier->queue = MEM_ARRAY(struct walk *, verifier->walk_count + 1);
}

static void verifier_free(struct verifier *verifier) {
    const struct program *program = verifier->program;
    for (int w = 0; w < verifier->walk_count; w++) walk_free(&verifier->walks[w]);
    for (int g = 0; g < program->group_count; g++) {
        int count = verify_group_count(verifier, g);
        for (int i = 0; i < count; i++) free(verifier->groups[g][i].items);
        free(verifier->groups[g]);
    }
    int channels = verifier->pipeline_count * (program->grid.stages * program->grid.chunks - 1) * 2;
    for (int c = 0; c < channels; c++) free(verifier->channels[c].items);
    free(verifier->channels);
    for (int p = 0; p < program->grid.stages; p++) free(verifier->calls[p].items);
    free(verifier->calls);
    free(verifier->walks);
    free(verifier->queue);
}

static const int rule_count = 0
#define RULE(...) +1
#include "program/rule.def"
#undef RULE
    ;

static struct program_proof proof_of(const struct verifier *verifier) {
    const struct program *program = verifier->program;
    struct program_proof proof = verifier->proof;
    proof.ranks = program->ranks;
    proof.walked = verifier->walk_count;
    proof.rules = rule_count;
    for (int r = 0; r < program->ranks; r++) {
        proof.body.instructions += program_list(program, r, LIST_BODY)->count;
        proof.last.instructions += program_list(program, r, LIST_LAST)->count;
    }
    return proof;
}

/* Small programs are walked with every choice of groups, too. */
static enum status walk_choices(const struct program *program, struct program_proof *out) {
    struct verify_choice choice;
    if (program_chosen(program) < 0 || program->ranks > PROVE_CHOICES_RANKS) return STATUS_OK;
    for (bool more = verify_first_choice(program, &choice); more;
         more = verify_next_choice(program, &choice)) {
        SCOPED(verifier_free)
        struct verifier verifier = {.program = program, .choice = &choice};
        verify_know_rows(verifier.rows);
        choose_walks(&verifier);
        TRY(walk_all(&verifier));
        out->choices++;
    }
    return STATUS_OK;
}

static enum status prove(const struct program *program, const int64_t *last_samples, bool in_order,
                         struct program_proof *out) {
    bool last = program_has_last(program);
    TRY(verify_ahead(program));
    TRY(verify_apart(program));
    TRY(verify_chosen_header(program));
    SCOPED_FREE int64_t *loaded = last && !last_samples ? program_last_samples(program) : NULL;
    SCOPED(verifier_free)
    struct verifier verifier = {.program = program,
                                .samples = !last    ? NULL
                                           : loaded ? loaded
                                                    : last_samples,
                                .shares = program_shares(program),
                                .in_order = in_order,
                                .has_calls = verify_has_calls(program),
                                .output_stage = verify_output_stage(program)};
    verify_know_rows(verifier.rows);
    choose_walks(&verifier);
    TRY(verify_header_order(&verifier, NULL));
    if (last) TRY(verify_header_order(&verifier, verifier.samples));
    for (int w = 0; w < verifier.walk_count; w++) TRY(verify_forward(&verifier.walks[w]));
    TRY(verify_frozen(&verifier));
    TRY(verify_ties(&verifier));
    TRY(verify_kept(&verifier));
    for (int w = 0; w < verifier.walk_count; w++) TRY(verify_other_lists(&verifier.walks[w]));
    TRY(walk_all(&verifier));
    for (int w = 0; w < verifier.walk_count; w++) TRY(verify_between(&verifier.walks[w]));
    *out = proof_of(&verifier);
    return walk_choices(program, out);
}

enum status program_prove(const struct program *program, const int64_t *last_samples,
                          struct program_proof *out) {
    return prove(program, last_samples, false, out);
}

enum status program_verify(const struct program *program, const int64_t *last_samples) {
    struct program_proof proof;
    return program_prove(program, last_samples, &proof);
}

enum status program_verify_in_order(const struct program *program, const int64_t *last_samples) {
    struct program_proof proof;
    return prove(program, last_samples, true, &proof);
}
