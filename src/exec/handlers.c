/* The handlers of samples and passes, of evaluation too where they are the same, and those that end
 * a step; see handlers.h. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/delay.h"
#include "exec/handlers.h"
#include "exec/places.h"
#include "exec/tally.h"

static bool is_last_stage(const struct exec *exec, const struct instr *instr) {
    const struct grid *grid = &exec->plan->program->grid;
    return instr->stage == grid->stages * grid->chunks - 1;
}

/* --- samples --- */

/* The list under way is a round of evaluation: its samples are the test split's, its graphs have
 * no backward. */
static bool evaluates(const struct exec *exec) {
    return exec->list_name == LIST_EVAL;
}

/* Waits for the samples of the step or round: for the loader's own threads, never for other ranks.
 */
static enum status need_batch(struct exec *exec) {
    struct step *step = exec->step;
    if (step->batch) return STATUS_OK;
    TRY(loader_next(evaluates(exec) ? exec->eval : exec->train, &step->batch));
    CHECK(step->batch, "the loader ended before step %lld", (long long)step->number + 1);
    const struct train_position *next = &exec->state->next;
    CHECK(evaluates(exec) ||
              (step->batch->epoch == next->epoch &&
               step->batch->step_in_epoch * exec->plan->config.batch == next->sample),
          "the loader is at step %lld of epoch %lld, the run at sample %lld of epoch %lld",
          (long long)step->batch->step_in_epoch, (long long)step->batch->epoch,
          (long long)next->sample, (long long)next->epoch);
    return STATUS_OK;
}

/* What each member of the instruction's group gives, to all; without a group, one's own. */
static enum status exchange(struct exec *exec, const struct instr *instr, const void *own,
                            size_t bytes, void *all, struct comm_request **out) {
    *out = NULL;
    if (instr->group != INSTR_ALL)
        return comm_exchange_post(exec->group[instr->group], own, bytes, all, out);
    memcpy(all, own, bytes);
    return STATUS_OK;
}

static int members_of(const struct exec *exec, const struct instr *instr) {
    return instr->group == INSTR_ALL ? 1 : comm_group_count(exec->group[instr->group]);
}

enum status post_COUNT(struct exec *exec, const struct instr *instr, struct comm_request **out) {
    const struct runnable *main = &exec->runnable[0];
    struct step *step = exec->step;
    TRY(need_batch(exec));
    memset(step->own_labels, 0, sizeof step->own_labels);
    for (int i = 0; i < main->plan->graph->loss_count; i++)
        step->own_labels[i] = step->batch->own_label_count[main->label_field[i]];
    return exchange(exec, instr, step->own_labels, sizeof step->own_labels, step->labels, out);
}

enum status finish_COUNT(struct exec *exec, const struct instr *instr) {
    struct step *step = exec_posted(exec, instr)->step;
    int losses = exec->runnable[0].plan->graph->loss_count, members = members_of(exec, instr);
    for (int i = 0; i < losses; i++) {
        int64_t labels = 0;
        for (int m = 0; m < members; m++) labels += step->labels[m][i];
        step->seed[i] = labels > 0 ? (float)(1.0 / (double)labels) : 0;
    }
    return STATUS_OK;
}

enum status run_LOAD(struct exec *exec, const struct instr *instr) {
    TRY(need_batch(exec));
    const struct micro_batch *samples = &exec->step->batch->micro[instr->micro];
    const struct micro_plan *micro = plan_micro(exec->plan, samples->samples, !evaluates(exec));
    struct slot *slot = slot_of(exec, instr);
    *slot = (struct slot){.step = exec->step, .micro = instr->micro};
    /* The last round may have fewer samples than pipelines. */
    if (evaluates(exec) && samples->samples == 0) return STATUS_OK;
    CHECK(micro, "no graph for %lld samples", (long long)samples->samples);
    slot->runnable = &exec->runnable[micro - exec->plan->micro];
    bind_inputs(slot->step, slot->runnable, slot_index(exec, instr), samples);
    return STATUS_OK;
}

/* --- passes --- */

static struct pass_run run_of(const struct exec *exec, const struct instr *instr,
                              struct runnable *runnable, const struct pass_config *config) {
    struct pass_run run = {.instr = instr,
                           .runnable = runnable,
                           .slot = slot_index(exec, instr),
                           .replica = instr->micro / exec->plan->config.micro_batches,
                           .config = *config};
    if (instr_shares(instr)) run.config.sharers = exec->group[instr->group];
    return run;
}

/* How many replicas of this rank have samples at the micro-batch's place in their steps. */
static int sharers_of(const struct exec *exec, const struct slot *slot) {
    const struct step_batch *batch = slot->step->batch;
    int each = exec->plan->config.micro_batches, count = 0;
    for (int m = slot->micro % each; m < batch->micro_count; m += each)
        count += batch->micro[m].samples > 0;
    return count;
}

/* On one device the passes that share statistics stand one behind the other (the verifier saw to
 * it): the last one runs them all. *last tells that it was the last. */
static enum status join_lockstep(struct exec *exec, const struct instr *instr,
                                 const struct pass_config *config, bool *last) {
    exec->lockstep[exec->lockstep_count++] =
        run_of(exec, instr, slot_of(exec, instr)->runnable, config);
    *last = exec->lockstep_count == sharers_of(exec, slot_of(exec, instr));
    return *last ? pass_run_lockstep(exec, exec->lockstep, exec->lockstep_count) : STATUS_OK;
}

static bool in_lockstep(const struct exec *exec, const struct instr *instr) {
    return exec->lockstep && instr_shares(instr);
}

/* Begins the instruction's pass, or goes on with it after an exchange. *done tells whether it has
 * ended. */
static enum status run_pass(struct exec *exec, const struct instr *instr, struct runnable *runnable,
                            const struct pass_config *config, bool *done) {
    if (!exec->pass.instr) {
        exec->pass = run_of(exec, instr, runnable, config);
        pass_begin(&exec->pass);
    }
    TRY(pass_go_on(exec, &exec->pass));
    *done = !exec->awaiting;
    if (*done) exec->pass.instr = NULL;
    return STATUS_OK;
}

static enum status read_loss(struct exec *exec, const struct instr *instr) {
    if (!is_last_stage(exec, instr)) return STATUS_OK;
    const struct slot *slot = slot_of(exec, instr);
    struct step *step = slot->step;
    TRY(tally_add(slot->runnable, slot_index(exec, instr), &step->batch->micro[slot->micro],
                  &step->tally, step->loss));
    if (evaluates(exec)) return STATUS_OK; /* looked at when all rounds are done */
    double loss = tally_loss(&step->tally, slot->runnable->plan->graph->loss_count);
    if (!is_alone(exec)) return STATUS_OK; /* all ranks look at it together, at NORM */
    return isfinite(loss) ? STATUS_OK : numeric_failure(exec, "the loss", loss);
}

static enum status forward_lockstep(struct exec *exec, const struct instr *instr,
                                    const struct pass_config *pass) {
    bool last;
    TRY(join_lockstep(exec, instr, pass, &last));
    if (!last) return STATUS_OK;
    int count = exec->lockstep_count;
    exec->lockstep_count = 0;
    for (int i = 0; i < count; i++) TRY(read_loss(exec, exec->lockstep[i].instr));
    return STATUS_OK;
}

/* Its losses and gradients are 0: the buffers of gradients are so from the start. */
static enum status delay_forward(struct exec *exec, const struct instr *instr) {
    const struct slot *slot = slot_of(exec, instr);
    if (is_last_stage(exec, instr))
        tally_samples(slot->runnable, &slot->step->batch->micro[slot->micro], &slot->step->tally);
    return delay(exec, instr);
}

enum status run_F(struct exec *exec, const struct instr *instr) {
    if (delays(exec, instr)) return delay_forward(exec, instr);
    struct pass_config pass = {.pass = PASS_FORWARD,
                               .stage = instr->stage,
                               .segment = instr->segment,
                               .grad = -1,
                               .pure = instr->flags & INSTR_PURE};
    if (in_lockstep(exec, instr)) return forward_lockstep(exec, instr, &pass);
    bool done;
    if (!slot_of(exec, instr)->runnable) return STATUS_OK;
    TRY(run_pass(exec, instr, slot_of(exec, instr)->runnable, &pass, &done));
    return done && instr->segment <= 0 ? read_loss(exec, instr) : STATUS_OK;
}

enum status run_R(struct exec *exec, const struct instr *instr) {
    if (delays(exec, instr)) return delay(exec, instr);
    struct runnable *runnable = slot_of(exec, instr)->runnable;
    const struct placement *placement =
        plan_placement(exec->plan, runnable->plan, chunk_of(exec, instr), instr->slot);
    struct pass_config pass = {.pass = PASS_AGAIN,
                               .stage = instr->stage,
                               .segment = instr->segment,
                               .grad = -1,
                               .again = placement->life.recompute.again};
    bool done;
    return run_pass(exec, instr, runnable, &pass, &done);
}

static enum status backward(struct exec *exec, const struct instr *instr, enum pass kind) {
    struct pass_config pass = {.pass = kind,
                               .stage = instr->stage,
                               .segment = instr->segment,
                               .grad = kind == PASS_INPUT_HALF ? -1 : instr->grad,
                               .fresh = instr->flags & INSTR_NEW};
    bool done;
    if (delays(exec, instr)) return delay(exec, instr);
    if (in_lockstep(exec, instr)) {
        TRY(join_lockstep(exec, instr, &pass, &done));
        if (done) exec->lockstep_count = 0;
        return STATUS_OK;
    }
    return run_pass(exec, instr, slot_of(exec, instr)->runnable, &pass, &done);
}

enum status run_B(struct exec *exec, const struct instr *instr) {
    return backward(exec, instr, PASS_BACKWARD);
}

enum status run_I(struct exec *exec, const struct instr *instr) {
    return backward(exec, instr, PASS_INPUT_HALF);
}

enum status run_W(struct exec *exec, const struct instr *instr) {
    return backward(exec, instr, PASS_WEIGHT_HALF);
}

/* The main graph lends its nodes: what is shared does not depend on the number of samples. */
static enum status stand_in(struct exec *exec, const struct instr *instr, enum pass kind) {
    struct pass_config pass = {
        .pass = kind, .stage = instr->stage, .segment = instr->segment, .grad = -1};
    bool done;
    if (delays(exec, instr)) return STATUS_OK; /* nobody shares anything */
    return run_pass(exec, instr, &exec->runnable[0], &pass, &done);
}

enum status run_STATS_F(struct exec *exec, const struct instr *instr) {
    return stand_in(exec, instr, PASS_ABSENT_FORWARD);
}

enum status run_STATS_B(struct exec *exec, const struct instr *instr) {
    return stand_in(exec, instr, PASS_ABSENT_BACKWARD);
}

/* --- what was asked for --- */

/* Of a layout of the backend's own a plain copy is made; its memory is kept for the next batch. */
static enum status plain_scores(struct exec *exec, const struct value *value, void *address,
                                const float **out) {
    *out = address;
    if (value->layout->plain) return STATUS_OK;
    int64_t each = shape_count(&value->type.shape) / value->type.shape.dim[0];
    if (!exec->scores) exec->scores = MEM_ARRAY(float, each * exec->plan->eval_batch);
    *out = exec->scores;
    return layout_to_plain(exec->plan->device, value->layout, address, exec->scores);
}

enum status run_OUTPUT(struct exec *exec, const struct instr *instr) {
    const struct slot *slot = slot_of(exec, instr);
    if (!exec->sink || !exec->sink->output || !slot->runnable) return STATUS_OK;
    const struct graph *graph = slot->runnable->plan->graph;
    const struct value *value = &graph->values[graph->output];
    const struct micro_batch *samples = &slot->step->batch->micro[slot->micro];
    CHECK(value->type.dtype == DTYPE_F32, "the output is %s", dtype_name(value->type.dtype));
    struct exec_output output = {.samples = samples->samples,
                                 .sample_id = samples->sample_id,
                                 .labels = samples->field[slot->runnable->label_field[0]]};
    void *address = slot->runnable->slot[slot_index(exec, instr)].address[graph->output];
    exec_output_shape(exec->plan, &output.rows, &output.classes);
    TRY(plain_scores(exec, value, address, &output.scores));
    return exec->sink->output(exec->sink->context, &output);
}

/* --- the end of a step --- */

enum status post_REPORT(struct exec *exec, const struct instr *instr, struct comm_request **out) {
    struct step *step = exec->step;
    bool reads = list_is_step(exec->list_name) && exec->train;
    if (reads) TRY(need_batch(exec)); /* also of a rank without the loss */
    int64_t busy_ns = clock_ns() - step->begin_ns - step->times.of[TIME_COMM];
    step->share = (struct step_share){.request = step->asked,
                                      .busy_ms = (double)busy_ns * 1e-6,
                                      .came_ms = (double)(busy_ns + step->times.message_ns) * 1e-6};
    tally_share(step, &step->share);
    if (exec->list_name == LIST_EVAL_END) {
        exec->eval_share.step = step->share;
        memcpy(exec->eval_share.loss, step->loss, sizeof step->loss);
        return exchange(exec, instr, &exec->eval_share, sizeof exec->eval_share, exec->eval_shares,
                        out);
    }
    return exchange(exec, instr, &step->share, sizeof step->share, step->shares, out);
}

/* A stop or a save happens after the same step everywhere: all ranks know what any of them asks. */
static void agree_on_requests(struct step *step, int members) {
    step->agreed = (struct exec_request){0};
    for (int r = 0; r < members; r++) {
        const struct exec_request *request = &step->shares[r].request;
        if (request->signal) step->agreed.signal = request->signal;
        step->agreed.save |= request->save;
        step->agreed.time_up |= request->time_up;
    }
}

static void sum_evaluation(const struct exec *exec, struct step *step, int members) {
    struct exact_sum loss[GRAPH_MAX_LOSSES] = {0};
    for (int r = 0; r < members; r++) {
        step->shares[r] = exec->eval_shares[r].step;
        for (int i = 0; i < GRAPH_MAX_LOSSES; i++)
            exact_merge(&loss[i], &exec->eval_shares[r].loss[i]);
    }
    tally_sum(step->shares, members, &step->tally);
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++) step->tally.loss[i] = exact_total(&loss[i]);
}

enum status finish_REPORT(struct exec *exec, const struct instr *instr) {
    struct step *step = exec_posted(exec, instr)->step;
    int members = members_of(exec, instr);
    bool evaluated = exec->list_name == LIST_EVAL_END;
    if (evaluated)
        sum_evaluation(exec, step, members);
    else
        tally_sum(step->shares, members, &step->tally);
    agree_on_requests(step, members);
    if (evaluated) return STATUS_OK; /* looked at when all rounds are done */
    double loss = tally_loss(&step->tally, exec->plan->micro[0].graph->loss_count);
    return isfinite(loss) ? STATUS_OK : numeric_failure(exec, "the loss", loss);
}

/* Exact sums of doubles may be added in any order: the norm does not depend on who holds which
 * parameters. */
enum status post_NORM(struct exec *exec, const struct instr *instr, struct comm_request **out) {
    struct step *step = exec->step;
    step->squares = (struct exact_sum){0};
    if (instr->grad != INSTR_ALL) TRY(store_squares(exec->store, instr->grad, &step->squares));
    step->own_is_finite = isfinite(exact_total(&step->squares));
    step->bad_gradient = step->own_is_finite ? NULL : numeric_bad_gradient(exec, instr->grad);
    return exchange(exec, instr, &step->squares, sizeof step->squares, step->all_squares, out);
}

/* Without clipping STEP may have run already, and the next step be under way: what was not known
 * then is told now. All members fail together, at the same instruction. */
enum status finish_NORM(struct exec *exec, const struct instr *instr) {
    struct step *step = exec_posted(exec, instr)->step;
    int members = members_of(exec, instr);
    step->squares = (struct exact_sum){0};
    for (int m = 0; m < members; m++) exact_merge(&step->squares, &step->all_squares[m]);
    double squares = exact_total(&step->squares);
    step->grad_norm = sqrt(squares);
    if (!isfinite(squares) && (step->updated || step != exec->step)) /* a driver updates nothing */
        return numeric_failure_of_norm(exec, step);
    if (!isfinite(squares)) {
        TRY(exec_await_losses(exec)); /* a loss that is not finite is told first */
        return numeric_failure(exec, "the norm of the gradients", step->grad_norm);
    }
    step->normed = true;
    return step->updated && !step->update_is_finite ? numeric_failure_of_update(exec, step)
                                                    : STATUS_OK;
}

enum status run_MEET(struct exec *exec, const struct instr *instr) {
    exec->met = !exec->met;
    if (!exec->met) return STATUS_OK; /* all have come */
    exec->awaiting = &exec->request;
    return comm_barrier_post(exec->group[instr->group], &exec->request);
}

/* Clipping as torch does it: scale by limit / (norm + 1e-6) where that is below 1. */
static float clip_scale(double limit, double norm) {
    double scale = limit > 0 ? limit / (norm + 1e-6) : 1;
    return scale < 1 ? (float)scale : 1;
}

/* Where the norm is not known yet, this rank's own part of it may tell that the step comes to
 * nothing: then parameters stay as they are, and whoever looks for the cause finds them so. */
enum status run_STEP(struct exec *exec, const struct instr *instr) {
    const struct run_config *config = &exec->plan->config;
    struct step *step = exec->step;
    bool clips = instr->flags & INSTR_CLIP;
    struct optim_step update = {.config = &config->optim,
                                .step = step->number,
                                .lr = (float)exec_lr(exec),
                                .gradient_scale =
                                    clips ? clip_scale(config->clip, step->grad_norm) : 1};
    step->updated = true;
    step->update_is_finite = true;
    if (!step->own_is_finite) return STATUS_OK;
    TRY(store_update(exec->store, &update, instr->grad, &step->update_is_finite));
    if (step->update_is_finite || exec_is_under_way(exec, RESOURCE_NORM))
        return STATUS_OK; /* NORM will tell the cause */
    return numeric_failure_of_update(exec, step);
}

/* --- the table --- */

#define HANDLER_COMPUTE(NAME)                                                                      \
    { .run = run_##NAME }
#define HANDLER_COMM(NAME)                                                                         \
    { .post = post_##NAME, .finish = finish_##NAME }

const struct handler handlers[INSTR_COUNT_] = {
#define INSTR(NAME, operands, flags, list, queue, ...) [INSTR_##NAME] = HANDLER_##queue(NAME),
#include "program/instr.def"
#undef INSTR
};
