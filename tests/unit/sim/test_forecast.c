/* Forecasts of plans: what stages cost by rules, by profiles and by clusters, and how sure it is.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../exec/kit.h"
#include "cost/key.h"
#include "sim/forecast.h"

/* A plan of rank 0. */
struct planned {
    struct options options;
    struct kit_plan kit;
};

static struct planned plan_of(const char *line, int ranks) {
    struct planned planned;
    kit_options(line, &planned.options);
    cr_assert_eq(kit_plan(&planned.options, 0, ranks, NULL, &planned.kit), STATUS_OK);
    return planned;
}

static void planned_free(struct planned *planned) {
    kit_plan_free(&planned->kit);
    options_free(&planned->options);
}

#define PIPE                                                                                       \
    "--model resnet8 --device ref --threads 1 --batch 32 --micro-batches 8 --strategy 1f1b "

static double pass_sum(const struct plan_costs *costs, enum cost_pass pass) {
    double sum = 0;
    for (int s = 0; s < costs->stage_count; s++) sum += costs->costs[0].stage[s].pass[pass];
    return sum;
}

/* --- stages --- */

/* However the model is cut, its stages cost what all of it costs. */
Test(sim_forecast, stages_add_up_to_the_plan) {
    struct planned whole =
        plan_of("--model resnet8 --device ref --threads 1 --batch 32 --micro-batches 8", 1);
    double want = plan_step_ns(whole.kit.plan) / 8;
    planned_free(&whole);
    for (int stages = 1; stages <= 4; stages++) {
        struct planned planned = plan_of(PIPE, stages);
        struct costs rules = {0};
        struct plan_costs costs;
        cr_assert_eq(sim_costs_new(planned.kit.plan, &rules, &costs), STATUS_OK);
        cr_expect_eq(costs.stage_count, stages);
        double halves = pass_sum(&costs, COST_PASS_I) + pass_sum(&costs, COST_PASS_W),
               b = pass_sum(&costs, COST_PASS_B);
        cr_expect_float_eq(pass_sum(&costs, COST_PASS_F) + b, want, 1e-6 * want);
        cr_expect_float_eq(halves, b, 1e-6 * b);
        for (int s = 0; s < stages; s++) {
            const struct sim_stage *stage = &costs.costs[0].stage[s];
            double share = 0;
            for (int e = 0; e < stage->segment_count; e++) share += stage->segment[e];
            cr_expect_float_eq(share, 1, 1e-9, "stage %d: segments are %g of it", s, share);
            cr_expect_eq(stage->message_bytes[SIM_FORWARD] > 0, s + 1 < stages);
            const struct crossing *crossing = planned.kit.plan->micro[0].crossing;
            if (s + 1 < stages) /* of a step: evaluation has larger ones */
                cr_expect_eq((size_t)stage->message_bytes[SIM_FORWARD],
                             crossing[s * PHASE_COUNT + PHASE_FORWARD].bytes);
            cr_expect_eq(stage->message_bytes[SIM_BACKWARD] > 0, s > 0);
            cr_expect_gt(stage->fixed_bytes, 0);
        }
        sim_costs_free(&costs);
        planned_free(&planned);
    }
}

/* Of passes with a given time segments are equal parts: --delay waits for them so. */
Test(sim_forecast, segments_of_given_times_are_equal) {
    struct planned planned = plan_of(PIPE, 2);
    struct cost_units units = {{[COST_F] = 1000, [COST_B] = 2000}};
    struct costs given = {.units = &units};
    struct plan_costs costs;
    cr_assert_eq(sim_costs_new(planned.kit.plan, &given, &costs), STATUS_OK);
    for (int s = 0; s < 2; s++) cr_expect_null(costs.costs[0].stage[s].segment, "stage %d", s);
    sim_costs_free(&costs);
    planned_free(&planned);
}

/* --- by hand --- */

Test(sim_forecast, units_give_the_closed_form) {
    struct planned planned = plan_of(PIPE, 4);
    struct cost_units units;
    struct forecast forecast;
    cr_assert_eq(cost_units_parse("--costs", "f=1,i=2,w=0.5,s=3", &units), STATUS_OK);
    struct costs source = {.units = &units};
    cr_assert_eq(forecast_new(planned.kit.plan, &source, false, &forecast), STATUS_OK);
    cr_expect_float_eq(forecast.result.step, (8 + 4 - 1) * 3.5 + 3, 1e-9, "%g",
                       forecast.result.step);
    cr_expect_eq(forecast.low, forecast.high);
    cr_expect(forecast.units);
    forecast_free(&forecast);
    planned_free(&planned);
}

/* --- rules --- */

Test(sim_forecast, rules_are_unsure_by_a_quarter) {
    struct planned planned = plan_of(PIPE, 2);
    struct costs rules = {0}, crowded = {.crowd = 3};
    struct forecast forecast, slower;
    cr_assert_eq(forecast_new(planned.kit.plan, &rules, false, &forecast), STATUS_OK);
    cr_assert_eq(forecast_new(planned.kit.plan, &crowded, false, &slower), STATUS_OK);
    double step = forecast.result.step, half = ESTIMATE_Z90 * PROFILE_RATE_DEVIATION * step;
    cr_expect_float_eq(forecast.low, step - half, 1e-6 * step);
    cr_expect_float_eq(forecast.high, step + half, 1e-6 * step);
    cr_expect_gt(slower.result.step, 2.9 * step);
    forecast_free(&forecast);
    forecast_free(&slower);
    planned_free(&planned);
}

/* --- profiles --- */

/* Every node takes 1,000 ns, but for spread. */
static struct profile_section *measure_all(struct profile *profile, const struct graph *graph,
                                           double iqr) {
    struct profile_place place = {"ref", "none", 1, 2};
    struct profile_section *section = profile_section_for(profile, &place);
    struct arena arena = {0};
    struct measure ns = {1000, iqr, 20};
    section->rate[PROFILE_FLOPS] = section->rate[PROFILE_BYTES] = (struct measure){1e9, 0, 1};
    for (int i = 0; i < graph->node_count; i++) {
        struct profile_key key = profile_key_of(graph, &graph->nodes[i], &arena);
        if (!profile_find(section, &key)) profile_record(profile, section, &key, &ns);
    }
    arena_free(&arena);
    return section;
}

/* `together` is the ratio of all to their medians, `beside` the executor's time for each. */
static struct forecast of_profile(const struct plan *plan, double iqr, struct measure together,
                                  double beside) {
    struct profile profile;
    struct forecast forecast;
    profile_init("a profile", &profile);
    struct profile_section *section = measure_all(&profile, plan->micro[0].graph, iqr);
    struct costs source = {.profile = &profile, .section = section};
    section->rate[PROFILE_TOGETHER] = together;
    section->rate[PROFILE_OPERATION] = (struct measure){beside, 0, 1};
    cr_assert_eq(forecast_new(plan, &source, false, &forecast), STATUS_OK);
    cr_expect_eq(profile.misses, 0);
    profile_free(&profile);
    return forecast;
}

Test(sim_forecast, a_profile_gives_times_and_an_interval) {
    struct planned planned = plan_of(PIPE, 2);
    const struct graph *graph = planned.kit.plan->micro[0].graph;
    struct measure none = {0};
    struct forecast sure = of_profile(planned.kit.plan, 0, none, 0),
                    unsure = of_profile(planned.kit.plan, 400, none, 0);
    double nodes = 0;
    for (int i = 0; i < graph->node_count; i++) nodes += graph->nodes[i].kernel != NULL;
    double all = pass_sum(&sure.costs, COST_PASS_F) + pass_sum(&sure.costs, COST_PASS_B);
    cr_expect_float_eq(all, 1000 * nodes, 1e-6);
    cr_expect_float_eq(sure.result.step, unsure.result.step, 1e-6);
    double least = ESTIMATE_Z90 * PROFILE_PROGRAM_DEVIATION * sure.result.step,
           half = (unsure.high - unsure.low) / 2;
    cr_expect_float_eq((sure.high - sure.low) / 2, least, 1e-6);
    cr_expect_gt(half, 1.01 * least);
    cr_expect_lt(half, 0.1 * unsure.result.step, "%g of %g", half, unsure.result.step);
    forecast_free(&sure);
    forecast_free(&unsure);
    planned_free(&planned);
}

/* The first stage reads the images, four a micro-batch; the others only labels. */
Test(sim_forecast, reading_images_takes_time_from_the_stage_that_has_them) {
    struct planned planned = plan_of(PIPE, 2);
    struct profile profile;
    profile_init("p", &profile);
    struct profile_section *section = measure_all(&profile, planned.kit.plan->micro[0].graph, 0);
    struct costs source = {.profile = &profile, .section = section};
    for (int known = 0; known < 2; known++) {
        struct plan_costs costs;
        section->rate[PROFILE_SAMPLE] = (struct measure){known ? 50 : 0, 0, known};
        cr_assert_eq(sim_costs_new(planned.kit.plan, &source, &costs), STATUS_OK);
        cr_expect_float_eq(costs.costs[0].stage[0].load, known ? 4 * 50 : 0, 1e-9);
        cr_expect_float_eq(costs.costs[0].stage[1].load, 0, 1e-9);
        sim_costs_free(&costs);
    }
    profile_free(&profile);
    planned_free(&planned);
}

/* A factor on all, and how much it varies; the executor's own time is not part of it. */
Test(sim_forecast, operations_together_take_longer_than_their_medians) {
    struct planned planned = plan_of(PIPE, 2);
    const struct graph *graph = planned.kit.plan->micro[0].graph;
    double spread = 0.1 * 1.3489795003921634; /* the range of a deviation of 10% */
    struct forecast all = of_profile(planned.kit.plan, 0, (struct measure){2, 2 * spread, 20}, 50);
    double nodes = 0;
    for (int i = 0; i < graph->node_count; i++) nodes += graph->nodes[i].kernel != NULL;
    double sum = pass_sum(&all.costs, COST_PASS_F) + pass_sum(&all.costs, COST_PASS_B);
    cr_expect_float_eq(sum, (2 * 1000 + 50) * nodes, 1e-6);
    double want = ESTIMATE_Z90 * hypot(0.1 * sqrt(acos(-1) / 2 / 20), PROFILE_PROGRAM_DEVIATION) *
                  all.result.step,
           half = (all.high - all.low) / 2;
    cr_expect_float_eq(half, want, 1e-6 * want, "%g, not %g", half, want);
    forecast_free(&all);
    planned_free(&planned);
}

/* --- clusters --- */

static struct forecast of_cluster(const struct plan *plan, double gflops, double slow) {
    struct cluster cluster;
    struct forecast forecast;
    char *text = mem_format("classes:\n  - {name: a, ranks: 4, gflops_per_s: %g, memory_gib: 1, "
                            "memory_gb_per_s: 1e9}\n"
                            "links:\n  in_host: {latency_us: 1, bandwidth_gb_per_s: 1e6}\n"
                            "slow_ranks:\n  - {ranks: 1, factor: %g}\n",
                            gflops, slow);
    cr_assert_eq(cluster_parse("a cluster", text, strlen(text), &cluster), STATUS_OK);
    struct costs source = {.cluster = &cluster};
    cr_assert_eq(forecast_new(plan, &source, false, &forecast), STATUS_OK);
    cluster_free(&cluster);
    free(text);
    return forecast;
}

Test(sim_forecast, a_cluster_gives_rates_links_and_slow_ranks) {
    struct planned planned = plan_of(PIPE, 4);
    struct forecast slow = of_cluster(planned.kit.plan, 0.1, 1),
                    fast = of_cluster(planned.kit.plan, 0.2, 1),
                    uneven = of_cluster(planned.kit.plan, 0.1, 4);
    double ratio = slow.result.step / fast.result.step;
    cr_expect_float_eq(ratio, 2, 0.01, "%g", ratio);
    cr_expect_eq(slow.low, slow.high);
    cr_expect_gt(uneven.result.step, 2 * slow.result.step);
    double own = 0;
    for (int i = 0; i < uneven.path.count; i++) {
        const struct sim_path_item *item = &uneven.path.item[i];
        if (uneven.result.rank[item->run].rank == 1) own += item->end - item->begin;
    }
    cr_expect_gt(own, 0.8 * uneven.result.step, "%g of %g", own, uneven.result.step);
    forecast_free(&slow);
    forecast_free(&fast);
    forecast_free(&uneven);
    planned_free(&planned);
}

/* --- memory --- */

/* What the plan of a rank stores, and what the simulator says it does. */
static size_t stored_bytes(const struct plan *plan) {
    const struct memory_estimate *memory = &plan->memory;
    return memory->params + memory->gradients + memory->in_flight + memory->gathered +
           memory->state + memory->buffers;
}

/* Returns the most that any rank keeps of activations. */
static int64_t expect_stored(const char *line, int ranks) {
    struct planned first = plan_of(line, ranks);
    struct costs rules = {0};
    struct forecast forecast;
    int64_t most = 0;
    cr_assert_eq(forecast_new(first.kit.plan, &rules, false, &forecast), STATUS_OK);
    for (int r = 0; r < forecast.result.run_count; r++) {
        const struct sim_rank *rank = &forecast.result.rank[r];
        struct kit_plan own;
        cr_assert_eq(kit_plan(&first.options, rank->rank, ranks, first.kit.dataset, &own),
                     STATUS_OK);
        int64_t stored = (int64_t)stored_bytes(own.plan),
                fixed = sim_fixed_bytes(first.kit.plan->program, forecast.input.costs, rank->rank);
        cr_expect_eq(fixed, stored, "%s: rank %d has %lld, the plan %lld", line, rank->rank,
                     (long long)fixed, (long long)stored);
        cr_expect_gt(rank->peak_bytes, stored);
        if (rank->peak_bytes - stored > most) most = rank->peak_bytes - stored;
        kit_plan_free(&own);
    }
    forecast_free(&forecast);
    planned_free(&first);
    return most;
}

/* Slices and the windows beside them: of gradients in flight, of parameters that are gathered. */
Test(sim_forecast, what_ranks_store_is_what_the_plan_says) {
#define SMALL "--model resnet8 --device ref --threads 1 --batch 16 --micro-batches 2 --replicas 2 "
    static const struct {
        const char *line;
        int ranks;
    } cases[] = {{SMALL "--strategy zero1", 2},
                 {SMALL "--strategy zero2", 2},
                 {SMALL "--strategy zero2 --zero-accumulate scatter --bucket-size 16KiB", 2},
                 {SMALL "--strategy zero3", 2},
                 {SMALL "--strategy zero3 --zero-accumulate scatter --bucket-size 16KiB", 2},
                 {SMALL "--strategy zero3 --zero-keep 300 --zero-prefetch 64KiB", 2}};
    int64_t kept = expect_stored(SMALL "--strategy ddp", 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(expect_stored(cases[i].line, cases[i].ranks), kept, "%s", cases[i].line);
    expect_stored(SMALL "--strategy 1f1b --stages 2 --zero-stage 1", 4);
    expect_stored(SMALL "--strategy 1f1b --stages 2 --zero-stage 3 --bucket-size 16KiB", 4);
    expect_stored(SMALL "--strategy interleaved --stages 2 --zero-stage 3", 4);
    expect_stored(SMALL "--strategy zbv --stages 2", 4);
#undef SMALL
}
