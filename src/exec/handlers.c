/* One handler per instruction. */
#include <math.h>

#include "base/log.h"
#include "exec/state.h"

/* Waits for the samples of the step. */
static enum status need_batch(struct exec *exec) {
    if (exec->batch) return STATUS_OK;
    TRY(loader_next(exec->train, &exec->batch));
    CHECK(exec->batch, "the loader ended before step %lld", (long long)exec->step);
    CHECK(exec->batch->step == exec->step, "the loader is at step %lld, the run at %lld",
          (long long)exec->batch->step, (long long)exec->step);
    return STATUS_OK;
}

static enum status handle_count(struct exec *exec, const struct instr *instr) {
    (void)instr;
    TRY(need_batch(exec));
    const struct runnable *main = &exec->runnable[0];
    for (int i = 0; i < main->plan->graph->loss_count; i++) {
        int64_t labels = exec->batch->own_label_count[main->label_field[i]];
        exec->seed[i] = labels > 0 ? (float)(1.0 / (double)labels) : 0;
    }
    return STATUS_OK;
}

static enum status handle_load(struct exec *exec, const struct instr *instr) {
    TRY(need_batch(exec));
    const struct micro_batch *samples = &exec->batch->micro[instr->micro];
    const struct micro_plan *micro = plan_micro(exec->plan, samples->samples, true);
    CHECK(micro, "no graph for %lld samples", (long long)samples->samples);
    struct slot *slot = &exec->slot[instr->slot];
    *slot = (struct slot){&exec->runnable[micro - exec->plan->micro], instr->micro};
    bind_inputs(exec, slot->runnable, instr->slot, samples);
    return STATUS_OK;
}

static enum status handle_f(struct exec *exec, const struct instr *instr) {
    const struct slot *slot = &exec->slot[instr->slot];
    struct pass_config pass = {.pass = PASS_FORWARD, .grad = -1, .pure = instr->flags & INSTR_PURE};
    run_pass(exec, slot->runnable, instr->slot, &pass);
    tally_add(slot->runnable, instr->slot, &exec->batch->micro[instr->micro], &exec->tally);
    double loss = tally_loss(&exec->tally, slot->runnable->plan->graph->loss_count);
    return isfinite(loss) ? STATUS_OK : numeric_failure(exec, "the loss", loss);
}

static enum status backward(struct exec *exec, const struct instr *instr, enum pass kind) {
    struct pass_config pass = {
        .pass = kind, .grad = instr->grad, .fresh = instr->flags & INSTR_NEW};
    if (kind == PASS_INPUT_HALF) pass.grad = -1;
    run_pass(exec, exec->slot[instr->slot].runnable, instr->slot, &pass);
    return STATUS_OK;
}

static enum status handle_b(struct exec *exec, const struct instr *instr) {
    return backward(exec, instr, PASS_BACKWARD);
}

static enum status handle_i(struct exec *exec, const struct instr *instr) {
    return backward(exec, instr, PASS_INPUT_HALF);
}

static enum status handle_w(struct exec *exec, const struct instr *instr) {
    return backward(exec, instr, PASS_WEIGHT_HALF);
}

static enum status handle_tie(struct exec *exec, const struct instr *instr) {
    store_tie(exec->store, instr->grad);
    return STATUS_OK;
}

static enum status handle_sum(struct exec *exec, const struct instr *instr) {
    store_sum(exec->store, instr->grad, instr->other);
    return STATUS_OK;
}

static enum status handle_norm(struct exec *exec, const struct instr *instr) {
    double squares = optim_sum_squares(exec->store->grad[instr->grad], exec->store->param_elements);
    exec->grad_norm = sqrt(squares);
    return isfinite(squares) ? STATUS_OK
                             : numeric_failure(exec, "the norm of the gradients", exec->grad_norm);
}

/* Clipping as torch does it: scale by limit / (norm + 1e-6) where that is below 1. */
static float clip_scale(double limit, double norm) {
    double scale = limit > 0 ? limit / (norm + 1e-6) : 1;
    return scale < 1 ? (float)scale : 1;
}

static enum status handle_step(struct exec *exec, const struct instr *instr) {
    const struct run_config *config = &exec->plan->config;
    struct store *store = exec->store;
    exec->lr = lr_at(&config->lr, exec->step);
    struct optim_step step = {.config = &config->optim,
                              .step = exec->step,
                              .lr = (float)exec->lr,
                              .gradient_scale = clip_scale(config->clip, exec->grad_norm)};
    optim_apply(store->optimizer, &step, store->spans, store->param_count, store->param,
                store->grad[instr->grad], store->state);
    return STATUS_OK;
}

enum status handle_instr(struct exec *exec, const struct instr *instr) {
    static enum status (*const handlers[])(struct exec *, const struct instr *) = {
        [INSTR_COUNT] = handle_count, [INSTR_LOAD] = handle_load, [INSTR_F] = handle_f,
        [INSTR_B] = handle_b,         [INSTR_I] = handle_i,       [INSTR_W] = handle_w,
        [INSTR_TIE] = handle_tie,     [INSTR_SUM] = handle_sum,   [INSTR_NORM] = handle_norm,
        [INSTR_STEP] = handle_step,
    };
    return handlers[instr->op](exec, instr);
}
