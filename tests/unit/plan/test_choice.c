/* `auto` in plans: what it chooses from costs, shapes and limits; and plans that take over the
 * programs that another rank chose. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../exec/kit.h"
#include "base/log.h"
#include "plan/plan_auto.h"
#include "plan/resolve.h"

/* A configuration, to be changed before it is planned. */
struct run {
    struct options options, resolved;
    struct dataset *dataset;
    struct run_config config;
    struct plan_given given;
    struct plan *plan;
};

static struct run run_of(const char *line, int rank, int ranks) {
    struct run run = {0};
    struct resolve_place place = {.rank = rank, .ranks = ranks, .threads = 1, .dry = true};
    kit_options(line, &run.options);
    run.resolved = run.options;
    const struct model *model = model_find(run.options.model);
    cr_assert_eq(resolve_data(&run.resolved, model, &run.dataset), STATUS_OK);
    cr_assert_eq(resolve_run(&run.resolved, model, run.dataset, &place, &run.config), STATUS_OK);
    return run;
}

static enum status plan_it(struct run *run) {
    plan_free(&run->plan);
    return plan_new(&run->config, &run->given, &run->plan);
}

static void run_free(struct run *run) {
    plan_free(&run->plan);
    dataset_free(&run->dataset);
    options_free(&run->options);
}

#define PIPE "--model resnet8 --device ref --data synthetic --strategy auto --threads 1 "

static size_t activations_of(const char *line, int64_t limit, int rank, int ranks) {
    struct run run = run_of(line, rank, ranks);
    run.config.memory_limit = limit;
    cr_assert_eq(plan_it(&run), STATUS_OK);
    size_t bytes = plan_bytes(run.plan);
    if (limit)
        cr_expect_leq((int64_t)bytes, limit, "rank %d: %zu of %lld", rank, bytes, (long long)limit);
    run_free(&run);
    return bytes;
}

/* The program of every rank is that of all, and keeps to the limit on each of them. */
Test(plan_choice, limits_hold_on_every_rank) {
    static const char line[] = PIPE "--batch 512 --micro-batches 8";
    for (int ranks = 2; ranks <= 3; ranks++) {
        size_t most = 0;
        for (int r = 0; r < ranks; r++) {
            size_t bytes = activations_of(line, 0, r, ranks);
            if (bytes > most) most = bytes;
        }
        for (int part = 0; part < 3; part++)
            for (int r = 0; r < ranks; r++)
                activations_of(line, (int64_t)most * (9 - part) / 10, r, ranks);
    }
}

Test(plan_choice, no_order_fits) {
    struct run run = run_of(PIPE "--batch 512 --micro-batches 8", 0, 2);
    char log[512] = "";
    run.config.memory_limit = 1 << 20;
    log_capture(log, sizeof log);
    cr_expect_eq(plan_it(&run), STATUS_MEMORY);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "no order of the pipeline fits"), "%s", log);
    cr_expect_null(run.plan);
    run_free(&run);
}

/* With one cost for all stages: formulas hold. */
Test(plan_choice, units) {
    struct run run = run_of(PIPE "--batch 32 --micro-batches 8 --virtual 2", 0, 4);
    struct cost_units units = {{[COST_F] = 1, [COST_I] = 1, [COST_W] = 1}};
    struct costs costs = {.units = &units};
    run.config.costs = &costs;
    cr_assert_eq(plan_it(&run), STATUS_OK);
    const struct choice *choice = &run.plan->choice;
    cr_expect(choice->units);
    cr_expect_float_eq(choice->row[0].step_ns, 6 * 8 + 3, 1e-9);
    for (int i = 1; i < choice->row_count; i++) {
        cr_expect_geq(choice->row[i].step_ns, choice->row[0].step_ns);
        cr_expect_eq(choice->row[i].chunks, 2);
    }
    run_free(&run);
}

/* Devices of half the speed take twice as long. */
Test(plan_choice, costs_of_nodes_are_those_given) {
    double step[2];
    for (int i = 0; i < 2; i++) {
        struct run run = run_of(PIPE "--batch 8 --micro-batches 2 --virtual 1", 0, 2);
        struct cluster cluster;
        char *text =
            mem_format("classes:\n  - {name: a, ranks: 2, gflops_per_s: %g, memory_gib: 1, "
                       "memory_gb_per_s: 1e9}\n"
                       "links:\n  in_host: {latency_us: 0, bandwidth_gb_per_s: 1e9}\n",
                       i ? 0.5 : 1.0);
        cr_assert_eq(cluster_parse("a cluster", text, strlen(text), &cluster), STATUS_OK);
        struct costs costs = {.cluster = &cluster};
        run.config.costs = &costs;
        cr_assert_eq(plan_it(&run), STATUS_OK);
        step[i] = run.plan->choice.row[0].step_ns;
        cluster_free(&cluster);
        free(text);
        run_free(&run);
    }
    cr_expect_float_eq(step[1] / step[0], 2, 1e-3);
}

Test(plan_choice, too_few_layers_for_two_chunks) {
    struct run run = run_of("--model mlp --device ref --data synthetic --strategy auto --batch 8 "
                            "--micro-batches 2",
                            0, 3);
    cr_assert_eq(plan_it(&run), STATUS_OK);
    cr_expect_eq(run.plan->config.grid.chunks, 1);
    run_free(&run);
}

/* Three cuts of two ranks make two chunks each. */
Test(plan_choice, cuts_say_how_many_chunks) {
    static const char *const cuts[] = {"layer1", "layer2", "layer3"};
    struct run run = run_of(PIPE "--batch 8 --micro-batches 2", 0, 2);
    run.config.cut = cuts;
    run.config.cut_count = 3;
    cr_assert_eq(plan_it(&run), STATUS_OK);
    cr_expect_eq(run.plan->config.grid.chunks, 2);
    run_free(&run);
}

/* --- programs of another rank --- */

/* Of a schedule that this rank would not choose. */
static struct bytes text_of(const char *line, int ranks) {
    struct run run = run_of(line, 0, ranks);
    cr_assert_eq(plan_it(&run), STATUS_OK);
    struct bytes text = plan_text(run.plan);
    run_free(&run);
    return text;
}

#define SHORT                                                                                      \
    "--data synthetic:count=60 --model resnet8 --device ref --threads 1 --batch 16 "               \
    "--micro-batches 4 "

Test(plan_choice, an_agreed_program_is_taken_over) {
    struct bytes text = text_of(SHORT "--strategy v-min", 2);
    struct run run = run_of(SHORT "--strategy auto", 1, 2);
    cr_assert(strstr((const char *)text.data, "\nrank 1 last\n"));
    run.given.agreed = &text;
    cr_assert_eq(plan_it(&run), STATUS_OK);
    struct bytes own = plan_text(run.plan);
    cr_expect_eq(own.count, text.count);
    cr_expect_eq(memcmp(own.data, text.data, own.count), 0);
    cr_expect(run.plan->config.grid.v_shape && run.plan->chunk_count == 2);
    bytes_free(&own);
    bytes_free(&text);
    run_free(&run);
}

Test(plan_choice, an_agreed_program_of_another_run_is_refused) {
    struct bytes text = text_of(SHORT "--strategy gpipe", 2);
    static const char *const others[] = {"--data synthetic:count=60 --model resnet8 --device ref "
                                         "--threads 1 --batch 16 --micro-batches 2 --strategy auto",
                                         "--data synthetic:count=64 --model resnet8 --device ref "
                                         "--threads 1 --batch 16 --micro-batches 4 --strategy auto",
                                         SHORT "--strategy auto --sum tree"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct run run = run_of(others[i], 0, 2);
        char log[512] = "";
        run.given.agreed = &text;
        log_capture(log, sizeof log);
        cr_expect_eq(plan_it(&run), STATUS_USAGE, "%s", others[i]);
        log_capture(NULL, 0);
        cr_expect(strstr(log, "for another run"), "%s", log);
        run_free(&run);
    }
    bytes_free(&text);
}
