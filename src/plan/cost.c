/* What a run costs, before it runs: sums of the operations' rules and of the backend's estimates.
 */
#include "plan/plan.h"

/* Micro-batches that this rank runs in a step. */
static int micros(const struct plan *plan) {
    return plan->config.cell.replica_count * plan->config.micro_batches;
}

double plan_step_flops(const struct plan *plan) {
    const struct graph *graph = plan->micro[0].graph;
    double micro = graph_cost(graph, PHASE_FORWARD).flops + graph_cost(graph, PHASE_BACKWARD).flops;
    return micro * micros(plan);
}

static double graph_ns(const struct plan *plan, const struct graph *graph) {
    double sum = 0;
    for (int i = 0; i < graph->node_count; i++) {
        struct op_call call = graph_call(graph, &graph->nodes[i]);
        if (graph->nodes[i].kernel) sum += plan->device->backend->cost_ns(plan->device, &call);
    }
    return sum;
}

double plan_step_ns(const struct plan *plan) {
    return graph_ns(plan, plan->micro[0].graph) * micros(plan);
}

double plan_evaluation_ns(const struct plan *plan) {
    const struct micro_plan *micro = plan_micro(plan, plan->eval_batch, false);
    int64_t round = plan->eval_batch * group_count(&plan->config.grid, GROUP_PIPELINE),
            test = plan->config.dataset->count[SPLIT_TEST];
    return micro ? graph_ns(plan, micro->graph) * (double)((test + round - 1) / round) : 0;
}
