/* When a wait is explained (contract 4): after --stall-after, or three times what the awaited
 * should take, whichever is larger. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "../exec/kit.h"
#include "base/machine.h"
#include "planned/planned.h"

struct limits {
    double step_s, evaluation_s, predicted_s; /* the limits; the prediction of a step */
};

static struct limits limits_of(int ranks, const char *line) {
    struct options options;
    struct planned_run planned;
    struct rank_info info = {.rank = 0, .ranks = ranks};
    kit_options(line, &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
    struct limits limits = {planned_wait_limit_s(&planned, false),
                            planned_wait_limit_s(&planned, true),
                            plan_step_ns(planned.plan) * 1e-9};
    planned_close(&planned);
    options_free(&options);
    return limits;
}

#define RUN "--model lenet --device cpu --threads 1 --batch 64 "
#define DATA "--data synthetic:size=28,count=64,test_count="

Test(planned_waits, short_work_waits_as_long_as_was_asked) {
    struct limits limits = limits_of(2, RUN DATA "64 -n 2 --stall-after 7s");
    cr_expect_eq(limits.step_s, 7);
    cr_expect_eq(limits.evaluation_s, 7);
}

Test(planned_waits, long_work_waits_three_times_its_prediction) {
    struct limits limits = limits_of(2, RUN DATA "64 -n 2 --stall-after 0.000001");
    double threads_per_core = 2.0 / machine_cores("").online;
    if (threads_per_core < 1) threads_per_core = 1;
    cr_expect_gt(limits.predicted_s, 0);
    cr_expect_float_eq(limits.step_s / (3 * threads_per_core * limits.predicted_s), 1, 1e-9);
}

/* An evaluation of as many samples a rank as eight steps have: forward alone, so less than eight.
 */
Test(planned_waits, an_evaluation_is_waited_for_as_long_as_it_is) {
    struct limits few = limits_of(2, RUN DATA "64 -n 2 --stall-after 0.000001"),
                  many = limits_of(2, RUN DATA "512 -n 2 --stall-after 0.000001");
    cr_expect_float_eq(few.step_s / many.step_s, 1, 1e-9);
    cr_expect(many.evaluation_s > 3 * few.evaluation_s && many.evaluation_s < 16 * many.step_s);
}

Test(planned_waits, ranks_that_share_cores_are_given_time) {
    char line[256];
    int cores = machine_cores("").online, ranks = 4 * cores;
    if (cores > 32) cr_skip_test("programs of %d ranks are long to verify", ranks);
    snprintf(line, sizeof line, RUN DATA "64 -n %d --batch %d --stall-after 0.000001", ranks,
             ranks);
    struct limits limits = limits_of(ranks, line);
    cr_expect_float_eq(limits.step_s / (3 * 4 * limits.predicted_s), 1, 1e-9);
}
