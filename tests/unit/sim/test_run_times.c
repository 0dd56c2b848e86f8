/* The simulator: times beside passes. */
#include <criterion/criterion.h>

#include "kit.h"
#include "sim/compile.h"

static const struct sim_units equal = {1, 1, 1, 0};

/* Both sides copy for 2: F to 1, copy to 3, copy to 5, F to 6, B to 7, B to 8. */
Test(sim_run, copies_take_the_time_of_both_sides) {
    struct sim_case of = {"gpipe", 2, 1, 1, 1, 0, 0};
    struct sim_kit kit;
    sim_kit_new(&of, (struct sim_units){1, 0.5, 0.5, 0}, &kit);
    kit.stage[0].copy[SIM_FORWARD] = 2;
    struct sim_result result = sim_kit_run(&kit);
    cr_expect_float_eq(result.step, 8, 1e-9, "%g", result.step);
    for (int r = 0; r < 2; r++) cr_expect_float_eq(result.rank[r].exposed, 2, 1e-9);
    sim_result_free(&result);
    sim_kit_free(&kit);
}

Test(sim_run, messages_take_an_instruction_and_a_copy) {
    struct sim_case of = {"gpipe", 2, 1, 1, 1, 0, 0};
    struct sim_kit kit;
    struct sim_kind kind;
    int sends = 0;
    sim_kit_new(&of, equal, &kit);
    kit.costs.instruction = 0.125;
    kit.stage[0].copy[SIM_FORWARD] = 2;
    sim_kit_compile(kit.program, &kit.costs, &kind);
    const struct instr_list *body = program_list(kit.program, 0, LIST_BODY);
    for (int i = 0; i < body->count; i++) {
        if (body->items[i].op != INSTR_SEND_F) continue;
        cr_expect_float_eq(kind.op[i].cost, 2.125, 1e-9, "%g", (double)kind.op[i].cost);
        sends++;
    }
    cr_expect_eq(sends, 1);
    sim_kit_kind_free(&kind);
    sim_kit_free(&kit);
}

/* Rank 0 waits 2 for its B, which ends at 4. Rank 1 waits 1 before its passes, and again for the
 * end of the step, which nobody comes late to. */
Test(sim_run, long_waits_end_in_sleep) {
    struct sim_case of = {"gpipe", 2, 1, 1, 1, 0, 0};
    struct sim_kit kit;
    sim_kit_new(&of, (struct sim_units){1, 0.5, 0.5, 0}, &kit);
    kit.input.net.wake = 0.25;
    kit.input.net.awake = 1.5;
    struct sim_result one = sim_kit_run(&kit);
    kit.input.net.awake = 0.5;
    struct sim_result both = sim_kit_run(&kit);
    cr_expect_float_eq(one.step, 4.25, 1e-9, "%g", one.step);
    cr_expect_float_eq(one.rank[0].exposed, 0.25, 1e-9, "%g", one.rank[0].exposed);
    cr_expect_float_eq(one.rank[0].waits, 2, 1e-9);
    cr_expect_float_eq(both.step, 4.75, 1e-9, "%g", both.step);
    sim_result_free(&one);
    sim_result_free(&both);
    sim_kit_free(&kit);
}

Test(sim_run, instructions_additions_and_updates_take_time) {
    struct sim_case of = {"1f1b", 1, 1, 1, 3, 0, 0};
    struct sim_kit kit;
    sim_kit_new(&of, equal, &kit);
    int count = program_list(kit.program, 0, LIST_BODY)->count;
    kit.costs.instruction = 0.125;
    kit.stage[0].add = 0.5; /* to the gradients of the first micro-batch */
    kit.stage[0].load = 0.25;
    kit.stage[0].norm = 2;
    kit.stage[0].step = 8;
    struct sim_result result = sim_kit_run(&kit);
    double want = 9 + 2 * 0.5 + 3 * 0.25 + 2 + 8 + 0.125 * count;
    cr_expect_float_eq(result.step, want, 1e-9, "%g, not %g", result.step, want);
    cr_expect_float_eq(result.rank[0].busy, 10, 1e-9);
    sim_result_free(&result);
    sim_kit_free(&kit);
}
