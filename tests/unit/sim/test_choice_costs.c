/* What `auto` is told of clusters, and that its replay of orders agrees with whole programs on
 * them.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "kit.h"
#include "program/replay.h"
#include "sim/choice_costs.h"

/* --- links in the replay --- */

enum { STAGES = 4, MICROS = 6, AHEAD = 30, BACK = 20 };

/* Ahead or back, links are slower than the passes: messages queue. */
static double replayed(const char *name, double rate, double latency) {
    const struct pipeline_schedule *schedule = pipeline_find(name);
    struct pipeline_shape shape = {
        .positions = STAGES, .chunks = 1, .v_shape = false, .micro_batches = MICROS};
    double one[STAGES], late[STAGES], ahead[STAGES], back[STAGES];
    for (int s = 0; s < STAGES; s++) {
        one[s] = 1, late[s] = latency;
        ahead[s] = AHEAD / rate, back[s] = BACK / rate;
    }
    struct replay_costs costs = {
        .forward = one, .input = one, .weight = one, .latency = late, .moving = {ahead, back}};
    struct pipeline_order *orders = pipeline_orders_build(schedule, &shape);
    struct replay replay = {.shape = &shape, .orders = orders, .costs = &costs};
    struct replay_times times;
    cr_assert(replay_run(&replay, &times, NULL));
    pipeline_orders_free(&orders, STAGES);
    return times.total;
}

static double simulated(const char *name, double rate, double latency) {
    struct sim_case of = {name, STAGES, 1, 1, MICROS, 0, MICROS};
    struct sim_kit kit;
    sim_kit_new(&of, (struct sim_units){1, 1, 1, 0}, &kit);
    for (int s = 0; s < STAGES; s++) {
        kit.stage[s].message_bytes[SIM_FORWARD] = AHEAD;
        kit.stage[s].message_bytes[SIM_BACKWARD] = BACK;
    }
    kit.input.link = (struct sim_link){latency, rate};
    struct sim_result result = sim_kit_run(&kit);
    double step = result.step;
    sim_result_free(&result);
    sim_kit_free(&kit);
    return step;
}

/* Where every micro-batch has a slot of its own, they are the same: nobody waits for one that a
 * message still leaves. */
Test(sim_choice_costs, messages_queue_in_the_replay_as_in_programs) {
    static const double rates[] = {1000, 20, 10, 4};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        double want = simulated("gpipe", rates[i], 0.7), got = replayed("gpipe", rates[i], 0.7);
        cr_expect_float_eq(got, want, 1e-9, "rate %g: %g, not %g", rates[i], got, want);
    }
}

/* --- devices --- */

static const char text[] = "classes:\n"
                           "  - {name: fast, ranks: 4, gflops_per_s: 100, memory_gib: 8, "
                           "memory_gb_per_s: 10}\n"
                           "  - {name: old, ranks: 4, gflops_per_s: 10, memory_gib: 8, "
                           "memory_gb_per_s: 5}\n"
                           "links:\n"
                           "  in_host: {latency_us: 2, bandwidth_gb_per_s: 4}\n"
                           "  pairs:\n"
                           "    - {between: [2, 3], latency_us: 9, bandwidth_gb_per_s: 0.5}\n"
                           "slow_ranks:\n"
                           "  - {ranks: 1, factor: 8}\n";

/* Two pipelines of two stages, or one of four; a step is as slow as the slowest replica. */
Test(sim_choice_costs, positions_have_the_slowest_devices_and_links) {
    struct cluster cluster;
    struct choice_devices devices;
    cr_assert_eq(cluster_parse("c.yml", text, strlen(text), &cluster), STATUS_OK);
    struct cost_source source = {.cluster = &cluster};
    struct grid grid = {.stages = 2, .chunks = 1, .replicas = 2, .replicas_each = 1};
    choice_devices_new(&cluster, &grid, &devices);
    struct choice_costs costs = choice_costs_of(&source, &devices);
    cr_expect_float_eq(costs.byte_ns(costs.context, 0), 0.1, 1e-12);
    cr_expect_float_eq(costs.byte_ns(costs.context, 1), 0.8, 1e-12, "rank 1 is slow");
    struct choice_link link = costs.link(costs.context, 0, 1);
    cr_expect(link.latency_ns == 9000 && link.byte_ns == 2, "ranks 2 and 3 have a slow link");
    choice_devices_free(&devices);
    grid.replicas = 4;
    choice_devices_new(&cluster, &grid, &devices);
    costs = choice_costs_of(&source, &devices);
    cr_expect_float_eq(costs.byte_ns(costs.context, 0), 0.2, 1e-12, "ranks 4 and 6 are old");
    choice_devices_free(&devices);
    cluster_free(&cluster);
}
