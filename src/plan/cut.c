/* See cut.h. Times come with the configuration: a plan follows from files, never from a clock. */
#include "plan/cut.h"

#include <stdlib.h>

#include "base/mem.h"

/* Times of a profile: other costs are estimates, and do not count here. The caller frees them.
 * NULL: not known. */
static double *times_of(const struct plan *plan) {
    const struct run_config *config = &plan->config;
    SCOPED(cost_table_free) struct cost_table table = {0};
    if (config->balance != BALANCE_TIME || !config->costs->section) return NULL;
    cost_table_new(config->costs, plan->micro[0].graph, &table);
    double *ns = table.ns;
    table.ns = NULL;
    return ns;
}

struct partition_config cut_config(const struct plan *plan) {
    const struct run_config *config = &plan->config;
    return (struct partition_config){.chunks = plan_stages(plan),
                                     .balance = config->balance,
                                     .cut = config->cut,
                                     .cut_count = config->cut_count,
                                     .rule = config->pipe,
                                     .grads = 1,
                                     .states = config->optimizer->state_count};
}

enum status plan_cut(struct plan *plan) {
    double *node_ns = times_of(plan);
    struct partition_config partition = cut_config(plan);
    const struct graph *graph = plan->micro[0].graph;
    const struct partition *shared;
    partition.node_ns = node_ns;
    enum status status = plan->pool ? plan_pool_partition(plan->pool, graph, &partition, &shared)
                                    : partition_new(graph, &partition, &plan->partition);
    if (status == STATUS_OK && plan->pool) plan->partition = *shared;
    free(node_ns);
    return status;
}
