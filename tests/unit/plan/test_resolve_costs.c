/* Times from options: what they become for the choice of `auto`, for stages of equal time and for
 * waits, and who reads files. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "../exec/kit.h"
#include "base/file.h"
#include "base/mem.h"
#include "cost/key.h"
#include "plan/plan_auto.h"
#include "plan/resolve.h"

/* The plan of a rank, and a profile in which each of its nodes takes 1,000 ns. */
struct measured {
    char *folder, *path;
    struct options options;
    struct kit_plan kit;
};

#define LINE                                                                                       \
    "--model resnet8 --device ref --threads 1 --batch 8 --micro-batches 2 --data synthetic "

static void write_profile(const struct plan *plan, const char *path) {
    struct profile profile;
    struct arena arena = {0};
    struct measure ns = {1000, 0, 20};
    char isa[64];
    plan->device->backend->isa(0, isa, sizeof isa);
    struct profile_place place = {"ref", isa, 1, 2};
    profile_init(path, &profile);
    struct profile_section *section = profile_section_for(&profile, &place);
    for (int r = 0; r < PROFILE_RATE_COUNT; r++) section->rate[r] = (struct measure){50, 0, 1};
    section->link[PROFILE_IN_HOST].latency_ns = (struct measure){7, 0, 1};
    section->link[PROFILE_IN_HOST].bytes_per_ns = (struct measure){5, 0, 1};
    const struct graph *graph = plan->micro[0].graph;
    for (int i = 0; i < graph->node_count; i++) {
        struct profile_key key = profile_key_of(graph, &graph->nodes[i], &arena);
        if (!profile_find(section, &key)) profile_record(&profile, section, &key, &ns);
    }
    cr_assert_eq(profile_write(&profile, path), STATUS_OK);
    arena_free(&arena);
    profile_free(&profile);
}

static struct measured measured_of(const char *strategy) {
    struct measured of = {.folder = kit_folder()};
    of.path = mem_format("%s/profile.json", of.folder);
    char *line = mem_format(LINE "--strategy %s --profile %s", strategy, of.path);
    kit_options(line, &of.options);
    free(line);
    cr_assert_eq(kit_plan(&of.options, 0, 2, NULL, &of.kit), STATUS_OK);
    write_profile(of.kit.plan, of.path);
    return of;
}

static void measured_free(struct measured *of) {
    kit_plan_free(&of->kit);
    options_free(&of->options);
    folder_remove(of->folder);
    free(of->folder);
    free(of->path);
}

Test(plan_resolve_costs, a_profile_says_what_nodes_take) {
    struct measured of = measured_of("auto");
    const struct graph *graph = of.kit.plan->micro[0].graph;
    struct run_config config = of.kit.plan->config;
    struct cost_devices on = {.item = &(struct cost_device){0, 1}, .count = 1};
    struct costs *costs;
    struct cost_table table;
    cr_assert_eq(resolve_costs(&of.options, true, 2, &config, &costs), STATUS_OK);
    cost_table_new(costs, graph, &table);
    for (int i = 0; i < graph->node_count; i++)
        cr_expect_eq(cost_node_ns(&table, &on, i), graph->nodes[i].kernel ? 1000 : 0);
    cr_expect_eq(cost_byte_ns(costs, &on, 1), 1 / 50.0);
    cr_expect_eq(cost_net_of(costs, 1).link.latency, 7);
    /* The plan that is made with it. */
    struct plan *plan;
    cr_assert_eq(plan_new(&config, NULL, &plan), STATUS_OK);
    cr_expect_neq(plan->choice.row[0].step_ns, of.kit.plan->choice.row[0].step_ns);
    plan_free(&plan);
    cost_table_free(&table);
    cost_free(&costs);
    measured_free(&of);
}

/* Device 1, which there is not, is opened by the plan alone. */
Test(plan_resolve_costs, no_device_is_opened_for_a_profile) {
    struct measured of = measured_of("auto");
    struct run_config config = of.kit.plan->config;
    struct costs *costs;
    struct plan *plan = NULL;
    config.device_index = 1;
    cr_assert_eq(resolve_costs(&of.options, true, 2, &config, &costs), STATUS_OK);
    cr_expect_not_null(costs->section);
    cr_expect_eq(plan_new(&config, NULL, &plan), STATUS_USAGE);
    cr_expect_null(plan);
    cost_free(&costs);
    measured_free(&of);
}

/* Rank 0 chooses; other ranks may not have the file. */
Test(plan_resolve_costs, other_ranks_read_no_files) {
    struct measured of = measured_of("auto");
    struct run_config config = of.kit.plan->config;
    struct costs *costs;
    config.rank = 1;
    cr_assert_eq(resolve_costs(&of.options, false, 2, &config, &costs), STATUS_OK);
    cr_expect_null(costs->profile, "read on another rank");
    cost_free(&costs);
    measured_free(&of);
}

/* Stages of equal time need it on all ranks. */
Test(plan_resolve_costs, every_rank_reads_to_balance_by_time) {
    struct measured of = measured_of("gpipe");
    struct run_config config = of.kit.plan->config;
    struct costs *costs;
    struct plan *plan;
    config.rank = 1;
    config.balance = BALANCE_TIME;
    cr_assert_eq(resolve_costs(&of.options, false, 2, &config, &costs), STATUS_OK);
    cr_assert_eq(plan_new(&config, NULL, &plan), STATUS_OK);
    double kernels = 0, weight = 0;
    for (int i = 0; i < plan->micro[0].graph->node_count; i++)
        kernels += plan->micro[0].graph->nodes[i].kernel != NULL;
    for (int c = 0; c < plan->partition.count; c++) weight += plan->partition.chunks[c].weight;
    cr_expect_eq(plan->partition.balance, BALANCE_TIME);
    cr_expect_float_eq(weight, 1000 * kernels, 1e-6);
    plan_free(&plan);
    cost_free(&costs);
    measured_free(&of);
}

/* What a run waits by is no reason to choose another order. */
Test(plan_resolve_costs, delays_are_waits_and_a_forecast) {
    struct options options;
    struct kit_plan kit;
    struct costs *costs;
    kit_options(LINE "--strategy auto --delay f=5ms,i=6ms,w=7ms", &options);
    cr_assert_eq(kit_plan(&options, 0, 2, NULL, &kit), STATUS_OK);
    struct run_config config = kit.plan->config;
    cr_assert_eq(resolve_costs(&options, true, 2, &config, &costs), STATUS_OK);
    plan_configure(kit.plan, &config);
    cr_expect(costs->delays);
    cr_expect_eq(plan_delay_ns(kit.plan, &(struct instr){.op = INSTR_F}), 5000000);
    cr_expect_eq(plan_delay_ns(kit.plan, &(struct instr){.op = INSTR_B}), 13000000);
    cr_expect_eq(plan_delay_ns(kit.plan, &(struct instr){.op = INSTR_LOAD}), 0);
    cr_expect_null(cost_of_work(costs).units);
    cost_free(&costs);
    kit_plan_free(&kit);
    options_free(&options);
}
