/* See train.h. Order at a step that is due for both: evaluate, then save, so that a checkpoint
 * knows the result. */
#include "exec/train.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/overlap.h"
#include "exec/rounds.h"
#include "exec/stop.h"

struct run {
    struct engine **engine;
    const struct train_config *config;
    const struct train_observer *observer;
    struct checkpoint_state *done; /* of the training's state, which the engine moves on */
    struct train_result result;
    int64_t total;
    struct step_request agreed; /* what the ranks asked for at the last step */
    int64_t told;               /* the steps of which all is known */
    double first_loss, smooth_loss,
        lowest_loss; /* of a range test; the latter is of the smoothed */
};

/* A step counts as done when the norm of its gradients is known: without clipping that may be a
 * step later, and it may turn out that nothing of it can be used. Tells of the first `steps`. */
static void tell_rows(struct run *run, int64_t steps) {
    struct step_row row;
    while (run->told < steps && engine_row(*run->engine, run->told, &row)) {
        run->observer->row(run->observer->context, &row);
        run->result.steps = ++run->told;
    }
}

static enum status settle(struct run *run) {
    enum status status = engine_settle(*run->engine);
    tell_rows(run, run->done->step);
    return status;
}

/* All go on, or fail, together. */
static enum status save_together(struct run *run) {
    enum status ready = STATUS_OK;
    TRY(settle(run));
    run->observer->starting(run->observer->context, "SAVE", run->done->step);
    TRY(engine_compare_copies(*run->engine));
    if (comm_rank(engine_comm(*run->engine)) == 0)
        ready = run->observer->saving(run->observer->context, run->done->step);
    return checkpoint_save(&run->config->checkpoint, *run->engine, run->done, ready);
}

static enum status save(struct run *run) {
    if (run->done->saved_step == run->done->step) return STATUS_OK;
    TRY(save_together(run));
    run->done->saved_step = run->done->step;
    return STATUS_OK;
}

/* Accuracy where there is one, else the loss: higher is better. */
static double score_of(const struct eval_result *eval) {
    return isnan(eval->acc1) ? -eval->loss : eval->acc1;
}

static enum status evaluate(struct run *run, bool *best) {
    TRY(settle(run));
    run->observer->starting(run->observer->context, "EVAL", run->done->step);
    TRY(engine_evaluate(*run->engine, &run->result.eval));
    run->result.evaluated = true;
    run->observer->evaluated(run->observer->context, run->done->step, &run->result.eval);
    double score = score_of(&run->result.eval);
    *best = run->done->best_step < 0 || score > run->done->best_score;
    if (!*best) return STATUS_OK;
    run->done->best_step = run->done->step;
    run->done->best_score = score;
    return STATUS_OK;
}

static bool due(int64_t step, int64_t every) {
    return every > 0 && step % every == 0;
}

static enum status after_step(struct run *run) {
    const struct train_config *config = run->config;
    bool end = run->done->step == run->total, best = false;
    if (due(run->done->step, config->eval_every) || (end && config->eval_at_end))
        TRY(evaluate(run, &best));
    bool asked = run->agreed.save;
    if (asked && comm_rank(engine_comm(*run->engine)) == 0)
        log_note("saving after step %lld, as asked", (long long)run->done->step);
    bool saving =
        config->save_every > 0 && (due(run->done->step, config->save_every) || best || end);
    return saving || asked ? save(run) : STATUS_OK;
}

static enum stop_cause cause_to_stop(const struct run *run) {
    if (run->agreed.signal) return STOP_SIGNAL;
    return run->agreed.time_up ? STOP_TIME : STOP_END;
}

/* One request often reaches the ranks in different steps. What comes before the next step begins is
 * answered by the save that was just made for another rank's: nothing has changed since. */
static bool asks_to_save(const struct run *run) {
    return stop_take_save() && !run->agreed.save;
}

static struct step_request request_now(const struct run *run) {
    int64_t deadline = run->config->deadline_ns;
    return (struct step_request){.signal = stop_signal(),
                                 .save = asks_to_save(run),
                                 .time_up = deadline && clock_ns() >= deadline};
}

/* A range test is over when the loss is far above what it was at the beginning or at its best: from
 * there on it only comes apart. All ranks know the same losses, so all end at one step. */
static bool range_is_over(struct run *run, const struct step_result *step) {
    enum { FAR = 4 };
    const double keep = 0.8;
    if (engine_plan(*run->engine)->config.lr.policy != LR_RANGE) return false;
    bool begins = isnan(run->first_loss);
    if (begins) run->first_loss = run->smooth_loss = run->lowest_loss = step->loss;
    run->smooth_loss = keep * run->smooth_loss + (1 - keep) * step->loss;
    run->lowest_loss = fmin(run->lowest_loss, run->smooth_loss);
    if (step->loss <= run->first_loss || step->loss <= FAR * run->lowest_loss) return false;
    if (comm_rank(engine_comm(*run->engine)) == 0)
        log_note("range test: over at step %lld: at a learning rate of %.2g the loss is %.4g, from "
                 "%.4g at its lowest",
                 (long long)run->done->step, step->lr, step->loss, run->lowest_loss);
    return true;
}

/* The oldest step under way. Of several, what any of them was asked for counts. */
static enum status finish_step(struct run *run, bool *over) {
    struct step_result step;
    int64_t number = run->done->step - engine_unfinished(*run->engine);
    enum status status = engine_finish(*run->engine, &step);
    if (!engine_is_in_round(*run->engine)) tell_rows(run, number); /* of the step before */
    TRY(status);
    step_request_add(&run->agreed, &step.request);
    if (step.request.signal) run->result.signal = step.request.signal;
    run->observer->step(run->observer->context, &step);
    tell_rows(run, engine_is_in_round(*run->engine) ? INT64_MAX : number + 1);
    *over = range_is_over(run, &step);
    return STATUS_OK;
}

/* The first step behind `step` before which the plan may change. */
static int64_t plan_until(const struct run *run, int64_t step) {
    const struct train_config *config = run->config;
    if (!config->next_plan) return INT64_MAX;
    return config->plan_until ? config->plan_until(config->context, step) : step + 1;
}

/* Whether something happens behind the steps so far that all of them must be finished for. */
static bool pauses(const struct run *run) {
    const struct train_config *config = run->config;
    int64_t step = run->done->step;
    bool asked = run->agreed.save || cause_to_stop(run) != STOP_END;
    return asked || step == run->total || due(step, config->eval_every) ||
           due(step, config->save_every) || step == plan_until(run, step - 1) ||
           engine_plan(*run->engine)->config.lr.policy == LR_RANGE;
}

static int64_t earlier(int64_t pause, int64_t step, int64_t every) {
    int64_t due = every > 0 ? (step / every + 1) * every : pause;
    return due < pause ? due : pause;
}

/* The first step behind which something happens that is known beforehand. */
static int64_t next_pause(const struct run *run) {
    const struct train_config *config = run->config;
    int64_t step = run->done->step, pause = earlier(run->total, step, config->eval_every),
            change = plan_until(run, step);
    if (engine_plan(*run->engine)->config.lr.policy == LR_RANGE) return step + 1;
    pause = earlier(pause, step, config->save_every);
    return change < pause ? change : pause;
}

/* Of replicas at steps of their own, at a pause: nobody has told it with a step. */
static void take_asked(struct run *run) {
    if (!engine_plan(*run->engine)->config.chooses) return;
    tell_rows(run, run->done->step);
    run->result.steps = run->told = run->done->step; /* also of ranks that have no rows */
    struct step_request asked = engine_asked(*run->engine);
    step_request_add(&run->agreed, &asked);
    if (asked.signal) run->result.signal = asked.signal;
}

/* Enqueues one; as many as may be are under way until something must be known of them. */
static enum status one_step(struct run *run) {
    struct step_request request = request_now(run);
    bool over = false;
    run->agreed = (struct step_request){0};
    engine_ask(*run->engine, &request);
    engine_pause(*run->engine, next_pause(run));
    enum status status = engine_enqueue(*run->engine);
    if (status != STATUS_OK) tell_rows(run, run->done->step); /* of the step before */
    TRY(status);
    while (engine_unfinished(*run->engine) > (pauses(run) ? 0 : engine_ahead(*run->engine)))
        TRY(finish_step(run, &over));
    /* The others learn of it at the pause, where all agree (take_asked). */
    if (engine_is_in_round(*run->engine)) run->agreed = (struct step_request){0};
    if (engine_unfinished(*run->engine) > 0 || engine_is_in_round(*run->engine)) return STATUS_OK;
    take_asked(run);
    if (over) run->total = run->done->step;
    bool last = run->done->step == run->total || cause_to_stop(run) != STOP_END;
    if (last) TRY(settle(run));
    if (last && run->done->step == run->total) TRY(engine_drain(*run->engine));
    if (over) return STATUS_OK; /* what has come apart is neither tested nor kept */
    return after_step(run);
}

static enum status change_plan(struct run *run) {
    const struct train_config *config = run->config;
    const struct plan *next = NULL;
    int64_t begin = clock_ns();
    if (config->next_plan) TRY(config->next_plan(config->context, run->done->step, &next));
    if (!next) return STATUS_OK;
    TRY(settle(run));
    TRY(engine_change_plan(run->engine, next));
    run->total = run->done->step + engine_steps_left(*run->engine);
    if (!config->plan_changed) return STATUS_OK;
    return config->plan_changed(config->context, run->done->step, clock_ns() - begin);
}

static enum status steps(struct run *run) {
    while (run->done->step < run->total && run->result.cause == STOP_END) {
        TRY(change_plan(run));
        TRY(one_step(run));
        run->result.cause = cause_to_stop(run);
    }
    if (run->done->step == run->total) run->result.cause = STOP_END;
    return run->result.cause == STOP_END ? STATUS_OK : save(run);
}

struct train_state train_fresh(void) {
    return (struct train_state){.done = {.best_step = -1, .saved_step = -1}, .lr = NAN};
}

enum status train_all(struct engine **engine, const struct train_config *config,
                      const struct train_observer *observer, struct train_result *out) {
    struct train_state *state = engine_state(*engine);
    int64_t first = state->done.step, total = first + engine_steps_left(*engine);
    struct run run = {.engine = engine,
                      .config = config,
                      .observer = observer,
                      .done = &state->done,
                      .result = {.first_step = first, .steps = first},
                      .told = first,
                      .first_loss = NAN,
                      .total = total};
    bool best, finished = first >= total;
    enum status status = finished && config->eval_at_end ? evaluate(&run, &best) : STATUS_OK;
    if (status == STATUS_OK && !finished) status = steps(&run);
    run.result.begun = true;
    run.result.saved = state->done.saved_step >= 0;
    *out = run.result;
    if (status == STATUS_OK && run.result.cause != STOP_END) return STATUS_STOPPED;
    return status;
}
