/* Bounds by the order of a schedule: its computations one behind the other, before there is a
 * program, and what comes behind them: sums, the norm, the update, and parameters that are
 * gathered. Several steps, as the simulator runs them, and the last one counts. See bound.h. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "planner/bound.h"
#include "program/pipeline.h"
#include "program/replay.h"
#include "sim/forecast.h"

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* --- what a replay is told --- */

/* Of a lane. Arrays of one block. */
struct order_costs {
    double *block;
    double *forward, *input, *weight, *again, *add, *latency, *back_latency, *moving[2];
    double *start, *whole, *ended, *late;
};

static bool is_at_once(const struct pipeline_order *order) {
    for (int i = 0; i < order->count; i += 2) {
        const struct pipeline_op *op = &order->items[i], *next = op + 1;
        if (op->op != INSTR_F || i + 1 == order->count || next->op != INSTR_B ||
            next->stage != op->stage || next->micro != op->micro)
            return false;
    }
    return true;
}

static void divide(struct order_costs *out, int count) {
    double **const parts[] = {&out->forward, &out->input,        &out->weight,    &out->again,
                              &out->add,     &out->latency,      &out->moving[0], &out->moving[1],
                              &out->start,   &out->back_latency, &out->whole,     &out->ended,
                              &out->late};
    enum { PARTS = sizeof parts / sizeof *parts };
    out->block = MEM_ARRAY(double, PARTS *count);
    for (int i = 0; i < PARTS; i++) *parts[i] = out->block + i * count;
}

/* Where each backward of a position follows its forward nothing is run again, but by block: as
 * program/emit.c decides. */
static struct order_costs order_costs_new(const struct planner_lane *lane,
                                          const struct pipeline_order *orders) {
    const struct planner_choice *choice = &lane->frame->choice;
    struct order_costs costs;
    divide(&costs, lane->count);
    for (int s = 0; s < lane->count; s++) {
        const struct planner_times *stage = &lane->stage[s];
        bool keeps =
            choice->recompute != RECOMPUTE_ALWAYS_BLOCK && is_at_once(&orders[lane->position[s]]);
        costs.forward[s] = stage->forward;
        costs.input[s] = stage->input;
        costs.weight[s] = stage->weight;
        costs.add[s] = stage->add;
        costs.again[s] = keeps ? 0 : stage->once_more;
        costs.latency[s] = stage->latency[0];
        costs.back_latency[s] = stage->latency[1];
        for (int d = 0; d < 2; d++) costs.moving[d][s] = stage->moving[d];
    }
    return costs;
}

/* --- steps --- */

/* When the parts of a step end, from when they may begin. */
struct step {
    double passes; /* of all ranks, that know of one another */
    double ended;  /* of the last rank */
};

static bool replay_step(const struct planner_lane *lane, const struct order_costs *costs,
                        const struct pipeline_order *orders) {
    const struct planner_frame *frame = lane->frame;
    enum recompute_policy policy = (enum recompute_policy)frame->choice.recompute;
    struct pipeline_shape shape = {.positions = frame->grid.stages,
                                   .chunks = frame->grid.chunks,
                                   .v_shape = frame->grid.v_shape,
                                   .micro_batches = frame->choice.micro_batches};
    struct replay_costs times = {.forward = costs->forward,
                                 .input = costs->input,
                                 .weight = costs->weight,
                                 .again = policy == RECOMPUTE_NEVER ? NULL : costs->again,
                                 .again_keeps_last = recompute_keeps_last(policy),
                                 .latency = costs->latency,
                                 .back_latency = costs->back_latency,
                                 .moving = {costs->moving[0], costs->moving[1]},
                                 .add = costs->add};
    struct replay replay = {.shape = &shape,
                            .orders = orders,
                            .costs = &times,
                            .start = costs->start,
                            .whole = costs->whole,
                            .ended = costs->ended,
                            .late = costs->late};
    return replay_run(&replay, NULL, NULL);
}

/* Sums, the norm, the update: `ended` becomes the end of the positions' updates. */
static struct step end_step(const struct planner_lane *lane, struct order_costs *costs) {
    const struct planner_frame *frame = lane->frame;
    double joined = planner_lane_joined(lane, costs->late), norm = 0;
    struct step step = {0};
    for (int p = 0; p < frame->grid.stages; p++) {
        double ended = costs->ended[p];
        if (planner_lane_shares(lane, p)) ended = larger(ended, joined);
        step.passes = larger(step.passes, ended + lane->exchange);
        costs->ended[p] = planner_lane_summed(lane, p, costs->late, ended, joined) + lane->norm[p];
        norm = larger(norm, costs->ended[p] + lane->meeting);
    }
    for (int p = 0; p < frame->grid.stages; p++) {
        costs->ended[p] = (frame->clips ? norm : costs->ended[p]) + lane->update[p];
        step.ended = larger(step.ended, larger(step.passes, costs->ended[p]));
    }
    return step;
}

/* What the next step awaits: the end of this one, and parameters that are gathered. */
static void begin_step(const struct planner_lane *lane, const struct step *step,
                       struct order_costs *costs) {
    const struct grid *grid = &lane->frame->grid;
    for (int p = 0; p < grid->stages; p++) {
        double gathered = 0;
        costs->start[p] = larger(step->passes, costs->ended[p]);
        for (int c = 0; c < grid->chunks; c++) {
            int stage = grid_stage(grid, p, c);
            gathered += lane->stage[stage].awaited;
            costs->whole[stage] = costs->ended[p] + planner_lane_gathered(lane, stage, gathered);
        }
    }
}

/* Of the last of so many steps. */
static double steps_ns(const struct planner_lane *lane, const struct pipeline_order *orders) {
    struct order_costs costs = order_costs_new(lane, orders);
    struct step step = {0};
    double ns = 0;
    for (int k = 0; k < FORECAST_STEPS; k++) {
        double before = step.ended;
        if (!replay_step(lane, &costs, orders)) break;
        step = end_step(lane, &costs);
        ns = step.ended - before;
        begin_step(lane, &step, &costs);
    }
    free(costs.block);
    return ns;
}

/* All that the groups of a position do, one behind the other: ZeRO-3 gathers for each pass, in this
 * order. */
static double groups_ns(const struct planner_lane *lane, const struct pipeline_order *orders,
                        int position) {
    const struct grid *grid = &lane->frame->grid;
    const struct pipeline_order *order = &orders[position];
    double ns = 0;
    for (int c = 0; c < grid->chunks; c++) {
        const struct planner_times *stage = &lane->stage[grid_stage(grid, position, c)];
        ns += stage->sum + stage->gather + (stage->pass > 0 ? 0 : stage->more);
    }
    for (int i = 0, before = -1; i < order->count; i++) {
        const struct pipeline_op *op = &order->items[i];
        const struct planner_times *stage = &lane->stage[op->stage];
        if (op->op == INSTR_W || op->op == INSTR_LOAD) continue;
        ns += op->stage == before ? stage->again : stage->pass;
        before = op->stage;
    }
    return ns;
}

/* --- memory --- */

static int64_t most_kept(const struct planner_frame *frame, const struct pipeline_order *orders) {
    int64_t most = 0, count = frame->split->count, *kept = MEM_ARRAY(int64_t, 2 * count);
    for (int64_t s = 0; s < count; s++) kept[s] = (int64_t)frame->split->kept_bytes[s];
    struct replay_bytes bytes = {.forward = kept, .input = kept + count};
    for (int p = 0; p < frame->grid.stages; p++) {
        int64_t peak = replay_peak_bytes(&orders[p], &bytes);
        if (peak > most) most = peak;
    }
    free(kept);
    return most;
}

/* --- the whole --- */

static void bound_by(struct planner_bounds *bounds, const struct planner_frame *frame,
                     const struct pipeline_order *orders, struct planner_row *row) {
    row->step_ns = larger(row->step_ns, steps_ns(&bounds->worst, orders));
    for (int p = 0; p < frame->grid.stages; p++)
        row->step_ns = larger(row->step_ns, groups_ns(&bounds->worst, orders, p));
    if (frame->choice.recompute != RECOMPUTE_NEVER) return;
    int64_t bytes = planner_bytes_with(frame, most_kept(frame, orders));
    if (bytes > row->peak_bytes) row->peak_bytes = bytes;
}

enum status planner_bound_order(struct planner_bounds *bounds, const struct planner_auto *chosen,
                                struct planner_row *row) {
    struct planner_choice choice = row->choice;
    struct planner_frame frame;
    bool known = chosen || choice.schedule >= 0;
    if (!known || planner_overlaps(&choice) || bounds->base->frozen) return STATUS_OK;
    if (chosen) choice.chunks = (int16_t)chosen->choice.row[0].chunks;
    TRY(planner_frame_of(bounds, &choice, chosen && chosen->choice.row[0].v_shape, &frame));
    row->step_ns = larger(row->step_ns, planner_frame_ns(bounds, &frame));
    if (chosen) {
        bound_by(bounds, &frame, chosen->choice.orders, row);
        return STATUS_OK;
    }
    struct pipeline_shape shape = {.positions = choice.stages,
                                   .chunks = choice.chunks,
                                   .v_shape = frame.grid.v_shape,
                                   .micro_batches = choice.micro_batches};
    struct pipeline_order *orders = pipeline_orders_build(pipeline_at(choice.schedule), &shape);
    bound_by(bounds, &frame, orders, row);
    pipeline_orders_free(&orders, choice.stages);
    return STATUS_OK;
}
