/* Pipelines that are never flushed, in simulated time. */
#include <criterion/criterion.h>

#include "kit.h"
#include "sim/live.h"

static struct sim_result run_of(const struct sim_case *of, struct sim_units units, int slow_stage) {
    struct sim_kit kit;
    sim_kit_new(of, units, &kit);
    kit.input.steps = 4 * of->stages;
    for (int p = 0; slow_stage >= 0 && p < COST_PASS_COUNT; p++) kit.stage[slow_stage].pass[p] *= 2;
    struct sim_result result = sim_kit_run(&kit);
    sim_kit_free(&kit);
    return result;
}

/* A step takes what one stage computes; the first takes as long as a mini-batch through all stages
 * and back. */
Test(sim_ahead, a_full_pipeline_has_no_bubble) {
    for (int stages = 2; stages <= 8; stages++) {
        struct sim_case each = {"pipedream", stages, 1, 1, 1, 0, 0},
                        many = {"pipedream-2bw", stages, 1, 1, stages + 1, 0, 0};
        struct sim_result one = run_of(&each, (struct sim_units){1, 1, 1, 0}, -1),
                          two = run_of(&many, (struct sim_units){1, 1, 1, 0}, -1);
        cr_expect_float_eq(one.step, 3, 1e-9, "%d stages: %g", stages, one.step);
        cr_expect_float_eq(one.first_step, 3 * stages, 1e-9, "%d stages: %g", stages,
                           one.first_step);
        cr_expect_float_eq(one.bubble, 0, 1e-9, "%d stages: %g", stages, one.bubble);
        cr_expect_float_eq(two.step, 3 * (stages + 1), 1e-9, "%d stages: %g", stages, two.step);
        cr_expect_float_eq(two.bubble, 0, 1e-9, "%d stages: %g", stages, two.bubble);
        for (int r = 0; r < stages; r++) {
            cr_expect_eq(one.rank[r].peak_bytes, stages - r);
            cr_expect_eq(two.rank[r].peak_bytes, stages - r);
        }
        sim_result_free(&one);
        sim_result_free(&two);
    }
}

Test(sim_ahead, the_slowest_stage_sets_the_pace) {
    for (int slow = 0; slow < 4; slow++) {
        struct sim_case of = {"pipedream", 4, 1, 1, 1, 0, 0};
        struct sim_result result = run_of(&of, (struct sim_units){1, 1, 1, 0}, slow);
        cr_expect_float_eq(result.step, 6, 1e-9, "stage %d: %g", slow, result.step);
        sim_result_free(&result);
    }
}

/* Fewer messages may be under way, but one credit is enough for a pipeline to go on. */
Test(sim_ahead, one_credit_is_enough) {
    struct sim_case of = {"pipedream", 4, 1, 2, 1, 2, 1};
    struct sim_result result = run_of(&of, (struct sim_units){1, 1, 1, 0.1}, -1);
    cr_expect(result.step >= 3, "%g", result.step);
    sim_result_free(&result);
}

/* What the last step waits for is that step's alone: no more than its own time. */
Test(sim_ahead, the_path_is_the_last_steps) {
    for (int slow = 0; slow < 4; slow++) {
        struct sim_case of = {"pipedream", 4, 1, 1, 1, 0, 0};
        struct sim_kit kit;
        sim_kit_new(&of, (struct sim_units){1, 1, 1, 0.1}, &kit);
        kit.input.steps = 16;
        kit.input.record = true;
        for (int p = 0; p < COST_PASS_COUNT; p++) kit.stage[slow].pass[p] *= 2;
        struct sim_result result = sim_kit_run(&kit);
        struct sim_path path;
        sim_path(&kit.input, &result, &path);
        double sum = 0, end = 0;
        for (int r = 0; r < result.run_count; r++)
            if (result.rank[r].end > end) end = result.rank[r].end;
        for (int i = 0; i < path.count; i++) sum += path.item[i].end - path.item[i].begin;
        cr_expect_float_eq(sum, end - result.begin, 1e-9, "stage %d: %g of %g", slow, sum,
                           end - result.begin);
        sim_path_free(&path);
        sim_result_free(&result);
        sim_kit_free(&kit);
    }
}
