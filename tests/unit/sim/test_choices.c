/* Groups that are chosen, in virtual time: times and groups by hand, each rule as whoever decides
 * is told of ranks in the order of time. */
#include <criterion/criterion.h>
#include <math.h>

#include "kit.h"

#include "program/schedule.h"
#include "sync/sync.h"

enum { REPLICAS = 4, STEPS = 40 };

/* Steps of a replica alone take 3, those of replica 0 `factor` times as long; nothing else takes
 * time. The mean time of so many numbers as there are replicas. */
static double step_of(const struct groups_config *groups, int stages, double factor,
                      double *group_size) {
    struct cluster_slow slow = {.ranks = {0, stages - 1}, .factor = factor};
    struct hetero law = {.slow = &slow, .slow_count = 1};
    int buckets[2] = {1, 1};
    struct schedule_config config = {
        .grid = {.stages = stages, .chunks = 1, .replicas = REPLICAS, .replicas_each = 1},
        .micro_batches = 1,
        .buckets = buckets};
    struct sync_config sync = {.buckets = buckets, .by_stage = groups->keys > 1};
    struct sim_stage stage[2] = {{.pass = {[COST_PASS_F] = 1, [COST_PASS_B] = 2}},
                                 {.pass = {[COST_PASS_F] = 1, [COST_PASS_B] = 2}}};
    struct sim_costs costs = {.stage = stage};
    struct program *program = NULL;
    cr_assert_eq(schedule_build(stages > 1 ? "gpipe" : "single", &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("preduce", program, &sync), STATUS_OK);
    struct sim_input input = {.program = program,
                              .costs = &costs,
                              .net = {.hetero = factor > 1 ? &law : NULL},
                              .steps = STEPS,
                              .groups = groups};
    struct sim_result result;
    cr_assert_eq(sim_run(&input, &result), STATUS_OK);
    double step = result.step;
    *group_size = result.group_size;
    sim_result_free(&result);
    program_free(&program);
    return step;
}

static struct groups_config fifo(int size) {
    return (struct groups_config){.rule = "fifo",
                                  .replicas = REPLICAS,
                                  .keys = 1,
                                  .connect = 1000,
                                  .wait = {1, 0, 1, 1, 1},
                                  .size = size};
}

static struct groups_config window(int64_t wait_ns, int connect) {
    return (struct groups_config){.rule = "window",
                                  .replicas = REPLICAS,
                                  .keys = 1,
                                  .connect = connect,
                                  .wait = {wait_ns, 0, wait_ns, 1, 1}};
}

Test(sim_choices, full_groups_go_at_the_pace_of_the_slowest) {
    struct groups_config all = fifo(4), each = window(1, 1);
    double size;
    cr_expect_eq(step_of(&all, 1, 3, &size), 9);
    cr_expect_eq(size, 4);
    cr_expect_eq(step_of(&each, 1, 3, &size), 9);
    cr_expect_eq(step_of(&each, 1, 1, &size), 3);
    cr_expect_eq(step_of(&each, 2, 1, &size), 6);
}

/* In 9 the slow one does 1 of 10 numbers where nobody waits for it: 4 numbers take 3.6, and the
 * last ones end unevenly. A window of no length has one replica. */
Test(sim_choices, who_does_not_wait_goes_on) {
    struct groups_config none = window(0, 1000000), pairs = fifo(2);
    double size;
    double step = step_of(&none, 1, 3, &size);
    cr_expect(step >= 3.6 && step < 3.9, "%g", step);
    cr_expect_eq(size, 1);
    step = step_of(&pairs, 1, 3, &size);
    cr_expect(step > 3.6 && step < 6, "%g", step);
    cr_expect_eq(size, 2);
}

/* A rank that asked for it is answered when it is due, though nobody else comes: those that come at
 * 3 wait until 3 + 4 for the slow one, which comes at 6. */
Test(sim_choices, a_window_closes_in_time) {
    struct groups_config some = window(4, 1000000), few = window(2, 1000000);
    double size;
    cr_expect_float_eq(step_of(&some, 1, 2, &size), 6, 0.2);
    cr_expect_float_eq(size, 4, 0.2);
    double step = step_of(&few, 1, 2, &size);
    cr_expect(step > 3.4 && step < 5.9, "%g", step);
}

Test(sim_choices, each_stage_has_its_own_groups) {
    struct groups_config groups = window(0, 1000000);
    double size, of_replicas = step_of(&groups, 2, 3, &size), of_stages;
    groups.keys = 2;
    of_stages = step_of(&groups, 2, 3, &size);
    cr_expect(of_replicas >= 7.2 && of_replicas < 7.8, "%g", of_replicas);
    cr_expect(of_stages >= 7.2 && of_stages < 7.8, "%g", of_stages);
}

Test(sim_choices, times_repeat) {
    struct groups_config groups = fifo(3);
    double size, again, first = step_of(&groups, 2, 2.5, &size);
    cr_expect_eq(step_of(&groups, 2, 2.5, &again), first);
    cr_expect_eq(size, again);
}
