/* See choice_costs.h. */
#include "sim/choice_costs.h"

#include "sim/key.h"

static double node_ns(const void *context, const struct graph *graph, const struct node *node) {
    const struct cost_source *source = context;
    struct op_call call = graph_call(graph, node);
    struct op_cost cost = op_cost(&call);
    struct arena arena = {0};
    struct profile_key key = profile_key_of(graph, node, &arena);
    double ns = profile_op(source->profile, source->section, &key, &cost, 1).ns;
    arena_free(&arena);
    return ns;
}

struct choice_costs choice_costs_of(const struct cost_source *source) {
    const struct costs *units = source->units;
    const struct profile_section *section = source->section;
    if (units)
        return (struct choice_costs){.units = true,
                                     .f = units->of[COST_F],
                                     .i = units->of[COST_I],
                                     .w = units->of[COST_W],
                                     .message = units->of[COST_C]};
    if (!section) return (struct choice_costs){0};
    return (struct choice_costs){.node_ns = node_ns,
                                 .context = source,
                                 .bytes_per_ns = section->rate[PROFILE_BYTES].median,
                                 .hop_ns = section->link[PROFILE_IN_HOST].latency_ns.median};
}
