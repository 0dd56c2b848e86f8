/* See plan_costs.h. What is not a node of the graph moves memory: sums, norms and updates are
 * charged by the bytes they touch. */
#include "sim/plan_costs.h"

#include <stdlib.h>

#include "graph/needs.h"

struct maker {
    const struct plan *plan;
    const struct costs *costs;
    const struct graph *graph;
    struct ranges ranges;   /* of all stages, with their segments */
    struct cost_devices on; /* of the class */
    int class;
    struct plan_costs *out;
    struct sim_stage *stage; /* of the class */
};

/* --- a stage --- */

/* The graph that is run: that of training or, where nothing is trained, that of an evaluation. */
static const struct micro_plan *first_run(const struct maker *maker) {
    return &maker->plan->micro[maker->plan->config.forward];
}

static int threads_of(const struct maker *maker) {
    return maker->costs->simulated ? 1 : maker->plan->config.threads;
}

static double add_ns(const struct maker *maker, int64_t bytes, bool inside) {
    return cost_add_ns(maker->costs, &maker->on, threads_of(maker), (double)bytes, inside);
}

static void add_passes(struct maker *maker, int s) {
    for (int pass = 0; pass < COST_PASS_COUNT; pass++)
        maker->stage[s].pass[pass] =
            cost_pass_ns(&maker->out->times, &maker->on, &maker->ranges, s, (enum cost_pass)pass);
}

static void add_exchanges(struct maker *maker) {
    for (int i = 0; i < maker->graph->node_count; i++) {
        const struct node *node = &maker->graph->nodes[i];
        struct sim_stage *stage = &maker->stage[ranges_stage(&maker->ranges, node)];
        if (!(op_def(node->op)->flags & OP_EXCHANGE)) continue;
        int direction = node->phase == PHASE_FORWARD ? SIM_FORWARD : SIM_BACKWARD;
        stage->stats[direction]++;
        stage->stats_bytes[direction] =
            (int64_t)tensor_type_bytes(&maker->graph->values[node->in[0]].type);
    }
}

/* A forward program runs the graph of an evaluation; what else a stage has is training's. */
static void take_forward(struct maker *maker) {
    const struct micro_plan *micro = first_run(maker);
    SCOPED(cost_table_free) struct cost_table times = {0};
    cost_table_new(maker->costs, micro->graph, &times);
    for (int s = 0; s < maker->out->stage_count; s++)
        maker->stage[s].pass[COST_PASS_F] =
            cost_pass_ns(&times, &maker->on, &micro->ranges, s, COST_PASS_F);
}

/* Where passes have a given time nothing says what their nodes would take: segments are equal
 * parts, as --delay runs them. */
static void share_segments(struct maker *maker, int s) {
    if (maker->costs->units) return;
    const struct phase_range *backward = &maker->ranges.stages[s].phase[PHASE_BACKWARD];
    struct sim_stage *stage = &maker->stage[s];
    double *share = arena_new(&maker->out->arena, (size_t)backward->segment_count * sizeof *share);
    const struct cost_table *times = &maker->out->times;
    int node = backward->nodes.begin;
    double whole = 0;
    for (int n = node; n < backward->nodes.end; n++) whole += cost_node_ns(times, &maker->on, n);
    for (int e = 0; e < backward->segment_count; e++) {
        for (; node < backward->segment_end[e]; node++)
            share[e] += cost_node_ns(times, &maker->on, node) / (whole > 0 ? whole : 1);
    }
    stage->segment = share;
    stage->segment_count = backward->segment_count;
}

static void add_store(struct maker *maker, struct sim_stage *stage, int64_t bytes) {
    const struct run_config *config = &maker->plan->config;
    int states = config->optimizer->state_count,
        members = group_size(&config->grid, GROUP_REPLICAS, 0);
    double byte_ns = cost_array_ns(maker->costs, &maker->on, threads_of(maker));
    int64_t slice = config->sliced ? bytes / members : bytes;
    stage->sum = add_ns(maker, bytes, false);
    stage->add = add_ns(maker, bytes, true);
    stage->zero = (double)bytes * byte_ns;
    stage->norm = (double)slice * byte_ns;
    stage->step = (3 + 2 * states) * stage->norm;
    if (maker->costs->units) stage->step = maker->costs->units->of[COST_S] / config->grid.chunks;
}

static enum status add_buckets(struct maker *maker, int position) {
    const struct grid *grid = &maker->plan->config.grid;
    SCOPED(holdings_free)
    struct holdings holdings =
        holdings_of(&maker->ranges, grid, &maker->plan->ties, position, &maker->plan->rules);
    for (int c = 0; c < grid->chunks; c++) {
        int stage = grid_stage(grid, position, c);
        struct bucket_source source = holdings_source(&holdings, &maker->ranges, c, stage);
        struct bucket_list list = buckets_of(&source);
        int64_t *bytes = arena_new(&maker->out->arena, (size_t)list.count * sizeof *bytes), all = 0;
        for (int b = 0; b < list.count; b++) all += bytes[b] = state_bytes(list.items[b].elements);
        maker->stage[stage].bucket_bytes = bytes;
        add_store(maker, &maker->stage[stage], all);
        buckets_cut(&list, &source, &maker->ranges, stage);
        free(list.items);
    }
    maker->stage[grid_stage(grid, position, 0)].fixed_bytes =
        (int64_t)plan_store_bytes_at(maker->plan, position);
    return STATUS_OK;
}

/* Of a law that counts flops: forward again may have fewer of them. */
static void add_again(struct maker *maker, int s) {
    double flops = 0;
    if (maker->costs->flop_ns == 0 || maker->plan->config.recompute == RECOMPUTE_NEVER) return;
    struct recompute recompute = graph_recompute_of(&maker->ranges, s, maker->plan->forms.blocks);
    for (int n = 0; n < maker->graph->forward_count; n++)
        if (recompute.again[n]) flops += cost_node_flops(maker->graph, n);
    graph_recompute_free(&recompute);
    maker->stage[s].again = flops * maker->costs->flop_ns;
}

static double copy_ns(const struct maker *maker, size_t bytes) {
    return cost_copy_ns(maker->costs, &maker->on, threads_of(maker), (double)bytes);
}

/* Those of a step, where there is one: evaluation may have larger ones. */
static void add_messages(struct maker *maker) {
    for (int cut = 0; cut + 1 < maker->out->stage_count; cut++) {
        const struct crossing *crossing = &first_run(maker)->crossing[cut * PHASE_COUNT];
        size_t forward = crossing[PHASE_FORWARD].bytes, backward = crossing[PHASE_BACKWARD].bytes;
        maker->stage[cut].message_bytes[SIM_FORWARD] = (int64_t)forward;
        maker->stage[cut].copy[SIM_FORWARD] = copy_ns(maker, forward);
        maker->stage[cut + 1].message_bytes[SIM_BACKWARD] = (int64_t)backward;
        maker->stage[cut + 1].copy[SIM_BACKWARD] = copy_ns(maker, backward);
    }
}

static bool reads_images(const struct maker *maker, int s) {
    const struct dataset *dataset = maker->plan->config.dataset;
    SCOPED(needs_free) struct needs needs = needs_of(&maker->ranges, s);
    bool reads = false;
    for (int i = 0; i < needs.input_count; i++) {
        int value = maker->graph->inputs[needs.inputs[i]];
        int field = dataset_field(dataset, maker->graph->values[value].name);
        reads |= field >= 0 && dataset->may_miss >> field & 1;
    }
    return reads;
}

/* Without a core of its own the loader takes its time from the rank. */
static void add_loading(struct maker *maker) {
    double samples = (double)first_run(maker)->samples;
    for (int s = 0; s < maker->out->stage_count && maker->costs->section; s++)
        if (reads_images(maker, s))
            maker->stage[s].load = samples * maker->costs->section->rate[PROFILE_SAMPLE].median;
}

static enum status make_class(struct maker *maker) {
    int stages = maker->out->stage_count;
    struct sim_costs *costs = &maker->out->costs[maker->class];
    maker->stage = arena_new(&maker->out->arena, (size_t)stages * sizeof *maker->stage);
    *costs = (struct sim_costs){.stage = maker->stage, .exchange_bytes = COST_EXCHANGE_BYTES};
    if (maker->costs->section)
        costs->instruction = maker->costs->section->rate[PROFILE_INSTRUCTION].median;
    for (int s = 0; s < stages; s++) add_passes(maker, s);
    add_exchanges(maker);
    if (maker->plan->config.forward) take_forward(maker);
    for (int p = 0; p < maker->plan->config.grid.stages; p++) TRY(add_buckets(maker, p));
    for (int s = 0; s < stages; s++) {
        share_segments(maker, s);
        add_again(maker, s);
        maker->stage[s].kept_bytes = maker->stage[s].kept_half_bytes =
            (int64_t)maker->plan->partition.chunks[s].kept_bytes;
    }
    add_messages(maker);
    add_loading(maker);
    return STATUS_OK;
}

/* --- the whole --- */

static enum status cut(const struct plan *plan, struct ranges *out) {
    const struct partition *partition = &plan->partition;
    return ranges_new(plan->micro[0].graph, partition->cuts, partition->count - 1, out);
}

enum status sim_costs_new(const struct plan *plan, const struct costs *from,
                          struct plan_costs *out) {
    struct plan_costs costs = {.class_count = cost_class_count(from),
                               .stage_count = plan_stages(plan)};
    const struct graph *graph = plan->micro[0].graph;
    struct costs rated = cost_at_rate(from, graph, plan->config.micro_batches);
    struct maker maker = {.plan = plan, .costs = &rated, .graph = graph, .out = &costs};
    TRY(cut(plan, &maker.ranges));
    cost_table_new(&rated, graph, &costs.times);
    costs.costs = arena_new(&costs.arena, (size_t)costs.class_count * sizeof *costs.costs);
    enum status status = STATUS_OK;
    for (; maker.class < costs.class_count && status == STATUS_OK; maker.class ++) {
        struct cost_device device = {maker.class, 1};
        maker.on = (struct cost_devices){.item = &device, .count = 1, .in_step = true};
        status = make_class(&maker);
    }
    ranges_free(&maker.ranges);
    costs.times.costs = from; /* for the variance, of which a law has none */
    if (status == STATUS_OK)
        *out = costs;
    else
        sim_costs_free(&costs);
    return status;
}

void sim_costs_free(struct plan_costs *costs) {
    cost_table_free(&costs->times);
    arena_free(&costs->arena);
    *costs = (struct plan_costs){0};
}

/* --- how sure it is --- */

static double uses_of(const double *uses, int stage, const struct node *node) {
    const double *of = &uses[stage * COST_PASS_COUNT];
    if (node->phase == PHASE_FORWARD) return of[COST_PASS_F];
    return of[COST_PASS_B] + (node->half == OP_HALF_W ? of[COST_PASS_W] : of[COST_PASS_I]);
}

double sim_costs_variance(const struct plan *plan, const struct plan_costs *costs,
                          const double *uses) {
    const struct profile_section *section = costs->times.costs->section;
    const struct graph *graph = costs->times.graph;
    SCOPED(ranges_free) struct ranges ranges = {0};
    if (!section || cut(plan, &ranges) != STATUS_OK) return 0;
    double *times = MEM_ARRAY(double, section->row_count + 1), variance = 0;
    struct cost_devices on = {.item = &(struct cost_device){0, 1}, .count = 1, .in_step = true};
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        const struct profile_row *row = costs->times.row[i];
        double count = uses_of(uses, ranges_stage(&ranges, node), node);
        if (row)
            times[row - section->row] += count;
        else if (node->kernel)
            variance += estimate_relative(count * cost_node_ns(&costs->times, &on, i),
                                          PROFILE_RATE_DEVIATION)
                            .variance;
    }
    for (size_t r = 0; r < section->row_count; r++)
        variance += estimate_of(&section->row[r].ns, times[r]).variance;
    free(times);
    return variance;
}
