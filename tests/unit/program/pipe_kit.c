/* See pipe_kit.h. */
#include "pipe_kit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct pipe pipe_new(const char *name, int positions, int chunks, int micros) {
    const struct pipeline_schedule *schedule = pipeline_find(name);
    cr_assert(schedule, "no schedule %s", name);
    struct pipe pipe = {.schedule = schedule,
                        .shape = {.positions = positions,
                                  .chunks = chunks ? chunks : schedule->chunks,
                                  .v_shape = schedule->v_shape,
                                  .micro_batches = micros}};
    pipe.orders = pipeline_orders_build(schedule, &pipe.shape);
    return pipe;
}

void pipe_free(struct pipe *pipe) {
    pipeline_orders_free(&pipe->orders, pipe->shape.positions);
}

char *pipe_text(const struct pipe *pipe, int position) {
    const struct pipeline_order *order = &pipe->orders[position];
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    for (int i = 0; i < order->count; i++) {
        struct pipeline_op op = order->items[i];
        if (i) fputc(' ', out);
        if (pipe->shape.chunks > 1) fprintf(out, "%d", op.stage);
        fprintf(out, "%s%d", instr_rows[op.op].name, op.micro);
    }
    fclose(out);
    return text;
}

void pipe_fail(const struct pipe *pipe, int position, const char *what) {
    char *text = pipe_text(pipe, position);
    cr_expect_fail("%s, position %d of %d, %d chunks, %d micro-batches: %s\n%s",
                   pipe->schedule ? pipe->schedule->name : "auto", position, pipe->shape.positions,
                   pipe->shape.chunks, pipe->shape.micro_batches, what, text);
    free(text);
}

/* Next micro-batch of each computation of a stage. */
struct progress {
    int forwards, inputs, weights;
};

static const char *complaint(struct progress *stage, struct pipeline_op op) {
    bool whole = op.op == INSTR_B;
    if (op.op == INSTR_F && op.micro != stage->forwards++) return "F out of order";
    if ((op.op == INSTR_I || whole) && op.micro != stage->inputs++) return "I out of order";
    if ((op.op == INSTR_W || whole) && op.micro != stage->weights++) return "W out of order";
    bool late = stage->inputs <= stage->forwards && stage->weights <= stage->inputs;
    return late ? NULL : "backward before forward, or W before I";
}

void pipe_expect_complete(const struct pipe *pipe) {
    int stages = pipeline_stages(&pipe->shape), micros = pipe->shape.micro_batches;
    struct progress *progress = MEM_ARRAY(struct progress, stages);
    for (int p = 0; p < pipe->shape.positions; p++) {
        for (int i = 0; i < pipe->orders[p].count; i++) {
            struct pipeline_op op = pipe->orders[p].items[i];
            const char *what = complaint(&progress[op.stage], op);
            if (what) pipe_fail(pipe, p, what);
            if (pipeline_position(&pipe->shape, op.stage) != p)
                pipe_fail(pipe, p, "a stage of another position");
        }
    }
    for (int s = 0; s < stages; s++) {
        struct progress of = progress[s];
        if (of.forwards != micros || of.inputs != micros || of.weights != micros)
            pipe_fail(pipe, pipeline_position(&pipe->shape, s), "not complete");
    }
    free(progress);
}

struct replay_times pipe_times(const struct pipe *pipe, struct pipe_costs costs) {
    int stages = pipeline_stages(&pipe->shape);
    double *time = MEM_ARRAY(double, 3 * stages);
    for (int s = 0; s < stages; s++) {
        time[s] = costs.f;
        time[stages + s] = costs.i;
        time[2 * stages + s] = costs.w;
    }
    struct replay_costs per_stage = {
        .forward = time, .input = time + stages, .weight = time + 2 * stages, .hop = costs.hop};
    struct replay replay = {.shape = &pipe->shape,
                            .orders = pipe->orders,
                            .costs = &per_stage,
                            .one_backward_at_a_time = pipe->schedule->one_backward_at_a_time};
    struct replay_times times;
    struct replay_stop stop = {-1, -1};
    cr_assert(replay_run(&replay, &times, &stop),
              "%s, %d positions, %d micro-batches: %d waits at %d", pipe->schedule->name,
              pipe->shape.positions, pipe->shape.micro_batches, stop.position, stop.index);
    free(time);
    return times;
}

int pipe_peak_at(const struct pipe *pipe, int position) {
    const struct pipeline_order *order = &pipe->orders[position];
    int live = 0, peak = 0;
    for (int i = 0; i < order->count; i++) {
        uint8_t op = order->items[i].op;
        live += (op == INSTR_F) - (op == INSTR_B || op == INSTR_W);
        if (live > peak) peak = live;
    }
    return peak;
}

double pipe_peak(const struct pipe *pipe) {
    int most = 0;
    for (int p = 0; p < pipe->shape.positions; p++) {
        int own = pipe_peak_at(pipe, p);
        if (own > most) most = own;
    }
    return (double)most / pipe->shape.chunks;
}

static void every_micros(const struct pipeline_schedule *schedule, int positions, int chunks,
                         void (*check)(const struct pipe *pipe)) {
    for (int micros = 1; micros <= 20; micros++) {
        struct pipe pipe = pipe_new(schedule->name, positions, chunks, micros);
        check(&pipe);
        pipe_free(&pipe);
    }
}

void pipe_every(void (*check)(const struct pipe *pipe)) {
    for (int i = 0; i < pipeline_count(); i++) {
        const struct pipeline_schedule *schedule = pipeline_at(i);
        if (schedule->older) continue; /* steps overlap: see test_ahead.c */
        for (int chunks = 1; chunks <= 3; chunks++) {
            struct pipeline_shape shape = {.chunks = chunks, .v_shape = schedule->v_shape};
            if (!pipeline_takes(schedule, &shape)) continue;
            for (int positions = 1; positions <= 8; positions++)
                every_micros(schedule, positions, chunks, check);
        }
    }
}

/* --- messages with credits --- */

enum { MOST_POSITIONS = 8, MOST_STAGES = 24, MOST_MICROS = 20, MOST_SLOTS = 64 };

/* Messages of a cut in one direction, in the order their sender makes them. */
struct wire {
    int micro[MOST_MICROS];
    int made, sent, used;
};

struct world {
    const struct pipe *pipe;
    int credits, stages;
    struct wire wire[2][MOST_STAGES]; /* forward from a stage; backward from a stage */
    bool done[INSTR_COUNT_][MOST_STAGES][MOST_MICROS];
    int next[MOST_POSITIONS];
    /* Static slots: taken at F, free again at B or W; who had it last. */
    int slot[MOST_STAGES][MOST_MICROS], last[MOST_STAGES][MOST_MICROS];
};

static bool crosses(const struct world *world, int from, int to) {
    const struct pipeline_shape *shape = &world->pipe->shape;
    return to >= 0 && to < world->stages &&
           pipeline_position(shape, from) != pipeline_position(shape, to);
}

/* Gives every F of a position the lowest free slot, as a plan does, and notes which (stage,
 * micro-batch) had it before (-1: nobody). */
static void plan_slots(struct world *world, const struct pipeline_order *order) {
    bool taken[MOST_SLOTS] = {false};
    int had[MOST_SLOTS];
    for (int a = 0; a < MOST_SLOTS; a++) had[a] = -1;
    for (int i = 0; i < order->count; i++) {
        struct pipeline_op op = order->items[i];
        int a = 0;
        if (op.op == INSTR_F) {
            while (taken[a]) a++;
            cr_assert_lt(a, MOST_SLOTS);
            taken[a] = true;
            world->slot[op.stage][op.micro] = a;
            world->last[op.stage][op.micro] = had[a];
            had[a] = op.stage * MOST_MICROS + op.micro;
        } else if (op.op != INSTR_I) {
            taken[world->slot[op.stage][op.micro]] = false;
        }
    }
}

static bool has_left(const struct world *world, int way, int stage, int micro) {
    const struct wire *wire = &world->wire[way][stage];
    for (int i = 0; i < wire->sent; i++)
        if (wire->micro[i] == micro) return true;
    return false;
}

static bool slot_is_free(const struct world *world, int stage, int micro) {
    int last = world->last[stage][micro];
    if (last < 0) return true;
    int stage_before = last / MOST_MICROS, micro_before = last % MOST_MICROS;
    return !crosses(world, stage_before, stage_before - 1) ||
           has_left(world, 1, stage_before, micro_before);
}

static bool input_there(const struct world *world, int way, int from, int to, int micro) {
    if (from < 0 || from >= world->stages) return true;
    if (crosses(world, from, to)) return has_left(world, way, from, micro);
    return world->done[way ? INSTR_I : INSTR_F][from][micro];
}

static bool can_begin(const struct world *world, struct pipeline_op op) {
    int s = op.stage, m = op.micro;
    if (op.op == INSTR_W) return world->done[INSTR_I][s][m];
    if (op.op == INSTR_F) return input_there(world, 0, s - 1, s, m) && slot_is_free(world, s, m);
    return world->done[INSTR_F][s][m] && input_there(world, 1, s + 1, s, m);
}

static void take_message(struct world *world, int way, int from, int to, int micro) {
    if (from < 0 || from >= world->stages || !crosses(world, from, to)) return;
    struct wire *wire = &world->wire[way][from];
    cr_assert_eq(wire->micro[wire->used], micro, "messages are taken in the order of their sender");
    wire->used++;
}

static void perform(struct world *world, struct pipeline_op op) {
    int s = op.stage, way = op.op != INSTR_F, step = way ? -1 : 1;
    if (op.op == INSTR_W) return;
    take_message(world, way, s - step, s, op.micro);
    world->done[way ? INSTR_I : INSTR_F][s][op.micro] = true;
    if (!crosses(world, s, s + step)) return;
    struct wire *wire = &world->wire[way][s];
    wire->micro[wire->made++] = op.micro;
}

static bool send_what_has_credit(struct world *world) {
    bool moved = false;
    for (int way = 0; way < 2; way++) {
        for (int s = 0; s < world->stages; s++) {
            struct wire *wire = &world->wire[way][s];
            for (; wire->sent < wire->made && wire->sent - wire->used < world->credits;
                 moved = true)
                wire->sent++;
        }
    }
    return moved;
}

static bool run_positions(struct world *world) {
    bool moved = false;
    for (int p = 0; p < world->pipe->shape.positions; p++) {
        const struct pipeline_order *order = &world->pipe->orders[p];
        int *next = &world->next[p];
        for (; *next < order->count && can_begin(world, order->items[*next]); moved = true)
            perform(world, order->items[(*next)++]);
    }
    return moved;
}

bool pipe_runs_with_credits(const struct pipe *pipe, int credits) {
    struct world *world = MEM_NEW(struct world);
    *world =
        (struct world){.pipe = pipe, .credits = credits, .stages = pipeline_stages(&pipe->shape)};
    for (int p = 0; p < pipe->shape.positions; p++) plan_slots(world, &pipe->orders[p]);
    for (bool moved = true; moved;) {
        moved = run_positions(world);
        moved |= send_what_has_credit(world);
    }
    bool all = true;
    for (int p = 0; p < pipe->shape.positions; p++) all &= world->next[p] == pipe->orders[p].count;
    free(world);
    return all;
}
