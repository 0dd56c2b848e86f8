/* See cut.h. Times come from who made the configuration: a plan follows from files, never from a
 * clock. */
#include "plan/cut.h"

#include <stdlib.h>

#include "base/mem.h"

static enum status times_of(const struct plan *plan, double **out) {
    const struct run_config *config = &plan->config;
    const struct graph *graph = plan->micro[0].graph;
    *out = NULL;
    if (!config->node_times) return STATUS_OK;
    double *ns = MEM_ARRAY(double, graph->node_count);
    enum status status = config->node_times(config, plan->device, graph, ns);
    if (status == STATUS_OK)
        *out = ns;
    else
        free(ns);
    return status;
}

enum status plan_cut(struct plan *plan) {
    const struct run_config *config = &plan->config;
    double *node_ns;
    TRY(times_of(plan, &node_ns));
    struct partition_config partition = {.chunks = config->grid.stages * config->grid.chunks,
                                         .balance = config->balance,
                                         .cut = config->cut,
                                         .cut_count = config->cut_count,
                                         .node_ns = node_ns,
                                         .grads = 1,
                                         .states = config->optimizer->state_count};
    enum status status = partition_new(plan->micro[0].graph, &partition, &plan->partition);
    free(node_ns);
    return status;
}
