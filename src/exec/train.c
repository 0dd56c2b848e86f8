/* See train.h. Order at a step that is due for both: evaluate, then save, so that a checkpoint knows the result. */
#include "exec/train.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/stop.h"

struct run {
    struct exec *exec;
    const struct train_config *config;
    const struct train_observer *observer;
    struct checkpoint_state state;
    struct train_result result;
    int64_t total;
    int64_t saved_step; /* steps done at the newest checkpoint, -1 for none */
};

static enum status save(struct run *run) {
    if (run->saved_step == run->state.step) return STATUS_OK;
    TRY(run->observer->saving(run->observer->context, run->state.step));
    TRY(checkpoint_save(&run->config->checkpoint, run->exec, &run->state));
    run->saved_step = run->state.step;
    return STATUS_OK;
}

/* Accuracy where there is one, else the loss: higher is better. */
static double score_of(const struct eval_result *eval) {
    return isnan(eval->acc1) ? -eval->loss : eval->acc1;
}

static enum status evaluate(struct run *run, bool *best) {
    TRY(exec_evaluate(run->exec, &run->result.eval));
    run->result.evaluated = true;
    run->observer->evaluated(run->observer->context, run->state.step, &run->result.eval);
    double score = score_of(&run->result.eval);
    *best = run->state.best_step < 0 || score > run->state.best_score;
    if (!*best) return STATUS_OK;
    run->state.best_step = run->state.step;
    run->state.best_score = score;
    return STATUS_OK;
}

static bool due(int64_t step, int64_t every) {
    return every > 0 && step % every == 0;
}

static enum status after_step(struct run *run) {
    const struct train_config *config = run->config;
    bool end = run->state.step == run->total, best = false;
    if (due(run->state.step, config->eval_every) || (end && config->eval_at_end)) TRY(evaluate(run, &best));
    bool asked = stop_take_save();
    if (asked) log_note("saving after step %lld, as asked", (long long)run->state.step);
    bool saving = config->save_every > 0 && (due(run->state.step, config->save_every) || best || end);
    return saving || asked ? save(run) : STATUS_OK;
}

static enum stop_cause cause_to_stop(const struct run *run) {
    if (stop_signal()) return STOP_SIGNAL;
    if (run->config->deadline_ns && clock_ns() >= run->config->deadline_ns) return STOP_TIME;
    return STOP_END;
}

static enum status steps(struct run *run) {
    while (run->state.step < run->total) {
        run->result.cause = cause_to_stop(run);
        if (run->result.cause != STOP_END) break;
        struct step_result step;
        TRY(exec_step(run->exec, &step));
        run->state.step++;
        run->observer->step(run->observer->context, &step);
        TRY(after_step(run));
    }
    run->result.steps = run->state.step;
    if (run->state.step == run->total) run->result.cause = STOP_END;
    return run->result.cause == STOP_END ? STATUS_OK : save(run);
}

static enum status resume(struct run *run) {
    bool found;
    TRY(checkpoint_resume(&run->config->checkpoint, run->exec, &run->state, &found));
    if (!found) {
        log_note("no checkpoint in %s: starting at step 0", run->config->checkpoint.folder);
        return STATUS_OK;
    }
    run->saved_step = run->state.step;
    if (run->state.step >= run->total)
        log_note("the checkpoint is at step %lld of %lld: nothing is left to train", (long long)run->state.step,
                 (long long)run->total);
    return STATUS_OK;
}

enum status train_run_all(struct exec *exec, const struct train_config *config, const struct train_observer *observer,
                          struct train_result *out) {
    struct run run = {.exec = exec,
                      .config = config,
                      .observer = observer,
                      .state = {.best_step = -1},
                      .total = exec_plan(exec)->config.lr.total_steps,
                      .saved_step = -1};
    if (config->resume) TRY(resume(&run));
    run.result.first_step = run.state.step;
    bool finished = run.state.step >= run.total, best;
    if (finished && config->eval_at_end) TRY(evaluate(&run, &best));
    enum status status = steps(&run);
    *out = run.result;
    if (status == STATUS_OK && run.result.cause != STOP_END) return STATUS_STOPPED;
    return status;
}
