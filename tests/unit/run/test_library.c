/* The public library, as a program that links it would use it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "stretto.h"

static const char *const mlp[] = {"--model", "mlp", "--device", "ref", "--threads", "1",
                                  "--batch", "500", "--epochs", "1",   "--lr",      "0.1"};
enum { MLP_WORDS = sizeof mlp / sizeof mlp[0], WEIGHTS = 10 * 64 };

static struct stretto_run *open_mlp(void) {
    struct stretto_run *run;
    cr_assert_eq(stretto_open(MLP_WORDS, mlp, &run), 0);
    return run;
}

static void step_to_end(struct stretto_run *run) {
    struct stretto_step step;
    int code, count = 0;
    while ((code = stretto_step(run, &step)) == 0) cr_expect_eq(step.step, count++);
    cr_expect_eq(code, STRETTO_END);
    cr_expect_eq(count, 3);
    cr_expect_eq(stretto_step(run, &step), STRETTO_END, "the end stays the end");
}

Test(run_library, plans_steps_and_evaluates) {
    struct stretto_run *run = open_mlp();
    struct stretto_plan plan;
    struct stretto_eval before, after;
    cr_assert_eq(stretto_plan(run, &plan), 0);
    cr_expect_eq(plan.steps, 3);
    cr_expect_eq(plan.batch, 500);
    cr_expect_gt(plan.predicted_peak_bytes, 100000);
    cr_assert_eq(stretto_evaluate(run, &before), 0);
    step_to_end(run);
    cr_assert_eq(stretto_evaluate(run, &after), 0);
    cr_expect_eq(after.samples, 297);
    cr_expect_lt(after.loss, before.loss);
    stretto_close(&run);
    cr_expect_null(run);
    stretto_close(&run);
}

/* Weights go out by file and come back; parameters are read and written by name. */
Test(run_library, weights_by_file_and_by_name) {
    char path[] = "/tmp/stretto-library-XXXXXX";
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
    float trained[WEIGHTS], loaded[WEIGHTS];
    char said[1024];
    struct stretto_run *run = open_mlp();
    step_to_end(run);
    cr_assert_eq(stretto_param_count(run, "fc3.weight"), WEIGHTS);
    cr_assert_eq(stretto_param_get(run, "fc3.weight", trained, WEIGHTS), 0);
    cr_assert_eq(stretto_save(run, path), 0);
    stretto_close(&run);
    run = open_mlp();
    cr_assert_eq(stretto_param_get(run, "fc3.weight", loaded, WEIGHTS), 0);
    cr_expect_neq(memcmp(trained, loaded, sizeof trained), 0, "a new run has new weights");
    log_capture(said, sizeof said); /* it says how many tensors were loaded */
    cr_assert_eq(stretto_load(run, path), 0);
    log_capture(NULL, 0);
    cr_assert_eq(stretto_param_get(run, "fc3.weight", loaded, WEIGHTS), 0);
    cr_expect_eq(memcmp(trained, loaded, sizeof trained), 0);
    memset(trained, 0, sizeof trained);
    cr_assert_eq(stretto_param_set(run, "fc3.weight", trained, WEIGHTS), 0);
    cr_assert_eq(stretto_param_get(run, "fc3.weight", loaded, WEIGHTS), 0);
    cr_expect_eq(memcmp(trained, loaded, sizeof trained), 0);
    stretto_close(&run);
    unlink(path);
}

Test(run_library, refuses_with_the_commands_codes) {
    static const struct {
        const char *words[4];
        int count, code;
        const char *part;
    } rows[] = {
        {{"--model", "nothing"}, 2, 2, "--model: 'nothing' is not allowed"},
        {{"--data", "mnist:/nowhere"}, 2, 3, "/nowhere"},
        {{"--memory-limit", "1K"}, 2, 5, "would need"},
        {{"-n", "2"}, 2, 2, "-n 2: a run of the library has one rank"},
        {{"--nodes", "2", "--node-rank", "0"}, 4, 2, "--nodes: a run of the library has one rank"},
    };
    char said[1024];
    log_capture(said, sizeof said);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stretto_run *run = NULL;
        said[0] = 0;
        cr_expect_eq(stretto_open(rows[i].count, rows[i].words, &run), rows[i].code);
        cr_expect(strstr(said, rows[i].part), "%s", said);
        cr_expect_null(run);
    }
    struct stretto_run *run = open_mlp();
    float value[1];
    cr_expect_eq(stretto_param_count(run, "fc9.weight"), -1);
    cr_expect_eq(stretto_param_get(run, "fc9.weight", value, 1), 2);
    cr_expect_eq(stretto_param_set(run, "fc3.weight", value, 1), 2);
    cr_expect(strstr(said, "640 elements, 1 were given"), "%s", said);
    log_capture(NULL, 0);
    stretto_close(&run);
}
