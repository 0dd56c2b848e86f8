/* See cut.h. Times come from who made the configuration: a plan follows from files, never from a
 * clock. */
#include "plan/cut.h"

#include <stdlib.h>

#include "base/mem.h"

/* The caller frees them. NULL: not known. */
static double *times_of(const struct plan *plan) {
    const struct run_config *config = &plan->config;
    const struct graph *graph = plan->micro[0].graph;
    if (!config->node_times) return NULL;
    double *ns = MEM_ARRAY(double, graph->node_count);
    config->node_times(config, graph, ns);
    return ns;
}

enum status plan_cut(struct plan *plan) {
    const struct run_config *config = &plan->config;
    double *node_ns = times_of(plan);
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
