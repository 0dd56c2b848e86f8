/* See forecast.h. */
#include "sim/forecast.h"

#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "graph/freeze.h"

/* --- the interval --- */

/* How often each pass of each stage is on the path; segments count as their share. */
static double *uses_on_path(const struct forecast *forecast) {
    double *uses = MEM_ARRAY(double, forecast->costs.stage_count *COST_PASS_COUNT);
    for (int i = 0; i < forecast->path.count; i++) {
        const struct sim_path_item *item = &forecast->path.item[i];
        int rank = forecast->result.rank[item->run].rank;
        const struct instr *instr =
            &program_list(forecast->input.program, rank, LIST_BODY)->items[item->at];
        int pass = sim_pass_of(instr);
        if (item->transfer || pass < 0) continue;
        double whole = forecast->costs.costs[0].stage[instr->stage].pass[pass];
        if (whole > 0)
            uses[instr->stage * COST_PASS_COUNT + pass] += (item->end - item->begin) / whole;
    }
    return uses;
}

/* What all operations have in common, so that it does not cancel. The forecast is of a run's median
 * step: how steps differ counts only as far as it makes the measured median unsure. */
static double common_variance(double step, const struct measure *together) {
    double error = together->median > 0 ? measure_median_error(together) / together->median : 0;
    return estimate_relative(step, error).variance +
           estimate_relative(step, PROFILE_PROGRAM_DEVIATION).variance;
}

/* Rules of operations may all be wrong in the same way, so their errors do not cancel. */
static void bound(struct forecast *forecast, const struct plan *plan, const struct costs *costs) {
    double step = forecast->result.step;
    struct estimate estimate = {.ns = step};
    bool given = costs->units || costs->cluster || costs->hetero || costs->simulated;
    if (!given && !costs->section) estimate = estimate_relative(step, PROFILE_RATE_DEVIATION);
    if (costs->section) {
        SCOPED_FREE double *uses = uses_on_path(forecast);
        estimate.variance = sim_costs_variance(plan, &forecast->costs, uses) +
                            common_variance(step, &costs->section->rate[PROFILE_TOGETHER]);
    }
    struct estimate_interval interval = estimate_interval(estimate, ESTIMATE_Z90);
    forecast->low = interval.low_ns;
    forecast->high = interval.high_ns;
}

/* --- the whole --- */

static enum status simulate(struct forecast *forecast) {
    int64_t begin = clock_ns();
    TRY(sim_run(&forecast->input, &forecast->result));
    forecast->seconds = (double)(clock_ns() - begin) * 1e-9;
    if (forecast->result.record) sim_path(&forecast->input, &forecast->result, &forecast->path);
    return STATUS_OK;
}

int forecast_steps(const struct program *program) {
    enum { CHOSEN_STEPS = 40 };
    if (program_chosen(program) >= 0) return CHOSEN_STEPS;
    return program->ahead > 0 ? 4 * program->grid.stages : FORECAST_STEPS;
}

/* In virtual time a rank has a device of its own: nothing depends on this machine's cores. */
enum status forecast_input(const struct plan *plan, const struct costs *costs,
                           struct plan_costs *out_costs, struct sim_input *out) {
    TRY(sim_costs_new(plan, costs, out_costs));
    int threads = costs->simulated ? 1 : plan->config.threads;
    *out = (struct sim_input){.program = plan->program,
                              .costs = out_costs->costs,
                              .net = cost_net_of(costs, threads),
                              .seed = plan->config.seed,
                              .groups = plan->config.chooses ? &plan->config.groups : NULL,
                              .steps = forecast_steps(plan->program),
                              .record = !plan->config.chooses};
    return STATUS_OK;
}

/* Such a step, as if all were. */
static enum status simulate_averaging(struct forecast *forecast) {
    struct sim_input input = forecast->input;
    struct sim_result result;
    if (input.program->every == 0) return STATUS_OK;
    SCOPED(program_free) struct program *program = program_of_last(input.program);
    input.program = program;
    input.record = false;
    TRY(sim_run(&input, &result));
    forecast->averaging = result.step;
    sim_result_free(&result);
    return STATUS_OK;
}

enum status forecast_new(const struct plan *plan, const struct costs *costs, bool apart,
                         struct forecast *out) {
    struct forecast forecast = {.units = costs->units != NULL};
    TRY(forecast_input(plan, costs, &forecast.costs, &forecast.input));
    if (plan->config.forward)
        forecast.input.program = forecast.round = program_round(plan->program);
    forecast.input.apart = apart;
    enum status status = simulate(&forecast);
    if (status == STATUS_OK) status = simulate_averaging(&forecast);
    if (status == STATUS_OK) {
        bound(&forecast, plan, costs);
        *out = forecast;
    } else {
        forecast_free(&forecast);
    }
    return status;
}

static bool norm_meets(const struct program *program) {
    for (int k = 0; k < program->kind_count; k++) {
        const struct instr_list *body = &program->kinds[k].list[LIST_BODY];
        for (int i = 0; i < body->count; i++)
            if (body->items[i].op == INSTR_NORM && body->items[i].group != INSTR_ALL) return true;
    }
    return false;
}

enum status forecast_clip(const struct forecast *forecast, bool *waits, double *time) {
    struct sim_input input = forecast->input;
    SCOPED(sim_result_free) struct sim_result result = {0};
    *waits = program_clips(input.program) && norm_meets(input.program);
    if (!*waits) return STATUS_OK;
    input.record = false;
    input.unclipped = true;
    TRY(sim_run(&input, &result));
    double more = forecast->result.step - result.step;
    *time = more > 0 ? more : 0;
    return STATUS_OK;
}

void forecast_free(struct forecast *forecast) {
    sim_path_free(&forecast->path);
    sim_result_free(&forecast->result);
    sim_costs_free(&forecast->costs);
    program_free(&forecast->round);
}

/* Bytes of all values that move, and how many tensors they are. */
static double moved_bytes(const struct plan *plan, double *tensors) {
    const struct graph *graph = plan->micro[0].graph;
    int states = plan->config.optimizer->state_count;
    double elements =
        (double)graph_param_elements(graph) + (double)freeze_trained_elements(graph) * states;
    double bytes = elements * (double)dtype_bytes(STORE_DTYPE);
    *tensors = graph->param_count * (1.0 + states) + graph->buffer_count;
    for (int b = 0; b < graph->buffer_count; b++)
        bytes += (double)tensor_type_bytes(&graph->values[graph->buffers[b].value].type);
    return bytes;
}

double forecast_change(const struct plan *plan, const struct costs *costs) {
    struct cost_net net = cost_net_of(costs, plan->config.threads);
    struct cost_link slowest = net.own;
    double tensors, bytes = moved_bytes(plan, &tensors);
    for (int r = 1; r < plan->config.ranks; r++)
        slowest = cost_slower_link(slowest, cost_link(&net, 0, r));
    return tensors * slowest.latency + cost_moving(slowest, bytes);
}
