/* Laws of --hetero in the simulator: times by hand, and what ranks alike may share. */
#include <criterion/criterion.h>

#include "kit.h"

static const struct sim_units equal = {1, 1, 1, 0};

static double step_of(const struct sim_case *of, const struct hetero *law) {
    struct sim_kit kit;
    sim_kit_new(of, equal, &kit);
    kit.input.net.hetero = law;
    struct sim_result result = sim_kit_run(&kit), apart;
    kit.input.apart = true;
    apart = sim_kit_run(&kit);
    cr_expect_eq(apart.step, result.step, "%s: ranks alike do the same", of->schedule);
    double step = result.step;
    sim_result_free(&result);
    sim_result_free(&apart);
    sim_kit_free(&kit);
    return step;
}

/* F 1 and B 2 on each stage: gpipe of S stages and M micro-batches takes 3 (M + S - 1). A stage
 * that is three times slower takes 9 M, and the others add their first and last pass. */
Test(sim_hetero, a_slow_rank_sets_the_pace) {
    struct cluster_slow slow = {.ranks = {1, 1}, .factor = 3};
    struct hetero law = {.slow = &slow, .slow_count = 1};
    struct sim_case gpipe = {"gpipe", 2, 1, 1, 4, 0, 0}, ddp = {"single", 1, 1, 4, 1, 0, 0};
    cr_expect_eq(step_of(&gpipe, NULL), 3 * (4 + 2 - 1));
    cr_expect_eq(step_of(&gpipe, &law), 9 * 4 + 1 + 2);
    cr_expect_eq(step_of(&ddp, NULL), 3);
    cr_expect_eq(step_of(&ddp, &law), 9);
    slow.ranks = (struct cluster_range){0, 3};
    cr_expect_eq(step_of(&ddp, &law), 9, "all alike");
}

/* Every pass of a step draws: F and B take 10 more each. */
Test(sim_hetero, a_draw_counts_for_each_pass) {
    struct hetero law = {.probability = 1, .transient_ns = 10};
    struct sim_case ddp = {"single", 1, 1, 3, 1, 0, 0}, three = {"single", 1, 1, 3, 1, 3, 0},
                    gpipe = {"gpipe", 2, 1, 1, 4, 0, 0};
    cr_expect_eq(step_of(&ddp, &law), 23);
    cr_expect_eq(step_of(&three, &law), 23, "segments of backward are one pass");
    cr_expect_eq(step_of(&gpipe, &law), (11 + 12) * (4 + 2 - 1));
}

/* At half the speed until 4, then at full speed: F ends at 2, B has done 1 of 2 at 4 and ends at 5.
 * The second step is at full speed. */
Test(sim_hetero, a_trace_goes_on_from_step_to_step) {
    struct hetero_speed speed[] = {{.rank = 1, .from_ns = 0, .speed = 0.5},
                                   {.rank = 1, .from_ns = 4, .speed = 1}};
    struct hetero law = {.speed = speed, .speed_count = 2};
    struct sim_case ddp = {"single", 1, 1, 2, 1, 0, 0};
    struct sim_kit kit;
    cr_expect_eq(step_of(&ddp, &law), 5);
    sim_kit_new(&ddp, equal, &kit);
    kit.input.net.hetero = &law;
    kit.input.steps = 3;
    struct sim_result result = sim_kit_run(&kit);
    cr_expect(result.first_step == 5 && result.step == 3 && result.mean == 3);
    cr_expect_eq(result.rank[0].busy, 3);
    sim_result_free(&result);
    sim_kit_free(&kit);
}

/* The link counts for messages between its ranks, in both directions, and for groups that hold
 * both.
 */
Test(sim_hetero, a_link_is_on_top) {
    struct hetero_link link = {.rank = {0, 1}, .more = {.latency = 10}};
    struct hetero law = {.link = &link, .link_count = 1};
    struct sim_case gpipe = {"gpipe", 2, 1, 1, 1, 0, 0}, far = {"gpipe", 3, 1, 1, 1, 0, 0};
    cr_expect_eq(step_of(&gpipe, &law), 6 + 20);
    cr_expect_eq(step_of(&far, &law), 9 + 20);
    link.rank[1] = 2;
    cr_expect_eq(step_of(&far, &law), 9, "no message goes between these");
}
