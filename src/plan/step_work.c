/* What a rank will do in a step: sums over its nodes. Limits of waits follow the rules of this
 * machine's device, whatever costs a forecast has: it is this machine that is waited for. */
#include "backend/copy.h"
#include "plan/plan.h"

/* Micro-batches that this rank runs in a step. */
static int micros(const struct plan *plan) {
    return plan->config.cell.replica_count * plan->config.micro_batches;
}

/* A sum over the nodes of this rank's stages. */
static double sum_nodes(const struct plan *plan, const struct micro_plan *micro,
                        double (*of)(const struct graph *graph, int node)) {
    double sum = 0;
    for (int i = 0; i < plan->chunk_count * PHASE_COUNT; i++) {
        struct node_range nodes = ranges_find(&micro->ranges, plan->chunk[i / PHASE_COUNT].stage,
                                              SEGMENT_ALL, (enum phase)(i % PHASE_COUNT));
        for (int n = nodes.begin; n < nodes.end; n++) sum += of(micro->graph, n);
    }
    return sum;
}

/* A sum over the nodes that run again in a step. */
static double sum_again(const struct plan *plan,
                        double (*of)(const struct graph *graph, int node)) {
    const struct instr_list *body = program_list(plan->program, plan->config.rank, LIST_BODY);
    const struct micro_plan *main = &plan->micro[0];
    double sum = 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        struct recompute recompute =
            graph_recompute_of(&main->ranges, plan->chunk[c].stage, plan->forms.blocks);
        int times = 0;
        for (int i = 0; i < body->count; i++)
            times += body->items[i].op == INSTR_R && body->items[i].segment <= 0 &&
                     body->items[i].stage == plan->chunk[c].stage;
        for (int n = 0; times && n < main->graph->forward_count; n++)
            if (recompute.again[n]) sum += of(main->graph, n) * times;
        graph_recompute_free(&recompute);
    }
    return sum;
}

double plan_recompute_flops(const struct plan *plan) {
    return sum_again(plan, cost_node_flops);
}

double plan_step_flops(const struct plan *plan) {
    return sum_nodes(plan, &plan->micro[0], cost_node_flops) * micros(plan) +
           plan_recompute_flops(plan);
}

/* Whether the instruction runs the node, as in the executor. There a pure F also leaves out nodes
 * with side effects; these cost nothing. */
static bool in_pass(const struct plan *plan, const struct micro_plan *micro,
                    const struct instr *instr, int node) {
    enum op_half half = micro->graph->nodes[node].half;
    if (instr->op == INSTR_I) return half == OP_HALF_I;
    if (instr->op == INSTR_W) return half == OP_HALF_W;
    if (instr->op != INSTR_R) return true;
    int chunk = grid_chunk(&plan->program->grid, instr->stage);
    return plan_placement(plan, micro, chunk, instr->slot)->life.recompute.again[node];
}

double plan_pass_flops(const struct plan *plan, const struct micro_plan *micro,
                       const struct instr *instr) {
    struct node_range nodes = ranges_of_bucket(
        &micro->ranges, instr->stage, instr_is_segment(instr) ? instr->segment : SEGMENT_ALL,
        instr_is_forward(instr) ? PHASE_FORWARD : PHASE_BACKWARD);
    double flops = 0;
    for (int n = nodes.begin; n < nodes.end; n++)
        if (in_pass(plan, micro, instr, n)) flops += cost_node_flops(micro->graph, n);
    return flops;
}

int64_t plan_delay_ns(const struct plan *plan, const struct instr *instr) {
    int kind = instr_cost_kind(instr);
    return kind < 0 ? 0 : (int64_t)plan->config.costs->units->of[kind];
}

static double delays_ns(const struct plan *plan) {
    const struct instr_list *body = program_list(plan->program, plan->config.rank, LIST_BODY);
    double sum = 0;
    for (int i = 0; i < body->count; i++) sum += (double)plan_delay_ns(plan, &body->items[i]);
    return sum;
}

/* With the laws of --hetero, of which `base` may give passes more time than they need. */
static double most_ns(const struct plan *plan, double ns) {
    const struct instr_list *body = program_list(plan->program, plan->config.rank, LIST_BODY);
    double base_ns = plan_step_flops(plan) * plan->flop_ns;
    int passes = 0;
    for (int i = 0; i < body->count; i++) passes += instr_runs_nodes(&body->items[i]);
    return hetero_most_ns(plan->config.costs->hetero, base_ns > ns ? base_ns : ns, passes);
}

double plan_step_ns(const struct plan *plan) {
    if (plan->config.costs->delays) return delays_ns(plan);
    double ns = sum_nodes(plan, &plan->micro[0], cost_rule_ns) * micros(plan) +
                sum_again(plan, cost_rule_ns);
    return plan->config.costs->hetero ? most_ns(plan, ns) : ns;
}

double plan_evaluation_ns(const struct plan *plan) {
    const struct micro_plan *micro = plan_micro(plan, plan->eval_batch, false);
    int64_t round = plan->eval_batch * group_count(&plan->config.grid, GROUP_PIPELINE),
            test = plan->config.dataset->count[plan->config.eval_split];
    return micro ? sum_nodes(plan, micro, cost_rule_ns) * (double)((test + round - 1) / round) : 0;
}

enum status plan_warm_up(const struct plan *plan) {
    const struct graph *graph = plan->micro[plan->config.forward].graph; /* the first that runs */
    const struct backend *backend = plan->device->backend;
    const struct layout *other = NULL;
    for (int n = 0; backend->warm_up && n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        bool narrow = node->in_count > 0 && dtype_is_narrow(graph->values[node->in[0]].type.dtype);
        backend->warm_up(plan->device, node->op, narrow);
    }
    for (int p = 0; p < graph->param_count && !other; p++) {
        const struct layout *layout = graph->values[graph->params[p].value].layout;
        if (!layout->plain) other = layout;
    }
    return other ? layout_warm_up(plan->device, other) : STATUS_OK;
}

/* Instructions of the driver that meet others in one of two ways. */
static int driver_meets(const struct plan *plan, enum instr_meets meets) {
    int count = 0;
    if (plan->config.grid.drivers == 0) return 0;
    const struct instr_list *body = program_list(plan->program, 0, LIST_BODY);
    for (int i = 0; i < body->count; i++) count += instr_row(&body->items[i])->meets == meets;
    return count;
}

int plan_calls(const struct plan *plan) {
    return driver_meets(plan, MEETS_CALL);
}

int plan_round_trips(const struct plan *plan) {
    return driver_meets(plan, MEETS_GROUP);
}
