/* See bound.h. */
#include "planner/bound.h"

#include <stdlib.h>
#include <string.h>

#include "plan/state_layout.h"
#include "program/replay.h"

void planner_bounds_new(const struct planner_input *input, const struct run_config *base,
                        struct plan_pool *pool, struct planner_bounds *out) {
    *out = (struct planner_bounds){.input = input,
                                   .base = base,
                                   .pool = pool,
                                   .costs = *input->costs,
                                   .classes = cost_class_count(input->costs)};
    out->costs.crowd = 0;
}

static void split_free(struct planner_split *split) {
    free(split->forward);
    free(split->input);
    free(split->weight);
    free(split->kept_bytes);
    free(split->param_bytes);
    free(split->largest_bytes);
    free(split);
}

void planner_bounds_free(struct planner_bounds *bounds) {
    for (int g = 0; g < bounds->graph_count; g++) cost_table_free(&bounds->graph[g].table);
    for (int s = 0; s < bounds->split_count; s++) split_free(bounds->split[s]);
    free(bounds->graph);
    free(bounds->split);
    for (int i = 0; i < bounds->ordered_count; i++) free(bounds->ordered[i].late_ns);
    free(bounds->ordered);
    *bounds = (struct planner_bounds){0};
}

/* --- graphs --- */

static double whole_ns(const struct planner_graph *graph, int class, int nodes) {
    struct cost_device device = {class, 1};
    struct cost_devices on = {.item = &device, .count = 1, .in_step = true};
    double sum = 0;
    for (int n = 0; n < nodes; n++) sum += cost_node_ns(&graph->table, &on, n);
    return sum;
}

static enum status find_graph(struct planner_bounds *bounds, int64_t samples, int *out) {
    for (*out = 0; *out < bounds->graph_count; (*out)++)
        if (bounds->graph[*out].samples == samples) return STATUS_OK;
    struct planner_graph graph = {.samples = samples};
    TRY(plan_pool_graph(bounds->pool, bounds->base, samples, &graph.graph));
    cost_table_new(&bounds->costs, graph.graph, &graph.table);
    for (int c = 0; c < bounds->classes; c++) {
        double ns = whole_ns(&graph, c, graph.graph->node_count),
               forward = whole_ns(&graph, c, graph.graph->forward_count);
        if (c == 0 || ns < graph.least_ns) graph.least_ns = ns;
        if (c == 0 || forward < graph.least_forward_ns) graph.least_forward_ns = forward;
    }
    bounds->graph = mem_grow(bounds->graph, &bounds->graph_capacity,
                             (size_t)bounds->graph_count + 1, sizeof *bounds->graph);
    bounds->graph[bounds->graph_count++] = graph;
    return STATUS_OK;
}

static int64_t samples_of(const struct planner_bounds *bounds,
                          const struct planner_choice *choice) {
    return bounds->input->options->batch / choice->replicas / choice->micro_batches;
}

/* --- splits --- */

static void time_split(const struct planner_bounds *bounds, struct planner_split *split,
                       const struct ranges *ranges) {
    const struct cost_table *table = &bounds->graph[split->graph].table;
    size_t times = (size_t)bounds->classes * (size_t)split->count;
    split->forward = MEM_ARRAY(double, times);
    split->input = MEM_ARRAY(double, times);
    split->weight = MEM_ARRAY(double, times);
    for (int i = 0; i < bounds->classes * split->count; i++) {
        struct cost_device device = {i / split->count, 1};
        struct cost_devices on = {.item = &device, .count = 1, .in_step = true};
        int stage = i % split->count;
        split->forward[i] = cost_pass_ns(table, &on, ranges, stage, COST_PASS_F);
        split->input[i] = cost_pass_ns(table, &on, ranges, stage, COST_PASS_I);
        split->weight[i] = cost_pass_ns(table, &on, ranges, stage, COST_PASS_W);
    }
}

static void weigh_params(struct planner_split *split, const struct ranges *ranges) {
    const struct graph *graph = ranges->graph;
    split->largest_bytes = MEM_ARRAY(size_t, split->count);
    for (int u = 0; u < graph->use_count; u++) {
        int maker = graph->values[graph->uses[u].gradient].producer,
            stage = ranges_stage(ranges, &graph->nodes[maker]);
        size_t bytes = tensor_type_bytes(
            &graph->values[graph->params[graph->uses[u].param].value].type);
        if (bytes > split->largest_bytes[stage]) split->largest_bytes[stage] = bytes;
    }
}

static void weigh_split(struct planner_split *split) {
    split->kept_bytes = MEM_ARRAY(size_t, split->count);
    split->param_bytes = MEM_ARRAY(size_t, split->count);
    for (int s = 0; s < split->count; s++) {
        split->kept_bytes[s] = split->partition.chunks[s].kept_bytes;
        split->param_bytes[s] =
            (size_t)state_bytes(split->partition.chunks[s].param_elements);
    }
}

static bool same_cuts(const struct planner_split *a, const struct planner_split *b) {
    return a->graph == b->graph && a->count == b->count &&
           memcmp(a->partition.cuts, b->partition.cuts,
                  (size_t)(a->count - 1) * sizeof *a->partition.cuts) == 0;
}

/* The default balance keeps its row, whichever is asked for first. */
static int split_like(const struct planner_bounds *bounds, const struct planner_split *split) {
    for (int s = 0; s < bounds->split_count; s++)
        if (bounds->split[s]->balance != split->balance && same_cuts(bounds->split[s], split))
            return s;
    return -1;
}

static enum status make_split(struct planner_bounds *bounds, int graph, int count, int balance,
                              struct planner_split **out) {
    const struct run_config *base = bounds->base;
    struct partition_config config = {.chunks = count,
                                      .balance = (enum balance)balance,
                                      .cut = base->cut,
                                      .cut_count = base->cut_count,
                                      .grads = 1,
                                      .states = base->optimizer->state_count};
    const struct planner_graph *of = &bounds->graph[graph];
    SCOPED(ranges_free) struct ranges ranges = {0};
    struct planner_split *split = MEM_NEW(struct planner_split);
    *split = (struct planner_split){.graph = graph, .count = count, .balance = (int8_t)balance};
    if (balance == BALANCE_TIME && bounds->costs.section) config.node_ns = of->table.ns;
    const struct partition *shared;
    enum status status = plan_pool_partition(bounds->pool, of->graph, &config, &shared);
    if (status == STATUS_OK) split->partition = *shared;
    if (status == STATUS_OK)
        status = ranges_new(of->graph, split->partition.cuts, count - 1, &ranges);
    if (status != STATUS_OK) {
        split_free(split);
        return status;
    }
    time_split(bounds, split, &ranges);
    weigh_split(split);
    weigh_params(split, &ranges);
    split->like = split_like(bounds, split);
    *out = split;
    return STATUS_OK;
}

static enum status find_split(struct planner_bounds *bounds, int graph, int count, int balance,
                              struct planner_split **out) {
    for (int s = 0; s < bounds->split_count; s++) {
        struct planner_split *split = bounds->split[s];
        if (split->graph != graph || split->count != count || split->balance != balance) continue;
        *out = split;
        return STATUS_OK;
    }
    TRY(make_split(bounds, graph, count, balance, out));
    bounds->split = mem_grow(bounds->split, &bounds->split_capacity,
                             (size_t)bounds->split_count + 1, sizeof *bounds->split);
    bounds->split[bounds->split_count++] = *out;
    return STATUS_OK;
}

/* --- bounds --- */

/* Ranks of this machine share its cores. */
static double crowd_of(const struct planner_bounds *bounds, const struct planner_choice *choice) {
    const struct planner_input *input = bounds->input;
    double threads = (double)choice->ranks * input->threads, each = threads / input->cores;
    bool rules = !bounds->costs.cluster && !bounds->costs.section;
    return rules && input->cores > 0 && each > 1 ? each : 1;
}

/* How many micro-batches run forward once more. Of some operations nothing runs again where it is
 * by block: the last segment of each stage may have nothing to make. */
static double run_again(const struct planner_choice *choice) {
    enum recompute_policy policy = (enum recompute_policy)choice->recompute;
    if (policy == RECOMPUTE_NEVER) return 0;
    return recompute_keeps_last(policy) ? choice->micro_batches - 1 : choice->micro_batches;
}

enum status planner_bound_whole(struct planner_bounds *bounds, struct planner_row *row) {
    const struct planner_choice *choice = &row->choice;
    int graph;
    TRY(find_graph(bounds, samples_of(bounds, choice), &graph));
    const struct planner_graph *of = &bounds->graph[graph];
    double all = of->least_ns * choice->micro_batches + of->least_forward_ns * run_again(choice);
    row->step_ns = all / choice->stages * crowd_of(bounds, choice);
    return STATUS_OK;
}

/* A position with its devices in all replicas: the slowest counts, since replicas meet once a
 * step. */
struct position {
    const struct planner_split *split;
    struct cost_devices on;
};

static double of_stage(const struct position *at, const double *times, int stage) {
    double most = 0;
    for (int i = 0; i < at->on.count; i++) {
        double ns = times[at->on.item[i].class * at->split->count + stage] *
                    at->on.item[i].slowness;
        if (ns > most) most = ns;
    }
    return most;
}

/* What all positions of a candidate are judged with. */
struct judged {
    struct planner_bounds *bounds;
    const struct planner_choice *choice;
    const struct planner_split *split;
    struct grid grid;
    struct cost_net net;
    struct costs costs;
    double crowd;
};

static void devices_at(const struct judged *judged, int position, struct cost_devices *out) {
    const struct grid *grid = &judged->grid;
    out->in_step = true;
    for (int r = 0; r < grid->replicas; r++) {
        int rank = group_rank(grid, GROUP_PIPELINE, r, position);
        cost_devices_add(out, cost_device_of(&judged->net, rank));
        if (!judged->net.cluster) return;
    }
}

/* Gradients of a position over its replicas, once a step; half of it where they are scattered,
 * and parameters are gathered while other work runs. */
static double comm_ns(const struct judged *judged, int position, int64_t bytes, bool whole) {
    const struct grid *grid = &judged->grid;
    struct cost_link slowest = judged->net.group_link;
    if (grid->replicas == 1) return 0;
    if (judged->net.cluster) slowest = (struct cost_link){0};
    for (int r = 0; judged->net.cluster && r < grid->replicas; r++) {
        int next = r + 1 < grid->replicas ? r + 1 : 0;
        slowest = cost_slower_link(slowest,
                                   cost_link(&judged->net, group_rank(grid, GROUP_PIPELINE, r, position),
                                             group_rank(grid, GROUP_PIPELINE, next, position)));
    }
    double part = judged->choice->zero_stage && !whole ? 0.5 : 1;
    slowest.latency = 0;
    return cost_group_time(judged->net.collective, slowest, grid->replicas, (double)bytes * part,
                           COST_SUM);
}

static double message_ns(const struct judged *judged, const struct position *at, int cut) {
    const struct grid *grid = &judged->grid;
    int from = grid_position(grid, cut), to = grid_position(grid, cut + 1);
    const struct crossing *crossing = judged->split->partition.chunks[cut].crossing;
    double bytes = (double)(crossing[PHASE_FORWARD].bytes + crossing[PHASE_BACKWARD].bytes);
    if (from == to) return 0;
    return 2 * cost_copy_ns(&judged->costs, &at->on, judged->bounds->input->threads, bytes);
}

/* ZeRO-3 gathers each bucket for each pass, but at most one that the pass before has left. */
static double gather_bytes(const struct judged *judged, int position) {
    const struct planner_choice *choice = judged->choice;
    const struct options *options = judged->bounds->input->options;
    double bytes = 0, passes = 2 * choice->micro_batches + run_again(choice);
    bool usual = options->zero_keep == 0 && !option_is_given(options, OPTION_zero_prefetch) &&
                 !option_is_given(options, OPTION_bucket_size);
    for (int c = 0; usual && choice->zero_stage == 3 && c < judged->grid.chunks; c++) {
        int stage = grid_stage(&judged->grid, position, c);
        double all = (double)judged->split->param_bytes[stage],
               left = (double)judged->split->largest_bytes[stage];
        if (left < judged->bounds->bucket_bytes) left = judged->bounds->bucket_bytes;
        if (all > left) bytes += passes * (all - left);
    }
    return bytes;
}

struct sums {
    double busy, early; /* in passes; in those before the last micro-batch's gradients */
    double comm, late;  /* sums over replicas; the part that STEP awaits */
    double update;
    int64_t bytes; /* of gradients */
};

static void sum_passes(const struct judged *judged, struct position *at, int position,
                       struct sums *sums) {
    double micros = judged->choice->micro_batches,
           forwards = micros + run_again(judged->choice);
    for (int c = 0; c < judged->grid.chunks; c++) {
        int stage = grid_stage(&judged->grid, position, c);
        double forward = of_stage(at, judged->split->forward, stage) * judged->crowd,
               backward = (of_stage(at, judged->split->input, stage) +
                           of_stage(at, judged->split->weight, stage)) *
                          judged->crowd;
        sums->busy += forwards * forward + micros * backward;
        sums->early += micros * forward + (micros - 1) * backward;
        sums->bytes += (int64_t)judged->split->param_bytes[stage];
    }
}

/* What a position does in a step, whatever the order is. */
static struct sums sum_position(const struct judged *judged, struct position *at, int position) {
    const struct planner_choice *choice = judged->choice;
    const struct run_config *base = judged->bounds->base;
    struct sums sums = {0};
    sum_passes(judged, at, position, &sums);
    double byte_ns = cost_array_ns(&judged->costs, &at->on, judged->bounds->input->threads),
           adds = (choice->micro_batches - 1) * 3 * (double)sums.bytes * byte_ns,
           slice = choice->zero_stage ? (double)sums.bytes / choice->replicas : (double)sums.bytes;
    sums.busy += adds;
    sums.update = (3 + 2 * base->optimizer->state_count) * slice * byte_ns;
    double gathered = gather_bytes(judged, position), whole = (double)sums.bytes;
    if (gathered > whole) gathered -= whole; /* one of them is counted in what all sums take */
    sums.comm = comm_ns(judged, position, (int64_t)(whole + gathered / 2), true);
    sums.late = comm_ns(judged, position, sums.bytes, false);
    return sums;
}

/* A bound by the first forwards and the last backwards of the stages before each stage; of its own
 * passes weight gradients may come later. */
static double chain_ns(const struct judged *judged, struct position *at) {
    const struct planner_choice *choice = judged->choice;
    double before = 0, most = 0;
    for (int s = 0; s < judged->split->count; s++) {
        struct position *here = &at[grid_position(&judged->grid, s)];
        double forward = of_stage(here, judged->split->forward, s),
               input = of_stage(here, judged->split->input, s);
        double own = ((choice->micro_batches + run_again(choice)) * forward +
                      choice->micro_batches * input) *
                     judged->crowd;
        if (before + own > most) most = before + own;
        before += (forward + input) * judged->crowd;
        if (s + 1 < judged->split->count) before += message_ns(judged, here, s);
    }
    return most;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static bool overlaps(const struct planner_choice *choice) {
    return choice->schedule >= 0 && pipeline_at(choice->schedule)->older;
}

/* Gradients are summed once a step, when the last micro-batch has them; those of several chunks
 * not at once. */
static bool sums_late(const struct judged *judged) {
    const struct planner_choice *choice = judged->choice;
    bool scatters = strcmp(judged->bounds->input->options->zero_accumulate, "scatter") == 0;
    return judged->grid.chunks == 1 && !overlaps(choice) &&
           (choice->zero_stage < 2 || !scatters);
}

static double position_ns(const struct judged *judged, struct position *at, int position) {
    struct sums sums = sum_position(judged, at, position);
    double whole = larger(sums.busy + sums.update, sums.comm);
    return sums_late(judged) ? larger(whole, sums.early + sums.late + sums.update) : whole;
}

static struct position *positions_new(const struct judged *judged) {
    struct position *at = MEM_ARRAY(struct position, judged->grid.stages);
    for (int p = 0; p < judged->grid.stages; p++) {
        at[p] = (struct position){.split = judged->split};
        devices_at(judged, p, &at[p].on);
    }
    return at;
}

static void positions_free(struct position *at, int count) {
    for (int p = 0; p < count; p++) cost_devices_free(&at[p].on);
    free(at);
}

static double bound_ns(const struct judged *judged) {
    struct position *at = positions_new(judged);
    double bound = 0;
    for (int p = 0; p < judged->grid.stages; p++)
        bound = larger(bound, position_ns(judged, &at[p], p));
    if (!overlaps(judged->choice)) bound = larger(bound, chain_ns(judged, at));
    positions_free(at, judged->grid.stages);
    return bound;
}

/* --- memory --- */

/* Of what a rank keeps of its parameters, the slices that ZeRO leaves it. */
static double store_bytes(const struct judged *judged, double bytes) {
    const struct planner_choice *choice = judged->choice;
    double whole = bytes, slice = bytes / choice->replicas;
    int states = judged->bounds->base->optimizer->state_count;
    bool scatters = choice->micro_batches == 1 ||
                    strcmp(judged->bounds->input->options->zero_accumulate, "scatter") == 0;
    double params = choice->zero_stage == 3 ? slice : whole,
           grads = choice->zero_stage >= 2 && scatters ? slice : whole,
           state = (choice->zero_stage ? slice : whole) * states;
    return params + grads + state;
}

static int64_t bound_bytes(const struct judged *judged) {
    double most = 0;
    for (int p = 0; p < judged->grid.stages; p++) {
        double bytes = 0, kept = 0;
        for (int c = 0; c < judged->grid.chunks; c++) {
            int stage = grid_stage(&judged->grid, p, c);
            bytes += (double)judged->split->param_bytes[stage];
            if (judged->choice->recompute == RECOMPUTE_NEVER)
                kept += (double)judged->split->kept_bytes[stage];
        }
        most = larger(most, store_bytes(judged, bytes) + kept);
    }
    return (int64_t)most;
}

/* The least that ranks store of their parameters, and what the fullest keeps of activations. */
static int64_t bound_with(const struct judged *judged, int64_t kept) {
    double least = 0;
    for (int p = 0; p < judged->grid.stages; p++) {
        double bytes = 0;
        for (int c = 0; c < judged->grid.chunks; c++)
            bytes += (double)judged->split->param_bytes[grid_stage(&judged->grid, p, c)];
        bytes = store_bytes(judged, bytes);
        if (p == 0 || bytes < least) least = bytes;
    }
    return (int64_t)least + kept;
}

static int64_t larger_bytes(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* --- orders --- */

/* With all additions of gradients but those of the first micro-batch, which there are none of: on
 * no way through the step are more of them than there are stages. */
struct order_costs {
    double *forward, *input, *weight, *latency, *moving[2];
    double *again;
    int64_t *kept, *none;
    double adds;
};

static void order_costs_free(struct order_costs *costs) {
    void *const parts[] = {costs->forward, costs->input,     costs->weight,    costs->latency,
                           costs->kept,    costs->moving[0], costs->moving[1], costs->none,
                           costs->again};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
}

static struct cost_link link_between(const struct judged *judged, int from, int to) {
    const struct grid *grid = &judged->grid;
    struct cost_link slowest = {0};
    for (int r = 0; from != to && r < grid->replicas; r++)
        slowest = cost_slower_link(slowest,
                                   cost_link(&judged->net, group_rank(grid, GROUP_PIPELINE, r, from),
                                             group_rank(grid, GROUP_PIPELINE, r, to)));
    return slowest;
}

static void cost_cut(const struct judged *judged, const struct position *at, int cut,
                     struct order_costs *out) {
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

static void cost_order(const struct judged *judged, const struct position *at,
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
        const struct position *here = &at[grid_position(&judged->grid, s)];
        double add = cost_add_ns(&judged->costs, &here->on, threads,
                                 (double)judged->split->param_bytes[s], true);
        if (judged->choice->micro_batches == 1) add = 0;
        out->forward[s] = of_stage(here, judged->split->forward, s) * judged->crowd;
        out->again[s] = out->forward[s];
        out->input[s] = of_stage(here, judged->split->input, s) * judged->crowd;
        out->weight[s] = of_stage(here, judged->split->weight, s) * judged->crowd + add;
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

static void replay_order(const struct judged *judged, const struct order_costs *costs,
                         struct planner_ordered *out) {
    const struct planner_choice *choice = judged->choice;
    struct pipeline_shape shape = {.positions = choice->stages,
                                   .chunks = judged->grid.chunks,
                                   .v_shape = judged->grid.v_shape,
                                   .micro_batches = choice->micro_batches};
    struct replay_costs times = {.forward = costs->forward,
                                 .input = costs->input,
                                 .weight = costs->weight,
                                 .hop = judged->net.link.latency,
                                 .again = run_again(choice) > 0 ? costs->again : NULL,
                                 .again_keeps_last = recompute_keeps_last(
                                     (enum recompute_policy)choice->recompute),
                                 .latency = judged->net.cluster ? costs->latency : NULL,
                                 .moving = {costs->moving[0], costs->moving[1]}};
    struct pipeline_order *orders = pipeline_orders_build(pipeline_at(choice->schedule), &shape);
    out->late_ns = MEM_ARRAY(double, judged->split->count);
    double **begin = MEM_ARRAY(double *, shape.positions);
    for (int p = 0; p < shape.positions; p++) begin[p] = MEM_ARRAY(double, orders[p].count + 1);
    struct replay replay = {
        .shape = &shape, .orders = orders, .costs = &times, .begin = begin};
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
    pipeline_orders_free(&orders, shape.positions);
}

/* ZeRO leaves times as they are; and so do replicas, where ranks are alike. */
static const struct planner_ordered *find_order(struct planner_bounds *bounds,
                                                const struct judged *judged) {
    const struct planner_choice *choice = judged->choice;
    bool alike = !judged->net.cluster && judged->crowd == 1;
    struct planner_order_key key = {.split = judged->split,
                                    .schedule = choice->schedule,
                                    .stages = choice->stages,
                                    .micro_batches = choice->micro_batches,
                                    .replicas = alike ? 0 : choice->replicas,
                                    .again = (int)run_again(choice),
                                    .order = choice->order};
    for (int i = 0; i < bounds->ordered_count; i++) {
        const struct planner_order_key *one = &bounds->ordered[i].key;
        if (one->split == key.split && one->schedule == key.schedule &&
            one->stages == key.stages && one->micro_batches == key.micro_batches &&
            one->replicas == key.replicas && one->order == key.order && one->again == key.again)
            return &bounds->ordered[i];
    }
    struct planner_ordered made = {.key = key};
    struct position *at = positions_new(judged);
    struct order_costs costs;
    cost_order(judged, at, &costs);
    replay_order(judged, &costs, &made);
    order_costs_free(&costs);
    positions_free(at, judged->grid.stages);
    bounds->ordered = mem_grow(bounds->ordered, &bounds->ordered_capacity,
                               (size_t)bounds->ordered_count + 1, sizeof *bounds->ordered);
    bounds->ordered[bounds->ordered_count] = made;
    return &bounds->ordered[bounds->ordered_count++];
}

/* --- the whole --- */

static struct grid grid_of(const struct planner_choice *choice) {
    const struct pipeline_schedule *schedule =
        choice->schedule >= 0 ? pipeline_at(choice->schedule) : NULL;
    return (struct grid){.stages = choice->stages,
                         .chunks = choice->chunks,
                         .replicas = choice->replicas,
                         .replicas_each = 1,
                         .v_shape = schedule && schedule->v_shape};
}

static enum status judge(struct planner_bounds *bounds, const struct planner_choice *choice,
                         struct judged *out) {
    struct planner_split *split;
    int graph;
    TRY(find_graph(bounds, samples_of(bounds, choice), &graph));
    TRY(find_split(bounds, graph, choice->stages * choice->chunks, choice->balance, &split));
    *out = (struct judged){.bounds = bounds,
                           .choice = choice,
                           .split = split,
                           .grid = grid_of(choice),
                           .costs = bounds->costs,
                           .crowd = crowd_of(bounds, choice)};
    out->costs.crowd = out->crowd;
    out->net = cost_net_of(&out->costs, bounds->input->threads);
    return STATUS_OK;
}

/* auto has one stage a rank or two, whichever is faster. */
static enum status bound_auto(struct planner_bounds *bounds, struct planner_row *row, bool *same) {
    double least = 0;
    *same = true;
    for (int chunks = 1; chunks <= 2; chunks++) {
        struct planner_choice choice = row->choice;
        struct judged judged;
        if (row->choice.chunks && row->choice.chunks != chunks) continue;
        choice.chunks = (int16_t)chunks;
        if (choice.stages * chunks > bounds->layers) continue;
        TRY(judge(bounds, &choice, &judged));
        double ns = bound_ns(&judged);
        *same &= judged.split->like >= 0;
        if (least == 0 || ns < least) least = ns;
    }
    if (least > row->step_ns) row->step_ns = least;
    return STATUS_OK;
}

enum status planner_bound_stages(struct planner_bounds *bounds, struct planner_row *row,
                                 bool *same) {
    struct judged judged;
    *same = false;
    if (row->choice.schedule == PLANNER_AUTO) return bound_auto(bounds, row, same);
    TRY(judge(bounds, &row->choice, &judged));
    *same = judged.split->like >= 0;
    double ns = bound_ns(&judged);
    if (ns > row->step_ns) row->step_ns = ns;
    row->peak_bytes = bound_bytes(&judged);
    return STATUS_OK;
}

/* Without the update: when all is there that it waits for. */
static double ordered_ns(const struct judged *judged, const struct planner_ordered *ordered) {
    const struct planner_choice *choice = judged->choice;
    bool clips = plan_clips(judged->bounds->base),
         scatters = strcmp(judged->bounds->input->options->zero_accumulate, "scatter") == 0;
    double ns = clips ? ordered->total_ns : ordered->first_ns;
    for (int s = 0; s < judged->split->count && choice->replicas > 1; s++) {
        int position = grid_position(&judged->grid, s);
        if ((!clips && position > 0) || (choice->zero_stage >= 2 && scatters)) continue;
        double comm = comm_ns(judged, position, (int64_t)judged->split->param_bytes[s], false);
        ns = larger(ns, ordered->late_ns[s] + comm);
    }
    return ns;
}

/* Of an order that auto chose its times are known; they count an addition of gradients too many for
 * each stage. */
enum status planner_bound_auto(struct planner_bounds *bounds, const struct planner_auto *chosen,
                               struct planner_row *row) {
    struct planner_choice choice = row->choice;
    struct judged judged;
    double adds = 0;
    if (row->choice.recompute != RECOMPUTE_NEVER) return STATUS_OK;
    choice.chunks = (int16_t)chosen->choice.row[0].chunks;
    TRY(judge(bounds, &choice, &judged));
    judged.grid.v_shape = chosen->choice.row[0].v_shape;
    struct position *at = positions_new(&judged);
    for (int s = 0; s < judged.split->count; s++)
        adds += cost_add_ns(&judged.costs, &at[grid_position(&judged.grid, s)].on,
                            bounds->input->threads, (double)judged.split->param_bytes[s], true);
    positions_free(at, judged.grid.stages);
    bool waits = plan_clips(bounds->base); /* else steps of positions follow one another */
    if (waits && chosen->least_ns - adds > row->step_ns) row->step_ns = chosen->least_ns - adds;
    return STATUS_OK;
}

/* The update of the first position comes before its next forward; a norm of all gradients makes it
 * wait for all others before. */
enum status planner_bound_order(struct planner_bounds *bounds, struct planner_row *row) {
    const struct planner_choice *choice = &row->choice;
    struct judged judged;
    if (choice->schedule < 0 || overlaps(choice)) return STATUS_OK;
    TRY(judge(bounds, choice, &judged));
    const struct planner_ordered *ordered = find_order(bounds, &judged);
    struct position first = {.split = judged.split};
    devices_at(&judged, 0, &first.on);
    double update = sum_position(&judged, &first, 0).update,
           ns = ordered_ns(&judged, ordered) + update;
    cost_devices_free(&first.on);
    if (ns > row->step_ns) row->step_ns = ns;
    if (choice->recompute == RECOMPUTE_NEVER && ordered->kept_bytes > 0)
        row->peak_bytes = larger_bytes(row->peak_bytes, bound_with(&judged, ordered->kept_bytes));
    return STATUS_OK;
}
