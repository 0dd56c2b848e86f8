/* See overlap.h. */
#include "exec/overlap.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/places.h"
#include "exec/queues.h"
#include "exec/state.h"
#include "exec/tally.h"
#include "exec/versions.h"

static bool overlaps(const struct engine *engine) {
    return engine->plan->program->ahead > 0 && engine->list_name == LIST_BODY;
}

bool overlap_runs(const struct engine *engine, const struct instr *instr) {
    if (!overlaps(engine)) return true;
    const struct overlap_run *run = &engine->overlap;
    return ahead_runs(engine->plan->program, instr, engine->list_step, run->first, run->end);
}

/* Without --steps being changed nothing ever ends before that. */
static int64_t end_of_training(const struct engine *engine) {
    return engine->step->number + engine_steps_left(engine);
}

bool overlap_pretends(const struct engine *engine, const struct instr *instr) {
    if (!overlaps(engine) || !engine_timed_by(engine)) return false;
    return ahead_runs(engine->plan->program, instr, engine->list_step, engine->overlap.first,
                      end_of_training(engine));
}

int64_t overlap_under_way(const struct engine *engine) {
    int64_t left = engine_steps_left(engine), ahead = engine->plan->program->ahead;
    if (!engine->meeting.clock) return 0;
    return left < ahead ? left : ahead;
}

struct step *overlap_step(struct engine *engine, const struct instr *instr) {
    if (!overlaps(engine)) return engine->step;
    int64_t number = ahead_step(engine->plan->program, instr, engine->list_step);
    struct step *step = &engine->ring[number % engine->ring_count];
    if (step->number == number) return step;
    step_renew(step, number);
    overlap_renew(engine, step);
    return step;
}

int overlap_micro(const struct engine *engine, const struct instr *instr) {
    return overlaps(engine) ? ahead_micro(engine->plan->program, instr) : instr->micro;
}

int64_t overlap_number(const struct engine *engine, const struct instr *instr) {
    return ahead_step(engine->plan->program, instr, engine->list_step);
}

/* --- filling and draining --- */

void engine_pause(struct engine *engine, int64_t step) {
    engine->overlap.pause = step;
}

enum status overlap_fill(struct engine *engine) {
    struct overlap_run *run = &engine->overlap;
    int64_t number = engine->step->number;
    if (engine->plan->program->ahead == 0 || number < run->end) return STATUS_OK;
    run->first = number;
    run->end = run->pause > number ? run->pause : number + 1;
    run->asked = (struct step_request){0};
    const struct engine_clock *clock = engine->meeting.clock;
    run->silent = clock && (run->full || clock->is_full(clock->context, number));
    enum status status = STATUS_OK;
    for (run->fill = engine->plan->program->ahead; run->fill > 0 && status == STATUS_OK;
         run->fill--)
        status = engine_run_list(engine, LIST_BODY);
    run->fill = 0;
    run->silent = false;
    run->full = clock;
    return status;
}

void overlap_empty(struct engine *engine) {
    engine->overlap.first = engine->overlap.end = 0;
    engine->overlap.full = false;
}

/* --- what stages tell one another --- */

static bool has_loss(const struct engine *engine) {
    const struct grid *grid = &engine->plan->program->grid;
    return engine->plan->config.cell.position == grid->stages - 1;
}

void overlap_share(struct engine *engine, struct step *step) {
    if (engine->plan->program->ahead == 0) return;
    step_request_add(&engine->overlap.own, &step->asked);
    if (!has_loss(engine)) {
        step->share.tally = step->relayed.tally;
        memcpy(step->share.loss, step->relayed.loss, sizeof step->share.loss);
        step_request_add(&step->share.request, &step->relayed.request);
    }
}

static struct step *step_before(const struct engine *engine, const struct step *step) {
    struct step *before =
        &engine->ring[(step->number + engine->ring_count - 1) % engine->ring_count];
    return before->number == step->number - 1 ? before : NULL;
}

/* The squares of this stage and those behind it. */
static struct exact_sum squares_from_here(const struct step *step) {
    struct exact_sum sum = step->squares;
    for (int i = 0; i < LOSS_PARTS && step->late.step == step->number; i++)
        exact_add(&sum, step->late.squares[i]);
    return sum;
}

/* Of the step before this one, if all of it is known. */
static const struct step *note_late(const struct engine *engine, const struct step *step,
                                    struct step_late *out) {
    const struct step *before = step_before(engine, step);
    *out = (struct step_late){.step = -1};
    if (!before || !before->normed || before->late_settled) return NULL;
    if (!has_loss(engine) && before->late.step != before->number) return NULL;
    struct exact_sum squares = squares_from_here(before);
    out->step = before->number;
    exact_split(&squares, LOSS_PARTS, out->squares);
    return before;
}

/* The losses of a step are whole, and go to the stage before. Earlier messages bring none: they
 * would have to be read, too. */
static bool tells_losses(const struct engine *engine, const struct instr *instr) {
    return overlaps(engine) && has_loss(engine) && instr_goes_back(instr) &&
           overlap_micro(engine, instr) == engine->plan->config.micro_batches - 1;
}

enum status overlap_read(struct engine *engine, const struct instr *instr) {
    if (!engine->apart || !tells_losses(engine, instr)) return STATUS_OK;
    return queues_read_told(engine, slot_of(engine, instr)->step, TOLD_BY_FORWARD);
}

int overlap_note(struct engine *engine, const struct instr *instr, struct comm_piece *pieces) {
    struct slot *slot = slot_of(engine, instr);
    struct step *step = slot->step;
    if (!overlaps(engine)) return 0;
    slot->note = (struct step_note){.end = engine->overlap.end, .asked = engine->overlap.asked};
    pieces[0] = (struct comm_piece){&slot->note, sizeof slot->note};
    if (!instr_goes_back(instr)) return 1;
    if (tells_losses(engine, instr)) {
        tally_read(step);
        tally_share(step, &slot->note.share);
    }
    if (!has_loss(engine)) slot->note.share = step->relayed;
    step_request_add(&slot->note.share.request, &step->asked);
    const struct step *before = note_late(engine, step, &slot->note.late);
    if (!before) return 1;
    pieces[1] = (struct comm_piece){before->late_ms,
                                    (size_t)comm_size(engine->comm) * sizeof *before->late_ms};
    return 2;
}

/* Each micro-batch of a step brings the same. */
static void take_late(const struct engine *engine, const struct step *step,
                      const struct step_late *late, const char *late_ms) {
    struct step *before = step_before(engine, step);
    if (late->step < 0 || !before || before->number != late->step ||
        before->late.step == late->step)
        return;
    before->late = *late;
    for (int r = 0; r < comm_size(engine->comm); r++) {
        double ms;
        memcpy(&ms, late_ms + (size_t)r * sizeof ms, sizeof ms);
        if (!isnan(ms)) before->late_ms[r] = ms;
    }
}

static void take_end(struct engine *engine, int64_t end, const struct step_request *asked) {
    struct overlap_run *run = &engine->overlap;
    if (end < run->end) run->end = end;
    if (step_request_asks(asked)) run->asked = *asked;
}

void overlap_take(struct engine *engine, const struct instr *instr, const char *notes,
                  size_t bytes) {
    struct step_note note;
    size_t times = (size_t)comm_size(engine->comm) * sizeof(double);
    CHECK(bytes == sizeof note || bytes == sizeof note + times, "a note of %zu bytes", bytes);
    memcpy(&note, notes, sizeof note);
    if (instr_goes_back(instr)) {
        struct step *step = slot_of(engine, instr)->step;
        step->relayed = note.share;
        take_late(engine, step, &note.late, notes + sizeof note);
        return;
    }
    take_end(engine, note.end, &note.asked);
}

void overlap_renew(struct engine *engine, struct step *step) {
    step->late.step = -1;
    step->late_settled = false;
    for (int r = 0; r < comm_size(engine->comm); r++) step->late_ms[r] = NAN;
}

bool overlap_norm(const struct engine *engine, const struct step *step, double *out) {
    bool first = engine->plan->config.cell.position == 0,
         known = first ? step->late.step == step->number : true;
    struct exact_sum squares = squares_from_here(step);
    *out = first ? sqrt(exact_total(&squares)) : NAN;
    return known;
}

/* Replicas have the same squares: those of this rank's pipeline count. */
static void add_later(struct engine *engine, struct step *step) {
    const struct grid *grid = &engine->plan->program->grid;
    struct exact_sum later = {0};
    int own = comm_rank(engine->comm), index = group_of(grid, GROUP_PIPELINE, own);
    for (int p = engine->plan->config.cell.position + 1; p < grid->stages; p++)
        exact_merge(&later, &step->all_squares[group_rank(grid, GROUP_PIPELINE, index, p)]);
    step->late.step = step->number;
    exact_split(&later, LOSS_PARTS, step->late.squares);
}

enum status overlap_settle(struct engine *engine) {
    struct step *step = step_before(engine, engine->step);
    if (engine->plan->program->ahead == 0 || !step || !step->normed || step->late_settled)
        return STATUS_OK;
    struct comm_group *world = comm_world(engine->comm);
    TRY(comm_exchange(world, &step->squares, sizeof step->squares, step->all_squares));
    TRY(comm_exchange(world, &step->share.busy_ms, sizeof step->share.busy_ms, step->late_ms));
    add_later(engine, step);
    step->late_settled = true;
    TRY(speakers_tell(engine, step));
    return speakers_settle(engine, step->number + 1);
}

/* The first stage has begun with the steps up to `ahead` behind this one. The message that brings
 * the others of its replica the news is of the next; speakers of others have it one step later. */
static void decide(struct engine *engine, const struct step *step,
                   const struct step_request *others) {
    struct overlap_run *run = &engine->overlap;
    const struct program *program = engine->plan->program;
    struct step_request agreed = step->agreed;
    step_request_add(&agreed, others);
    if (step_request_asks(&run->asked)) return;
    int64_t last = step->number + program->ahead + 1; /* that is run */
    if (group_count(&program->grid, GROUP_PIPELINE) > 1) last += SPEAKERS_LAG - 1;
    if (last >= run->end || !step_request_asks(&agreed)) return; /* then all ask one another */
    run->asked = agreed;
    run->end = last + 1;
}

/* It shares nothing, but on a device that is apart it is known when the host has awaited it. The
 * messages of the next step are to bring it to the stage before. */
static enum status await_norm(struct engine *engine) {
    struct posted *norm = &engine->posted[engine->map.first[RESOURCE_NORM]];
    return norm->instr ? posted_await(engine, norm) : STATUS_OK;
}

enum status overlap_tell(struct engine *engine, struct step *step) {
    struct overlap_run *run = &engine->overlap;
    struct step_request others;
    double norm;
    struct step *before = step_before(engine, step);
    if (engine->plan->program->ahead == 0) return STATUS_OK;
    TRY(await_norm(engine));
    if (before && before->normed && overlap_norm(engine, before, &norm))
        TRY(speakers_tell(engine, before));
    if (!speakers_have_rows(engine)) return STATUS_OK;
    TRY(speakers_look(engine, &others));
    decide(engine, step, &others);
    struct verdict verdict = {.step = step->number, .end = run->end, .asked = run->asked};
    return speakers_decide(engine, &verdict);
}

static void take_verdict(struct engine *engine, const struct verdict *verdict) {
    take_end(engine, verdict->end, &verdict->asked);
}

enum status overlap_hear(struct engine *engine) {
    if (engine->plan->program->ahead == 0) return STATUS_OK;
    return speakers_hear(engine, engine->step->number - SPEAKERS_LAG, take_verdict);
}

/* What all ranks tell one another where the pipeline ends. */
struct step_end {
    struct step_request asked;
    struct step_share share;
};
_Static_assert(sizeof(struct step_end) <= COMM_EXCHANGE_BYTES, "an exchange takes so much");

/* All know the losses of all replicas then, which each replica's speaker has. */
static void take_shares(const struct engine *engine, struct step *step,
                        const struct step_end *all) {
    const struct grid *grid = &engine->plan->program->grid;
    int replicas = group_count(grid, GROUP_PIPELINE);
    for (int r = 0; r < replicas; r++)
        step->shares[r] = all[group_rank(grid, GROUP_PIPELINE, r, 0)].share;
    step->spoken = grid;
    tally_sum(step->shares, replicas, &step->tally);
}

/* What came too late to be told with a message is told now: where pauses are close to one another
 * everything comes too late. */
enum status overlap_agree(struct engine *engine, struct step *step) {
    struct overlap_run *run = &engine->overlap;
    int ranks = comm_size(engine->comm);
    if (engine->plan->program->ahead == 0) return STATUS_OK;
    step->agreed = (struct step_request){0};
    if (step->number + 1 != run->end) return STATUS_OK;
    TRY(speakers_hear(engine, step->number, take_verdict));
    struct step_end own = {.asked = run->asked, .share = step->share};
    SCOPED_FREE struct step_end *all = MEM_ARRAY(struct step_end, ranks);
    step_request_add(&own.asked, &run->own);
    run->own = (struct step_request){0};
    const struct engine_clock *clock = engine->meeting.clock;
    if (clock) TRY(clock->meet(clock->context));
    TRY(comm_exchange(comm_world(engine->comm), &own, sizeof own, all));
    for (int r = 0; r < ranks; r++) step_request_add(&step->agreed, &all[r].asked);
    take_shares(engine, step, all);
    return STATUS_OK;
}

/* --- versions --- */

static int64_t version_of(const struct engine *engine, const struct instr *instr) {
    int64_t number = slot_of(engine, instr)->step->number;
    int behind = instr->version == INSTR_ALL ? 0 : instr->version;
    return number > behind ? number - behind : 0;
}

/* Forward says which version a step is made with. */
static void note_version(const struct engine *engine, const struct instr *instr, int64_t version) {
    struct step *step = slot_of(engine, instr)->step;
    if (instr->op != INSTR_F) return;
    if (step->version < 0 || version < step->version) step->version = version;
}

enum status overlap_bind(struct engine *engine, const struct instr *instr) {
    struct runnable *runnable = slot_of(engine, instr)->runnable;
    if (!list_is_step(engine->list_name) || !strchr(instr_row(instr)->operands, 'v'))
        return STATUS_OK;
    note_version(engine, instr, version_of(engine, instr));
    if (versions_kept(engine->store) == 0 || !runnable) return STATUS_OK;
    const struct graph *graph = runnable->plan->graph;
    void **address = runnable->slot[slot_index(engine, instr)].address;
    int array = versions_array(engine->store, version_of(engine, instr));
    for (int v = 0; v < graph->value_count; v++) {
        const struct value *root = &graph->values[graph->values[v].root];
        if (root->kind == VALUE_PARAM && state_holds(&engine->store->layout->params[root->index]))
            address[v] = store_tensor(engine->store, array, root->index).data;
    }
    return STATUS_OK;
}

/* Before the update. */
enum status overlap_count(struct engine *engine, const struct step *step) {
    int64_t stale = step->version < 0 ? 0 : engine->store->updates - step->version;
    int declared = versions_kept(engine->store);
    if (stale < 0 || stale > declared)
        return fail(STATUS_BUG,
                    "step %lld: %lld updates came between its forward and its own, the program "
                    "declares %d\n  please report it",
                    (long long)step->number + 1, (long long)stale, declared);
    engine->state->stale.updates[stale < STALE_MOST ? stale : STALE_MOST]++;
    return STATUS_OK;
}
