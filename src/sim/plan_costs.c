/* See plan_costs.h. What is not a node of the graph moves memory: sums, norms and updates are
 * charged by the bytes they touch. */
#include "sim/plan_costs.h"

#include <stdlib.h>

#include "cost/key.h"
#include "graph/needs.h"

enum { EXCHANGE_BYTES = 256 }; /* of COUNT, REPORT and NORM, about */

struct maker {
    const struct plan *plan;
    const struct cost_source *source;
    const struct graph *graph;
    struct ranges ranges; /* of all stages, with their segments */
    int class;
    struct plan_costs *out;
    struct sim_stage *stage; /* of the class */
};

/* --- one node, one byte --- */

static const struct cluster_class *class_of(const struct maker *maker) {
    const struct cluster *cluster = maker->source->cluster;
    return cluster ? &cluster->class[maker->class] : NULL;
}

static double of_cluster(const struct maker *maker, enum op op, const struct op_cost *cost) {
    return cluster_class_ns(class_of(maker), op, cost);
}

static double crowd_of(const struct maker *maker) {
    return maker->source->crowd > 1 ? maker->source->crowd : 1;
}

/* Beside the operation itself; and all of them are slower than their medians by the same factor. */
static double in_a_step(const struct profile_section *section, double ns) {
    double ratio = section->rate[PROFILE_TOGETHER].median;
    return ns * (ratio > 0 ? ratio : 1) + section->rate[PROFILE_OPERATION].median;
}

static double node_ns(const struct maker *maker, const struct node *node) {
    const struct cost_source *source = maker->source;
    struct device *device = maker->plan->device;
    struct op_call call = graph_call(maker->graph, node);
    if (!node->kernel) return 0;
    if (!source->section && !source->cluster)
        return device->backend->cost_ns(device, &call) * crowd_of(maker);
    struct op_cost cost = op_cost(&call);
    if (!source->section) return of_cluster(maker, node->op, &cost);
    struct arena arena = {0};
    struct profile_key key = profile_key_of(maker->graph, node, &arena);
    double ns = profile_op(source->profile, source->section, &key, &cost, 1).ns;
    arena_free(&arena);
    return in_a_step(source->section, ns);
}

static double byte_ns(const struct maker *maker) {
    const struct cost_source *source = maker->source;
    if (source->section) return 1 / source->section->rate[PROFILE_BYTES].median;
    if (source->cluster) return 1 / class_of(maker)->bytes_per_ns;
    return crowd_of(maker) / (PLAN_COSTS_BYTES_PER_NS * maker->plan->config.threads);
}

/* Devices of a cluster have engines that copy; ranks of this machine copy themselves, from and to
 * memory that another rank used last: no cache has it, however small the message is. */
static double copy_ns(const struct maker *maker, size_t bytes) {
    return maker->source->cluster ? 0 : 2 * (double)bytes * byte_ns(maker);
}

/* --- a stage --- */

/* The graph that is run: of training, or where there is none of an evaluation. */
static const struct micro_plan *first_run(const struct maker *maker) {
    return &maker->plan->micro[maker->plan->config.forward];
}

static void add_nodes(struct maker *maker) {
    for (int i = 0; i < maker->graph->node_count; i++) {
        const struct node *node = &maker->graph->nodes[i];
        struct sim_stage *stage = &maker->stage[ranges_stage(&maker->ranges, node)];
        bool forward = node->phase == PHASE_FORWARD, weights = node->half == OP_HALF_W;
        double ns = node_ns(maker, node);
        stage->pass[forward ? SIM_F : weights ? SIM_W : SIM_I] += ns;
        if (!forward) stage->pass[SIM_B] += ns;
        if (!(op_def(node->op)->flags & OP_EXCHANGE)) continue;
        int direction = forward ? SIM_FORWARD : SIM_BACKWARD;
        stage->stats[direction]++;
        stage->stats_bytes[direction] =
            (int64_t)tensor_type_bytes(&maker->graph->values[node->in[0]].type);
    }
}

/* A forward program runs the graph of an evaluation; what else a stage has is training's. */
static void take_forward(struct maker *maker) {
    const struct micro_plan *micro = first_run(maker);
    struct maker own = *maker;
    own.graph = micro->graph;
    for (int s = 0; s < maker->out->stage_count; s++) maker->stage[s].pass[SIM_F] = 0;
    for (int i = 0; i < own.graph->node_count; i++) {
        const struct node *node = &own.graph->nodes[i];
        maker->stage[ranges_stage(&micro->ranges, node)].pass[SIM_F] += node_ns(&own, node);
    }
}

static void share_segments(struct maker *maker, int s) {
    const struct phase_range *backward = &maker->ranges.stages[s].phase[PHASE_BACKWARD];
    struct sim_stage *stage = &maker->stage[s];
    double *share = arena_new(&maker->out->arena, (size_t)backward->segment_count * sizeof *share);
    double whole = stage->pass[SIM_B] > 0 ? stage->pass[SIM_B] : 1;
    int node = backward->nodes.begin;
    for (int e = 0; e < backward->segment_count; e++) {
        for (; node < backward->segment_end[e]; node++)
            share[e] += node_ns(maker, &maker->graph->nodes[node]) / whole;
    }
    stage->segment = share;
    stage->segment_count = backward->segment_count;
}

static void add_store(struct maker *maker, struct sim_stage *stage, int64_t bytes) {
    const struct run_config *config = &maker->plan->config;
    int states = config->optimizer->state_count,
        members = group_size(&config->grid, GROUP_REPLICAS, 0);
    double pass_ns = (double)bytes * byte_ns(maker);
    int64_t slice = config->sliced ? bytes / members : bytes;
    stage->add = stage->sum = 3 * pass_ns; /* two are read, one is written */
    stage->zero = pass_ns;
    stage->norm = (double)slice * byte_ns(maker);
    stage->step = (3 + 2 * states) * stage->norm;
}

static enum status add_buckets(struct maker *maker, int position) {
    const struct grid *grid = &maker->plan->config.grid;
    struct holdings holdings =
        holdings_of(&maker->ranges, grid, &maker->plan->ties, position, &maker->plan->rules);
    for (int c = 0; c < grid->chunks; c++) {
        int stage = grid_stage(grid, position, c);
        struct bucket_source source = holdings_source(&holdings, &maker->ranges, c, stage);
        struct bucket_list list = buckets_of(&source);
        int64_t *bytes = arena_new(&maker->out->arena, (size_t)list.count * sizeof *bytes), all = 0;
        for (int b = 0; b < list.count; b++) all += bytes[b] = store_bytes(list.items[b].elements);
        maker->stage[stage].bucket_bytes = bytes;
        add_store(maker, &maker->stage[stage], all);
        buckets_cut(&list, &source, &maker->ranges, stage);
        free(list.items);
    }
    maker->stage[grid_stage(grid, position, 0)].fixed_bytes =
        (int64_t)plan_store_bytes_at(maker->plan, position);
    holdings_free(&holdings);
    return STATUS_OK;
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
    struct needs needs = needs_of(&maker->ranges, s);
    bool reads = false;
    for (int i = 0; i < needs.input_count; i++) {
        int value = maker->graph->inputs[needs.inputs[i]];
        int field = dataset_field(dataset, maker->graph->values[value].name);
        reads |= field >= 0 && dataset->may_miss >> field & 1;
    }
    needs_free(&needs);
    return reads;
}

/* Without a core of its own the loader takes its time from the rank. */
static void add_loading(struct maker *maker) {
    double samples = (double)first_run(maker)->samples;
    for (int s = 0; s < maker->out->stage_count && maker->source->section; s++)
        if (reads_images(maker, s))
            maker->stage[s].load = samples * maker->source->section->rate[PROFILE_SAMPLE].median;
}

static enum status make_class(struct maker *maker) {
    int stages = maker->out->stage_count;
    struct sim_costs *costs = &maker->out->costs[maker->class];
    maker->stage = arena_new(&maker->out->arena, (size_t)stages * sizeof *maker->stage);
    *costs = (struct sim_costs){.stage = maker->stage, .exchange_bytes = EXCHANGE_BYTES};
    if (maker->source->section)
        costs->instruction = maker->source->section->rate[PROFILE_INSTRUCTION].median;
    add_nodes(maker);
    if (maker->plan->config.forward) take_forward(maker);
    for (int p = 0; p < maker->plan->config.grid.stages; p++) TRY(add_buckets(maker, p));
    for (int s = 0; s < stages; s++) {
        share_segments(maker, s);
        maker->stage[s].kept_bytes = maker->stage[s].kept_half_bytes =
            (int64_t)maker->plan->partition.chunks[s].kept_bytes;
    }
    add_messages(maker);
    add_loading(maker);
    return STATUS_OK;
}

/* --- by hand --- */

/* Memory stays that of the plan. */
static void use_units(struct plan_costs *costs, const struct cost_units *units, int chunks) {
    struct sim_stage *stage = (struct sim_stage *)costs->costs[0].stage;
    for (int s = 0; s < costs->stage_count; s++) {
        stage[s] = (struct sim_stage){.pass = {[SIM_F] = units->of[COST_F],
                                               [SIM_B] = units->of[COST_B],
                                               [SIM_I] = units->of[COST_I],
                                               [SIM_W] = units->of[COST_W]},
                                      .segment = stage[s].segment,
                                      .segment_count = stage[s].segment_count,
                                      .step = units->of[COST_S] / chunks,
                                      .kept_bytes = stage[s].kept_bytes,
                                      .kept_half_bytes = stage[s].kept_half_bytes,
                                      .fixed_bytes = stage[s].fixed_bytes};
    }
    costs->costs[0].exchange_bytes = 0;
}

/* --- the whole --- */

static enum status cut(const struct plan *plan, struct ranges *out) {
    const struct partition *partition = &plan->partition;
    return ranges_new(plan->micro[0].graph, partition->cuts, partition->count - 1, out);
}

enum status plan_costs_new(const struct plan *plan, const struct cost_source *source,
                           struct plan_costs *out) {
    struct plan_costs costs = {
        .class_count = source->cluster && !source->units ? (int)source->cluster->class_count : 1,
        .stage_count = plan->config.grid.stages * plan->config.grid.chunks};
    struct maker maker = {
        .plan = plan, .source = source, .graph = plan->micro[0].graph, .out = &costs};
    TRY(cut(plan, &maker.ranges));
    costs.costs = arena_new(&costs.arena, (size_t)costs.class_count * sizeof *costs.costs);
    enum status status = STATUS_OK;
    for (; maker.class < costs.class_count && status == STATUS_OK; maker.class ++)
        status = make_class(&maker);
    ranges_free(&maker.ranges);
    if (status == STATUS_OK && source->units)
        use_units(&costs, source->units, plan->config.grid.chunks);
    if (status == STATUS_OK)
        *out = costs;
    else
        plan_costs_free(&costs);
    return status;
}

void plan_costs_free(struct plan_costs *costs) {
    arena_free(&costs->arena);
    *costs = (struct plan_costs){0};
}

/* --- how sure it is --- */

static double uses_of(const double *uses, int stage, const struct node *node) {
    const double *of = &uses[stage * SIM_PASS_COUNT];
    if (node->phase == PHASE_FORWARD) return of[SIM_F];
    return of[SIM_B] + (node->half == OP_HALF_W ? of[SIM_W] : of[SIM_I]);
}

static double variance_of(const struct maker *maker, const double *uses) {
    const struct profile_section *section = maker->source->section;
    double *times = MEM_ARRAY(double, section->row_count + 1), variance = 0;
    for (int i = 0; i < maker->graph->node_count; i++) {
        const struct node *node = &maker->graph->nodes[i];
        double count = uses_of(uses, ranges_stage(&maker->ranges, node), node);
        struct arena arena = {0};
        struct profile_key key = profile_key_of(maker->graph, node, &arena);
        const struct profile_row *row = profile_find(section, &key);
        if (row)
            times[row - section->row] += count;
        else if (node->kernel)
            variance +=
                estimate_relative(count * node_ns(maker, node), PROFILE_RATE_DEVIATION).variance;
        arena_free(&arena);
    }
    for (size_t r = 0; r < section->row_count; r++)
        variance += estimate_of(&section->row[r].ns, times[r]).variance;
    free(times);
    return variance;
}

double plan_costs_variance(const struct plan *plan, const struct cost_source *source,
                           const double *uses) {
    struct maker maker = {.plan = plan, .source = source, .graph = plan->micro[0].graph};
    if (!source->section || cut(plan, &maker.ranges) != STATUS_OK) return 0;
    double variance = variance_of(&maker, uses);
    ranges_free(&maker.ranges);
    return variance;
}
