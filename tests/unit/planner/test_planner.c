/* The search over strategies: pruning loses nothing, what is fixed stays, what does not fit is cut.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../exec/kit.h"
#include "base/log.h"
#include "plan/resolve.h"
#include "planner/planner.h"

/* What a search borrows. */
struct kit_search {
    struct options options;
    struct costs *costs;
    struct dataset *dataset;
    struct planner_input input;
    struct planner_result result;
};

static const char slow_links[] = "classes:\n"
                                 "  - {name: a, ranks: 2, gflops_per_s: 40, memory_gib: 4, "
                                 "memory_gb_per_s: 20}\n"
                                 "  - {name: b, ranks: 2, gflops_per_s: 20, memory_gib: 2, "
                                 "memory_gb_per_s: 10}\n"
                                 "hosts:\n  - {ranks: 2, count: 2}\n"
                                 "links:\n"
                                 "  in_host: {latency_us: 5, bandwidth_gb_per_s: 4}\n"
                                 "  between_hosts: {latency_us: 40, bandwidth_gb_per_s: 0.2}\n";

static enum status search(const char *line, const char *cluster, int ranks, bool exhaustive,
                          int64_t limit, struct kit_search *out) {
    *out = (struct kit_search){0};
    kit_options(line, &out->options);
    out->options.command = COMMAND_PLAN;
    const struct model *model = model_find(out->options.model);
    cr_assert_eq(resolve_data(&out->options, model, &out->dataset), STATUS_OK);
    cr_assert_eq(cost_read(&out->options, true, &out->costs), STATUS_OK);
    if (cluster) {
        out->costs->cluster = MEM_NEW(struct cluster);
        cr_assert_eq(cluster_parse("text", cluster, strlen(cluster), out->costs->cluster),
                     STATUS_OK);
    }
    out->input = (struct planner_input){.options = &out->options,
                                        .model = model,
                                        .dataset = out->dataset,
                                        .costs = out->costs,
                                        .ranks = ranks,
                                        .threads = 1,
                                        .cores = cluster ? 0 : 2,
                                        .memory = {.limit_bytes = limit},
                                        .best = 10,
                                        .exhaustive = exhaustive};
    return planner_search(&out->input, &out->result);
}

static void search_free(struct kit_search *of) {
    planner_free(&of->result);
    cost_free(&of->costs);
    dataset_free(&of->dataset);
    options_free(&of->options);
}

static bool same_choice(const struct planner_row *a, const struct planner_row *b) {
    return memcmp(&a->choice, &b->choice, sizeof a->choice) == 0;
}

/* Each candidate that was simulated takes no less than its bound said: else the exhaustive search
 * would find better ones. */
static void compare(const char *line, const char *cluster, int ranks, int64_t limit) {
    struct kit_search pruned, all;
    cr_assert_eq(search(line, cluster, ranks, false, limit, &pruned), STATUS_OK);
    cr_assert_eq(search(line, cluster, ranks, true, limit, &all), STATUS_OK);
    cr_expect_gt(all.result.planned, pruned.result.planned, "%s: nothing was pruned", line);
    cr_expect_eq(all.result.bounded, 0);
    cr_expect_leq(all.result.closest_bound, 1 + 1e-9, "%s: a bound is %g of its step", line,
                  all.result.closest_bound);
    int wanted = all.result.timed < 10 ? all.result.timed : 10;
    cr_assert_geq(pruned.result.timed, wanted);
    for (int i = 0; i < wanted; i++)
        cr_expect(same_choice(&pruned.result.row[i], &all.result.row[i]) &&
                      pruned.result.row[i].step_ns == all.result.row[i].step_ns,
                  "%s: row %d takes %g, of all %g", line, i, pruned.result.row[i].step_ns,
                  all.result.row[i].step_ns);
    for (int k = 0; k < PLANNER_KINDS; k++) {
        int one = pruned.result.best_of[k], other = all.result.best_of[k];
        cr_assert_eq(one < 0, other < 0, "%s: kind %d", line, k);
        if (one >= 0)
            cr_expect_eq(pruned.result.row[one].step_ns, all.result.row[other].step_ns,
                         "%s: kind %d", line, k);
    }
    search_free(&pruned);
    search_free(&all);
}

#define SMALL "--model lenet --image-size 12 --batch 8 "

Test(planner, pruning_never_loses_the_best_on_this_machine) {
    compare(SMALL, NULL, 2, 0);
    compare(SMALL "--optimizer adamw", NULL, 3, 0);
}

Test(planner, pruning_never_loses_the_best_of_a_cluster) {
    compare(SMALL, slow_links, 4, 0);
    compare(SMALL "--optimizer adamw", slow_links, 4, 0);
}

Test(planner, pruning_never_loses_the_best_under_a_limit) {
    compare(SMALL, slow_links, 4, 700 << 10);
}

Test(planner, what_is_fixed_stays) {
    struct kit_search of;
    cr_assert_eq(
        search(SMALL "--stages 2 --micro-batches 4 --zero-stage 1", NULL, 4, false, 0, &of),
        STATUS_OK);
    cr_assert_gt(of.result.timed, 0);
    for (int64_t i = 0; i < of.result.row_count; i++) {
        const struct planner_choice *choice = &of.result.row[i].choice;
        cr_expect_eq(choice->stages, 2);
        cr_expect_eq(choice->micro_batches, 4);
        cr_expect_eq(choice->zero_stage, 1);
    }
    search_free(&of);
}

Test(planner, contradictions_are_refused_with_both_options) {
    struct kit_search of;
    char text[512];
    log_capture(text, sizeof text);
    cr_expect_eq(search(SMALL "--schedule gpipe --stages 1", NULL, 4, false, 0, &of), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(text, "--schedule") && strstr(text, "--stages"), "%s", text);
    search_free(&of);
}

Test(planner, asynchronous_strategies_are_searched_when_they_are_named) {
    struct kit_search of;
    cr_assert_eq(search(SMALL, NULL, 2, false, 0, &of), STATUS_OK);
    cr_expect_lt(of.result.best_of[FAMILY_OVERLAPPED], 0);
    search_free(&of);
    static const char *const names[] = {"pipedream"};
    kit_options(SMALL, &of.options);
    of.options.include = (struct option_list){1, names};
    of.input.options = &of.options;
    const struct model *model = model_find(of.options.model);
    cr_assert_eq(resolve_data(&of.options, model, &of.dataset), STATUS_OK);
    cr_assert_eq(cost_read(&of.options, true, &of.costs), STATUS_OK);
    of.input = (struct planner_input){.options = &of.options,
                                      .model = model,
                                      .dataset = of.dataset,
                                      .costs = of.costs,
                                      .ranks = 2,
                                      .threads = 1,
                                      .best = 10};
    cr_assert_eq(planner_search(&of.input, &of.result), STATUS_OK);
    cr_expect_geq(of.result.best_of[FAMILY_OVERLAPPED], 0);
    search_free(&of);
}

/* A batch of 8 on 3 ranks, of a model that cannot be cut into three: 2 of them work. */
Test(planner, a_batch_that_uses_all_ranks_is_named) {
    struct kit_search of;
    cr_assert_eq(search("--model mlp --batch 8 --stages 1", NULL, 3, false, 0, &of), STATUS_OK);
    cr_expect_not(of.result.uses_all);
    cr_expect_eq(of.result.nearest_batch, 9);
    search_free(&of);
}
