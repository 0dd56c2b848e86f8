/* What a step leaves under way and the next one awaits, in virtual time: the norm without clipping,
 * gathers behind the update. */
#include <criterion/criterion.h>

#include "kit.h"
#include "program/schedule.h"
#include "sync/sync.h"

static const struct sim_units equal = {1, 1, 1, 0};

static double step_of(const struct sim_kit *kit) {
    struct sim_result result = sim_kit_run(kit);
    double step = result.step;
    sim_result_free(&result);
    return step;
}

/* The last stage has its gradients two units (the B of the first stage) before the first stage has.
 * It updates in that time where it does not wait for the norm. */
Test(sim_outlive, without_clipping_the_update_waits_for_nobody) {
    struct sim_kit kit;
    sim_kit_new(&(struct sim_case){"1f1b", 2, 1, 1, 4, 0, 0}, equal, &kit);
    kit.stage[1].step = 3;
    kit.input.steps = 3;
    double free = step_of(&kit);
    for (int k = 0; k < kit.program->kind_count; k++) {
        struct instr_list *body = &kit.program->kinds[k].list[LIST_BODY];
        for (int i = 0; i < body->count; i++)
            if (body->items[i].op == INSTR_STEP) body->items[i].flags = INSTR_CLIP;
    }
    cr_expect_float_eq(step_of(&kit) - free, 2, 1e-9);
    kit.input.unclipped = true;
    cr_expect_float_eq(step_of(&kit), free, 1e-9, "the same program, as if it did not clip");
    sim_kit_free(&kit);
}

/* The path of a step that begins with a gather under way has that gather in it, and no gap. */
Test(sim_outlive, the_path_goes_back_to_what_was_under_way) {
    enum { BUCKETS = 2 };
    static const int64_t bytes[BUCKETS] = {600, 400};
    struct schedule_config config = {
        .grid = {.stages = 1, .chunks = 1, .replicas = 2, .replicas_each = 1},
        .micro_batches = 1,
        .sum = SUM_REPLICA};
    struct program *program = NULL;
    struct sync_config sync = {.buckets = (int[]){BUCKETS}, .sliced = SLICED_STATE};
    cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("zero", program, &sync), STATUS_OK);
    struct sim_stage stage = {.pass = {[COST_PASS_F] = 10, [COST_PASS_B] = 20},
                              .bucket_bytes = bytes};
    struct sim_costs costs = {.stage = &stage};
    struct sim_input input = {.program = program,
                              .costs = &costs,
                              .net.collective = COST_COLLECTIVE_SHARED,
                              .net.group_link = {1, 10},
                              .steps = 3,
                              .record = true};
    struct sim_result result;
    struct sim_path path;
    cr_assert_eq(sim_run(&input, &result), STATUS_OK);
    sim_path(&input, &result, &path);
    const struct instr_list *body = program_list(program, 0, LIST_BODY);
    const struct sim_path_item *first = &path.item[path.count - 1];
    cr_expect_eq(body->items[first->at].op, INSTR_GATHER);
    cr_expect(first->transfer);
    double sum = 0;
    for (int i = 0; i < path.count; i++) sum += path.item[i].end - path.item[i].begin;
    cr_expect_float_eq(sum, result.step, 1e-9, "%g of %g", sum, result.step);
    cr_expect_gt(result.step, result.first_step, "the first step has nothing to wait for");
    sim_path_free(&path);
    sim_result_free(&result);
    program_free(&program);
}
