/* One handler per instruction. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
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

/* Adds label counts over the ranks. */
static enum status share_counts(struct exec *exec, int64_t labels[GRAPH_MAX_LOSSES]) {
    int ranks = comm_size(exec->comm);
    if (ranks == 1) return STATUS_OK;
    size_t bytes = GRAPH_MAX_LOSSES * sizeof *labels;
    int64_t begin = clock_ns();
    TRY(comm_exchange(comm_world(exec->comm), labels, bytes, exec->labels));
    exec->times.comm_ns += clock_ns() - begin;
    memset(labels, 0, bytes);
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < GRAPH_MAX_LOSSES; i++) labels[i] += exec->labels[r][i];
    }
    return STATUS_OK;
}

static enum status handle_count(struct exec *exec, const struct instr *instr) {
    (void)instr;
    TRY(need_batch(exec));
    const struct runnable *main = &exec->runnable[0];
    int losses = main->plan->graph->loss_count;
    int64_t labels[GRAPH_MAX_LOSSES] = {0};
    for (int i = 0; i < losses; i++) labels[i] = exec->batch->own_label_count[main->label_field[i]];
    TRY(share_counts(exec, labels));
    for (int i = 0; i < losses; i++)
        exec->seed[i] = labels[i] > 0 ? (float)(1.0 / (double)labels[i]) : 0;
    return STATUS_OK;
}

/* The samples of a micro-batch of the step, numbered over all ranks; this rank's loader has its own
 * only. */
static const struct micro_batch *samples_of(const struct exec *exec, int micro) {
    return &exec->batch->micro[micro - exec->plan->train_loader.first_micro];
}

static enum status handle_load(struct exec *exec, const struct instr *instr) {
    TRY(need_batch(exec));
    const struct micro_batch *samples = samples_of(exec, instr->micro);
    const struct micro_plan *micro = plan_micro(exec->plan, samples->samples, true);
    CHECK(micro, "no graph for %lld samples", (long long)samples->samples);
    struct slot *slot = &exec->slot[instr->slot];
    *slot = (struct slot){&exec->runnable[micro - exec->plan->micro], instr->micro};
    bind_inputs(exec, slot->runnable, instr->slot, samples);
    return STATUS_OK;
}

/* How many replicas have samples at the micro-batch's place in their steps. */
static int sharers_of(const struct exec *exec, int micro) {
    int each = exec->plan->config.micro_batches, count = 0;
    for (int m = micro % each; m < exec->batch->micro_count; m += each)
        count += exec->batch->micro[m].samples > 0;
    return count;
}

/* On one device the passes that share statistics stand one behind the other (the verifier saw to
 * it): the last one runs them all. *done tells whether it was the last. */
static void join_lanes(struct exec *exec, const struct instr *instr,
                       const struct pass_config *config, bool *done) {
    exec->lane[exec->lane_count++] =
        (struct lane){.instr = instr,
                      .runnable = exec->slot[instr->slot].runnable,
                      .slot = instr->slot,
                      .replica = instr->micro / exec->plan->config.micro_batches,
                      .config = *config};
    *done = exec->lane_count == sharers_of(exec, instr->micro);
    if (!*done) return;
    run_together(exec, exec->lane, exec->lane_count);
}

static bool is_lane(const struct exec *exec, const struct instr *instr) {
    return exec->lane && instr->flags & INSTR_SHARES;
}

static enum status read_loss(struct exec *exec, const struct instr *instr) {
    const struct slot *slot = &exec->slot[instr->slot];
    tally_add(slot->runnable, instr->slot, samples_of(exec, instr->micro), &exec->tally);
    double loss = tally_loss(&exec->tally, slot->runnable->plan->graph->loss_count);
    if (comm_size(exec->comm) > 1) return STATUS_OK; /* all ranks look at it together, at NORM */
    return isfinite(loss) ? STATUS_OK : numeric_failure(exec, "the loss", loss);
}

static enum status forward_together(struct exec *exec, const struct instr *instr,
                                    const struct pass_config *pass) {
    enum status status = STATUS_OK;
    bool done;
    join_lanes(exec, instr, pass, &done);
    for (int i = 0; done && i < exec->lane_count && status == STATUS_OK; i++)
        status = read_loss(exec, exec->lane[i].instr);
    if (done) exec->lane_count = 0;
    return status;
}

static enum status handle_f(struct exec *exec, const struct instr *instr) {
    struct pass_config pass = {.pass = PASS_FORWARD,
                               .stage = instr->stage,
                               .segment = INSTR_ALL,
                               .grad = -1,
                               .pure = instr->flags & INSTR_PURE};
    if (is_lane(exec, instr)) return forward_together(exec, instr, &pass);
    run_pass(exec, exec->slot[instr->slot].runnable, instr->slot, &pass);
    TRY(exec->comm_status);
    return read_loss(exec, instr);
}

static enum status backward(struct exec *exec, const struct instr *instr, enum pass kind) {
    struct pass_config pass = {.pass = kind,
                               .stage = instr->stage,
                               .segment = kind == PASS_BACKWARD ? instr->segment : INSTR_ALL,
                               .grad = instr->grad,
                               .fresh = instr->flags & INSTR_NEW};
    if (kind == PASS_INPUT_HALF) pass.grad = -1;
    if (is_lane(exec, instr)) {
        bool done;
        join_lanes(exec, instr, &pass, &done);
        if (done) exec->lane_count = 0;
        return STATUS_OK;
    }
    run_pass(exec, exec->slot[instr->slot].runnable, instr->slot, &pass);
    return exec->comm_status;
}

/* The main graph lends its nodes: what is shared does not depend on the number of samples. */
static enum status stand_in(struct exec *exec, const struct instr *instr, enum pass kind) {
    struct pass_config pass = {
        .pass = kind, .stage = instr->stage, .segment = INSTR_ALL, .grad = -1};
    run_pass(exec, &exec->runnable[0], instr->slot, &pass);
    return exec->comm_status;
}

static enum status handle_stats_f(struct exec *exec, const struct instr *instr) {
    return stand_in(exec, instr, PASS_ABSENT_FORWARD);
}

static enum status handle_stats_b(struct exec *exec, const struct instr *instr) {
    return stand_in(exec, instr, PASS_ABSENT_BACKWARD);
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

static enum status handle_zero(struct exec *exec, const struct instr *instr) {
    store_zero(exec->store, instr->grad);
    return STATUS_OK;
}

static enum status handle_tie(struct exec *exec, const struct instr *instr) {
    struct bucket all = {.first = 0, .count = exec->store->param_count};
    const struct bucket *bucket =
        instr->bucket == INSTR_ALL ? &all : &exec->plan->buckets.items[instr->bucket];
    store_tie(exec->store, instr->grad, bucket->first, bucket->count);
    return STATUS_OK;
}

static enum status handle_reduce(struct exec *exec, const struct instr *instr) {
    const struct bucket *bucket = &exec->plan->buckets.items[instr->bucket];
    float *data = exec->store->grad[instr->grad] + bucket->begin;
    TRY(comm_all_reduce(comm_world(exec->comm), data, bucket->elements,
                        &exec->request[instr->bucket]));
    exec->pending++;
    return comm_progress(exec->comm);
}

/* One array of replica 0 to all, through a gradient buffer, which is the memory others can reach.
 */
enum status broadcast_bytes(struct exec *exec, void *data, size_t bytes) {
    size_t room = (size_t)exec->store->gradient_elements * sizeof(float);
    char *staging = (char *)exec->store->grad[0];
    for (size_t done = 0; done < bytes; done += room) {
        size_t piece = bytes - done < room ? bytes - done : room;
        struct comm_request *request;
        if (comm_rank(exec->comm) == 0) memcpy(staging, (char *)data + done, piece);
        TRY(comm_broadcast(comm_world(exec->comm), 0, staging, piece, &request));
        TRY(comm_wait(&request));
        if (comm_rank(exec->comm) != 0) memcpy((char *)data + done, staging, piece);
        TRY(comm_barrier(comm_world(exec->comm))); /* the staging is free again */
    }
    /* Padding of gradients is zero and stays so: sums and norms run over it. */
    memset(staging, 0, bytes < room ? bytes : room);
    return comm_barrier(comm_world(exec->comm));
}

static enum status handle_bcast(struct exec *exec, const struct instr *instr) {
    (void)instr;
    struct store *store = exec->store;
    size_t bytes = (size_t)store->param_elements * sizeof(float);
    TRY(broadcast_bytes(exec, store->param, bytes));
    for (int i = 0; i < store->optimizer->state_count; i++)
        TRY(broadcast_bytes(exec, store->state[i], bytes));
    TRY(broadcast_bytes(exec, store->buffer, store->buffer_bytes));
    int64_t step = exec->step;
    TRY(broadcast_bytes(exec, &step, sizeof step));
    if (step != exec->step) exec_seek(exec, step);
    return STATUS_OK;
}

static enum status handle_sum(struct exec *exec, const struct instr *instr) {
    store_sum(exec->store, instr->grad, instr->other);
    return STATUS_OK;
}

static enum status await_reductions(struct exec *exec) {
    for (int b = 0; b < exec->plan->buckets.count; b++) {
        if (exec->request[b]) TRY(comm_wait(&exec->request[b]));
    }
    exec->pending = 0;
    return exec->comm_status;
}

/* What the ranks wish, all together: a stop or a save must happen after the same step everywhere.
 */
static void agree_on_wishes(struct exec *exec) {
    exec->agreed = exec->wish;
    for (int r = 0; r < comm_size(exec->comm); r++) {
        const struct exec_wish *wish = &exec->shares[r].wish;
        if (wish->signal) exec->agreed.signal = wish->signal;
        exec->agreed.save |= wish->save;
        exec->agreed.time_up |= wish->time_up;
    }
}

/* Until the slowest rank had come this far there was nobody to communicate with. */
static int64_t idle_ns(const struct exec *exec, double own_busy_ms) {
    double slowest_ms = own_busy_ms;
    for (int r = 0; r < comm_size(exec->comm); r++)
        slowest_ms = fmax(slowest_ms, exec->shares[r].busy_ms);
    int64_t idle = (int64_t)((slowest_ms - own_busy_ms) * 1e6);
    return idle < exec->times.comm_ns ? idle : exec->times.comm_ns;
}

static enum status share_step(struct exec *exec) {
    int64_t begin = clock_ns(), busy_ns = begin - exec->step_begin_ns - exec->times.comm_ns;
    struct step_share mine = {
        .tally = exec->tally, .wish = exec->wish, .busy_ms = (double)busy_ns * 1e-6};
    enum status status = await_reductions(exec);
    if (status == STATUS_OK) status = share_all(exec, &mine, &exec->tally);
    if (status == STATUS_OK) agree_on_wishes(exec);
    exec->times.comm_ns += clock_ns() - begin;
    if (status == STATUS_OK) exec->times.idle_ns = idle_ns(exec, mine.busy_ms);
    return status;
}

static enum status handle_norm(struct exec *exec, const struct instr *instr) {
    TRY(share_step(exec));
    double loss = tally_loss(&exec->tally, exec->plan->micro[0].graph->loss_count);
    if (!isfinite(loss)) return numeric_failure(exec, "the loss", loss);
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
    bool finite = optim_apply(store->optimizer, &step, store->spans, store->param_count,
                              store->param, store->grad[instr->grad], store->state);
    return finite ? STATUS_OK : numeric_failure_of_update(exec);
}

enum status handle_instr(struct exec *exec, const struct instr *instr) {
    static enum status (*const handlers[])(struct exec *, const struct instr *) = {
        [INSTR_COUNT] = handle_count,
        [INSTR_LOAD] = handle_load,
        [INSTR_F] = handle_f,
        [INSTR_B] = handle_b,
        [INSTR_I] = handle_i,
        [INSTR_W] = handle_w,
        [INSTR_TIE] = handle_tie,
        [INSTR_SUM] = handle_sum,
        [INSTR_NORM] = handle_norm,
        [INSTR_STEP] = handle_step,
        [INSTR_ZERO] = handle_zero,
        [INSTR_REDUCE] = handle_reduce,
        [INSTR_BCAST] = handle_bcast,
        [INSTR_STATS_F] = handle_stats_f,
        [INSTR_STATS_B] = handle_stats_b,
    };
    return handlers[instr->op](exec, instr);
}
