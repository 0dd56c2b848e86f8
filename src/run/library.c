/* The public library: thin over job and executor. See include/stretto.h. */
#include "stretto.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "run/job.h"
#include "exec/checkpoint.h"
#include "exec/exec.h"

struct stretto_run {
    struct options options;
    struct job job;
    struct exec *exec;
};

/* Ranks are started by the command; here there is one, and nobody is told otherwise silently. */
static enum status check_alone(const struct options *options) {
    const char *many = options_asking_ranks(options);
    if (options->local_ranks > 1)
        return fail(STATUS_USAGE,
                    "-n %lld: a run of the library has one rank\n  --deal %lldx1 "
                    "replays that many on it",
                    (long long)options->local_ranks, (long long)options->local_ranks);
    if (!many) return STATUS_OK;
    return fail(STATUS_USAGE, "--%s: a run of the library has one rank", many);
}

static enum status open_run(struct stretto_run *run) {
    TRY(check_alone(&run->options));
    TRY(job_open(&run->options, NULL, &run->job));
    TRY(job_check_memory(&run->job));
    TRY(exec_new(run->job.plan, NULL, NULL, &run->exec));
    if (!option_is_set(&run->options, OPTION_weights)) return STATUS_OK;
    return checkpoint_load_weights(run->exec, run->options.weights);
}

int stretto_open(int count, const char *const *options, struct stretto_run **out) {
    struct stretto_run *run = MEM_NEW(struct stretto_run);
    enum status status = options_parse(COMMAND_TRAIN, count, (char *const *)options, &run->options);
    if (status != STATUS_OK) {
        free(run);
        return status_exit_code(status);
    }
    status = open_run(run);
    if (status == STATUS_OK)
        *out = run;
    else
        stretto_close(&run);
    return status_exit_code(status);
}

void stretto_close(struct stretto_run **run) {
    if (!run || !*run) return;
    exec_free(&(*run)->exec);
    job_close(&(*run)->job);
    options_free(&(*run)->options);
    free(*run);
    *run = NULL;
}

int stretto_plan(const struct stretto_run *run, struct stretto_plan *out) {
    const struct plan *plan = run->job.plan;
    *out = (struct stretto_plan){.params = graph_param_elements(plan->micro[0].graph),
                                 .steps = plan->config.steps,
                                 .steps_per_epoch = plan->config.steps_per_epoch,
                                 .batch = plan->config.batch,
                                 .predicted_peak_bytes = plan_bytes(plan)};
    return 0;
}

int stretto_step(struct stretto_run *run, struct stretto_step *out) {
    if (exec_next_step(run->exec) >= run->job.plan->config.steps) return STRETTO_END;
    struct step_result result;
    enum status status = exec_step(run->exec, &result);
    if (status != STATUS_OK) return status_exit_code(status);
    *out = (struct stretto_step){.step = result.step,
                                 .epoch = result.epoch,
                                 .loss = result.loss,
                                 .lr = result.lr,
                                 .grad_norm = result.grad_norm,
                                 .step_ms = (double)result.times.total_ns * 1e-6};
    return 0;
}

int stretto_evaluate(struct stretto_run *run, struct stretto_eval *out) {
    struct eval_result result;
    enum status status = exec_evaluate(run->exec, &result);
    if (status != STATUS_OK) return status_exit_code(status);
    *out = (struct stretto_eval){
        .samples = result.samples, .loss = result.loss, .acc1 = result.acc1, .acc5 = result.acc5};
    return 0;
}

static int find_param(const struct stretto_run *run, const char *name) {
    return store_find_param(exec_store(run->exec)->layout, name);
}

int64_t stretto_param_count(const struct stretto_run *run, const char *name) {
    int param = find_param(run, name);
    const struct store_layout *layout = exec_store(run->exec)->layout;
    return param < 0 ? -1 : shape_count(&layout->params[param].type.shape);
}

static enum status check_param(const struct stretto_run *run, const char *name, int64_t count,
                               int *out) {
    *out = find_param(run, name);
    if (*out < 0) return fail(STATUS_USAGE, "the model has no parameter \"%s\"", name);
    int64_t have = stretto_param_count(run, name);
    if (have == count) return STATUS_OK;
    return fail(STATUS_USAGE, "parameter %s has %lld elements, %lld were given", name,
                (long long)have, (long long)count);
}

int stretto_param_get(const struct stretto_run *run, const char *name, float *values,
                      int64_t count) {
    int param;
    const struct store *store = exec_store(run->exec);
    enum status status = check_param(run, name, count, &param);
    if (status == STATUS_OK)
        status = store_get(store, store_array(store->layout, ARRAY_PARAM, 0), param, values);
    return status_exit_code(status);
}

int stretto_param_set(struct stretto_run *run, const char *name, const float *values,
                      int64_t count) {
    int param;
    struct store *store = exec_store(run->exec);
    enum status status = check_param(run, name, count, &param);
    if (status == STATUS_OK)
        status = store_put(store, store_array(store->layout, ARRAY_PARAM, 0), param, values);
    return status_exit_code(status);
}

int stretto_save(struct stretto_run *run, const char *path) {
    return status_exit_code(checkpoint_write_model(run->exec, path, NULL));
}

int stretto_load(struct stretto_run *run, const char *path) {
    return status_exit_code(checkpoint_load_weights(run->exec, path));
}
