/* See choice_costs.h. */
#include "sim/choice_costs.h"

#include <stdlib.h>

#include "cost/key.h"

static double node_ns(const void *context, int position, const struct graph *graph,
                      const struct node *node) {
    const struct cost_source *source = context;
    (void)position;
    struct op_call call = graph_call(graph, node);
    struct op_cost cost = op_cost(&call);
    struct arena arena = {0};
    struct profile_key key = profile_key_of(graph, node, &arena);
    double ns = profile_op(source->profile, source->section, &key, &cost, 1).ns;
    arena_free(&arena);
    return ns;
}

/* --- devices of a cluster --- */

struct choice_device {
    const struct cluster_class *class;
    double slowness;
};

static int rank_at(const struct choice_devices *devices, int pipeline, int position) {
    return group_rank(&devices->grid, GROUP_PIPELINE, pipeline, position);
}

static void add_device(struct choice_devices *devices, int position, int rank) {
    struct choice_device own = {cluster_class(devices->cluster, rank),
                                cluster_slowness(devices->cluster, rank)};
    int end = devices->first[position + 1];
    for (int i = devices->first[position]; i < end; i++)
        if (devices->device[i].class == own.class && devices->device[i].slowness == own.slowness)
            return;
    devices->device[devices->first[position + 1]++] = own;
}

void choice_devices_new(const struct cluster *cluster, const struct grid *grid,
                        struct choice_devices *out) {
    *out = (struct choice_devices){.cluster = cluster, .grid = *grid};
    if (out->grid.chunks == 0) out->grid.chunks = 1;
    int pipelines = group_count(&out->grid, GROUP_PIPELINE), stages = grid->stages;
    out->device = MEM_ARRAY(struct choice_device, (int64_t)pipelines * stages + 1);
    out->first = MEM_ARRAY(int, stages + 1);
    for (int p = 0; p < stages; p++) {
        out->first[p + 1] = out->first[p];
        for (int i = 0; i < pipelines; i++) add_device(out, p, rank_at(out, i, p));
    }
}

void choice_devices_free(struct choice_devices *devices) {
    free(devices->device);
    free(devices->first);
    *devices = (struct choice_devices){0};
}

static double node_in_cluster(const void *context, int position, const struct graph *graph,
                              const struct node *node) {
    const struct choice_devices *devices = context;
    struct op_call call = graph_call(graph, node);
    struct op_cost cost = op_cost(&call);
    double most = 0;
    for (int i = devices->first[position]; i < devices->first[position + 1]; i++) {
        const struct choice_device *of = &devices->device[i];
        double ns = cluster_class_ns(of->class, node->op, &cost) * of->slowness;
        if (ns > most) most = ns;
    }
    return most;
}

static double byte_in_cluster(const void *context, int position) {
    const struct choice_devices *devices = context;
    double most = 0;
    for (int i = devices->first[position]; i < devices->first[position + 1]; i++) {
        double ns = devices->device[i].slowness / devices->device[i].class->bytes_per_ns;
        if (ns > most) most = ns;
    }
    return most;
}

static struct choice_link link_in_cluster(const void *context, int from, int to) {
    const struct choice_devices *devices = context;
    struct choice_link slowest = {0};
    for (int i = 0; from != to && i < group_count(&devices->grid, GROUP_PIPELINE); i++) {
        struct cluster_link link =
            cluster_link(devices->cluster, rank_at(devices, i, from), rank_at(devices, i, to));
        if (link.latency_ns > slowest.latency_ns) slowest.latency_ns = link.latency_ns;
        if (1 / link.bytes_per_ns > slowest.byte_ns) slowest.byte_ns = 1 / link.bytes_per_ns;
    }
    return slowest;
}

/* --- the whole --- */

struct choice_costs choice_costs_of(const struct cost_source *source,
                                    const struct choice_devices *devices) {
    const struct cost_units *units = source->units;
    const struct profile_section *section = source->section;
    if (units)
        return (struct choice_costs){.units = true,
                                     .f = units->of[COST_F],
                                     .i = units->of[COST_I],
                                     .w = units->of[COST_W],
                                     .message = units->of[COST_C]};
    if (!section && source->cluster)
        return (struct choice_costs){.node_ns = node_in_cluster,
                                     .context = devices,
                                     .byte_ns = byte_in_cluster,
                                     .link = link_in_cluster};
    if (!section) return (struct choice_costs){0};
    return (struct choice_costs){.node_ns = node_ns,
                                 .context = source,
                                 .bytes_per_ns = section->rate[PROFILE_BYTES].median,
                                 .hop_ns = section->link[PROFILE_IN_HOST].latency_ns.median};
}
