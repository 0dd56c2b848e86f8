/* See forecast.h. */
#include "sim/forecast.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"

/* Ranks of one machine: what a message takes beside its copies, unless a profile says. */
#define LATENCY_NS 1000.0

/* --- links --- */

static int class_in_cluster(const void *context, int rank) {
    const struct cluster *cluster = context;
    return (int)(cluster_class(cluster, rank) - cluster->class);
}

static double slowness_in_cluster(const void *context, int rank) {
    return cluster_slowness(context, rank);
}

static struct sim_link link_in_cluster(const void *context, int from, int to) {
    struct cluster_link link = cluster_link(context, from, to);
    return (struct sim_link){link.latency_ns, link.bytes_per_ns};
}

static void use_cluster(struct sim_input *input, const struct cluster *cluster) {
    input->context = cluster;
    input->class_of = class_in_cluster;
    input->slowness = slowness_in_cluster;
    input->link_of = link_in_cluster;
    input->own = link_in_cluster(cluster, 0, 0);
    input->collective = SIM_COLLECTIVE_RING;
}

static void use_units(struct sim_input *input, const struct cost_units *units) {
    input->link.latency = input->group_link.latency = units->of[COST_C];
    input->collective = SIM_COLLECTIVE_FREE;
}

/* Messages are copied by sender and receiver, whose time that is. */
static void use_machine(struct sim_input *input, const struct plan *plan,
                        const struct profile_section *section) {
    const struct profile_link *measured = section ? &section->link[PROFILE_IN_HOST] : NULL;
    bool latency = measured && measured->latency_ns.samples > 0,
         rate = measured && measured->bytes_per_ns.samples > 0;
    input->link.latency = latency ? measured->latency_ns.median : LATENCY_NS;
    input->group_link = (struct sim_link){
        input->link.latency, rate      ? measured->bytes_per_ns.median
                             : section ? section->rate[PROFILE_BYTES].median
                                       : PLAN_COSTS_BYTES_PER_NS * plan->config.threads};
    input->wake = section ? section->rate[PROFILE_WAKE].median : 0;
    input->awake = PROFILE_AWAKE_NS;
    input->collective = SIM_COLLECTIVE_SHARED;
}

/* --- the interval --- */

/* How often each pass of each stage is on the path; segments count as their share. */
static double *uses_on_path(const struct forecast *forecast) {
    double *uses = MEM_ARRAY(double, forecast->costs.stage_count *SIM_PASS_COUNT);
    for (int i = 0; i < forecast->path.count; i++) {
        const struct sim_path_item *item = &forecast->path.item[i];
        int rank = forecast->result.rank[item->run].rank;
        const struct instr *instr =
            &program_list(forecast->input.program, rank, LIST_BODY)->items[item->at];
        int pass = sim_pass_of(instr);
        if (item->transfer || pass < 0) continue;
        double whole = forecast->costs.costs[0].stage[instr->stage].pass[pass];
        if (whole > 0)
            uses[instr->stage * SIM_PASS_COUNT + pass] += (item->end - item->begin) / whole;
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
static void bound(struct forecast *forecast, const struct plan *plan,
                  const struct cost_source *source) {
    double step = forecast->result.step;
    struct estimate estimate = {.ns = step};
    bool given = source->units || source->cluster;
    if (!given && !source->section) estimate = estimate_relative(step, PROFILE_RATE_DEVIATION);
    if (source->section) {
        double *uses = uses_on_path(forecast);
        estimate.variance = plan_costs_variance(plan, source, uses) +
                            common_variance(step, &source->section->rate[PROFILE_TOGETHER]);
        free(uses);
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

enum status forecast_new(const struct plan *plan, const struct cost_source *source,
                         struct forecast *out) {
    struct forecast forecast = {.units = source->units != NULL};
    TRY(plan_costs_new(plan, source, &forecast.costs));
    if (plan->config.forward) forecast.round = program_round(plan->program);
    forecast.input = (struct sim_input){.program = forecast.round ? forecast.round : plan->program,
                                        .costs = forecast.costs.costs,
                                        .steps = FORECAST_STEPS,
                                        .record = true,
                                        .apart = source->apart};
    if (source->units)
        use_units(&forecast.input, source->units);
    else if (source->section || !source->cluster)
        use_machine(&forecast.input, plan, source->section);
    else
        use_cluster(&forecast.input, source->cluster);
    enum status status = simulate(&forecast);
    if (status == STATUS_OK) {
        bound(&forecast, plan, source);
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
    struct sim_result result;
    *waits = program_clips(input.program) && norm_meets(input.program);
    if (!*waits) return STATUS_OK;
    input.record = false;
    input.unclipped = true;
    TRY(sim_run(&input, &result));
    double more = forecast->result.step - result.step;
    *time = more > 0 ? more : 0;
    sim_result_free(&result);
    return STATUS_OK;
}

void forecast_free(struct forecast *forecast) {
    sim_path_free(&forecast->path);
    sim_result_free(&forecast->result);
    plan_costs_free(&forecast->costs);
    program_free(&forecast->round);
}
