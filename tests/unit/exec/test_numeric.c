/* What is not finite ends a training, whose parameters stay as they were; the message says where it
 * began. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "exec/state.h"
#include "kit.h"

#define MLP "--model mlp --data digits --device ref --threads 1 "

static void expect_failure(struct kit_run *run, int64_t after, const char *const *parts) {
    char said[1024] = "";
    struct step_result result;
    kit_steps(run, after);
    uint64_t hash = kit_hash(run);
    log_capture(said, sizeof said);
    enum status status = engine_step(run->engine, &result);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_NUMERIC);
    cr_expect_eq(kit_hash(run), hash, "parameters moved");
    for (; *parts; parts++) cr_expect(strstr(said, *parts), "\"%s\" is not in: %s", *parts, said);
    kit_close(&run);
}

Test(exec_numeric, a_parameter_that_is_not_a_number) {
    struct kit_run *run = kit_open(MLP "--steps 3");
    kit_set_param(run, "fc2.weight", 5, NAN);
    expect_failure(run, 0,
                   (const char *[]){"step 1", "fc2.weight", "linear", "from the start", NULL});
    run = kit_open(MLP "--steps 9");
    kit_steps(run, 2);
    kit_set_param(run, "fc1.bias", 0, INFINITY);
    expect_failure(run, 0, (const char *[]){"step 3", "fc1.bias", "linear", NULL});
}

Test(exec_numeric, an_overflow_in_the_forward_pass) {
    struct kit_run *run = kit_open(MLP "--steps 3 --deal 1x2");
    for (int i = 0; i < 128; i++) kit_set_param(run, "fc2.weight", i, 3e38f);
    expect_failure(
        run, 0,
        (const char *[]){"step 1", "tensor fc2", "linear", "forward", "micro-batch 0", NULL});
}

/* Finite losses, infinite gradients: 0 in front of the logits, the largest floats behind. */
Test(exec_numeric, an_overflow_in_the_backward_pass) {
    struct kit_run *run = kit_open(MLP "--steps 3");
    for (int i = 0; i < 64 * 128; i++) kit_set_param(run, "fc2.weight", i, 0);
    for (int i = 0; i < 64; i++) kit_set_param(run, "fc2.bias", i, 1e-36f);
    for (int i = 0; i < 640; i++)
        kit_set_param(run, "fc3.weight", i, i % 128 < 64 ? 3e38f : -3e38f);
    for (int i = 0; i < 64 * 128; i += 129) kit_set_param(run, "fc2.weight", i, 1e-36f);
    for (int i = 0; i < 128; i++) kit_set_param(run, "fc1.bias", i, 1e3f);
    expect_failure(run, 0, (const char *[]){"step 1", "norm of the gradients", "backward", NULL});
}

Test(exec_numeric, a_learning_rate_that_is_far_too_high) {
    char said[1024] = "";
    struct kit_run *run = kit_open(MLP "--steps 20 --lr 1e30 --warmup 0");
    struct step_result result;
    enum status status = STATUS_OK;
    log_capture(said, sizeof said);
    for (int i = 0; i < 20 && status == STATUS_OK; i++) status = engine_step(run->engine, &result);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_NUMERIC);
    cr_expect(strstr(said, "step 2") && strstr(said, "linear") && strstr(said, "--lr"), "%s", said);
    kit_close(&run);
}

Test(exec_numeric, an_evaluation_that_is_not_finite) {
    char said[1024] = "";
    struct kit_run *run = kit_open(MLP "--steps 1");
    struct eval_result eval;
    kit_set_param(run, "fc3.bias", 1, NAN);
    log_capture(said, sizeof said);
    cr_expect_eq(engine_evaluate(run->engine, &eval), STATUS_NUMERIC);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "evaluation") && strstr(said, "fc3.bias"), "%s", said);
    kit_close(&run);
}
