/* Ranks in virtual time: see run.h. A rank is run on as far as it can; what it waits for wakes it.
 */
#include "sim/run.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/ahead.h"
#include "program/laws.h"
#include "sim/choices.h"
#include "sim/sim_state.h"

/* --- waiting --- */

/* The clock moves on to `end`. `moving` is how long data was under way for it: of the wait, that
 * much is exposed communication and the rest is waiting for somebody. */
static void wait_until(const struct sim *sim, struct sim_state *state, double end, double moving,
                       struct sim_cause cause) {
    double wait = end - state->clock;
    if (wait <= 0) return;
    if (wait > sim->input->net.awake) {
        wait += sim->input->net.wake;
        moving += sim->input->net.wake;
        end += sim->input->net.wake;
    }
    double exposed = wait < moving ? wait : moving;
    state->exposed += exposed;
    state->waits += wait - exposed;
    state->clock = end;
    state->cause = cause;
}

static bool settle_send(struct sim *sim, int32_t run, const struct sim_await *await) {
    struct sim_state *state = &sim->run[run];
    if (state->place[await->place].number == -1) return true; /* left out so far */
    const struct sim_op *send = &state->kind->op[await->at];
    struct sim_wire *wire = &sim->wire[state->channels + send->target];
    double end = state->place[await->place].end;
    if (end == SIM_UNKNOWN) {
        wire->sender_waits = true;
        return false;
    }
    struct sim_cause own = {run, await->at, false};
    wait_until(sim, state, end, send->bytes * wire->per_byte, own);
    return true;
}

static void note_transfer(struct sim_state *state, int32_t at, double begin, double end) {
    if (!state->record) return;
    state->record[at].begin = begin;
    state->record[at].end = end;
}

static void note_peer(struct sim_state *state, int32_t at, struct sim_cause peer) {
    if (!state->record) return;
    state->record[at].peer_run = peer.run;
    state->record[at].peer_at = peer.at;
}

static bool settle_receive(struct sim *sim, int32_t run, const struct sim_await *await) {
    struct sim_state *state = &sim->run[run];
    const struct sim_op *receive = &state->kind->op[await->at];
    int32_t wire = state->channels + receive->target;
    const struct sim_message *message = sim_arrival(sim, wire, state->place[await->place].number);
    if (!message) return false;
    note_transfer(state, await->at, message->begin, message->time);
    note_peer(state, await->at, (struct sim_cause){sim->wire[wire].sender, message->at, false});
    wait_until(sim, state, message->time, message->time - message->begin, message->cause);
    double copy = receive->cost * state->slowness;
    state->clock += copy;
    state->exposed += copy;
    sim_take(sim, run, wire);
    return true;
}

/* Notes when an operation was under way; NULL: it is not known yet, and the run is woken then. */
static const struct sim_meeting *note_operation(struct sim *sim, int32_t run, int32_t at,
                                                int64_t number) {
    struct sim_state *state = &sim->run[run];
    const struct sim_meeting *meeting = sim_meeting(sim, run, state->kind->op[at].target, number);
    if (!meeting) return NULL;
    note_transfer(state, at, meeting->begin, meeting->end);
    note_peer(state, at, meeting->last);
    return meeting;
}

/* It is of the step before where `at` does not stand before the one who waits; the first step
 * has none before it. */
static bool settle_operation(struct sim *sim, int32_t run, int32_t at, int64_t number,
                             bool before) {
    struct sim_state *state = &sim->run[run];
    if (number < 0) return true;
    const struct sim_meeting *meeting = note_operation(sim, run, at, number);
    if (!meeting) return false;
    struct sim_cause cause = {meeting->last.run, meeting->last.at, before};
    wait_until(sim, state, meeting->end, meeting->end - meeting->begin, cause);
    return true;
}

/* Where nobody decides, all replicas are chosen, and nobody waits to hear of it. */
static bool settle_question(struct sim *sim, int32_t run, const struct sim_await *await) {
    struct sim_state *state = &sim->run[run];
    double at;
    if (!sim->choices.controller) return true;
    if (!sim_choices_formed(sim, run, &at)) return false;
    note_transfer(state, await->at, at, at);
    wait_until(sim, state, at, 0, (struct sim_cause){-1, -1, false});
    return true;
}

static inline bool settle(struct sim *sim, int32_t run, const struct sim_await *await) {
    const struct sim_state *state = &sim->run[run];
    const struct sim_op *op = &state->kind->op[await->at];
    switch (op->action) {
    case SIM_SEND: return settle_send(sim, run, await);
    case SIM_RECEIVE: return settle_receive(sim, run, await);
    case SIM_ASK: return settle_question(sim, run, await);
    default:
        return settle_operation(sim, run, await->at, state->place[await->place].number,
                                await->at >= state->at);
    }
}

bool sim_settle(struct sim *sim, int32_t run, const struct sim_await *await) {
    return settle(sim, run, await);
}

/* --- one instruction --- */

static void note_issue(struct sim_state *state) {
    if (!state->record) return;
    struct sim_record *record = &state->record[state->at];
    record->issued = state->clock;
    record->peer_run = record->peer_at = -1;
    record->cause_run = state->cause.run;
    record->cause_at = state->cause.at;
    record->cause_before = state->cause.before;
}

/* What the laws make of a pass. */
static double pass_by_laws(const struct sim *sim, int32_t run, double cost) {
    const struct program *program = sim->input->program;
    struct sim_state *state = &sim->run[run];
    int rank = sim->share.rank[run];
    const struct instr *instr = &state->items[state->at - state->items_at];
    struct hetero_pass pass = program_pass(program, sim->input->seed, rank, state->step, instr);
    double ns = hetero_pass_ns(sim->input->net.hetero, &pass, state->clock, cost);
    state->busy += ns;
    return ns;
}

/* It runs on the compute queue for so long. */
static void spend(const struct sim *sim, int32_t run, const struct sim_op *op) {
    struct sim_state *state = &sim->run[run];
    double begin = state->clock, cost = op->cost * state->slowness;
    if (op->pass && sim->input->net.hetero) cost = pass_by_laws(sim, run, cost);
    state->clock += cost;
    if (op->action == SIM_SEND) state->exposed += cost;
    if (op->pass) {
        if (state->first < 0) state->first = begin;
        state->last = state->clock;
    }
}

void sim_come(struct sim *sim, int32_t run, const struct sim_op *op) {
    struct sim_state *state = &sim->run[run];
    if (state->met) return;
    note_issue(state);
    sim_arrive(sim, run, op);
    state->met = true;
}

static bool meet(struct sim *sim, int32_t run, const struct sim_op *op) {
    struct sim_state *state = &sim->run[run];
    sim_come(sim, run, op);
    state->met = !settle_operation(sim, run, state->at, state->posted[op->target] - 1, false);
    return !state->met;
}

/* The first of the steps whose mean is told. Steps that overlap end one behind the other, not at
 * equal distances, and so do those of replicas that choose whom they meet: it is the mean of many;
 * else it is the last step alone. */
static int first_measured(const struct sim_input *input) {
    int warm = 2 * input->program->grid.stages, last = input->steps - 1;
    bool evenly = input->program->ahead == 0 && !input->groups;
    return !evenly && warm < last ? warm : last;
}

/* Runs that draw numbers do unequally many steps. */
static void end_number(struct sim *sim, struct sim_state *state) {
    int64_t from = (int64_t)first_measured(sim->input) * sim->input->program->grid.replicas;
    sim_choices_finish(sim, state);
    state->step++;
    state->at = -1;
    state->begun = false;
    state->first = -1;
    if (state->number < from) state->exposed = state->waits = state->busy = 0;
}

static void end_step(struct sim *sim, struct sim_state *state) {
    if (sim->choices.draws) {
        end_number(sim, state);
        return;
    }
    int step = state->step++; /* below 0: it fills a pipeline */
    if (step >= 0 && state->clock > sim->step_end[step]) sim->step_end[step] = state->clock;
    state->at = -1; /* the next one is the first */
    if (state->step == sim->input->steps) return;
    state->first = -1;
    if (state->step <= first_measured(sim->input)) state->exposed = state->waits = state->busy = 0;
}

/* What the recorded step leaves under way is drawn, though nobody waits for it any more. */
static bool note_left(struct sim *sim, int32_t run) {
    const struct sim_state *state = &sim->run[run];
    for (int i = 0; state->record && i < state->kind->left_count; i++) {
        const struct sim_await *left = &state->kind->await[state->kind->left_first + i];
        if (!note_operation(sim, run, left->at, state->place[left->place].number)) return false;
    }
    return true;
}

static inline bool perform(struct sim *sim, int32_t run, const struct sim_op *op) {
    struct sim_state *state = &sim->run[run];
    if (op->action == SIM_END) {
        note_issue(state);
        if (!note_left(sim, run)) return false;
        end_step(sim, state);
        return true;
    }
    if (op->action != SIM_MEET)
        note_issue(state);
    else if (!meet(sim, run, op))
        return false;
    double begin = state->clock;
    if (op->action != SIM_RECEIVE) spend(sim, run, op);
    switch (op->action) {
    case SIM_SEND: sim_send(sim, run, op); break;
    case SIM_RECEIVE:
        state->place[op->place].number = sim->wire[state->channels + op->target].received++;
        break;
    case SIM_POST: state->place[op->place].number = sim_arrive(sim, run, op); break;
    case SIM_ASK:
        if (sim->choices.controller) sim_choices_ask(sim, run);
        break;
    default: note_transfer(state, state->at, begin, state->clock); break;
    }
    return true;
}

bool sim_perform(struct sim *sim, int32_t run, const struct sim_op *op) {
    return perform(sim, run, op);
}

static bool is_last(const struct sim *sim, const struct sim_state *state) {
    return state->step == sim->input->steps - 1;
}

/* Of bodies that fill a pipeline: see program/ahead.h. */
static bool is_left_out(const struct sim *sim, const struct sim_state *state) {
    return state->step < 0 && state->at < state->kind->count &&
           !ahead_runs(sim->input->program, &state->items[state->at], state->step, 0, INT64_MAX);
}

/* Whether there is a step to be run on; false also where its number is not known yet. */
static bool has_step(struct sim *sim, int32_t run) {
    struct sim_state *state = &sim->run[run];
    if (!sim->choices.draws) return state->step < sim->input->steps;
    if (!state->begun && !state->ended && !sim_choices_step(sim, run, &state->ended)) return false;
    state->begun = true;
    return !state->ended;
}

/* Runs a rank on until it waits or has done all steps. */
static void run_on(struct sim *sim, int32_t run, struct sim_record *record) {
    struct sim_state *state = &sim->run[run];
    const struct sim_kind *kind = state->kind;
    while (has_step(sim, run)) {
        const struct sim_op *op = &kind->op[state->at];
        if (record && state->at == 0) state->record = is_last(sim, state) ? record : NULL;
        if (is_left_out(sim, state)) {
            state->at++;
            continue;
        }
        for (; state->awaited < op->await_count; state->awaited++)
            if (!settle(sim, run, &kind->await[op->await_first + state->awaited])) return;
        if (!perform(sim, run, op)) return;
        state->at++;
        state->awaited = 0;
        state->cause = (struct sim_cause){-1, -1, false};
        sim->instructions++;
    }
}

/* --- the whole --- */

/* A kind of the simulator is a rank program on a class of devices. */
struct kind_table {
    int *first;                          /* per rank program: the first of its kinds + 1 */
    int *next, *class, *position, *rank; /* per kind; a rank that is of it */
};

static int find_kind(struct sim *sim, struct kind_table *table, int rank) {
    const struct program *program = sim->input->program;
    int of = program->kind_of[rank], class = cost_device_of(&sim->input->net, rank).class,
        position = grid_cell(&program->grid, rank).position, kind = table->first[of] - 1;
    while (kind >= 0 && (table->class[kind] != class || table->position[kind] != position))
        kind = table->next[kind] - 1;
    if (kind >= 0) return kind;
    kind = sim->kind_count++;
    table->rank[kind] = rank;
    table->class[kind] = class;
    table->position[kind] = position;
    table->next[kind] = table->first[of];
    table->first[of] = kind + 1;
    return kind;
}

static void compile_kinds(struct sim *sim, const struct kind_table *table) {
    const struct program *program = sim->input->program;
    int64_t room = 0;
    for (int k = 0; k < sim->kind_count; k++) room += sim_room(program, table->rank[k]);
    sim->op = MEM_ARRAY(struct sim_op, room);
    sim->await = MEM_ARRAY(struct sim_await, SIM_AWAITS * room);
    room = 0;
    for (int k = 0; k < sim->kind_count; k++) {
        sim_compile(sim->input, table->rank[k], &sim->input->costs[table->class[k]], sim->op + room,
                    sim->await + SIM_AWAITS * room, &sim->kind[k]);
        room += sim_room(program, table->rank[k]);
    }
}

static void compile_all(struct sim *sim) {
    int runs = sim->share.run_count, *kind_of = MEM_ARRAY(int, runs + 1);
    struct kind_table table = {.first = MEM_ARRAY(int, sim->input->program->kind_count + 1),
                               .next = MEM_ARRAY(int, runs + 1),
                               .class = MEM_ARRAY(int, runs + 1),
                               .position = MEM_ARRAY(int, runs + 1),
                               .rank = MEM_ARRAY(int, runs + 1)};
    sim->kind = MEM_ARRAY(struct sim_kind, runs + 1);
    for (int r = 0; r < runs; r++) kind_of[r] = find_kind(sim, &table, sim->share.rank[r]);
    compile_kinds(sim, &table);
    for (int r = 0; r < runs; r++) {
        const struct sim_kind *kind = &sim->kind[kind_of[r]];
        sim->run[r] = (struct sim_state){
            .kind = kind,
            .items = program_list(sim->input->program, sim->share.rank[r], LIST_BODY)->items,
            .slowness = cost_device_of(&sim->input->net, sim->share.rank[r]).slowness,
            .first = -1,
            .step = -sim->input->program->ahead,
            .cause = {-1, -1, false},
            .place = MEM_ARRAY(union sim_place, kind->place_count + 1)};
        for (int p = 0; p < kind->place_count; p++) sim->run[r].place[p].number = -1;
    }
    free(kind_of);
    free(table.first);
    free(table.next);
    free(table.class);
    free(table.position);
    free(table.rank);
}

void sim_open(const struct sim_input *input, struct sim *sim) {
    *sim = (struct sim){.input = input, .step_end = MEM_ARRAY(double, input->steps)};
    sim_share_new(input, &sim->share);
    int runs = sim->share.run_count;
    sim->run = MEM_ARRAY(struct sim_state, runs + 1);
    sim->ready = MEM_ARRAY(int32_t, runs + 1);
    compile_all(sim);
    sim_wires_new(sim);
    sim_choices_new(sim);
    for (int r = runs - 1; r >= 0; r--) sim_wake(sim, r);
}

void sim_shut(struct sim *sim) {
    sim_choices_free(sim);
    sim_wires_free(sim);
    free(sim->op);
    free(sim->await);
    for (int r = 0; r < sim->share.run_count; r++) free(sim->run[r].place);
    free(sim->kind);
    free(sim->run);
    free(sim->ready);
    free(sim->step_end);
    sim_share_free(&sim->share);
}

static enum status check_ended(const struct sim *sim) {
    for (int r = 0; r < sim->share.run_count; r++) {
        const struct sim_state *state = &sim->run[r];
        if (sim->choices.draws ? state->ended : state->step == sim->input->steps) continue;
        int rank = sim->share.rank[r];
        char text[INSTR_TEXT_BYTES] = "the end of the step";
        const struct instr_list *body = program_list(sim->input->program, rank, LIST_BODY);
        if (state->at < body->count) instr_text(&body->items[state->at], rank, text);
        return fail(STATUS_USAGE,
                    "the program waits for ever: rank %d at %s\n"
                    "  it was not verified",
                    rank, text);
    }
    return STATUS_OK;
}

static struct sim_rank rank_of(const struct sim *sim, int run, struct sim_record *record) {
    const struct sim_state *state = &sim->run[run];
    int stages = sim->input->program->grid.stages, others = sim->share.others,
        steps = sim->input->steps - first_measured(sim->input);
    return (struct sim_rank){.rank = sim->share.rank[run],
                             .like = run < others ? 1 : sim->share.like[(run - others) / stages],
                             .busy = sim->input->net.hetero ? state->busy / steps
                                                            : state->kind->busy * state->slowness,
                             .first = state->first < 0 ? state->clock : state->first,
                             .last = state->first < 0 ? state->clock : state->last,
                             .exposed = state->exposed / steps,
                             .waits = state->waits / steps,
                             .end = state->clock,
                             .peak_bytes = state->kind->peak_bytes,
                             .record = record};
}

/* Means and maxima over all ranks, each run standing for those like it. */
static void sum_up(const struct sim *sim, struct sim_result *result) {
    int last = sim->input->steps - 1, from = first_measured(sim->input),
        ranks = sim->input->program->ranks;
    double busy = 0, span = 0;
    result->first_step = sim->step_end[0];
    result->begin = last > 0 ? sim->step_end[last - 1] : 0;
    result->step =
        (sim->step_end[last] - (from > 0 ? sim->step_end[from - 1] : 0)) / (last + 1 - from);
    result->mean = last > 0 ? (sim->step_end[last] - sim->step_end[0]) / last : result->step;
    result->instructions = sim->instructions;
    result->group_size =
        sim->choices.groups > 0 ? (double)sim->choices.members / (double)sim->choices.groups : NAN;
    for (int r = 0; r < result->run_count; r++) {
        const struct sim_rank *rank = &result->rank[r];
        busy += rank->busy * rank->like;
        result->exposed += rank->exposed * rank->like / ranks;
        if (rank->last - rank->first > span) span = rank->last - rank->first;
        if (rank->peak_bytes > result->peak_bytes) result->peak_bytes = rank->peak_bytes;
    }
    if (from < last && span > result->step) span = result->step; /* the last body was a long one */
    result->bubble = result->step > 0 ? 1 - busy / (ranks * result->step) : 0;
    result->span_bubble = span > 0 ? 1 - busy / (ranks * span) : 0;
    if (sim->choices.draws)
        result->span_bubble = result->bubble; /* each rank has a step of its own */
}

/* Room for the records of all runs, where they are wanted and not too many. */
static void records_new(const struct sim *sim, struct sim_result *result) {
    int64_t count = 0;
    for (int r = 0; r < result->run_count; r++) count += sim->run[r].kind->count + 1;
    if (!sim->input->record || count > SIM_MOST_RECORDS) return;
    struct sim_record *next = result->record = MEM_ARRAY(struct sim_record, count + 1);
    for (int r = 0; r < result->run_count; r++) {
        result->rank[r].record = next;
        next += sim->run[r].kind->count + 1;
    }
}

/* Where members are chosen, what was asked for first is decided when all ranks wait. */
static void run_all(struct sim *sim, struct sim_result *result) {
    do {
        while (sim->ready_count > 0) {
            int32_t run = sim->ready[--sim->ready_count];
            sim->run[run].queued = false;
            run_on(sim, run, result->rank[run].record);
        }
    } while (sim->choices.controller && sim_choices_decide(sim, INFINITY, INT_MAX));
}

enum status sim_run(const struct sim_input *input, struct sim_result *out) {
    struct sim sim;
    CHECK(input->steps >= 1, "%d steps", input->steps);
    sim_open(input, &sim);
    sim_choices_begin(&sim, input->steps);
    struct sim_result result = {.run_count = sim.share.run_count,
                                .rank = MEM_ARRAY(struct sim_rank, sim.share.run_count + 1)};
    records_new(&sim, &result);
    run_all(&sim, &result);
    sim_choices_ends(&sim);
    enum status status = check_ended(&sim);
    for (int r = 0; r < result.run_count; r++)
        result.rank[r] = rank_of(&sim, r, result.rank[r].record);
    sum_up(&sim, &result);
    sim_shut(&sim);
    if (status == STATUS_OK)
        *out = result;
    else
        sim_result_free(&result);
    return status;
}

void sim_result_free(struct sim_result *result) {
    free(result->record);
    free(result->rank);
    *result = (struct sim_result){0};
}
