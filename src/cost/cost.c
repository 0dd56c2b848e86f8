/* Sources, nodes and passes: see cost.h. */
#include "cost/cost.h"

#include <stdlib.h>
#include <string.h>

#include "cost/key.h"

const struct costs cost_rules = {0};

/* --- sources --- */

static enum status read_units(const struct options *options, struct costs *costs) {
    bool given = option_is_given(options, OPTION_costs);
    costs->delays = option_is_given(options, OPTION_delay);
    if (!given && !costs->delays) return STATUS_OK;
    costs->units = MEM_NEW(struct cost_units);
    return given ? cost_units_parse("--costs", options->costs, costs->units)
                 : cost_units_parse_delay("--delay", options->delay, costs->units);
}

static enum status read_files(const struct options *options, struct costs *costs) {
    if (option_is_given(options, OPTION_profile)) {
        costs->profile = MEM_NEW(struct profile);
        TRY(profile_read_all(options->profile, costs->profile));
    }
    if (!option_is_given(options, OPTION_cluster)) return STATUS_OK;
    costs->cluster = MEM_NEW(struct cluster);
    return cluster_read(options->cluster, costs->cluster);
}

/* Every rank has its laws: it is the one that waits. */
static enum status read_laws(const struct options *options, struct costs *costs) {
    if (!option_is_given(options, OPTION_hetero)) return STATUS_OK;
    costs->hetero = MEM_NEW(struct hetero);
    return hetero_read("--hetero", options->hetero, costs->hetero);
}

enum status cost_read(const struct options *options, bool files, struct costs **out) {
    SCOPED(cost_free) struct costs *costs = MEM_NEW(struct costs);
    costs->simulated = strcmp(options->clock, "virtual") == 0;
    TRY(read_units(options, costs));
    TRY(read_laws(options, costs));
    if (files) TRY(read_files(options, costs));
    *out = costs;
    costs = NULL;
    return STATUS_OK;
}

void cost_free(struct costs **costs) {
    if (!*costs) return;
    if ((*costs)->profile) profile_free((*costs)->profile);
    if ((*costs)->cluster) cluster_free((*costs)->cluster);
    if ((*costs)->hetero) hetero_free((*costs)->hetero);
    free((*costs)->units);
    free((*costs)->hetero);
    free((*costs)->profile);
    free((*costs)->cluster);
    free(*costs);
    *costs = NULL;
}

struct costs cost_of_work(const struct costs *costs) {
    return costs->delays ? cost_rules : *costs;
}

struct costs cost_at_rate(const struct costs *costs, const struct graph *graph, int micro_batches) {
    struct costs with = *costs;
    double flops = 0;
    if (!costs->hetero || costs->hetero->base_ns == 0) return with;
    for (int n = 0; n < graph->forward_count; n++) flops += cost_node_flops(graph, n);
    with.flop_ns = costs->hetero->base_ns / (flops * (micro_batches > 1 ? micro_batches : 1));
    return with;
}

/* --- devices --- */

void cost_devices_add(struct cost_devices *devices, struct cost_device device) {
    for (int i = 0; i < devices->count; i++)
        if (devices->item[i].class == device.class && devices->item[i].slowness == device.slowness)
            return;
    devices->item = mem_grow(devices->item, &devices->capacity, (size_t)devices->count + 1,
                             sizeof *devices->item);
    devices->item[devices->count++] = device;
}

void cost_devices_free(struct cost_devices *devices) {
    free(devices->item);
    *devices = (struct cost_devices){0};
}

int cost_class_count(const struct costs *costs) {
    return costs->cluster ? (int)costs->cluster->class_count : 1;
}

/* --- nodes --- */

double cost_node_flops(const struct graph *graph, int node) {
    struct op_call call = graph_call(graph, &graph->nodes[node]);
    return op_cost(&call).flops;
}

double cost_rule_ns(const struct graph *graph, int node) {
    struct op_call call = graph_call(graph, &graph->nodes[node]);
    if (!graph->nodes[node].kernel) return 0;
    return graph->device->backend->cost_ns(graph->device, &call);
}

/* On a device of one thread, whatever this run's has. */
static double rule_of_one_ns(const struct graph *graph, int node) {
    struct op_call call = graph_call(graph, &graph->nodes[node]);
    struct device one = *graph->device;
    one.threads = 1;
    return graph->nodes[node].kernel ? one.backend->cost_ns(&one, &call) : 0;
}

static double measured_ns(struct cost_table *table, int n, const struct op_cost *cost) {
    const struct costs *costs = table->costs;
    SCOPED(arena_free) struct arena arena = {0};
    struct profile_key key = profile_key_of(table->graph, &table->graph->nodes[n], &arena);
    table->row[n] = profile_find(costs->section, &key);
    double ns = 0;
    if (table->graph->nodes[n].kernel)
        ns = profile_op(costs->profile, costs->section, &key, cost, 1).ns;
    return ns;
}

static void look_up(struct cost_table *table, int n) {
    const struct costs *costs = table->costs;
    const struct node *node = &table->graph->nodes[n];
    struct op_call call = graph_call(table->graph, node);
    struct op_cost cost = op_cost(&call);
    if (costs->flop_ns > 0) {
        for (int c = 0; c < cost_class_count(costs); c++)
            table->ns[c * table->graph->node_count + n] = cost.flops * costs->flop_ns;
        return;
    }
    if (costs->section)
        table->ns[n] = measured_ns(table, n, &cost);
    else if (!costs->cluster)
        table->ns[n] =
            costs->simulated ? rule_of_one_ns(table->graph, n) : cost_rule_ns(table->graph, n);
    for (int c = 0; costs->cluster && node->kernel && c < cost_class_count(costs); c++)
        table->ns[c * table->graph->node_count + n] =
            cluster_class_ns(&costs->cluster->class[c], node -> op, &cost, table -> graph -> dtype,
                             table -> graph -> device -> tf32);
}

void cost_table_new(const struct costs *costs, const struct graph *graph, struct cost_table *out) {
    *out = (struct cost_table){.costs = costs, .graph = graph};
    out->ns = MEM_ARRAY(double, (size_t)cost_class_count(costs) * (size_t)graph->node_count + 1);
    if (costs->section) out->row = MEM_ARRAY(const struct profile_row *, graph->node_count + 1);
    for (int n = 0; n < graph->node_count; n++) look_up(out, n);
}

void cost_table_free(struct cost_table *table) {
    free(table->ns);
    free(table->row);
    *table = (struct cost_table){0};
}

static double crowd_of(const struct costs *costs, const struct cost_devices *on) {
    return on->in_step && costs->crowd > 1 ? costs->crowd : 1;
}

static double in_step_ns(const struct costs *costs, const struct cost_devices *on, double ns) {
    if (costs->cluster || costs->flop_ns > 0) return ns;
    if (!costs->section) return ns * crowd_of(costs, on);
    double ratio = costs->section->rate[PROFILE_TOGETHER].median;
    return ns * (ratio > 0 ? ratio : 1) + costs->section->rate[PROFILE_OPERATION].median;
}

double cost_node_ns(const struct cost_table *table, const struct cost_devices *on, int node) {
    double most = 0;
    if (!table->graph->nodes[node].kernel) return 0;
    for (int i = 0; i < on->count; i++) {
        double ns =
            table->ns[on->item[i].class * table->graph->node_count + node] * on->item[i].slowness;
        if (ns > most) most = ns;
    }
    return on->in_step ? in_step_ns(table->costs, on, most) : most;
}

static bool is_of(const struct node *node, enum cost_pass pass) {
    if (node->phase == PHASE_FORWARD) return pass == COST_PASS_F;
    return pass == COST_PASS_B || pass == (node->half == OP_HALF_W ? COST_PASS_W : COST_PASS_I);
}

double cost_pass_ns(const struct cost_table *table, const struct cost_devices *on,
                    const struct ranges *ranges, int stage, enum cost_pass pass) {
    enum phase phase = pass == COST_PASS_F ? PHASE_FORWARD : PHASE_BACKWARD;
    struct node_range nodes = ranges_find(ranges, stage, SEGMENT_ALL, phase);
    double sum = 0;
    if (table->costs->units) return table->costs->units->of[pass];
    for (int n = nodes.begin; n < nodes.end; n++)
        if (is_of(&table->graph->nodes[n], pass)) sum += cost_node_ns(table, on, n);
    return sum;
}

/* --- memory --- */

double cost_byte_ns(const struct costs *costs, const struct cost_devices *on, int threads) {
    double most = 0;
    if (costs->units) return 0;
    if (costs->section) return 1 / costs->section->rate[PROFILE_BYTES].median;
    if (!costs->cluster) return crowd_of(costs, on) / (COST_BYTES_PER_NS * threads);
    for (int i = 0; i < on->count; i++) {
        const struct cluster_class *class = &costs->cluster->class[on->item[i].class];
        double ns = on->item[i].slowness / class->bytes_per_ns;
        if (ns > most) most = ns;
    }
    return most;
}

double cost_array_ns(const struct costs *costs, const struct cost_devices *on, int threads) {
    return costs->simulated && costs->flop_ns > 0 ? 0 : cost_byte_ns(costs, on, threads);
}

double cost_add_ns(const struct costs *costs, const struct cost_devices *on, int threads,
                   double bytes, bool inside) {
    return inside && costs->flop_ns > 0 ? 0 : 3 * bytes * cost_array_ns(costs, on, threads);
}

/* Without a cluster the ranks of this machine copy messages themselves. The memory was last used by
 * another rank, so it is in no cache of this one: even a small message is read from memory and
 * written to it. */
double cost_copy_ns(const struct costs *costs, const struct cost_devices *on, int threads,
                    double bytes) {
    return costs->cluster ? 0 : 2 * bytes * cost_byte_ns(costs, on, threads);
}
