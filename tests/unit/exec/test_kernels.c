/* A kernel that fails ends the step, wherever it runs: in a pass, in passes in lockstep, in an
 * evaluation. The device's table is replaced by one whose kernels fail after so many runs. */
#include <criterion/criterion.h>

#include "base/log.h"
#include "exec/state.h"
#include "kit.h"

static enum status (*kernel_run_of)(struct kernel *kernel, void *const in[], void *const out[],
                                    void *scratch, struct stream *stream);
static int runs_left;

static enum status run_or_fail(struct kernel *kernel, void *const in[], void *const out[],
                               void *scratch, struct stream *stream) {
    if (runs_left-- == 0) return fail(STATUS_MEMORY, "kernel %s failed", kernel->name);
    return kernel_run_of(kernel, in, out, scratch, stream);
}

/* The caller's table must live as long as the run. */
static void fail_after(struct kit_run *run, int runs, struct backend *table) {
    struct device *device = run->planned.plan->device;
    *table = *device->backend;
    kernel_run_of = table->kernel_run;
    table->kernel_run = run_or_fail;
    device->backend = table;
    runs_left = runs;
}

static int kernels_of(const struct kit_run *run) {
    const struct graph *graph = run->planned.plan->micro[0].graph;
    int count = 0;
    for (int n = 0; n < graph->node_count; n++) count += graph->nodes[n].kernel != NULL;
    return count;
}

static void expect_failure(const char *line, int percent) {
    char said[512] = "";
    struct step_result result;
    struct backend table;
    struct kit_run *run = kit_open("%s", line);
    fail_after(run, kernels_of(run) * percent / 100, &table);
    log_capture(said, sizeof said);
    cr_expect_eq(engine_step(run->engine, &result), STATUS_MEMORY, "%s, %d%%: %s", line, percent,
                 said);
    log_capture(NULL, 0);
    cr_expect_eq(engine_next_step(run->engine), 0);
    kit_close(&run);
}

Test(exec_kernels, one_that_fails_ends_the_step) {
    const char *const lines[] = {
        "--model mlp --data digits --device ref --threads 1",
        "--model mlp --data digits --device ref --threads 1 --deal 1x2",
        "--model resnet8 --data digits --device cpu --threads 1 --batch 16",
        "--model resnet8 --data digits --device cpu --threads 1 --batch 16 --deal 2x1 --sync-bn",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        for (int percent = 0; percent < 100; percent += 45) expect_failure(lines[i], percent);
}

Test(exec_kernels, one_that_fails_ends_the_evaluation) {
    char said[512] = "";
    struct eval_result result;
    struct backend table;
    struct kit_run *run = kit_open("--model mlp --data digits --device ref --threads 1");
    fail_after(run, 3, &table);
    log_capture(said, sizeof said);
    cr_expect_eq(engine_evaluate(run->engine, &result), STATUS_MEMORY, "%s", said);
    log_capture(NULL, 0);
    kit_close(&run);
}
