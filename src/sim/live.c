/* See live.h. */
#include "sim/live.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "sim/choices.h"
#include "sim/live_ranks.h"

static void compile_rank(struct sim_live *live, int rank, const double *shares) {
    const struct program *program = live->input.program;
    struct live_rank *of = &live->rank[rank];
    struct sim_state *state = &live->sim.run[of->run];
    int class = cost_device_of(&live->input.net, rank).class;
    int64_t room =
        2 * (sim_room(program, rank) + program_list(program, rank, LIST_LAST)->count + 1);
    of->op = MEM_ARRAY(struct sim_op, room);
    of->await = MEM_ARRAY(struct sim_await, SIM_AWAITS * room);
    sim_compile_chain(&live->input, rank, &live->input.costs[class], shares, of->op, of->await,
                      &of->chain);
    free(state->place);
    state->kind = &of->chain.kind;
    state->place = MEM_ARRAY(union sim_place, of->chain.kind.place_count + 1);
    for (int p = 0; p < of->chain.kind.place_count; p++) state->place[p].number = -1;
    state->record = of->record = MEM_ARRAY(struct sim_record, of->chain.kind.count + 1);
}

struct sim_live *sim_live_new(const struct sim_input *input, const double *shares) {
    struct sim_live *live = MEM_NEW(struct sim_live);
    int ranks = input->program->ranks;
    live->input = *input;
    live->input.steps = 1;
    live->input.record = false;
    live->input.apart = true;
    sim_open(&live->input, &live->sim);
    live->sim.ready_count = 0;
    live->rank = MEM_ARRAY(struct live_rank, ranks);
    live->rank_of = MEM_ARRAY(int, ranks + 1);
    CHECK(live->sim.share.run_count == ranks, "%d of %d ranks", live->sim.share.run_count, ranks);
    for (int run = 0; run < ranks; run++) {
        live->sim.run[run].queued = false;
        live->rank_of[run] = live->sim.share.rank[run];
        live->rank[live->rank_of[run]].run = run;
    }
    for (int r = 0; r < ranks; r++) compile_rank(live, r, shares);
    for (int i = 0; i < STEPS_KEPT; i++) live->ring[i].step = -1;
    return live;
}

void sim_live_free(struct sim_live **pointer) {
    struct sim_live *live = *pointer;
    if (!live) return;
    for (int r = 0; r < live->input.program->ranks; r++) {
        free(live->rank[r].op);
        free(live->rank[r].await);
        free(live->rank[r].record);
    }
    sim_shut(&live->sim);
    free(live->rank);
    free(live->rank_of);
    free(live);
    *pointer = NULL;
}

static struct sim_state *state_of(const struct sim_live *live, int rank) {
    return &live->sim.run[live->rank[rank].run];
}

static enum sim_part part_behind(const struct live_rank *of, enum list_name list) {
    bool behind = of->begun && (of->part == SIM_LAST || of->part == SIM_LAST_BEHIND_LAST);
    if (list == LIST_BODY) return behind ? SIM_BODY_BEHIND_LAST : SIM_BODY;
    return behind ? SIM_LAST_BEHIND_LAST : SIM_LAST;
}

void sim_live_begin(struct sim_live *live, int rank, enum list_name list, int64_t step) {
    struct live_rank *of = &live->rank[rank];
    struct sim_state *state = state_of(live, rank);
    of->part = part_behind(of, list);
    of->begun = true;
    state->items = program_list(live->input.program, rank, list)->items;
    state->items_at = of->chain.at[of->part];
    state->step = (int32_t)step;
    state->awaited = 0;
    state->met = false;
}

bool sim_live_come(struct sim_live *live, int rank, int at) {
    struct live_rank *of = &live->rank[rank];
    struct sim_state *state = state_of(live, rank);
    state->at = of->chain.at[of->part] + at;
    const struct sim_op *op = &of->op[state->at];
    for (; state->awaited < op->await_count; state->awaited++)
        if (!sim_settle(&live->sim, of->run, &of->await[op->await_first + state->awaited]))
            return false;
    if (op->action == SIM_MEET) sim_come(&live->sim, of->run, op);
    return true;
}

bool sim_live_ran(struct sim_live *live, int rank, int at) {
    struct live_rank *of = &live->rank[rank];
    struct sim_state *state = state_of(live, rank);
    CHECK(state->at == of->chain.at[of->part] + at, "rank %d is at %d", rank, state->at);
    if (!sim_perform(&live->sim, of->run, &of->op[state->at])) return false;
    state->awaited = 0;
    return true;
}

void sim_live_end(struct sim_live *live, int rank) {
    struct sim_state *state = state_of(live, rank);
    int slot = (int)(state->step % STEPS_KEPT);
    if (live->ring[slot].step != state->step) {
        live->ring[slot].step = state->step;
        live->ring[slot].ended = 0;
        live->ring[slot].end = 0;
    }
    live->ring[slot].ended++;
    if (state->clock > live->ring[slot].end) live->ring[slot].end = state->clock;
    state->awaited = 0;
}

struct controller *sim_live_controller(const struct sim_live *live) {
    return live->sim.choices.controller;
}

void sim_live_round(struct sim_live *live, int64_t round, int64_t end, bool last) {
    double latest = 0;
    int ranks = live->input.program->ranks;
    for (int r = 0; r < ranks; r++) latest = fmax(latest, state_of(live, r)->clock);
    for (int r = 0; r < ranks; r++) state_of(live, r)->clock = latest;
    controller_begin(live->sim.choices.controller, round, end, last);
}

void sim_live_draw(struct sim_live *live, int rank, int64_t index) {
    sim_choices_draw(&live->sim, live->rank[rank].run, index);
}

bool sim_live_number(struct sim_live *live, int rank, int64_t index, int64_t *out) {
    return sim_choices_number(&live->sim, live->rank[rank].run, index, out);
}

bool sim_live_decide(struct sim_live *live, double time, int rank) {
    return sim_choices_decide(&live->sim, time, rank);
}

int sim_live_row(const struct sim_live *live, int rank) {
    return state_of(live, rank)->at;
}

/* Of an operation also where nobody has awaited it yet. */
void sim_live_times(const struct sim_live *live, int rank, int row, double *issued, double *end) {
    const struct sim_record *record = &live->rank[rank].record[row];
    const struct sim_state *state = state_of(live, rank);
    const struct sim_op *op = &live->rank[rank].op[row];
    *issued = record->issued;
    *end = record->end;
    int64_t number = op->action == SIM_POST ? state->place[op->place].number : -1;
    if (number < 0) return;
    const struct sim_group *group = &live->sim.group[state->group[op->target]];
    if (number < group->done) *end = group->ring[number & group->mask].end;
}

double sim_live_waits(const struct sim_live *live, int rank) {
    return state_of(live, rank)->waits;
}

double sim_live_clock(const struct sim_live *live, int rank) {
    return state_of(live, rank)->clock;
}

int sim_live_woken(struct sim_live *live) {
    if (live->sim.ready_count == 0) return -1;
    int32_t run = live->sim.ready[--live->sim.ready_count];
    live->sim.run[run].queued = false;
    return live->rank_of[run];
}

double sim_live_step(const struct sim_live *live, int64_t step) {
    int slot = (int)(step % STEPS_KEPT), before = (int)((step + STEPS_KEPT - 1) % STEPS_KEPT),
        ranks = live->input.program->ranks;
    if (live->ring[slot].step != step || live->ring[slot].ended < ranks) return NAN;
    if (step == 0) return live->ring[slot].end;
    return live->ring[before].step == step - 1 ? live->ring[slot].end - live->ring[before].end
                                               : NAN;
}
