/* See bound.h. */
#include "planner/bound.h"

#include <stdlib.h>
#include <string.h>

#include "plan/state_layout.h"
#include "planner/judged.h"
#include "program/pipeline.h"

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
    for (int g = 0; g < bounds->graph_count; g++) {
        cost_table_free(&bounds->graph[g].table);
        free(bounds->graph[g].split);
    }
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
    graph.split = MEM_ARRAY(struct planner_split *, (bounds->layers + 1) * BALANCE_COUNT);
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
        size_t bytes =
            tensor_type_bytes(&graph->values[graph->params[graph->uses[u].param].value].type);
        if (bytes > split->largest_bytes[stage]) split->largest_bytes[stage] = bytes;
    }
}

static void weigh_split(struct planner_split *split) {
    split->kept_bytes = MEM_ARRAY(size_t, split->count);
    split->param_bytes = MEM_ARRAY(size_t, split->count);
    for (int s = 0; s < split->count; s++) {
        split->kept_bytes[s] = split->partition.chunks[s].kept_bytes;
        split->param_bytes[s] = (size_t)state_bytes(split->partition.chunks[s].param_elements);
    }
}

static bool same_cuts(const struct planner_split *a, const struct planner_split *b) {
    return a->graph == b->graph && a->count == b->count &&
           memcmp(a->partition.cuts, b->partition.cuts,
                  (size_t)(a->count - 1) * sizeof *a->partition.cuts) == 0;
}

/* The first balance keeps its row. */
static bool split_is_again(const struct planner_bounds *bounds, const struct planner_split *split) {
    for (int b = 0; b < BALANCE_COUNT; b++) {
        const struct planner_split *other =
            bounds->graph[split->graph].split[split->count * BALANCE_COUNT + b];
        if (other && other != split && same_cuts(other, split)) return true;
    }
    return false;
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
    split->again = split_is_again(bounds, split);
    *out = split;
    return STATUS_OK;
}

static enum status find_split(struct planner_bounds *bounds, int graph, int count, int balance,
                              struct planner_split **out) {
    *out = bounds->graph[graph].split[count * BALANCE_COUNT + balance];
    if (*out) return STATUS_OK;
    TRY(make_split(bounds, graph, count, balance, out));
    bounds->split = mem_grow(bounds->split, &bounds->split_capacity,
                             (size_t)bounds->split_count + 1, sizeof *bounds->split);
    bounds->split[bounds->split_count++] = *out;
    bounds->graph[graph].split[count * BALANCE_COUNT + balance] = *out;
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

double planner_run_again(const struct planner_choice *choice) {
    enum recompute_policy policy = (enum recompute_policy)choice->recompute;
    if (policy == RECOMPUTE_NEVER) return 0;
    return recompute_keeps_last(policy) ? choice->micro_batches - 1 : choice->micro_batches;
}

/* The same at a position, whatever the order is. Where each backward follows its forward at once
 * nothing runs again, but by block: at the last position of some schedules, at all of them with one
 * micro-batch, and where auto has little memory. */
static double again_at(const struct planner_choice *choice, int position) {
    bool at_once =
        choice->schedule < 0 || choice->micro_batches == 1 || position == choice->stages - 1;
    if (choice->chunks == 1 && at_once && choice->recompute != RECOMPUTE_ALWAYS_BLOCK) return 0;
    return planner_run_again(choice);
}

enum status planner_bound_whole(struct planner_bounds *bounds, struct planner_row *row) {
    const struct planner_choice *choice = &row->choice;
    int graph;
    TRY(find_graph(bounds, samples_of(bounds, choice), &graph));
    const struct planner_graph *of = &bounds->graph[graph];
    double again = choice->recompute == RECOMPUTE_ALWAYS_BLOCK ? choice->micro_batches : 0,
           all = of->least_ns * choice->micro_batches + of->least_forward_ns * again;
    row->step_ns = PLANNER_MARGIN * all / choice->stages * crowd_of(bounds, choice);
    return STATUS_OK;
}

double planner_stage_ns(const struct planner_position *at, const double *times, int stage) {
    double most = 0;
    for (int i = 0; i < at->on.count; i++) {
        double ns =
            times[at->on.item[i].class * at->split->count + stage] * at->on.item[i].slowness;
        if (ns > most) most = ns;
    }
    return most;
}

static void devices_at(const struct planner_judged *judged, int position,
                       struct cost_devices *out) {
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
double planner_comm_ns(const struct planner_judged *judged, int position, int64_t bytes,
                       bool whole) {
    const struct grid *grid = &judged->grid;
    struct cost_link slowest = judged->net.group_link;
    if (grid->replicas == 1) return 0;
    if (judged->net.cluster) slowest = (struct cost_link){0};
    for (int r = 0; judged->net.cluster && r < grid->replicas; r++) {
        int next = r + 1 < grid->replicas ? r + 1 : 0;
        slowest = cost_slower_link(
            slowest, cost_link(&judged->net, group_rank(grid, GROUP_PIPELINE, r, position),
                               group_rank(grid, GROUP_PIPELINE, next, position)));
    }
    double part = judged->choice->zero_stage && !whole ? 0.5 : 1;
    slowest.latency = 0;
    return cost_group_time(judged->net.collective, slowest, grid->replicas, (double)bytes * part,
                           COST_SUM);
}

static double message_ns(const struct planner_judged *judged, const struct planner_position *at,
                         int cut) {
    const struct grid *grid = &judged->grid;
    int from = grid_position(grid, cut), to = grid_position(grid, cut + 1);
    const struct crossing *crossing = judged->split->partition.chunks[cut].crossing;
    double bytes = (double)(crossing[PHASE_FORWARD].bytes + crossing[PHASE_BACKWARD].bytes);
    if (from == to) return 0;
    return 2 * cost_copy_ns(&judged->costs, &at->on, judged->bounds->input->threads, bytes);
}

/* ZeRO-3 gathers each bucket for each pass, but at most one that the pass before has left. */
static double gather_bytes(const struct planner_judged *judged, int position) {
    const struct planner_choice *choice = judged->choice;
    const struct options *options = judged->bounds->input->options;
    double bytes = 0, passes = 2 * choice->micro_batches;
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

static void sum_passes(const struct planner_judged *judged, struct planner_position *at,
                       int position, struct sums *sums) {
    double micros = judged->choice->micro_batches,
           forwards = micros + again_at(judged->choice, position);
    for (int c = 0; c < judged->grid.chunks; c++) {
        int stage = grid_stage(&judged->grid, position, c);
        double forward = planner_stage_ns(at, judged->split->forward, stage) * judged->crowd,
               backward = (planner_stage_ns(at, judged->split->input, stage) +
                           planner_stage_ns(at, judged->split->weight, stage)) *
                          judged->crowd;
        sums->busy += forwards * forward + micros * backward;
        sums->early += micros * forward + (micros - 1) * backward;
        sums->bytes += (int64_t)judged->split->param_bytes[stage];
    }
}

/* What a position does in a step, whatever the order is. */
static struct sums sum_position(const struct planner_judged *judged, struct planner_position *at,
                                int position) {
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
    sums.comm = planner_comm_ns(judged, position, (int64_t)(whole + gathered / 2), true);
    sums.late = planner_comm_ns(judged, position, sums.bytes, false);
    return sums;
}

/* A bound by the first forwards and the last backwards of the stages before each stage; of its own
 * passes weight gradients may come later. */
static double chain_ns(const struct planner_judged *judged, struct planner_position *at) {
    const struct planner_choice *choice = judged->choice;
    double before = 0, most = 0;
    for (int s = 0; s < judged->split->count; s++) {
        struct planner_position *here = &at[grid_position(&judged->grid, s)];
        double forward = planner_stage_ns(here, judged->split->forward, s),
               input = planner_stage_ns(here, judged->split->input, s);
        double again = again_at(choice, grid_position(&judged->grid, s));
        double own = ((choice->micro_batches + again) * forward + choice->micro_batches * input) *
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

bool planner_overlaps(const struct planner_choice *choice) {
    return choice->schedule >= 0 && pipeline_at(choice->schedule)->older;
}

/* Gradients are summed once a step, when the last micro-batch has them; those of several chunks
 * not at once. */
static bool sums_late(const struct planner_judged *judged) {
    const struct planner_choice *choice = judged->choice;
    bool scatters = strcmp(judged->bounds->input->options->zero_accumulate, "scatter") == 0;
    return judged->grid.chunks == 1 && !planner_overlaps(choice) &&
           (choice->zero_stage < 2 || !scatters);
}

static double position_ns(const struct planner_judged *judged, struct planner_position *at,
                          int position) {
    struct sums sums = sum_position(judged, at, position);
    double whole = larger(sums.busy + sums.update, sums.comm);
    return sums_late(judged) ? larger(whole, sums.early + sums.late + sums.update) : whole;
}

struct planner_position *planner_positions(const struct planner_judged *judged) {
    struct planner_position *at = MEM_ARRAY(struct planner_position, judged->grid.stages);
    for (int p = 0; p < judged->grid.stages; p++) {
        at[p] = (struct planner_position){.split = judged->split};
        devices_at(judged, p, &at[p].on);
    }
    return at;
}

void planner_positions_free(struct planner_position *at, int count) {
    for (int p = 0; p < count; p++) cost_devices_free(&at[p].on);
    free(at);
}

static double bound_ns(const struct planner_judged *judged) {
    struct planner_position *at = planner_positions(judged);
    double bound = 0;
    for (int p = 0; p < judged->grid.stages; p++)
        bound = larger(bound, position_ns(judged, &at[p], p));
    if (!planner_overlaps(judged->choice)) bound = larger(bound, chain_ns(judged, at));
    planner_positions_free(at, judged->grid.stages);
    return bound;
}

/* --- memory --- */

/* Of what a rank keeps of its parameters, the slices that ZeRO leaves it. */
static double store_bytes(const struct planner_judged *judged, double bytes) {
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

static int64_t bound_bytes(const struct planner_judged *judged) {
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
int64_t planner_bytes_with(const struct planner_judged *judged, int64_t kept) {
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

double planner_update_ns(const struct planner_judged *judged, struct planner_position *at,
                         int position) {
    return sum_position(judged, at, position).update;
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

enum status planner_judge(struct planner_bounds *bounds, const struct planner_choice *choice,
                          struct planner_judged *out) {
    struct planner_split *split;
    int graph;
    TRY(find_graph(bounds, samples_of(bounds, choice), &graph));
    TRY(find_split(bounds, graph, choice->stages * choice->chunks, choice->balance, &split));
    *out = (struct planner_judged){.bounds = bounds,
                                   .choice = choice,
                                   .split = split,
                                   .grid = grid_of(choice),
                                   .costs = bounds->costs,
                                   .crowd = crowd_of(bounds, choice)};
    out->costs.crowd = out->crowd;
    out->net = cost_net_of(&out->costs, bounds->input->threads);
    return STATUS_OK;
}

/* auto has one stage a rank, or two in a loop or in a V, whichever is faster; or as many as it is
 * told. */
static enum status bound_auto(struct planner_bounds *bounds, struct planner_row *row, bool *same) {
    double least = 0;
    *same = true;
    for (int shape = 0; shape < 3; shape++) {
        struct planner_choice choice = row->choice;
        struct planner_judged judged;
        choice.chunks = shape ? 2 : 1;
        if (row->choice.chunks) choice.chunks = row->choice.chunks;
        if (choice.stages * choice.chunks > bounds->layers) continue;
        TRY(planner_judge(bounds, &choice, &judged));
        judged.grid.v_shape = shape == 2;
        double ns = bound_ns(&judged);
        *same &= judged.split->again;
        if (least == 0 || ns < least) least = ns;
    }
    if (PLANNER_MARGIN * least > row->step_ns) row->step_ns = PLANNER_MARGIN * least;
    return STATUS_OK;
}

enum status planner_bound_stages(struct planner_bounds *bounds, struct planner_row *row,
                                 bool *same) {
    struct planner_judged judged;
    *same = false;
    if (row->choice.schedule == PLANNER_AUTO) return bound_auto(bounds, row, same);
    TRY(planner_judge(bounds, &row->choice, &judged));
    *same = judged.split->again;
    double ns = bound_ns(&judged);
    if (PLANNER_MARGIN * ns > row->step_ns) row->step_ns = PLANNER_MARGIN * ns;
    row->peak_bytes = bound_bytes(&judged);
    return STATUS_OK;
}
