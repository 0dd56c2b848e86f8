/* Steps and evaluations: see engine.h. */
#include "exec/engine.h"
#include "exec/numeric.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/device_times.h"
#include "exec/queues.h"
#include "exec/scale.h"
#include "exec/state.h"
#include "exec/tally.h"
#include "exec/versions.h"

const void *bound_source(const struct step *step, const struct runnable *runnable, int index,
                         const struct micro_batch *samples) {
    const struct input_binding *input = &runnable->input[index];
    if (input->source == INPUT_FIELD) return samples->field[input->index];
    return input->source == INPUT_KEY ? (const void *)samples->sample_key
                                      : &step->read->seed[input->index];
}

void bind_inputs(const struct step *step, struct runnable *runnable, int slot,
                 const struct micro_batch *samples) {
    const struct graph *graph = runnable->plan->graph;
    void **address = runnable->slot[slot].address;
    for (int v = 0; v < graph->value_count; v++) {
        const struct value *root = &graph->values[graph->values[v].root];
        if (root->kind != VALUE_INPUT) continue;
        address[v] = (void *)(uintptr_t)bound_source(step, runnable, root->index, samples);
    }
}

enum status engine_start(struct engine *engine) {
    return engine_run_list(engine, LIST_START);
}

enum status engine_drain(struct engine *engine) {
    TRY(engine_run_list(engine, LIST_DRAIN));
    engine_forget_own(engine);
    return STATUS_OK;
}

void engine_ask(struct engine *engine, const struct step_request *request) {
    engine->step->asked = *request;
}

struct comm *engine_comm(const struct engine *engine) {
    return engine->comm;
}

enum status engine_agree(struct engine *engine, enum status own) {
    return comm_agree(comm_world(engine->comm), own);
}

void engine_progress(struct engine *engine) {
    if (engine->under_way == 0 || engine->comm_status != STATUS_OK) return;
    int64_t begin = engine_now(engine);
    if (engine->apart) engine->comm_status = posted_move(engine, false);
    if (engine->comm_status == STATUS_OK) engine->comm_status = comm_progress(engine->comm);
    if (engine->comm_status == STATUS_OK && engine->plane)
        engine->comm_status = plane_progress(engine->plane);
    engine->step->times.of[TIME_COMM] += engine_now(engine) - begin;
}

struct loader_spent engine_loading(const struct engine *engine) {
    return engine->train ? loader_spent(engine->train) : (struct loader_spent){0};
}

struct store *engine_store(struct engine *engine) {
    return engine->store;
}

const struct plan *engine_plan(const struct engine *engine) {
    return engine->plan;
}

struct train_state *engine_state(const struct engine *engine) {
    return engine->state;
}

bool engine_failed_alone(const struct engine *engine) {
    return engine->failed_alone;
}

int64_t engine_next_step(const struct engine *engine) {
    return engine->state->done.step;
}

void step_begin(struct step *step) {
    step->begin_ns = clock_ns();
    step->times = (struct step_times){0};
    step->tally = (struct tally){0};
    memset(step->loss, 0, sizeof step->loss);
}

void step_renew(struct step *step, int64_t number) {
    step->number = number;
    step->normed = step->updated = step->decided = false;
    step->ran_count = 0;
    step->untold_count = 0;
    step->version = -1;
    step->relayed = (struct step_share){0};
    step->spoken = NULL;
    step->asked = (struct step_request){0};
}

static void renew(struct engine *engine, struct step *step, int64_t number) {
    step_renew(step, number);
    overlap_renew(engine, step);
}

static int64_t step_in_epoch(const struct engine *engine) {
    return engine->state->next.sample / engine->plan->config.batch;
}

void engine_find_place(struct engine *engine) {
    int64_t number = rounds_act(engine) ? engine->rounds.index : engine->state->done.step;
    for (int i = 0; i < engine->ring_count; i++) renew(engine, &engine->ring[i], -1);
    engine->step = &engine->ring[number % engine->ring_count];
    renew(engine, engine->step, number);
    versions_set(engine->store, number);
    overlap_empty(engine);
    speakers_begin(engine, number);
}

int64_t engine_steps_left(const struct engine *engine) {
    const struct run_config *config = &engine->plan->config;
    return config->steps - engine->state->next.epoch * config->steps_per_epoch -
           step_in_epoch(engine);
}

void engine_seek(struct engine *engine, int64_t step, const struct train_position *next) {
    const struct run_config *config = &engine->plan->config;
    struct train_position own = {step / config->steps_per_epoch,
                                 step % config->steps_per_epoch * config->batch};
    CHECK(queues_clear_stop(engine) == STATUS_OK, "the device has failed");
    engine->state->done.step = step;
    engine->state->next = next ? *next : own;
    engine_find_place(engine);
    if (engine->train) loader_seek(engine->train, engine->state->next.epoch, step_in_epoch(engine));
}

enum status engine_check_place(const struct train_position *next, const struct plan *plan) {
    int64_t batch = plan->config.batch;
    if (next->sample % batch == 0 && next->sample / batch < plan->config.steps_per_epoch)
        return STATUS_OK;
    return fail(STATUS_USAGE,
                "the run is at sample %lld of epoch %lld, where no step of %lld samples begins",
                (long long)next->sample, (long long)next->epoch + 1, (long long)batch);
}

double engine_lr(const struct engine *engine) {
    const struct train_state *state = engine->state;
    return isnan(state->lr) ? lr_at(&engine->plan->config.lr, state->done.step) : state->lr;
}

/* The short last step of an epoch has a list of its own, or, where replicas train apart, one that
 * averages. */
static enum list_name list_at(const struct engine *engine, int64_t step_in_epoch) {
    const struct plan *plan = engine->plan;
    int every = plan->program->every;
    if (every > 0) return (engine->step->number + 1) % every == 0 ? LIST_LAST : LIST_BODY;
    bool last = step_in_epoch == plan->config.steps_per_epoch - 1;
    return last && plan->last_samples ? LIST_LAST : LIST_BODY;
}

/* Samples of a step, over all ranks. */
static int64_t step_samples(const struct engine *engine, const struct step *step) {
    const struct run_config *config = &engine->plan->config;
    int64_t total = 0, place = step->begin.sample / config->batch;
    if (step->batch) return step->batch->step_samples;
    if (!engine->plan->last_samples || list_at(engine, place) == LIST_BODY) return config->batch;
    for (int g = 0; g < config->replicas * config->micro_batches; g++)
        total += engine->plan->last_samples[g];
    return total;
}

/* Until the slowest rank had come this far there was nobody to communicate with, and until a
 * message was sent nothing to wait for but its sender. A rank that came late to a group because it
 * waited for a message was waited for no less. */
static int64_t idle_ns(const struct step *step) {
    const struct step_times *times = &step->times;
    double own_ms = step->share.came_ms, slowest_ms = own_ms;
    for (int m = 0; m < step_reports(step) && !step->spoken; m++)
        slowest_ms = fmax(slowest_ms, step->shares[m].came_ms);
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
static int64_t skipped_samples(const struct engine *engine, const struct tally *tally) {
    const struct plan *plan = engine->plan;
    for (int i = 0; i < plan->micro[0].graph->loss_count; i++) {
        int field = dataset_field(plan->config.dataset, plan->micro[0].graph->losses[i].label);
        if (shape_count(&plan->config.dataset->field[field].shape) == 1)
            return (int64_t)(tally->samples - tally->labels[i]);
    }
    return 0;
}

static double right_share(const struct tally *tally) {
    return tally->ranked > 0 ? tally->right1 / tally->ranked : NAN;
}

/* Of five classes or fewer the answer is always among the best five: that says nothing. What was
 * ranked is what its operation reads; the output of a model may be another value. */
static double top_five(const struct engine *engine, const struct tally *tally) {
    const struct graph *graph = engine->plan->micro[0].graph;
    for (int i = 0; i < graph->loss_count; i++) {
        int counts = graph->losses[i].top_k;
        if (counts == NO_VALUE) continue;
        const struct node *ranks = &graph->nodes[graph->values[counts].producer];
        const struct shape *scores = &graph->values[ranks->in[0]].type.shape;
        if (scores->dim[scores->rank - 1] <= 5) return NAN;
    }
    return tally->ranked > 0 ? tally->right5 / tally->ranked : NAN;
}

int step_reports(const struct step *step) {
    if (step->spoken) return group_count(step->spoken, GROUP_PIPELINE);
    return step->reported ? comm_group_count(step->reported) : 1;
}

int step_reporter(const struct step *step, int m, int own) {
    if (step->spoken) return group_rank(step->spoken, GROUP_PIPELINE, m, 0);
    return step->reported ? comm_group_rank(step->reported, m) : own;
}

/* Where steps overlap it is the mean of the replicas' mini-batches, each divided by its own count.
 */
static double step_loss(const struct engine *engine, const struct step *step) {
    int losses = engine->plan->micro[0].graph->loss_count, members = step_reports(step);
    double sum = 0;
    bool alike = true;
    for (int m = 0; m < members; m++) {
        struct tally own;
        tally_sum(&step->shares[m], 1, &own);
        for (int i = 0; i < losses; i++) alike &= own.labels[i] == step->shares[0].tally.labels[i];
        sum += tally_loss(&own, losses);
    }
    bool overlaps = engine->plan->program->ahead > 0;
    return overlaps && !alike ? sum / members : tally_loss(&step->tally, losses);
}

/* Of stages the last one has the loss. */
static int loss_rank(const struct engine *engine, int reporter) {
    const struct grid *grid = &engine->plan->program->grid;
    return group_rank(grid, GROUP_PIPELINE, group_of(grid, GROUP_PIPELINE, reporter),
                      grid->stages - 1);
}

static void fill_result(const struct engine *engine, struct step *step, struct step_result *out) {
    const struct tally *tally = &step->tally;
    bool overlaps = engine->plan->program->ahead > 0; /* ranks do not tell all others */
    const struct run_config *config = &engine->plan->config;
    int64_t number = rounds_act(engine) ? step->drawn / config->replicas : step->number;
    *out = (struct step_result){.step = number,
                                .epoch = step->begin.epoch,
                                .step_in_epoch = step->begin.sample / engine->plan->config.batch,
                                .samples = step_samples(engine, step),
                                .skipped = skipped_samples(engine, tally),
                                .loss = step_loss(engine, step),
                                .acc1 = right_share(tally),
                                .acc5 = top_five(engine, tally),
                                .lr = step->lr,
                                .grad_norm = step->normed && !overlaps ? step->grad_norm : NAN,
                                .loss_scale = scale_acts(engine) ? step->loss_scale : NAN,
                                .times = step->times,
                                .request = step->agreed,
                                .ranks = comm_size(engine->comm),
                                .rank_loss = step->rank_loss,
                                .rank_ms = step->rank_ms};
    int losses = engine->plan->micro[0].graph->loss_count;
    for (int r = 0; r < out->ranks; r++) step->rank_loss[r] = step->rank_ms[r] = NAN;
    for (int m = 0; m < step_reports(step); m++) {
        int r = step_reporter(step, m, comm_rank(engine->comm));
        step->rank_loss[overlaps ? loss_rank(engine, r) : r] =
            own_loss(&step->shares[m].tally, losses);
        step->rank_ms[r] = step->late_ms[r] = step->shares[m].busy_ms;
    }
    if (overlaps) out->rank_ms = step->late_ms;
}

/* The next one is asked for things, and evaluated before it begins. */
static void begin_next(struct engine *engine, int64_t number) {
    engine->step = &engine->ring[number % engine->ring_count];
    if (engine->step->number != number) renew(engine, engine->step, number);
}

static void next_step(struct engine *engine) {
    const struct run_config *config = &engine->plan->config;
    struct train_position *next = &engine->state->next;
    if (rounds_act(engine)) { /* which knows when its number is drawn */
        begin_next(engine, engine->step->number + 1);
        return;
    }
    int64_t number = ++engine->state->done.step;
    next->sample += config->batch;
    if (step_in_epoch(engine) == config->steps_per_epoch)
        *next = (struct train_position){next->epoch + 1, 0};
    begin_next(engine, number);
}

int engine_ahead(const struct engine *engine) {
    bool knows = !scale_acts(engine); /* the scale of a step follows from the one before */
    return engine->apart && is_alone(engine) && knows ? PLAN_STEPS_AHEAD : 0;
}

int engine_unfinished(const struct engine *engine) {
    return engine->unfinished;
}

static void release_batch(struct engine *engine, struct step *step) {
    if (step->batch) loader_release(engine->train);
    step->batch = NULL;
}

static struct step *oldest_step(struct engine *engine) {
    int64_t number = engine->step->number - engine->unfinished;
    return &engine->ring[number % engine->ring_count];
}

/* Nothing of what is under way is looked at any more. */
static void drop_steps(struct engine *engine) {
    engine->ended_step = false;
    for (; engine->unfinished > 0; engine->unfinished--) release_batch(engine, oldest_step(engine));
    release_batch(engine, engine->step);
    for (int i = 1; i <= engine->plan->program->ahead; i++) {
        struct step *step = &engine->ring[(engine->step->number + i) % engine->ring_count];
        if (step->number == engine->step->number + i) release_batch(engine, step);
    }
    overlap_empty(engine);
}

static enum status run_step(struct engine *engine, struct step *step) {
    int64_t hidden_before = comm_hidden_ns(engine->comm);
    step_begin(step);
    step->begin_ns = engine_now(engine);
    step->begin = engine->state->next;
    step->lr = engine_lr(engine);
    scale_begin(engine, step);
    times_step(engine, step);
    TRY(queues_clear_told(engine, step));
    TRY(overlap_hear(engine));
    TRY(overlap_fill(engine));
    engine->same_params = engine->same_statistics = false;
    TRY(engine_run_list(engine, list_at(engine, step_in_epoch(engine))));
    step->times.hidden_ns = comm_hidden_ns(engine->comm) - hidden_before;
    return queues_read_told(engine, step, TOLD_ALL);
}

enum status engine_enqueue(struct engine *engine) {
    CHECK(engine->unfinished <= engine_ahead(engine), "%d steps are under way", engine->unfinished);
    bool pauses = false;
    enum status status = rounds_act(engine) ? rounds_next(engine, &pauses) : STATUS_OK;
    if (pauses) return status;
    if (status == STATUS_OK) status = run_step(engine, engine->step);
    if (status == STATUS_OK) {
        next_step(engine);
        engine->unfinished++;
    } else {
        drop_steps(engine);
    }
    return status;
}

/* What one rank was not told when it posted it. A failure names this step, and is searched for in
 * it: the device has changed no parameter since. */
static enum status tell(struct engine *engine, struct step *step) {
    struct step *now = engine->step;
    enum status status = STATUS_OK;
    engine->step = step;
    for (int i = 0; i < step->untold_count && status == STATUS_OK; i++)
        status = posted_tell(engine, step->untold[i]);
    if (status == STATUS_OK && step->updated && step->update_is_finite && step->read->told.bad)
        status = numeric_failure_of_update(engine, step);
    engine->step = now;
    return status;
}

enum status engine_finish(struct engine *engine, struct step_result *out) {
    struct step *step = oldest_step(engine);
    CHECK(engine->unfinished > 0, "no step is under way");
    enum status status = queues_wait(engine, step->done);
    if (status == STATUS_OK) status = tell(engine, step);
    if (status == STATUS_OK) status = times_tell(engine, step);
    step->end_ns = engine_now(engine);
    if (status == STATUS_OK) status = overlap_tell(engine, step);
    if (status == STATUS_OK) status = overlap_agree(engine, step);
    if (status == STATUS_OK && rounds_act(engine)) status = rounds_ended(engine, &step->agreed);
    /* Of steps under way at once each counts from the end of the one before. */
    int64_t now_ns = engine_now(engine), before_ns = engine->finished_ns;
    step->times.total_ns = now_ns - (before_ns > step->begin_ns ? before_ns : step->begin_ns);
    engine->finished_ns = now_ns;
    if (status != STATUS_OK) {
        if (status == STATUS_BUG) trail_tell(engine);
        drop_steps(engine);
        return status;
    }
    step->times.idle_ns = idle_ns(step);
    fill_result(engine, step, out);
    release_batch(engine, step);
    engine->unfinished--;
    return rounds_act(engine) ? rounds_tell(engine, step) : STATUS_OK;
}

enum status engine_step(struct engine *engine, struct step_result *out) {
    TRY(engine_enqueue(engine));
    return engine_finish(engine, out);
}

bool engine_norm(const struct engine *engine, int64_t number, double *out) {
    const struct step *step = &engine->ring[number % engine->ring_count];
    if (number < 0 || step->number != number || !step->normed) return false;
    if (engine->plan->program->ahead > 0) return overlap_norm(engine, step, out);
    *out = step->grad_norm;
    return true;
}

/* Of all replicas, where they meet; of what this rank knows of others, where it has no rows. */
static void row_of_step(const struct engine *engine, const struct step *step, double norm,
                        struct step_row *out) {
    const struct tally *tally = &step->tally;
    int64_t done = step->number + 1; /* by each */
    *out = (struct step_row){.step = step->number,
                             .numbers = done * engine->plan->config.replicas,
                             .least = done,
                             .most = done,
                             .skipped = skipped_samples(engine, tally),
                             .loss = step_loss(engine, step),
                             .acc1 = right_share(tally),
                             .acc5 = top_five(engine, tally),
                             .grad_norm = norm,
                             .group_size = NAN,
                             .ranks = comm_size(engine->comm),
                             .rank_loss = step->rank_loss,
                             .rank_ms = engine->speakers ? step->late_ms : step->rank_ms};
}

bool engine_row(struct engine *engine, int64_t number, struct step_row *out) {
    const struct step *step = &engine->ring[number % engine->ring_count];
    struct tally sum;
    double norm;
    if (speakers_have_rows(engine)) {
        if (!speakers_row(engine, number, out, &sum)) return false;
        out->skipped = skipped_samples(engine, &sum);
        out->acc1 = right_share(&sum);
        out->acc5 = top_five(engine, &sum);
        return true;
    }
    if (rounds_act(engine) || !engine_norm(engine, number, &norm)) return false;
    row_of_step(engine, step, norm, out);
    return true;
}

/* --- evaluation --- */

/* Ranks run the same number of rounds, whether they have samples in the last one or not. */
static enum status run_rounds(struct engine *engine) {
    enum status status = STATUS_OK;
    for (int64_t r = 0; r < engine->plan->eval_rounds && status == STATUS_OK; r++) {
        status = engine_run_list(engine, LIST_EVAL);
        if (engine->step->batch) loader_release(engine->eval);
        engine->step->batch = NULL;
        bool told = engine->sink && engine->sink->round && r + 1 < engine->plan->eval_rounds;
        if (status == STATUS_OK && told)
            status = engine->sink->round(engine->sink->context,
                                         (r + 1) * engine->plan->eval_loader.batch);
    }
    return status;
}

static enum status run_evaluation(struct engine *engine) {
    step_begin(engine->step);
    if (engine->eval) loader_seek(engine->eval, 0, 0);
    TRY(engine_run_list(engine, LIST_EVAL_START));
    TRY(run_rounds(engine));
    return engine_run_list(engine, LIST_EVAL_END);
}

/* What is evaluated is what is saved: replica 0's running statistics. */
enum status engine_evaluate(struct engine *engine, struct eval_result *out) {
    return engine_forward(engine, NULL, out);
}

enum status engine_forward(struct engine *engine, const struct engine_sink *sink,
                           struct eval_result *out) {
    const struct tally *tally = &engine->step->tally;
    int64_t begin = clock_ns();
    engine->sink = sink;
    enum status status = run_evaluation(engine);
    engine->sink = NULL;
    if (status != STATUS_OK) restore_statistics(engine);
    TRY(status);
    double loss = tally_loss(tally, engine->plan->micro[0].graph->loss_count);
    if (!isfinite(loss)) return numeric_failure_of_evaluation(engine, loss);
    *out = (struct eval_result){.samples = (int64_t)tally->samples,
                                .skipped = skipped_samples(engine, tally),
                                .loss = loss,
                                .acc1 = right_share(tally),
                                .acc5 = top_five(engine, tally),
                                .ns = clock_ns() - begin};
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++)
        out->term[i] = tally->labels[i] > 0 ? tally->loss[i] / tally->labels[i] : NAN;
    return STATUS_OK;
}

void engine_output_shape(const struct plan *plan, int64_t *rows, int64_t *classes) {
    const struct graph *graph = plan->micro[0].graph;
    const struct shape *shape = &graph->values[graph->output].type.shape;
    *classes = shape->dim[shape->rank - 1];
    *rows = shape_count(shape) / shape->dim[0] / *classes;
}

bool engine_output_has_classes(const struct plan *plan) {
    const struct graph *graph = plan->micro[0].graph;
    return graph->losses[0].top_k != NO_VALUE && graph->losses[0].scores == graph->output;
}
