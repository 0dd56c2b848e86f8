/* What messages between the ranks of a pipeline take. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "../exec/kit.h"

/* Samples of an evaluation's round in a pipeline of so many stages, and of a training micro-batch.
 */
static void expect_round(const char *strategy, int ranks, int64_t round) {
    struct options options;
    struct kit_plan job;
    char line[256];
    snprintf(line, sizeof line,
             "--model lenet --data synthetic:size=28,count=64,test_count=256 --threads 1 "
             "--batch 16 --micro-batches 4 %s",
             strategy);
    kit_options(line, &options);
    cr_assert_eq(kit_plan(&options, 0, ranks, NULL, &job), STATUS_OK);
    const struct plan *plan = job.plan;
    cr_expect_eq(plan->micro[0].samples, 4);
    cr_expect_eq(plan->eval_batch, round, "%s", strategy);
    for (int cut = 0; cut < ranks - 1; cut++)
        cr_expect_eq(plan_message_bytes(plan, cut, PHASE_FORWARD),
                     plan->micro[0].crossing[cut * PHASE_COUNT + PHASE_FORWARD].bytes,
                     "%s: channels hold more than training sends", strategy);
    kit_plan_free(&job);
    options_free(&options);
}

Test(plan_messages, evaluation_sends_no_more_than_training) {
    expect_round("--strategy single", 1, 64);
    expect_round("--strategy gpipe --stages 2 -n 2", 2, 4);
    expect_round("--strategy 1f1b --stages 3 -n 3", 3, 4);
}
