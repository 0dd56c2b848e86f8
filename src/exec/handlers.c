/* The handlers of samples and passes, of evaluation too where they are the same, and those that end
 * a step; see handlers.h. */
#include <math.h>
#include <string.h>

#include "backend/copy.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/delay.h"
#include "exec/handlers.h"
#include "exec/norms.h"
#include "exec/numeric.h"
#include "exec/places.h"
#include "exec/queues.h"
#include "exec/scale.h"
#include "exec/tally.h"
#include "exec/versions.h"

static bool is_last_stage(const struct engine *engine, const struct instr *instr) {
    const struct grid *grid = &engine->plan->program->grid;
    return instr->stage == grid->stages * grid->chunks - 1;
}

/* --- samples --- */

/* The list under way is a round of evaluation: its samples are the test split's, its graphs have
 * no backward. */
static bool evaluates(const struct engine *engine) {
    return engine->list_name == LIST_EVAL;
}

/* Waits for the samples of the step or round: for the loader's own threads, never for other ranks.
 */
static enum status need_batch(struct engine *engine, struct step *step) {
    if (step->batch) return STATUS_OK;
    TRY(loader_next(evaluates(engine) ? engine->eval : engine->train, &step->batch));
    CHECK(step->batch, "the loader ended before step %lld", (long long)step->number + 1);
    const struct train_position *next = &engine->state->next;
    const struct run_config *config = &engine->plan->config;
    int64_t ahead = step->number - engine->step->number,
            place = next->epoch * config->steps_per_epoch + next->sample / config->batch + ahead;
    CHECK(evaluates(engine) ||
              (step->batch->epoch * config->steps_per_epoch + step->batch->step_in_epoch) == place,
          "the loader is at step %lld of epoch %lld, the run at sample %lld of epoch %lld",
          (long long)step->batch->step_in_epoch, (long long)step->batch->epoch,
          (long long)next->sample, (long long)next->epoch);
    return STATUS_OK;
}

/* What each member of the instruction's group gives, to all; without a group, one's own. */
static enum status exchange(struct engine *engine, const struct instr *instr, const void *own,
                            size_t bytes, void *all, struct comm_request **out) {
    *out = NULL;
    if (instr->group != INSTR_ALL)
        return comm_exchange_post(engine->group[instr->group], own, bytes, all, out);
    memcpy(all, own, bytes);
    return STATUS_OK;
}

static int members_of(const struct engine *engine, const struct instr *instr) {
    return instr->group == INSTR_ALL ? 1 : comm_group_count(engine->group[instr->group]);
}

enum status prepare_COUNT(struct engine *engine, const struct instr *instr) {
    (void)instr;
    return need_batch(engine, engine->step);
}

enum status post_COUNT(struct engine *engine, const struct instr *instr,
                       struct comm_request **out) {
    const struct runnable *main = &engine->runnable[0];
    struct step *step = engine_posted(engine, instr)->step;
    memset(step->own_labels, 0, sizeof step->own_labels);
    for (int i = 0; i < main->plan->graph->loss_count; i++)
        step->own_labels[i] = step->batch->own_label_count[main->label_field[i]];
    return exchange(engine, instr, step->own_labels, sizeof step->own_labels, step->labels, out);
}

enum status finish_COUNT(struct engine *engine, const struct instr *instr) {
    struct step *step = engine_posted(engine, instr)->step;
    int losses = engine->runnable[0].plan->graph->loss_count, members = members_of(engine, instr);
    /* Where steps overlap a loss is that of its own mini-batch, and replicas have their mean. */
    int replicas = engine->plan->program->ahead > 0 ? engine->plan->config.replicas : 1;
    for (int i = 0; i < losses; i++) {
        int64_t labels = 0;
        for (int m = 0; m < members; m++) labels += step->labels[m][i];
        step->read->seed[i] =
            labels > 0 ? (float)(step->loss_scale / (double)(labels * replicas)) : 0;
    }
    return STATUS_OK;
}

enum status run_LOAD(struct engine *engine, const struct instr *instr) {
    struct step *step = overlap_step(engine, instr);
    int number = overlap_micro(engine, instr);
    TRY(need_batch(engine, step));
    const struct micro_batch *samples = &step->batch->micro[number];
    const struct micro_plan *micro = plan_micro(engine->plan, samples->samples, !evaluates(engine));
    struct slot *slot = slot_of(engine, instr);
    slot->step = step;
    slot->micro = number;
    slot->runnable = NULL;
    /* The last round may have fewer samples than pipelines. */
    if (evaluates(engine) && samples->samples == 0) return STATUS_OK;
    CHECK(micro, "no graph for %lld samples", (long long)samples->samples);
    slot->runnable = &engine->runnable[micro - engine->plan->micro];
    if (!engine->apart) {
        bind_inputs(slot->step, slot->runnable, slot_index(engine, instr), samples);
        return STATUS_OK;
    }
    TRY(queues_load(engine, slot, slot_index(engine, instr)));
    return posted_begin_copy(engine, instr, engine->stream[STREAM_LOAD]);
}

/* --- passes --- */

static struct pass_run run_of(const struct engine *engine, const struct instr *instr,
                              struct runnable *runnable, const struct pass_config *config) {
    struct pass_run run = {.instr = instr,
                           .runnable = runnable,
                           .slot = slot_index(engine, instr),
                           .replica =
                               overlap_micro(engine, instr) / engine->plan->config.micro_batches,
                           .config = *config};
    if (instr_shares(instr)) run.config.sharers = engine->group[instr->group];
    return run;
}

/* How many replicas of this rank have samples at the micro-batch's place in their steps. */
static int sharers_of(const struct engine *engine, const struct slot *slot) {
    const struct step_batch *batch = slot->step->batch;
    int each = engine->plan->config.micro_batches, count = 0;
    for (int m = slot->micro % each; m < batch->micro_count; m += each)
        count += batch->micro[m].samples > 0;
    return count;
}

/* On one device the passes that share statistics stand one behind the other (the verifier saw to
 * it): the last one runs them all. *last tells that it was the last. Only then are their slots
 * used. */
static enum status join_lockstep(struct engine *engine, const struct instr *instr,
                                 const struct pass_config *config, bool *last) {
    engine->lockstep[engine->lockstep_count++] =
        run_of(engine, instr, slot_of(engine, instr)->runnable, config);
    *last = engine->lockstep_count == sharers_of(engine, slot_of(engine, instr));
    if (!*last) return STATUS_OK;
    TRY(pass_run_lockstep(engine, engine->lockstep, engine->lockstep_count));
    for (int i = 0; engine->apart && i < engine->lockstep_count; i++)
        queues_use_slot(engine, engine->lockstep[i].instr);
    return STATUS_OK;
}

static bool in_lockstep(const struct engine *engine, const struct instr *instr) {
    return engine->lockstep && instr_shares(instr);
}

/* Begins the instruction's pass, or goes on with it after an exchange. *done tells whether it has
 * ended. */
static enum status run_pass(struct engine *engine, const struct instr *instr,
                            struct runnable *runnable, const struct pass_config *config,
                            bool *done) {
    if (!engine->pass.instr) {
        TRY(overlap_bind(engine, instr));
        engine->pass = run_of(engine, instr, runnable, config);
        pass_begin(&engine->pass);
    }
    TRY(pass_go_on(engine, &engine->pass));
    *done = !engine->awaiting;
    if (*done) engine->pass.instr = NULL;
    return STATUS_OK;
}

static enum status read_loss(struct engine *engine, const struct instr *instr) {
    if (!is_last_stage(engine, instr)) return STATUS_OK;
    const struct slot *slot = slot_of(engine, instr);
    struct step *step = slot->step;
    TRY(tally_note(engine, slot, slot_index(engine, instr)));
    if (engine->apart) return STATUS_OK; /* looked at when the device is done */
    tally_read(step);
    if (evaluates(engine)) return STATUS_OK; /* looked at when all rounds are done */
    double loss = tally_loss(&step->tally, slot->runnable->plan->graph->loss_count);
    if (!is_alone(engine)) return STATUS_OK; /* all ranks look at it together, at NORM */
    return isfinite(loss) ? STATUS_OK : numeric_failure(engine, "the loss", loss);
}

static enum status forward_lockstep(struct engine *engine, const struct instr *instr,
                                    const struct pass_config *pass) {
    bool last;
    TRY(join_lockstep(engine, instr, pass, &last));
    if (!last) return STATUS_OK;
    int count = engine->lockstep_count;
    engine->lockstep_count = 0;
    for (int i = 0; i < count; i++) TRY(read_loss(engine, engine->lockstep[i].instr));
    return STATUS_OK;
}

/* Its losses and gradients are 0: the buffers of gradients are so from the start. */
static enum status delay_forward(struct engine *engine, const struct instr *instr) {
    const struct slot *slot = slot_of(engine, instr);
    if (is_last_stage(engine, instr))
        tally_samples(slot->runnable, &slot->step->batch->micro[slot->micro], &slot->step->tally);
    return delay(engine, instr);
}

enum status run_F(struct engine *engine, const struct instr *instr) {
    if (delays(engine, instr)) {
        TRY(overlap_bind(engine, instr)); /* counts how old the version is */
        return delay_forward(engine, instr);
    }
    struct pass_config pass = {.pass = PASS_FORWARD,
                               .stage = instr->stage,
                               .segment = instr->segment,
                               .grad = -1,
                               .pure = instr->flags & INSTR_PURE};
    if (in_lockstep(engine, instr)) return forward_lockstep(engine, instr, &pass);
    bool done;
    if (!slot_of(engine, instr)->runnable) return STATUS_OK;
    TRY(run_pass(engine, instr, slot_of(engine, instr)->runnable, &pass, &done));
    return done && instr->segment <= 0 ? read_loss(engine, instr) : STATUS_OK;
}

enum status run_R(struct engine *engine, const struct instr *instr) {
    if (delays(engine, instr)) return delay(engine, instr);
    struct runnable *runnable = slot_of(engine, instr)->runnable;
    const struct placement *placement =
        plan_placement(engine->plan, runnable->plan, chunk_of(engine, instr), instr->slot);
    struct pass_config pass = {.pass = PASS_AGAIN,
                               .stage = instr->stage,
                               .segment = instr->segment,
                               .grad = -1,
                               .again = placement->life.recompute.again};
    bool done;
    return run_pass(engine, instr, runnable, &pass, &done);
}

static enum status backward(struct engine *engine, const struct instr *instr, enum pass kind) {
    struct pass_config pass = {.pass = kind,
                               .stage = instr->stage,
                               .segment = instr->segment,
                               .grad = kind == PASS_INPUT_HALF ? -1 : instr->grad,
                               .fresh = instr->flags & INSTR_NEW};
    bool done;
    if (delays(engine, instr)) return delay(engine, instr);
    if (kind != PASS_WEIGHT_HALF && !engine->pass.instr)
        TRY(queues_give_seeds(engine, slot_of(engine, instr), slot_index(engine, instr)));
    if (in_lockstep(engine, instr)) {
        TRY(join_lockstep(engine, instr, &pass, &done));
        if (done) engine->lockstep_count = 0;
        return STATUS_OK;
    }
    return run_pass(engine, instr, slot_of(engine, instr)->runnable, &pass, &done);
}

enum status run_B(struct engine *engine, const struct instr *instr) {
    return backward(engine, instr, PASS_BACKWARD);
}

enum status run_I(struct engine *engine, const struct instr *instr) {
    return backward(engine, instr, PASS_INPUT_HALF);
}

enum status run_W(struct engine *engine, const struct instr *instr) {
    return backward(engine, instr, PASS_WEIGHT_HALF);
}

/* The main graph lends its nodes: what is shared does not depend on the number of samples. */
static enum status stand_in(struct engine *engine, const struct instr *instr, enum pass kind) {
    struct pass_config pass = {
        .pass = kind, .stage = instr->stage, .segment = instr->segment, .grad = -1};
    bool done;
    if (delays(engine, instr)) return STATUS_OK; /* nobody shares anything */
    return run_pass(engine, instr, &engine->runnable[0], &pass, &done);
}

enum status run_STATS_F(struct engine *engine, const struct instr *instr) {
    return stand_in(engine, instr, PASS_ABSENT_FORWARD);
}

enum status run_STATS_B(struct engine *engine, const struct instr *instr) {
    return stand_in(engine, instr, PASS_ABSENT_BACKWARD);
}

/* --- what was asked for --- */

/* Of a layout of the backend's own, or where its memory is, a plain copy is made; its memory is
 * kept for the next batch. */
static enum status plain_scores(struct engine *engine, const struct value *value, void *address,
                                const float **out) {
    *out = address;
    if (value->layout->plain && !engine->apart) return STATUS_OK;
    TRY(queues_await(engine));
    int64_t each = shape_count(&value->type.shape) / value->type.shape.dim[0];
    if (!engine->scores) engine->scores = MEM_ARRAY(float, each * engine->plan->eval_batch);
    *out = engine->scores;
    return layout_to_plain(engine->plan->device, value->layout, address, engine->scores);
}

enum status run_OUTPUT(struct engine *engine, const struct instr *instr) {
    const struct slot *slot = slot_of(engine, instr);
    if (!engine->sink || !engine->sink->output || !slot->runnable) return STATUS_OK;
    const struct graph *graph = slot->runnable->plan->graph;
    const struct value *value = &graph->values[graph->output];
    const struct micro_batch *samples = &slot->step->batch->micro[slot->micro];
    CHECK(value->type.dtype == DTYPE_F32, "the output is %s", dtype_name(value->type.dtype));
    struct engine_output output = {.samples = samples->samples,
                                   .sample_id = samples->sample_id,
                                   .labels = samples->field[slot->runnable->label_field[0]]};
    void *address = slot->runnable->slot[slot_index(engine, instr)].address[graph->output];
    engine_output_shape(engine->plan, &output.rows, &output.classes);
    TRY(plain_scores(engine, value, address, &output.scores));
    return engine->sink->output(engine->sink->context, &output);
}

/* --- the end of a step --- */

/* Copies what the device tells, for REPORT and NORM. A rank that runs steps ahead (engine_ahead)
 * does not wait for them in the list: all of it is copied once, at the end of the step. */
static enum status read_told(struct engine *engine, struct step *step, enum told_part part) {
    return engine_ahead(engine) > 0 && list_is_step(engine->list_name)
               ? STATUS_OK
               : queues_read_told(engine, step, part);
}

enum status prepare_REPORT(struct engine *engine, const struct instr *instr) {
    (void)instr;
    bool reads = list_is_step(engine->list_name) && engine->train;
    if (reads) TRY(need_batch(engine, engine->step)); /* also of a rank without the loss */
    return read_told(engine, engine->step, TOLD_BY_FORWARD);
}

enum status post_REPORT(struct engine *engine, const struct instr *instr,
                        struct comm_request **out) {
    struct step *step = engine_posted(engine, instr)->step;
    tally_read(step);
    int64_t busy_ns = engine_now(engine) - step->begin_ns - step->times.of[TIME_COMM];
    step->share = (struct step_share){.request = step->asked,
                                      .busy_ms = (double)busy_ns * 1e-6,
                                      .came_ms = (double)(busy_ns + step->times.message_ns) * 1e-6};
    tally_share(step, &step->share);
    if (list_is_step(engine->list_name)) overlap_share(engine, step);
    if (engine->list_name == LIST_EVAL_END) {
        engine->eval_share.step = step->share;
        memcpy(engine->eval_share.loss, step->loss, sizeof step->loss);
        return exchange(engine, instr, &engine->eval_share, sizeof engine->eval_share,
                        engine->eval_shares, out);
    }
    return exchange(engine, instr, &step->share, sizeof step->share, step->shares, out);
}

/* A stop or a save happens after the same step everywhere: all ranks know what any of them asks. */
static void agree_on_requests(struct step *step, int members) {
    step->agreed = (struct step_request){0};
    for (int r = 0; r < members; r++) step_request_add(&step->agreed, &step->shares[r].request);
}

static void sum_evaluation(const struct engine *engine, struct step *step, int members) {
    struct exact_sum loss[GRAPH_MAX_LOSSES] = {0};
    for (int r = 0; r < members; r++) {
        step->shares[r] = engine->eval_shares[r].step;
        for (int i = 0; i < GRAPH_MAX_LOSSES; i++)
            exact_merge(&loss[i], &engine->eval_shares[r].loss[i]);
    }
    tally_sum(step->shares, members, &step->tally);
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++) step->tally.loss[i] = exact_total(&loss[i]);
}

enum status finish_REPORT(struct engine *engine, const struct instr *instr) {
    struct step *step = engine_posted(engine, instr)->step;
    int members = members_of(engine, instr);
    bool evaluated = engine->list_name == LIST_EVAL_END;
    step->reported = instr->group == INSTR_ALL ? NULL : engine->group[instr->group];
    if (evaluated)
        sum_evaluation(engine, step, members);
    else
        tally_sum(step->shares, members, &step->tally);
    agree_on_requests(step, members);
    if (evaluated) return STATUS_OK; /* looked at when all rounds are done */
    double loss = tally_loss(&step->tally, engine->plan->micro[0].graph->loss_count);
    return isfinite(loss) ? STATUS_OK : numeric_failure(engine, "the loss", loss);
}

/* What the squares that the device has mean for the update. One rank has all of them; of several,
 * what a rank has tells that the step comes to nothing, or that it does not know. */
static enum status decide(struct engine *engine, struct step *step, bool all) {
    struct device *device = engine->plan->device;
    struct optim_limits limits = {
        .clip = all && program_clips(engine->plan->program) ? engine->plan->config.clip : 0,
        .unscale = 1 / step->loss_scale,
        .leaves = scale_acts(engine)};
    step->decided = true;
    return device->backend->array_decide(
        device, &step->told->squares, is_alone(engine) ? &step->told->losses : NULL, &limits,
        &step->told->decision, engine->stop, engine->stream[STREAM_COMPUTE]);
}

enum status prepare_NORM(struct engine *engine, const struct instr *instr) {
    struct step *step = engine->step;
    TRY(queues_clear(engine, &step->told->squares, sizeof step->told->squares));
    if (instr->grad != INSTR_ALL)
        TRY(store_squares(engine->store, instr->grad, &step->told->squares));
    TRY(norms_count(engine, instr));
    TRY(decide(engine, step, is_alone(engine)));
    return read_told(engine, step, TOLD_BY_NORM);
}

/* Exact sums of doubles may be added in any order: the norm does not depend on who holds which
 * parameters. */
enum status post_NORM(struct engine *engine, const struct instr *instr, struct comm_request **out) {
    struct step *step = engine_posted(engine, instr)->step;
    step->squares = step->read->told.squares;
    step->own_is_finite = isfinite(step->read->told.decision.norm);
    step->bad_gradient = step->own_is_finite || scale_acts(engine)
                             ? NULL
                             : numeric_bad_gradient(engine, instr->grad);
    return exchange(engine, instr, &step->squares, sizeof step->squares, step->all_squares, out);
}

/* All ranks' squares to the device, for an update that awaits them. */
static enum status decide_together(struct engine *engine, struct step *step) {
    struct device *device = engine->plan->device;
    if (is_alone(engine) || !program_clips(engine->plan->program)) return STATUS_OK;
    step->read->told.squares = step->squares;
    if (engine->apart)
        TRY(device->backend->copy_in(device, &step->told->squares, &step->read->told.squares,
                                     sizeof step->squares, engine->stream[STREAM_COMPUTE]));
    return decide(engine, step, true);
}

/* Without clipping STEP may have run already, and the next step be under way: what was not known
 * then is told now. All members fail together, at the same instruction. */
enum status finish_NORM(struct engine *engine, const struct instr *instr) {
    struct step *step = engine_posted(engine, instr)->step;
    int members = members_of(engine, instr);
    step->squares = (struct exact_sum){0};
    for (int m = 0; m < members; m++) exact_merge(&step->squares, &step->all_squares[m]);
    double squares = exact_total(&step->squares);
    bool unchanged = is_alone(engine) && step->read->told.decision.skip;
    step->grad_norm = sqrt(squares) / step->loss_scale;
    if (scale_acts(engine)) {
        TRY(engine_await_losses(engine)); /* one that is not finite ends the run */
        TRY(scale_next(engine, step, isfinite(squares)));
        step->normed = true;
        return decide_together(engine, step);
    }
    if (!isfinite(squares) && !unchanged &&
        (step->updated || step != engine->step)) /* a driver updates nothing */
        return numeric_failure_of_norm(engine, step);
    if (!isfinite(squares)) {
        TRY(engine_await_losses(engine)); /* a loss that is not finite is told first */
        return numeric_failure(engine, "the norm of the gradients", step->grad_norm);
    }
    step->normed = true;
    TRY(decide_together(engine, step));
    return step->updated && !step->update_is_finite ? numeric_failure_of_update(engine, step)
                                                    : STATUS_OK;
}

enum status run_MEET(struct engine *engine, const struct instr *instr) {
    engine->met = !engine->met;
    if (!engine->met) return STATUS_OK; /* all have come */
    engine->awaiting = &engine->request;
    return comm_barrier_post(engine->group[instr->group], &engine->request);
}

/* Where the norm is not known yet, this rank's own part of it may tell that the step comes to
 * nothing: then parameters stay as they are, and whoever looks for the cause finds them so. */
enum status run_STEP(struct engine *engine, const struct instr *instr) {
    struct step *step = engine->step;
    struct optim_step update = {.config = &engine->plan->config.optim,
                                .step = step->number,
                                .lr = (float)step->lr,
                                .gradient_scale = 1};
    step->updated = true;
    step->update_is_finite = true;
    TRY(overlap_count(engine, step));
    TRY(versions_keep(engine->store));
    TRY(store_update(engine->store, &update, step->decided ? &step->told->decision : NULL,
                     instr->grad, &step->told->bad));
    if (engine->apart) return STATUS_OK; /* looked at when the device is done */
    step->update_is_finite = !step->told->bad;
    if (step->update_is_finite || engine_is_under_way(engine, RESOURCE_NORM))
        return STATUS_OK; /* NORM will tell the cause */
    return numeric_failure_of_update(engine, step);
}

/* --- the table --- */

#define HANDLER_COMPUTE(NAME)                                                                      \
    { .run = run_##NAME }
#define HANDLER_COMM(NAME)                                                                         \
    { .prepare = prepare_##NAME, .post = post_##NAME, .finish = finish_##NAME }

const struct handler handlers[INSTR_COUNT_] = {
#define INSTR(NAME, operands, flags, list, queue, ...) [INSTR_##NAME] = HANDLER_##queue(NAME),
#include "program/instr.def"
#undef INSTR
};
