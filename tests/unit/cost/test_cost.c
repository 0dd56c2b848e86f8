/* What the sources of costs answer for nodes, passes, messages and groups. */
#include <criterion/criterion.h>
#include <string.h>

#include "../exec/kit.h"
#include "base/mem.h"
#include "cost/cost.h"

/* --- devices and links --- */

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

static struct cost_devices ranks_of(const struct cost_net *net, int first, int apart, int count) {
    struct cost_devices devices = {0};
    for (int i = 0; i < count; i++)
        cost_devices_add(&devices, cost_device_of(net, first + i * apart));
    return devices;
}

/* `base` says what passes take, with all they add; on the virtual clock sums take no time either.
 */
Test(cost, adding_takes_nothing_where_a_law_times_passes) {
    static const struct {
        double flop_ns;
        bool simulated;
        double inside, outside;
    } cases[] = {{0, false, 30, 30}, {0, true, 30, 30}, {1, false, 0, 30}, {1, true, 0, 0}};
    struct cluster cluster;
    cr_assert_eq(cluster_parse("c.yml", text, strlen(text), &cluster), STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct costs costs = {
            .cluster = &cluster, .flop_ns = cases[i].flop_ns, .simulated = cases[i].simulated};
        struct cost_net net = cost_net_of(&costs, 1);
        struct cost_devices on = ranks_of(&net, 0, 1, 1);
        cr_expect_float_eq(cost_add_ns(&costs, &on, 1, 100, true), cases[i].inside, 1e-9);
        cr_expect_float_eq(cost_add_ns(&costs, &on, 1, 100, false), cases[i].outside, 1e-9);
        cost_devices_free(&on);
    }
    cluster_free(&cluster);
}

/* Ranks that work at the same time are as slow as the slowest; alike ones are counted once. */
Test(cost, the_slowest_device_and_link_count) {
    static const struct {
        int first, apart, count, different;
        double byte_ns;
    } cases[] = {{0, 2, 2, 1, 0.1}, {1, 2, 2, 2, 0.8}, {0, 2, 4, 2, 0.2}, {4, 1, 4, 1, 0.2}};
    struct cluster cluster;
    cr_assert_eq(cluster_parse("c.yml", text, strlen(text), &cluster), STATUS_OK);
    struct costs costs = {.cluster = &cluster};
    struct cost_net net = cost_net_of(&costs, 1);
    cr_expect_eq(cost_class_count(&costs), 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cost_devices on = ranks_of(&net, cases[i].first, cases[i].apart, cases[i].count);
        cr_expect_eq(on.count, cases[i].different, "case %zu", i);
        cr_expect_float_eq(cost_byte_ns(&costs, &on, 1), cases[i].byte_ns, 1e-12, "case %zu", i);
        cr_expect_eq(cost_copy_ns(&costs, &on, 1, 1000), 0, "devices have engines that copy");
        cost_devices_free(&on);
    }
    struct cost_link link = cost_slower_link(cost_link(&net, 0, 1), cost_link(&net, 2, 3));
    cr_expect(link.latency == 9000 && link.bytes_per_time == 0.5, "ranks 2 and 3 have a slow link");
    link = cost_slower_link((struct cost_link){0}, cost_link(&net, 0, 1));
    cr_expect(link.latency == 2000 && link.bytes_per_time == 4, "0 is without limit");
    cluster_free(&cluster);
}

/* --- groups --- */

Test(cost, operations_of_groups) {
    struct cost_link link = {5, 3};
    static const struct {
        enum cost_collective collective;
        enum cost_operation operation;
        int size;
        double time;
    } cases[] = {{COST_COLLECTIVE_FREE, COST_SUM, 4, 0},
                 {COST_COLLECTIVE_FREE, COST_BARRIER, 4, 5},
                 {COST_COLLECTIVE_SHARED, COST_SUM, 4, 5 + 2 * 4.0},
                 {COST_COLLECTIVE_SHARED, COST_EXCHANGE, 4, 5 + 4 * 4.0},
                 {COST_COLLECTIVE_RING, COST_SUM, 4, 2 * 3 / 4.0 * 4 + 2 * 3 * 5},
                 {COST_COLLECTIVE_RING, COST_EXCHANGE, 4, 5 + 3 * 4.0},
                 {COST_COLLECTIVE_RING, COST_SUM, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_float_eq(
            cost_group_time(cases[i].collective, link, cases[i].size, 12, cases[i].operation),
            cases[i].time, 1e-12, "case %zu", i);
}

/* --- nodes and passes --- */

/* Every node by its rule; of the passes B is I and W; a crowd is felt in a step alone. */
Test(cost, passes_are_sums_of_nodes) {
    struct options options;
    struct kit_plan kit;
    struct cost_table table;
    kit_options("--model resnet8 --device ref --threads 1 --batch 8", &options);
    cr_assert_eq(kit_plan(&options, 0, 1, NULL, &kit), STATUS_OK);
    const struct graph *graph = kit.plan->micro[0].graph;
    struct costs crowded = {.crowd = 3};
    struct cost_devices on = {.item = &(struct cost_device){0, 2}, .count = 1}, step = on;
    step.in_step = true;
    cost_table_new(&crowded, graph, &table);
    double of[COST_PASS_COUNT], all = 0;
    for (int p = 0; p < COST_PASS_COUNT; p++)
        of[p] = cost_pass_ns(&table, &on, &kit.plan->micro[0].ranges, 0, (enum cost_pass)p);
    for (int n = 0; n < graph->node_count; n++) {
        double ns = cost_rule_ns(graph, n);
        cr_expect_eq(cost_node_ns(&table, &on, n), 2 * ns, "twice as slow");
        cr_expect_eq(cost_node_ns(&table, &step, n), 6 * ns);
        cr_expect_eq(ns > 0, graph->nodes[n].kernel != NULL);
        all += 2 * ns;
    }
    cr_expect_gt(of[COST_PASS_W], 0);
    cr_expect_float_eq(of[COST_PASS_I] + of[COST_PASS_W], of[COST_PASS_B], 1e-6 * all);
    cr_expect_float_eq(of[COST_PASS_F] + of[COST_PASS_B], all, 1e-6 * all);
    cost_table_free(&table);
    kit_plan_free(&kit);
    options_free(&options);
}
