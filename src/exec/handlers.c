/* The handlers of a step's instructions, and of evaluation's where they are the same; see
 * handlers.h. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/handlers.h"
#include "exec/state.h"

/* --- samples --- */

/* The list under way is a round of evaluation: its samples are the test split's, its graphs have
 * no backward. */
static bool evaluates(const struct exec *exec) {
    return exec->list_name == LIST_EVAL;
}

/* Waits for the samples of the step or round: for the loader's own threads, never for other ranks.
 */
static enum status need_batch(struct exec *exec) {
    if (exec->batch) return STATUS_OK;
    TRY(loader_next(evaluates(exec) ? exec->eval : exec->train, &exec->batch));
    CHECK(exec->batch, "the loader ended before step %lld", (long long)exec->step + 1);
    CHECK(evaluates(exec) || exec->batch->step == exec->step,
          "the loader is at step %lld, the run at %lld", (long long)exec->batch->step + 1,
          (long long)exec->step + 1);
    return STATUS_OK;
}

enum status post_COUNT(struct exec *exec, const struct instr *instr, struct comm_request **out) {
    const struct runnable *main = &exec->runnable[0];
    TRY(need_batch(exec));
    memset(exec->own_labels, 0, sizeof exec->own_labels);
    for (int i = 0; i < main->plan->graph->loss_count; i++)
        exec->own_labels[i] = exec->batch->own_label_count[main->label_field[i]];
    return comm_exchange_post(exec->group[instr->group], exec->own_labels, sizeof exec->own_labels,
                              exec->labels, out);
}

enum status finish_COUNT(struct exec *exec, const struct instr *instr) {
    int losses = exec->runnable[0].plan->graph->loss_count,
        members = comm_group_count(exec->group[instr->group]);
    for (int i = 0; i < losses; i++) {
        int64_t labels = 0;
        for (int m = 0; m < members; m++) labels += exec->labels[m][i];
        exec->seed[i] = labels > 0 ? (float)(1.0 / (double)labels) : 0;
    }
    return STATUS_OK;
}

enum status run_LOAD(struct exec *exec, const struct instr *instr) {
    TRY(need_batch(exec));
    const struct micro_batch *samples = &exec->batch->micro[instr->micro];
    const struct micro_plan *micro = plan_micro(exec->plan, samples->samples, !evaluates(exec));
    struct slot *slot = &exec->slot[instr->slot];
    *slot = (struct slot){NULL, instr->micro};
    /* Of the last round fewer samples may be left than there are pipelines. */
    if (evaluates(exec) && samples->samples == 0) return STATUS_OK;
    CHECK(micro, "no graph for %lld samples", (long long)samples->samples);
    slot->runnable = &exec->runnable[micro - exec->plan->micro];
    bind_inputs(exec, slot->runnable, instr->slot, samples);
    return STATUS_OK;
}

/* --- passes --- */

static struct pass_run run_of(const struct exec *exec, const struct instr *instr,
                              struct runnable *runnable, const struct pass_config *config) {
    struct pass_run run = {.instr = instr,
                           .runnable = runnable,
                           .slot = instr->slot,
                           .replica = instr->micro / exec->plan->config.micro_batches,
                           .config = *config};
    if (instr_shares(instr)) run.config.sharers = exec->group[instr->group];
    return run;
}

/* How many replicas of this rank have samples at the micro-batch's place in their steps. */
static int sharers_of(const struct exec *exec, int micro) {
    int each = exec->plan->config.micro_batches, count = 0;
    for (int m = micro % each; m < exec->batch->micro_count; m += each)
        count += exec->batch->micro[m].samples > 0;
    return count;
}

/* On one device the passes that share statistics stand one behind the other (the verifier saw to
 * it): the last one runs them all. *last tells that it was the last. */
static enum status join_lockstep(struct exec *exec, const struct instr *instr,
                                 const struct pass_config *config, bool *last) {
    exec->lockstep[exec->lockstep_count++] =
        run_of(exec, instr, exec->slot[instr->slot].runnable, config);
    *last = exec->lockstep_count == sharers_of(exec, instr->micro);
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
    const struct slot *slot = &exec->slot[instr->slot];
    tally_add(slot->runnable, instr->slot, &exec->batch->micro[instr->micro], &exec->tally);
    if (evaluates(exec)) return STATUS_OK; /* looked at when all rounds are done */
    double loss = tally_loss(&exec->tally, slot->runnable->plan->graph->loss_count);
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

enum status run_F(struct exec *exec, const struct instr *instr) {
    struct pass_config pass = {.pass = PASS_FORWARD,
                               .stage = instr->stage,
                               .segment = INSTR_ALL,
                               .grad = -1,
                               .pure = instr->flags & INSTR_PURE};
    if (in_lockstep(exec, instr)) return forward_lockstep(exec, instr, &pass);
    bool done;
    if (!exec->slot[instr->slot].runnable) return STATUS_OK;
    TRY(run_pass(exec, instr, exec->slot[instr->slot].runnable, &pass, &done));
    return done ? read_loss(exec, instr) : STATUS_OK;
}

static enum status backward(struct exec *exec, const struct instr *instr, enum pass kind) {
    struct pass_config pass = {.pass = kind,
                               .stage = instr->stage,
                               .segment = kind == PASS_BACKWARD ? instr->segment : INSTR_ALL,
                               .grad = kind == PASS_INPUT_HALF ? -1 : instr->grad,
                               .fresh = instr->flags & INSTR_NEW};
    bool done;
    if (in_lockstep(exec, instr)) {
        TRY(join_lockstep(exec, instr, &pass, &done));
        if (done) exec->lockstep_count = 0;
        return STATUS_OK;
    }
    return run_pass(exec, instr, exec->slot[instr->slot].runnable, &pass, &done);
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
        .pass = kind, .stage = instr->stage, .segment = INSTR_ALL, .grad = -1};
    bool done;
    return run_pass(exec, instr, &exec->runnable[0], &pass, &done);
}

enum status run_STATS_F(struct exec *exec, const struct instr *instr) {
    return stand_in(exec, instr, PASS_ABSENT_FORWARD);
}

enum status run_STATS_B(struct exec *exec, const struct instr *instr) {
    return stand_in(exec, instr, PASS_ABSENT_BACKWARD);
}

/* --- gradients --- */

enum status run_ZERO(struct exec *exec, const struct instr *instr) {
    return store_zero(exec->store, instr->grad);
}

enum status run_TIE(struct exec *exec, const struct instr *instr) {
    struct bucket all = {.first = 0, .count = exec->store->layout->param_count};
    const struct bucket *bucket =
        instr->bucket == INSTR_ALL ? &all : &exec->plan->buckets.items[instr->bucket];
    return store_tie(exec->store, instr->grad, bucket->first, bucket->count);
}

enum status run_SUM(struct exec *exec, const struct instr *instr) {
    return store_sum(exec->store, instr->grad, instr->other);
}

enum status post_REDUCE(struct exec *exec, const struct instr *instr, struct comm_request **out) {
    const struct bucket *bucket = &exec->plan->buckets.items[instr->bucket];
    int array = store_array(exec->store->layout, ARRAY_GRAD, instr->grad);
    struct elements data = store_elements(exec->store, array, bucket->begin, bucket->elements);
    return comm_all_reduce(exec->group[instr->group], data.data, data.count, out);
}

enum status finish_REDUCE(struct exec *exec, const struct instr *instr) {
    (void)exec, (void)instr;
    return STATUS_OK;
}

/* --- the end of a step --- */

enum status post_REPORT(struct exec *exec, const struct instr *instr, struct comm_request **out) {
    int64_t busy_ns = clock_ns() - exec->step_begin_ns - exec->times.of[TIME_COMM];
    exec->share = (struct step_share){
        .tally = exec->tally, .request = exec->asked, .busy_ms = (double)busy_ns * 1e-6};
    return comm_exchange_post(exec->group[instr->group], &exec->share, sizeof exec->share,
                              exec->shares, out);
}

/* A stop or a save happens after the same step everywhere: all ranks know what any of them asks. */
static void agree_on_requests(struct exec *exec, int members) {
    exec->agreed = (struct exec_request){0};
    for (int r = 0; r < members; r++) {
        const struct exec_request *request = &exec->shares[r].request;
        if (request->signal) exec->agreed.signal = request->signal;
        exec->agreed.save |= request->save;
        exec->agreed.time_up |= request->time_up;
    }
}

enum status finish_REPORT(struct exec *exec, const struct instr *instr) {
    int members = comm_group_count(exec->group[instr->group]);
    tally_sum(exec->shares, members, &exec->tally);
    agree_on_requests(exec, members);
    return STATUS_OK;
}

enum status run_NORM(struct exec *exec, const struct instr *instr) {
    double loss = tally_loss(&exec->tally, exec->plan->micro[0].graph->loss_count);
    if (!isfinite(loss)) return numeric_failure(exec, "the loss", loss);
    double squares;
    TRY(store_squares(exec->store, instr->grad, &squares));
    exec->grad_norm = sqrt(squares);
    return isfinite(squares) ? STATUS_OK
                             : numeric_failure(exec, "the norm of the gradients", exec->grad_norm);
}

/* Clipping as torch does it: scale by limit / (norm + 1e-6) where that is below 1. */
static float clip_scale(double limit, double norm) {
    double scale = limit > 0 ? limit / (norm + 1e-6) : 1;
    return scale < 1 ? (float)scale : 1;
}

enum status run_STEP(struct exec *exec, const struct instr *instr) {
    const struct run_config *config = &exec->plan->config;
    bool finite;
    exec->lr = lr_at(&config->lr, exec->step);
    struct optim_step step = {.config = &config->optim,
                              .step = exec->step,
                              .lr = (float)exec->lr,
                              .gradient_scale = clip_scale(config->clip, exec->grad_norm)};
    TRY(store_update(exec->store, &step, instr->grad, &finite));
    return finite ? STATUS_OK : numeric_failure_of_update(exec);
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
