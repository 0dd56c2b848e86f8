/* Bounds by the order of a schedule: what its computations take one behind the other, before there
 * is a program. See bound.h. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "planner/judged.h"
#include "program/replay.h"

static double larger(double a, double b) {
    return a > b ? a : b;
}

static int64_t larger_bytes(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* With all additions of gradients but those of the first micro-batch, which there are none of: on
 * no way through the step are more of them than there are stages. */
struct order_costs {
    double *forward, *input, *weight, *latency, *moving[2];
    double *again;
    int64_t *kept, *none;
    double adds;
};

static void order_costs_free(struct order_costs *costs) {
    void *const parts[] = {costs->forward,   costs->input, costs->weight,
                           costs->latency,   costs->kept,  costs->moving[0],
                           costs->moving[1], costs->none,  costs->again};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
}

static struct cost_link link_between(const struct planner_judged *judged, int from, int to) {
    const struct grid *grid = &judged->grid;
    struct cost_link slowest = {0};
    for (int r = 0; from != to && r < grid->replicas; r++)
        slowest = cost_slower_link(slowest, cost_link(&judged->net,
                                                      group_rank(grid, GROUP_PIPELINE, r, from),
                                                      group_rank(grid, GROUP_PIPELINE, r, to)));
    return slowest;
}

static void cost_cut(const struct planner_judged *judged, const struct planner_position *at,
                     int cut, struct order_costs *out) {
    int from = grid_position(&judged->grid, cut), to = grid_position(&judged->grid, cut + 1);
    const struct crossing *crossing = judged->split->partition.chunks[cut].crossing;
    if (from == to) return;
    if (judged->net.cluster) {
        struct cost_link ahead = link_between(judged, from, to),
                         back = link_between(judged, to, from);
        out->latency[cut] = ahead.latency < back.latency ? ahead.latency : back.latency;
        out->moving[0][cut] = cost_moving(ahead, (double)crossing[PHASE_FORWARD].bytes);
        out->moving[1][cut] = cost_moving(back, (double)crossing[PHASE_BACKWARD].bytes);
        return;
    }
    for (int side = cut; side <= cut + 1; side++) {
        int threads = judged->bounds->input->threads;
        out->forward[side] += cost_copy_ns(&judged->costs, &at[from].on, threads,
                                           (double)crossing[PHASE_FORWARD].bytes);
        out->input[side] += cost_copy_ns(&judged->costs, &at[from].on, threads,
                                         (double)crossing[PHASE_BACKWARD].bytes);
    }
}

static void cost_order(const struct planner_judged *judged, const struct planner_position *at,
                       struct order_costs *out) {
    int count = judged->split->count, threads = judged->bounds->input->threads;
    *out = (struct order_costs){.forward = MEM_ARRAY(double, count),
                                .input = MEM_ARRAY(double, count),
                                .weight = MEM_ARRAY(double, count),
                                .latency = MEM_ARRAY(double, count),
                                .moving = {MEM_ARRAY(double, count), MEM_ARRAY(double, count)},
                                .again = MEM_ARRAY(double, count),
                                .kept = MEM_ARRAY(int64_t, count),
                                .none = MEM_ARRAY(int64_t, count)};
    for (int s = 0; s < count; s++) {
        const struct planner_position *here = &at[grid_position(&judged->grid, s)];
        double add = cost_add_ns(&judged->costs, &here->on, threads,
                                 (double)judged->split->param_bytes[s], true);
        if (judged->choice->micro_batches == 1) add = 0;
        out->forward[s] = planner_stage_ns(here, judged->split->forward, s) * judged->crowd;
        out->again[s] = out->forward[s];
        out->input[s] = planner_stage_ns(here, judged->split->input, s) * judged->crowd;
        out->weight[s] = planner_stage_ns(here, judged->split->weight, s) * judged->crowd + add;
        out->kept[s] = (int64_t)judged->split->kept_bytes[s];
        out->adds += add;
    }
    for (int s = 0; s + 1 < count; s++) cost_cut(judged, at, s, out);
}

static int64_t most_kept(const struct pipeline_order *orders, const struct order_costs *costs,
                         int positions) {
    struct replay_bytes bytes = {.forward = costs->kept, .input = costs->none};
    int64_t most = 0;
    for (int p = 0; p < positions; p++) {
        int64_t peak = replay_peak_bytes(&orders[p], &bytes);
        if (peak > most) most = peak;
    }
    return most;
}

static double cost_of_op(const struct order_costs *costs, struct pipeline_op op) {
    if (op.op == INSTR_F) return costs->forward[op.stage];
    double input = op.op == INSTR_W ? 0 : costs->input[op.stage];
    return input + (op.op == INSTR_I ? 0 : costs->weight[op.stage]);
}

/* Gradients of a stage are summed over replicas from there on. */
static void note_late(const struct pipeline_order *order, const double *begin, double adds,
                      struct planner_ordered *out) {
    for (int i = 0; i < order->count; i++)
        if (order->items[i].op == INSTR_B || order->items[i].op == INSTR_W)
            out->late_ns[order->items[i].stage] = begin[i] - adds;
}

static void replay_order(const struct planner_judged *judged, const struct order_costs *costs,
                         const struct pipeline_order *orders, struct planner_ordered *out) {
    const struct planner_choice *choice = judged->choice;
    struct pipeline_shape shape = {.positions = choice->stages,
                                   .chunks = judged->grid.chunks,
                                   .v_shape = judged->grid.v_shape,
                                   .micro_batches = choice->micro_batches};
    struct replay_costs times = {.forward = costs->forward,
                                 .input = costs->input,
                                 .weight = costs->weight,
                                 .hop = judged->net.link.latency,
                                 .again = planner_run_again(choice) > 0 ? costs->again : NULL,
                                 .again_keeps_last =
                                     recompute_keeps_last((enum recompute_policy)choice->recompute),
                                 .latency = judged->net.cluster ? costs->latency : NULL,
                                 .moving = {costs->moving[0], costs->moving[1]}};
    out->late_ns = MEM_ARRAY(double, judged->split->count);
    double **begin = MEM_ARRAY(double *, shape.positions);
    for (int p = 0; p < shape.positions; p++) begin[p] = MEM_ARRAY(double, orders[p].count + 1);
    struct replay replay = {.shape = &shape, .orders = orders, .costs = &times, .begin = begin};
    struct replay_times found = {0};
    if (replay_run(&replay, &found, NULL)) {
        const struct pipeline_order *first = &orders[0];
        struct pipeline_op last = first->items[first->count - 1];
        out->total_ns = found.total - costs->adds;
        out->first_ns = begin[0][first->count - 1] + cost_of_op(costs, last) - costs->adds;
        for (int p = 0; p < shape.positions; p++) note_late(&orders[p], begin[p], costs->adds, out);
    }
    out->kept_bytes = most_kept(orders, costs, shape.positions);
    for (int p = 0; p < shape.positions; p++) free(begin[p]);
    free(begin);
}

/* As program/emit.c decides: each backward follows its forward. */
static bool is_at_once(const struct pipeline_order *order) {
    for (int i = 0; i < order->count; i += 2) {
        const struct pipeline_op *op = &order->items[i], *next = op + 1;
        if (op->op != INSTR_F || i + 1 == order->count || next->op != INSTR_B ||
            next->stage != op->stage || next->micro != op->micro)
            return false;
    }
    return true;
}

/* There nothing is run again, but by block. */
static void leave_out(const struct planner_judged *judged, const struct pipeline_order *orders,
                      struct order_costs *costs) {
    for (int s = 0; s < judged->split->count; s++)
        if (is_at_once(&orders[grid_position(&judged->grid, s)]) &&
            judged->choice->recompute != RECOMPUTE_ALWAYS_BLOCK)
            costs->again[s] = 0;
}

/* In the order of its schedule, or in the one that auto chose. */
static void replay_choice(const struct planner_judged *judged, struct order_costs *costs,
                          const struct planner_auto *chosen, struct planner_ordered *out) {
    const struct planner_choice *choice = judged->choice;
    struct pipeline_shape shape = {.positions = choice->stages,
                                   .chunks = judged->grid.chunks,
                                   .v_shape = judged->grid.v_shape,
                                   .micro_batches = choice->micro_batches};
    if (chosen) {
        leave_out(judged, chosen->choice.orders, costs);
        replay_order(judged, costs, chosen->choice.orders, out);
        return;
    }
    struct pipeline_order *orders = pipeline_orders_build(pipeline_at(choice->schedule), &shape);
    leave_out(judged, orders, costs);
    replay_order(judged, costs, orders, out);
    pipeline_orders_free(&orders, shape.positions);
}

/* ZeRO leaves times as they are; and so do replicas, where ranks are alike. */
static const struct planner_ordered *find_order(struct planner_bounds *bounds,
                                                const struct planner_judged *judged,
                                                const struct planner_auto *chosen) {
    const struct planner_choice *choice = judged->choice;
    bool alike = !judged->net.cluster && judged->crowd == 1;
    struct planner_order_key key = {.split = judged->split,
                                    .schedule = choice->schedule,
                                    .stages = choice->stages,
                                    .micro_batches = choice->micro_batches,
                                    .replicas = alike ? 0 : choice->replicas,
                                    .again = (int)planner_run_again(choice),
                                    .block = choice->recompute == RECOMPUTE_ALWAYS_BLOCK};
    for (int i = 0; i < bounds->ordered_count; i++) {
        const struct planner_order_key *one = &bounds->ordered[i].key;
        if (one->split == key.split && one->schedule == key.schedule && one->stages == key.stages &&
            one->micro_batches == key.micro_batches && one->replicas == key.replicas &&
            one->again == key.again && one->block == key.block)
            return &bounds->ordered[i];
    }
    struct planner_ordered made = {.key = key};
    struct planner_position *at = planner_positions(judged);
    struct order_costs costs;
    cost_order(judged, at, &costs);
    replay_choice(judged, &costs, chosen, &made);
    order_costs_free(&costs);
    planner_positions_free(at, judged->grid.stages);
    bounds->ordered = mem_grow(bounds->ordered, &bounds->ordered_capacity,
                               (size_t)bounds->ordered_count + 1, sizeof *bounds->ordered);
    bounds->ordered[bounds->ordered_count] = made;
    return &bounds->ordered[bounds->ordered_count++];
}

/* Without the update: when all is there that it waits for. */
static double ordered_ns(const struct planner_judged *judged,
                         const struct planner_ordered *ordered) {
    const struct planner_choice *choice = judged->choice;
    bool clips = plan_clips(judged->bounds->base),
         scatters = strcmp(judged->bounds->input->options->zero_accumulate, "scatter") == 0;
    double ns = clips ? ordered->total_ns : ordered->first_ns;
    for (int s = 0; s < judged->split->count && choice->replicas > 1; s++) {
        int position = grid_position(&judged->grid, s);
        if ((!clips && position > 0) || (choice->zero_stage >= 2 && scatters)) continue;
        double comm =
            planner_comm_ns(judged, position, (int64_t)judged->split->param_bytes[s], false);
        ns = larger(ns, ordered->late_ns[s] + comm);
    }
    return ns;
}

/* The update of the first position comes before its next forward; a norm of all gradients makes it
 * wait for all others before. */
enum status planner_bound_order(struct planner_bounds *bounds, const struct planner_auto *chosen,
                                struct planner_row *row) {
    struct planner_choice choice = row->choice;
    struct planner_judged judged;
    if ((choice.schedule < 0 && !chosen) || planner_overlaps(&choice)) return STATUS_OK;
    if (chosen) choice.chunks = (int16_t)chosen->choice.row[0].chunks;
    TRY(planner_judge(bounds, &choice, &judged));
    if (chosen) judged.grid.v_shape = chosen->choice.row[0].v_shape;
    const struct planner_ordered *ordered = find_order(bounds, &judged, chosen);
    struct planner_position *at = planner_positions(&judged);
    double ns = ordered_ns(&judged, ordered) + planner_update_ns(&judged, &at[0], 0);
    planner_positions_free(at, judged.grid.stages);
    if (PLANNER_MARGIN * ns > row->step_ns) row->step_ns = PLANNER_MARGIN * ns;
    if (choice.recompute == RECOMPUTE_NEVER && ordered->kept_bytes > 0)
        row->peak_bytes =
            larger_bytes(row->peak_bytes, planner_bytes_with(&judged, ordered->kept_bytes));
    return STATUS_OK;
}
