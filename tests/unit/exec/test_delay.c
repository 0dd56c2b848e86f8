/* --delay: what passes that are cut into segments wait. */
#include <criterion/criterion.h>

#include "exec/delay.h"
#include "kit.h"
#include "plan/plan_auto.h"

enum { PASS_NS = 720720 }; /* divisible by every number of segments up to 16 */

/* The waits of all instructions of a step that are of one kind, of so many segments. */
static int64_t waits_of(const struct plan *plan, enum instr_op op, int *segments) {
    const struct instr_list *body = program_list(plan->program, 0, LIST_BODY);
    int64_t sum = 0;
    *segments = 0;
    for (int i = 0; i < body->count; i++) {
        if (body->items[i].op != op) continue;
        sum += delay_ns(plan, &body->items[i]);
        *segments += instr_is_segment(&body->items[i]);
    }
    return sum;
}

static void expect_whole(const char *line, int ranks, enum instr_op op) {
    struct options options;
    struct kit_plan run;
    int segments;
    kit_options(line, &options);
    cr_assert_eq(kit_plan(&options, 0, ranks, NULL, &run), STATUS_OK);
    struct cost_units units = {{[COST_F] = PASS_NS, [COST_B] = PASS_NS, [COST_R] = PASS_NS}};
    struct costs costs = {.units = &units, .delays = true};
    struct run_config config = run.plan->config;
    config.costs = &costs;
    plan_configure(run.plan, &config);
    int64_t waits = waits_of(run.plan, op, &segments);
    cr_expect_eq(waits, PASS_NS, "%s: %lld ns", line, (long long)waits);
    cr_expect_gt(segments, 1, "%s: %d segments", line, segments);
    kit_plan_free(&run);
    options_free(&options);
}

#define ONE_PASS "--model resnet8 --data digits --device ref --threads 1 --batch 8 --steps 1 "

Test(exec_delay, segments_wait_as_long_as_their_pass) {
    expect_whole(ONE_PASS "--strategy zero3 --replicas 2 --bucket-size 16KiB", 2, INSTR_F);
    expect_whole(ONE_PASS "--strategy zero3 --replicas 2 --bucket-size 16KiB", 2, INSTR_B);
    expect_whole(ONE_PASS "--recompute always:block", 1, INSTR_R);
}
