/* Steps and evaluations: see exec.h. */
#include "exec/exec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/state.h"
#include "exec/tally.h"

void bind_inputs(const struct step *step, struct runnable *runnable, int slot,
                 const struct micro_batch *samples) {
    const struct graph *graph = runnable->plan->graph;
    void **address = runnable->slot[slot].address;
    void *source[GRAPH_MAX_INPUTS];
    for (int i = 0; i < graph->input_count; i++) {
        const struct input_binding *input = &runnable->input[i];
        if (input->source == INPUT_FIELD) source[i] = samples->field[input->index];
        if (input->source == INPUT_KEY) source[i] = (void *)samples->sample_key;
        if (input->source == INPUT_SEED) source[i] = (void *)&step->seed[input->index];
    }
    for (int v = 0; v < graph->value_count; v++) {
        const struct value *root = &graph->values[graph->values[v].root];
        if (root->kind == VALUE_INPUT) address[v] = source[root->index];
    }
}

enum status exec_start(struct exec *exec) {
    return exec_run_list(exec, LIST_START);
}

enum status exec_drain(struct exec *exec) {
    return exec_run_list(exec, LIST_DRAIN);
}

void exec_ask(struct exec *exec, const struct exec_request *request) {
    exec->step->asked = *request;
}

struct comm *exec_comm(const struct exec *exec) {
    return exec->comm;
}

void exec_progress(struct exec *exec) {
    if (exec->under_way == 0 || exec->comm_status != STATUS_OK) return;
    int64_t begin = clock_ns();
    exec->comm_status = comm_progress(exec->comm);
    exec->step->times.of[TIME_COMM] += clock_ns() - begin;
}

struct loader_spent exec_loading(const struct exec *exec) {
    return exec->train ? loader_spent(exec->train) : (struct loader_spent){0};
}

struct store *exec_store(struct exec *exec) {
    return exec->store;
}

const struct plan *exec_plan(const struct exec *exec) {
    return exec->plan;
}

struct train_state *exec_state(const struct exec *exec) {
    return exec->state;
}

bool exec_failed_alone(const struct exec *exec) {
    return exec->failed_alone;
}

int64_t exec_next_step(const struct exec *exec) {
    return exec->step->number;
}

void step_begin(struct step *step) {
    step->begin_ns = clock_ns();
    step->times = (struct exec_times){0};
    step->tally = (struct tally){0};
    memset(step->loss, 0, sizeof step->loss);
}

/* Makes it the step of this number, of which nothing has run. */
static void step_renew(struct step *step, int64_t number) {
    step->number = number;
    step->normed = step->updated = false;
    step->asked = (struct exec_request){0};
}

static int64_t step_in_epoch(const struct exec *exec) {
    return exec->state->next.sample / exec->plan->config.batch;
}

void exec_find_place(struct exec *exec, bool new) {
    int64_t number = exec->state->done.step;
    for (int i = 0; i < STEP_RING; i++) step_renew(&exec->ring[i], -1);
    exec->step = &exec->ring[number % STEP_RING];
    step_renew(exec->step, number);
    if (exec->train && !(new &&number == 0))
        loader_seek(exec->train, exec->state->next.epoch, step_in_epoch(exec));
}

void exec_seek(struct exec *exec, int64_t step) {
    const struct run_config *config = &exec->plan->config;
    exec->state->done.step = step;
    exec->state->next = (struct train_position){step / config->steps_per_epoch,
                                                step % config->steps_per_epoch * config->batch};
    exec_find_place(exec, false);
}

enum status exec_check_place(const struct train_state *state, const struct plan *plan) {
    const struct train_position *next = &state->next;
    int64_t batch = plan->config.batch;
    if (next->sample == 0 || next->sample % batch == 0) return STATUS_OK;
    return fail(STATUS_USAGE,
                "the run is at sample %lld of epoch %lld, where no step of %lld samples begins",
                (long long)next->sample, (long long)next->epoch + 1, (long long)batch);
}

double exec_lr(const struct exec *exec) {
    const struct train_state *state = exec->state;
    return isnan(state->lr) ? lr_at(&exec->plan->config.lr, state->done.step) : state->lr;
}

/* The short last step of an epoch has a list of its own. */
static enum list_name list_of_next(const struct exec *exec) {
    const struct plan *plan = exec->plan;
    bool last = step_in_epoch(exec) == plan->config.steps_per_epoch - 1;
    return last && plan->last_samples ? LIST_LAST : LIST_BODY;
}

/* Samples of the step under way, over all ranks. */
static int64_t step_samples(const struct exec *exec) {
    const struct run_config *config = &exec->plan->config;
    int64_t total = 0;
    if (exec->step->batch) return exec->step->batch->step_samples;
    if (list_of_next(exec) == LIST_BODY) return config->batch;
    for (int g = 0; g < config->replicas * config->micro_batches; g++)
        total += exec->plan->last_samples[g];
    return total;
}

/* Until the slowest rank had come this far there was nobody to communicate with, and until a
 * message was sent nothing to wait for but its sender. A rank that came late to a group because it
 * waited for a message was waited for no less. */
static int64_t idle_ns(const struct exec *exec) {
    const struct exec_times *times = &exec->step->times;
    double own_ms = exec->step->share.came_ms, slowest_ms = own_ms;
    for (int r = 0; r < comm_size(exec->comm); r++)
        slowest_ms = fmax(slowest_ms, exec->step->shares[r].came_ms);
    int64_t idle = (int64_t)((slowest_ms - own_ms) * 1e6);
    int64_t groups = times->of[TIME_COMM] - times->message_ns;
    return times->unsent_ns + (idle < groups ? idle : groups);
}

/* Of a rank with a part of the model that has no loss, or without samples, there is none. */
static double own_loss(const struct tally *tally, int losses) {
    bool any = false;
    for (int i = 0; i < losses; i++) any |= tally->labels[i] > 0;
    return any ? tally_loss(tally, losses) : NAN;
}

/* Samples have one label each where their label is a single number. */
static int64_t skipped_samples(const struct exec *exec) {
    const struct plan *plan = exec->plan;
    for (int i = 0; i < plan->micro[0].graph->loss_count; i++) {
        int field = dataset_field(plan->config.dataset, plan->micro[0].graph->losses[i].label);
        if (shape_count(&plan->config.dataset->field[field].shape) == 1)
            return (int64_t)(exec->step->tally.samples - exec->step->tally.labels[i]);
    }
    return 0;
}

/* Of five classes or fewer the answer is always among the best five: that says nothing. What was
 * ranked is what its operation reads; the output of a model may be another value. */
static double top_five(const struct exec *exec) {
    const struct graph *graph = exec->plan->micro[0].graph;
    for (int i = 0; i < graph->loss_count; i++) {
        int counts = graph->losses[i].top_k;
        if (counts == NO_VALUE) continue;
        const struct node *ranks = &graph->nodes[graph->values[counts].producer];
        const struct shape *scores = &graph->values[ranks->in[0]].type.shape;
        if (scores->dim[scores->rank - 1] <= 5) return NAN;
    }
    return exec->step->tally.ranked > 0 ? exec->step->tally.right5 / exec->step->tally.ranked : NAN;
}

static void fill_result(struct exec *exec, struct step_result *out) {
    struct step *step = exec->step;
    const struct tally *tally = &step->tally;
    *out = (struct step_result){.step = step->number,
                                .epoch = exec->state->next.epoch,
                                .step_in_epoch = step_in_epoch(exec),
                                .samples = step_samples(exec),
                                .skipped = skipped_samples(exec),
                                .loss = tally_loss(tally, exec->plan->micro[0].graph->loss_count),
                                .acc1 = tally->ranked > 0 ? tally->right1 / tally->ranked : NAN,
                                .acc5 = top_five(exec),
                                .lr = exec_lr(exec),
                                .grad_norm = step->normed ? step->grad_norm : NAN,
                                .times = step->times,
                                .request = step->agreed,
                                .ranks = comm_size(exec->comm),
                                .rank_loss = step->rank_loss,
                                .rank_ms = step->rank_ms};
    int losses = exec->plan->micro[0].graph->loss_count;
    for (int r = 0; r < out->ranks; r++) {
        step->rank_loss[r] = own_loss(&step->shares[r].tally, losses);
        step->rank_ms[r] = step->shares[r].busy_ms;
    }
}

/* The next one is asked for things, and evaluated before it begins. */
static void next_step(struct exec *exec) {
    const struct run_config *config = &exec->plan->config;
    struct train_position *next = &exec->state->next;
    int64_t number = ++exec->state->done.step;
    next->sample += config->batch;
    if (step_in_epoch(exec) == config->steps_per_epoch)
        *next = (struct train_position){next->epoch + 1, 0};
    exec->step = &exec->ring[number % STEP_RING];
    step_renew(exec->step, number);
}

enum status exec_step(struct exec *exec, struct step_result *out) {
    struct step *step = exec->step;
    int64_t hidden_before = comm_hidden_ns(exec->comm);
    step_begin(step);
    enum status status = exec_run_list(exec, list_of_next(exec));
    step->times.total_ns = clock_ns() - step->begin_ns;
    step->times.hidden_ns = comm_hidden_ns(exec->comm) - hidden_before;
    if (status == STATUS_OK) step->times.idle_ns = idle_ns(exec);
    if (status == STATUS_OK) fill_result(exec, out);
    if (step->batch) loader_release(exec->train);
    step->batch = NULL;
    if (status == STATUS_OK) next_step(exec);
    return status;
}

bool exec_norm(const struct exec *exec, int64_t number, double *out) {
    const struct step *step = &exec->ring[number % STEP_RING];
    if (number < 0 || step->number != number || !step->normed) return false;
    *out = step->grad_norm;
    return true;
}

/* --- evaluation --- */

/* Ranks run the same number of rounds, whether they have samples in the last one or not. */
static enum status run_rounds(struct exec *exec) {
    enum status status = STATUS_OK;
    for (int64_t r = 0; r < exec->plan->eval_rounds && status == STATUS_OK; r++) {
        status = exec_run_list(exec, LIST_EVAL);
        if (exec->step->batch) loader_release(exec->eval);
        exec->step->batch = NULL;
        bool told = exec->sink && exec->sink->round && r + 1 < exec->plan->eval_rounds;
        if (status == STATUS_OK && told)
            status =
                exec->sink->round(exec->sink->context, (r + 1) * exec->plan->eval_loader.batch);
    }
    return status;
}

static enum status run_evaluation(struct exec *exec) {
    step_begin(exec->step);
    if (exec->eval) loader_seek(exec->eval, 0, 0);
    TRY(exec_run_list(exec, LIST_EVAL_START));
    TRY(run_rounds(exec));
    return exec_run_list(exec, LIST_EVAL_END);
}

/* What is evaluated is what is saved: replica 0's running statistics. */
enum status exec_evaluate(struct exec *exec, struct eval_result *out) {
    return exec_forward(exec, NULL, out);
}

enum status exec_forward(struct exec *exec, const struct exec_sink *sink, struct eval_result *out) {
    const struct tally *tally = &exec->step->tally;
    int64_t begin = clock_ns();
    exec->sink = sink;
    enum status status = run_evaluation(exec);
    exec->sink = NULL;
    if (status != STATUS_OK) restore_statistics(exec);
    TRY(status);
    double loss = tally_loss(tally, exec->plan->micro[0].graph->loss_count);
    if (!isfinite(loss)) return numeric_failure_of_evaluation(exec, loss);
    *out = (struct eval_result){.samples = (int64_t)tally->samples,
                                .skipped = skipped_samples(exec),
                                .loss = loss,
                                .acc1 = tally->ranked > 0 ? tally->right1 / tally->ranked : NAN,
                                .acc5 = top_five(exec),
                                .ns = clock_ns() - begin};
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++)
        out->term[i] = tally->labels[i] > 0 ? tally->loss[i] / tally->labels[i] : NAN;
    return STATUS_OK;
}

void exec_output_shape(const struct plan *plan, int64_t *rows, int64_t *classes) {
    const struct graph *graph = plan->micro[0].graph;
    const struct shape *shape = &graph->values[graph->output].type.shape;
    *classes = shape->dim[shape->rank - 1];
    *rows = shape_count(shape) / shape->dim[0] / *classes;
}

bool exec_output_has_classes(const struct plan *plan) {
    const struct graph *graph = plan->micro[0].graph;
    return graph->losses[0].top_k != NO_VALUE && graph->losses[0].scores == graph->output;
}
