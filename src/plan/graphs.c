/* See graphs.h. */
#include "plan/graphs.h"

#include <stdlib.h>

#include "base/mem.h"

enum status graphs_make(const struct plan *plan, int64_t samples, bool training,
                        struct graph **out) {
    const struct run_config *config = &plan->config;
    struct model_config shape = config->shape;
    shape.batch = samples;
    shape.training = training;
    shape.stats_ranks = config->sync_bn ? config->replicas : 1;
    struct graph *graph = NULL;
    TRY(model_build(config->model, &shape, &graph));
    enum status status = STATUS_OK;
    const struct layout **layouts = NULL;
    graph_fuse(graph);
    if (training) TRY_GOTO(graph_gradient(graph), failed);
    if (plan->micro_count > 0) {
        const struct graph *main = plan->micro[0].graph;
        layouts = MEM_ARRAY(const struct layout *, main->param_count + 1);
        for (int i = 0; i < main->param_count; i++)
            layouts[i] = main->values[main->params[i].value].layout;
    }
    plan->device->dry = config->dry || config->grid.stages * config->grid.chunks > 1;
    TRY_GOTO(graph_lower(graph, plan->device, layouts), failed);
    free(layouts);
    *out = graph;
    return STATUS_OK;
failed:
    free(layouts);
    graph_free(&graph);
    return status;
}
