/* See overlap.h. */
#include "exec/overlap.h"

#include <string.h>

#include "base/log.h"
#include "exec/places.h"
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

struct step *overlap_step(struct engine *engine, const struct instr *instr) {
    if (!overlaps(engine)) return engine->step;
    int64_t number = ahead_step(engine->plan->program, instr, engine->list_step);
    struct step *step = &engine->ring[number % engine->ring_count];
    if (step->number != number) step_renew(step, number);
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
    enum status status = STATUS_OK;
    for (run->fill = engine->plan->program->ahead; run->fill > 0 && status == STATUS_OK;
         run->fill--)
        status = engine_run_list(engine, LIST_BODY);
    run->fill = 0;
    return status;
}

void overlap_empty(struct engine *engine) {
    engine->overlap.first = engine->overlap.end = 0;
}

/* --- what stages tell one another --- */

static bool asks(const struct step_request *request) {
    return request->signal || request->save || request->time_up;
}

static void add_request(struct step_request *to, const struct step_request *from) {
    if (from->signal) to->signal = from->signal;
    to->save |= from->save;
    to->time_up |= from->time_up;
}

static bool has_loss(const struct engine *engine) {
    const struct grid *grid = &engine->plan->program->grid;
    return engine->plan->config.cell.position == grid->stages - 1;
}

void overlap_share(const struct engine *engine, struct step *step) {
    if (engine->plan->program->ahead == 0) return;
    if (!has_loss(engine)) {
        step->share.tally = step->relayed.tally;
        memcpy(step->share.loss, step->relayed.loss, sizeof step->share.loss);
        add_request(&step->share.request, &step->relayed.request);
    }
}

struct step_note *overlap_note(struct engine *engine, const struct instr *instr) {
    struct slot *slot = slot_of(engine, instr);
    struct step *step = slot->step;
    if (!overlaps(engine)) return NULL;
    slot->note = (struct step_note){.end = engine->overlap.end, .asked = engine->overlap.asked};
    if (!instr_goes_back(instr)) return &slot->note;
    if (has_loss(engine))
        tally_share(step, &slot->note.share);
    else
        slot->note.share = step->relayed;
    add_request(&slot->note.share.request, &step->asked);
    return &slot->note;
}

void overlap_take(struct engine *engine, const struct instr *instr, const struct step_note *note) {
    struct overlap_run *run = &engine->overlap;
    if (instr_goes_back(instr)) {
        slot_of(engine, instr)->step->relayed = note->share;
        return;
    }
    if (note->end < run->end) run->end = note->end;
    if (asks(&note->asked)) run->asked = note->asked;
}

/* The first stage has begun with the steps up to `ahead` behind this one. The message that brings
 * the others the news is of the next. */
void overlap_decide(struct engine *engine, const struct step *step) {
    struct overlap_run *run = &engine->overlap;
    const struct program *program = engine->plan->program;
    if (program->ahead == 0 || engine->plan->config.cell.position != 0 || asks(&run->asked)) return;
    struct step_request agreed = step->agreed;
    add_request(&agreed, &run->kept);
    int64_t last = step->number + program->ahead + 1; /* that is run */
    bool late = last >= run->end;
    run->kept = late ? agreed : (struct step_request){0};
    if (late || !asks(&agreed)) return;
    run->asked = agreed;
    run->end = last + 1;
}

struct step_request overlap_request(const struct engine *engine, const struct step *step) {
    const struct overlap_run *run = &engine->overlap;
    if (engine->plan->program->ahead == 0) return step->agreed;
    return step->number + 1 == run->end ? run->asked : (struct step_request){0};
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
