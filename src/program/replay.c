/* See replay.h. Orders are fixed, so when a computation begins does not depend on the order in
 * which positions are looked at: a position is run until it waits, and again when what it waits for
 * has ended. No queue of events is needed, and each computation is visited once. */
#include "program/replay.h"

#include <stdlib.h>

#include "base/mem.h"

enum { NOT_YET = -1 };

struct run {
    const struct replay *of;
    int stages, micros;
    int *position;           /* of a stage */
    double *forward, *input; /* [stage, micro-batch]: when it ended, or NOT_YET */
    double *ahead, *back;   /* likewise: when the next stage, or the one before, has what it made */
    double *link[2];        /* per cut, ahead and back: when it is free */
    double *free_at, *busy; /* per position */
    double *first;          /* per position: begin of its first computation */
    int *next;              /* per position: index in its order */
    bool *added;            /* per stage: it has weight gradients to add to */
    int *ready, ready_count; /* positions to be run */
    bool *listed;            /* per position: is among them */
};

static double *not_yet(size_t count) {
    double *ended = MEM_ARRAY(double, count);
    for (size_t i = 0; i < count; i++) ended[i] = NOT_YET;
    return ended;
}

static size_t cell(const struct run *run, int stage, int micro) {
    return (size_t)stage * (size_t)run->micros + (size_t)micro;
}

static void wake(struct run *run, int position) {
    if (run->listed[position]) return;
    run->listed[position] = true;
    run->ready[run->ready_count++] = position;
}

static struct run run_new(const struct replay *of) {
    int positions = of->shape->positions;
    struct run run = {.of = of,
                      .stages = pipeline_stages(of->shape),
                      .micros = of->shape->micro_batches,
                      .free_at = MEM_ARRAY(double, positions),
                      .busy = MEM_ARRAY(double, positions),
                      .first = MEM_ARRAY(double, positions),
                      .next = MEM_ARRAY(int, positions),
                      .ready = MEM_ARRAY(int, positions),
                      .listed = MEM_ARRAY(bool, positions)};
    run.position = MEM_ARRAY(int, run.stages);
    for (int s = 0; s < run.stages; s++) run.position[s] = pipeline_position(of->shape, s);
    size_t cells = (size_t)run.stages * (size_t)run.micros;
    run.forward = not_yet(cells);
    run.input = not_yet(cells);
    run.ahead = not_yet(cells);
    run.back = not_yet(cells);
    for (int d = 0; d < 2; d++) run.link[d] = MEM_ARRAY(double, run.stages);
    run.added = MEM_ARRAY(bool, run.stages);
    for (int p = 0; of->start && p < positions; p++) run.free_at[p] = of->start[p];
    for (int p = positions - 1; p >= 0; p--) wake(&run, p);
    return run;
}

static void run_free(struct run *run) {
    void *const parts[] = {run->position, run->forward, run->input,   run->ahead, run->back,
                           run->link[0],  run->link[1], run->free_at, run->busy,  run->first,
                           run->next,     run->ready,   run->listed,  run->added};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) free(parts[i]);
}

double replay_message(const struct replay_costs *costs, int from, int to, double ready,
                      double *free_at) {
    int back = to < from, cut = back ? to : from;
    if (!costs->latency) return ready + costs->hop;
    if (*free_at > ready) ready = *free_at;
    *free_at = ready + costs->moving[back][cut];
    return *free_at + (back && costs->back_latency ? costs->back_latency : costs->latency)[cut];
}

/* When its neighbour `to` has what stage `from` made at `ended`. */
static double arrival(const struct run *run, double ended, int from, int to) {
    bool back = to < from;
    if (run->position[from] == run->position[to]) return ended;
    return replay_message(run->of->costs, from, to, ended, &run->link[back][back ? to : from]);
}

/* With one backward at a time: the first stage tells the last one to begin the next. */
static double word(const struct run *run, double ended) {
    bool crosses = run->position[0] != run->position[run->stages - 1];
    return ended >= 0 && crosses ? ended + run->of->costs->hop : ended;
}

static double later(double a, double b) {
    if (a < 0 || b < 0) return NOT_YET;
    return a > b ? a : b;
}

/* B and I wait for their own forward and for the gradient of their output. */
static double backward_ready(const struct run *run, int stage, int micro) {
    double ready = run->forward[cell(run, stage, micro)];
    if (stage + 1 < run->stages) return later(ready, run->back[cell(run, stage + 1, micro)]);
    if (run->of->one_backward_at_a_time && micro > 0)
        return later(ready, word(run, run->input[micro - 1]));
    return ready;
}

/* When all that a computation waits for is there, or NOT_YET. */
static double ready_at(const struct run *run, struct pipeline_op op) {
    if (op.op == INSTR_W) return run->input[cell(run, op.stage, op.micro)];
    if (op.op != INSTR_F) return backward_ready(run, op.stage, op.micro);
    double whole = run->of->whole ? run->of->whole[op.stage] : 0;
    if (op.stage == 0) return whole;
    return later(whole, run->ahead[cell(run, op.stage - 1, op.micro)]);
}

static double cost_of(const struct replay_costs *costs, struct pipeline_op op) {
    switch (op.op) {
    case INSTR_F: return costs->forward[op.stage];
    case INSTR_I: return costs->input[op.stage];
    case INSTR_W: return costs->weight[op.stage];
    default: return costs->input[op.stage] + costs->weight[op.stage];
    }
}

/* What runs right before it, whether it is ready or not. */
static double again_of(const struct run *run, struct pipeline_op op) {
    const struct replay_costs *costs = run->of->costs;
    bool keeps = costs->again_keeps_last && op.micro == run->micros - 1;
    if (!costs->again || keeps || op.op == INSTR_F || op.op == INSTR_W) return 0;
    return costs->again[op.stage];
}

static double add_of(struct run *run, struct pipeline_op op) {
    const double *add = run->of->costs->add;
    if (!add || op.op == INSTR_F || op.op == INSTR_I) return 0;
    double cost = run->added[op.stage] ? add[op.stage] : 0;
    run->added[op.stage] = true;
    return cost;
}

/* Marks it as ended and wakes whoever may wait for it. */
static void finish(struct run *run, struct pipeline_op op, double end) {
    if (op.op == INSTR_W) return;
    bool forward = op.op == INSTR_F;
    size_t at = cell(run, op.stage, op.micro);
    (forward ? run->forward : run->input)[at] = end;
    int waits = op.stage + (forward ? 1 : -1);
    if (waits >= 0 && waits < run->stages)
        (forward ? run->ahead : run->back)[at] = arrival(run, end, op.stage, waits);
    if (waits < 0) waits = run->stages - 1;
    if (waits < run->stages) wake(run, run->position[waits]);
}

static void run_position(struct run *run, int position) {
    const struct pipeline_order *order = &run->of->orders[position];
    for (int *next = &run->next[position]; *next < order->count; ++*next) {
        struct pipeline_op op = order->items[*next];
        double ready = ready_at(run, op);
        if (ready < 0) return;
        double again = again_of(run, op), cost = cost_of(run->of->costs, op) + add_of(run, op),
               begin = later(ready, run->free_at[position] + again);
        if (run->of->begin) run->of->begin[position][*next] = begin;
        if (run->of->late && (op.op == INSTR_B || op.op == INSTR_W))
            run->of->late[op.stage] = begin;
        if (*next == 0) run->first[position] = begin;
        run->busy[position] += again + cost;
        run->free_at[position] = begin + cost;
        finish(run, op, begin + cost);
    }
}

static struct replay_times times_of(const struct run *run) {
    double busy = 0, total = 0, span = 0;
    int positions = run->of->shape->positions;
    for (int p = 0; p < positions; p++) {
        double own = run->free_at[p] - run->first[p];
        busy += run->busy[p];
        if (run->free_at[p] > total) total = run->free_at[p];
        if (own > span) span = own;
    }
    return (struct replay_times){.total = total,
                                 .bubble = total > 0 ? 1 - busy / (positions * total) : 0,
                                 .span_bubble = span > 0 ? 1 - busy / (positions * span) : 0};
}

bool replay_run(const struct replay *replay, struct replay_times *times, struct replay_stop *stop) {
    SCOPED(run_free) struct run run = run_new(replay);
    while (run.ready_count > 0) {
        int position = run.ready[--run.ready_count];
        run.listed[position] = false;
        run_position(&run, position);
    }
    int stuck = 0;
    while (stuck < replay->shape->positions && run.next[stuck] == replay->orders[stuck].count)
        stuck++;
    bool done = stuck == replay->shape->positions;
    for (int p = 0; replay->ended && p < replay->shape->positions; p++)
        replay->ended[p] = run.free_at[p];
    if (done && times) *times = times_of(&run);
    if (!done && stop) *stop = (struct replay_stop){stuck, run.next[stuck]};
    return done;
}

/* --- memory --- */

static int64_t change(struct pipeline_op op, const struct replay_bytes *bytes) {
    int64_t forward = bytes->forward[op.stage], input = bytes->input[op.stage];
    switch (op.op) {
    case INSTR_F: return forward;
    case INSTR_I: return input - forward;
    case INSTR_W: return -input;
    default: return -forward;
    }
}

int64_t replay_peak_bytes(const struct pipeline_order *order, const struct replay_bytes *bytes) {
    int64_t live = 0, peak = 0;
    for (int i = 0; i < order->count; i++) {
        live += change(order->items[i], bytes);
        if (live > peak) peak = live;
    }
    return peak;
}
