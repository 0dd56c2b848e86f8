/* Advancing through a list of instructions: see engine_advance in state.h.
 *
 * Before an instruction touches a buffer, what was posted on that buffer must be done (posted.h).
 * All waiting for other ranks happens in engine_wait, so one process can drive many ranks, and a
 * wait that lasts is explained from one place. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/chosen.h"
#include "exec/device_times.h"
#include "exec/handlers.h"
#include "exec/queues.h"
#include "exec/state.h"
#include "exec/tally.h"
#include "exec/timed.h"

/* Evaluating and saving are each one thing, which train.h tells. What a pause only put off was told
 * before it, with its times. */
static const struct engine_observer *watcher_of(struct engine *engine, enum list_name name) {
    static const struct engine_observer nobody = {0};
    const struct engine_observer *all = &engine->state->observer;
    bool trains = name == LIST_START || list_is_step(name) || name == LIST_DRAIN;
    engine->position = (struct engine_observer){.context = all->context, .starting = all->starting};
    if (engine->overlap.silent && list_is_step(name)) return &engine->position;
    return trains ? all : &nobody;
}

/* --- one instruction --- */

/* One rank has nobody to tell its losses and its norm: they are told when the device is done. */
static bool is_told_later(const struct engine *engine, const struct instr *instr) {
    return engine_ahead(engine) > 0 && list_is_step(engine->list_name) &&
           (instr->op == INSTR_REPORT || instr->op == INSTR_NORM);
}

/* All members of a group must post its operations in the same order. So an instruction that meets
 * other ranks first hands the operations posted before it to the communicator. */
static enum status run(struct engine *engine, const struct instr *instr) {
    const struct instr_row *row = instr_row(instr);
    bool meets = row->meets == MEETS_SHARERS ? instr_shares(instr) : row->meets != MEETS_NOBODY;
    if (engine->apart && meets) TRY(posted_move(engine, true));
    TRY(handlers[instr->op].run(engine, instr));
    if (engine->apart && !engine->awaiting) queues_use_slot(engine, instr);
    return STATUS_OK;
}

static enum status run_or_post(struct engine *engine, const struct instr *instr) {
    bool computes = instr_row(instr)->queue == QUEUE_COMPUTE;
    if (!overlap_runs(engine, instr)) return computes ? STATUS_OK : posted_pretend(engine, instr);
    if (computes) return run(engine, instr);
    if (!is_told_later(engine, instr)) return posted_begin(engine, instr);
    struct step *step = engine->step;
    int at = 0;
    while (at < step->untold_count && step->untold[at]->op != instr->op) at++;
    if (at == step->untold_count) step->untold_count++; /* a second NORM counts the same */
    step->untold[at] = instr;
    return handlers[instr->op].prepare(engine, instr);
}

/* Adds the time of an instruction to its category; what it spent on communication counts as
 * TIME_COMM instead. An instruction with exchanges inside comes here once for each piece. The clock
 * is read once, at the end: an instruction begins where the one before it, or its own wait, ended.
 * An observer of nodes needs the exact begin, so then the clock is read there, too. */
static enum status run_timed(struct engine *engine, const struct instr *instr) {
    if (engine->state->observer.node) engine->now_ns = engine_now(engine);
    int64_t begin = engine->now_ns, comm_before = engine->step->times.of[TIME_COMM];
    bool device = times_by_device(engine, instr);
    if (device && engine->begin_ns == 0) times_begin(engine, instr);
    if (engine->begin_ns == 0) engine->begin_ns = begin;
    enum status status = run_or_post(engine, instr);
    if (device && !engine->awaiting) times_end(engine);
    if (device && !engine->awaiting && status == STATUS_OK) {
        trail_begin(engine, NULL, NULL);
        trail_end(engine);
    }
    if (engine->law.of && status == STATUS_OK) status = law_wait(engine, instr, begin, comm_before);
    if (engine_timed_by(engine) && status == STATUS_OK && !engine->awaiting)
        status = timed_ran(engine, instr);
    engine->now_ns = engine_now(engine);
    int64_t spent = engine->now_ns - begin, comm = engine->step->times.of[TIME_COMM] - comm_before;
    if (!device) engine->step->times.of[instr_row(instr)->time] += spent - comm;
    return status;
}

static void begin_next(struct engine *engine) {
    engine->begun = false;
    engine->begin_ns = 0;
    engine->awaiting = NULL;
}

void engine_begin_list(struct engine *engine, enum list_name name) {
    engine->list = program_list(engine->plan->program, engine->plan->config.rank, name);
    engine->list_name = name;
    engine->watcher = watcher_of(engine, name);
    engine->list_step = engine->step->number - engine->overlap.fill;
    engine->at = 0;
    engine->pass.instr = NULL; /* of a list that failed */
    free(engine->broadcast.all);
    engine->broadcast = (struct broadcast_run){0};
    engine->now_ns = engine_now(engine);
    begin_next(engine);
}

static bool is_left_out(const struct engine *engine, const struct instr *instr) {
    return engine->plan->program->ahead > 0 && !overlap_runs(engine, instr) &&
           !overlap_pretends(engine, instr);
}

enum status engine_advance(struct engine *engine, bool *ended) {
    const struct engine_observer *observer = engine->watcher;
    while (engine->at < engine->list->count &&
           is_left_out(engine, &engine->list->items[engine->at]))
        engine->at++;
    *ended = engine->at == engine->list->count;
    if (*ended) return STATUS_OK;
    const struct instr *instr = &engine->list->items[engine->at];
    if (!engine->begun && observer->starting)
        observer->starting(observer->context, instr, engine->step->number,
                           engine->meeting.clock ? clock_ns() : engine->now_ns);
    if (!engine->begun && engine_timed_by(engine)) TRY(timed_come(engine, instr, observer));
    engine->begun = true;
    engine->awaiting = NULL;
    engine->awaited = instr;
    engine->awaited_at = NULL;
    if (engine->under_way) TRY(posted_settle(engine, instr));
    if (!engine->awaiting) TRY(run_timed(engine, instr));
    if (engine->awaiting) return STATUS_OK;
    if (observer->instr && !times_by_device(engine, instr))
        observer->instr(observer->context, instr, overlap_number(engine, instr), engine->begin_ns,
                        engine->now_ns);
    engine->at++;
    begin_next(engine);
    return STATUS_OK;
}

/* Of a message: the wait before it began to move is for its sender, or for a credit. */
static void note_wait(struct engine *engine, int64_t begin, int64_t end) {
    const struct posted *at = engine->awaited_at;
    engine->step->times.of[TIME_COMM] += end - begin;
    if (!at || instr_row(at->instr)->meets != MEETS_PEER) return;
    int64_t moving = at->start_ns < end ? at->start_ns : end;
    engine->step->times.message_ns += end - begin;
    if (moving > begin) engine->step->times.unsent_ns += moving - begin;
}

/* What the list awaits: of the communicator, or of the plane. */
static enum status await(struct engine *engine) {
    const struct posted *at = engine->awaited_at;
    struct posted *posted = at ? &engine->posted[at - engine->posted] : NULL;
    struct plane_request **moving = posted ? &posted->moving : &engine->moving;
    if (posted && posted->asks) return chosen_wait(engine, posted);
    return *moving ? plane_wait(moving) : comm_wait(engine->awaiting);
}

enum status engine_wait(struct engine *engine) {
    const struct engine_observer *observer = engine->watcher;
    const struct instr *waiter =
        engine->at < engine->list->count ? &engine->list->items[engine->at] : NULL;
    int64_t begin = engine_now(engine);
    /* What others need of this rank's device comes first. */
    enum status status = engine->apart ? posted_move(engine, true) : STATUS_OK;
    if (status == STATUS_OK) status = await(engine);
    int64_t end = engine->now_ns = engine_now(engine);
    if (status == STATUS_OK) note_wait(engine, begin, end);
    engine->awaiting = NULL;
    if (observer->waited && !engine->meeting.clock)
        observer->waited(observer->context, waiter, engine->awaited,
                         overlap_number(engine, waiter ? waiter : engine->awaited), begin, end);
    return status;
}

enum status engine_await_losses(struct engine *engine) {
    struct posted *losses = &engine->posted[engine->map.first[RESOURCE_LOSSES]];
    return losses->instr ? posted_await(engine, losses) : STATUS_OK;
}

static enum status failed(struct engine *engine, enum status status) {
    engine->ended_step = false;
    if (status == STATUS_BUG) trail_tell(engine);
    posted_forget(engine);
    return status;
}

/* In virtual time what a step has left under way is known to the clock when all ranks have ended
 * it. */
static enum status meet_behind_step(struct engine *engine) {
    const struct engine_clock *clock = engine->meeting.clock;
    return engine->ended_step && clock ? clock->meet(clock->context) : STATUS_OK;
}

enum status engine_settle(struct engine *engine) {
    enum status status = meet_behind_step(engine);
    if (status == STATUS_OK) status = posted_await_all(engine, false);
    CHECK(engine->unfinished == 0, "%d steps are under way", engine->unfinished);
    if (status == STATUS_OK) status = posted_move(engine, true);
    if (status == STATUS_OK) status = queues_await(engine);
    if (status == STATUS_OK && engine->ended_step) status = overlap_settle(engine);
    engine->ended_step = false;
    return status == STATUS_OK ? status : failed(engine, status);
}

static enum status run_list(struct engine *engine, bool step) {
    const struct engine_clock *clock = engine_timed_by(engine);
    if (clock)
        TRY(clock->begin(clock->context, engine->comm, engine->list_name, engine->list_step));
    for (bool ended = false; !ended;) {
        TRY(engine_advance(engine, &ended));
        if (engine->awaiting) TRY(engine_wait(engine));
    }
    if (clock && engine->overlap.fill > 0)
        TRY(timed_come(engine, NULL, engine->watcher));
    else if (clock)
        TRY(timed_end(engine, engine->watcher));
    TRY(posted_await_all(engine, step));
    engine->ended_step = step;
    if (step) return STATUS_OK;
    if (engine->list_name == LIST_EVAL) TRY(queues_read_told(engine, engine->step, TOLD_ALL));
    TRY(queues_await(engine));
    tally_read(engine->step); /* of a round of evaluation */
    return STATUS_OK;
}

/* The verifier has looked at each step that can follow another. */
enum status engine_run_list(struct engine *engine, enum list_name name) {
    bool step = list_is_step(name);
    if (!step || !list_is_step(engine->list_name)) TRY(engine_settle(engine));
    engine_begin_list(engine, name);
    enum status status = run_list(engine, step);
    bool stays = status == STATUS_OK && rounds_act(engine); /* what it asks for has its time, too */
    if (engine_timed_by(engine) && !stays)
        engine->meeting.clock->leave(engine->meeting.clock->context);
    return status == STATUS_OK ? status : failed(engine, status);
}
