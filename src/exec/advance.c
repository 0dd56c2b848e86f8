/* Advancing through a list of instructions: see engine_advance in state.h.
 *
 * Before an instruction touches a buffer, what was posted on that buffer must be done: which
 * buffers those are is said by program/resource.h. All waiting for other
 * ranks happens in engine_wait, so one process can drive many ranks, and a wait that lasts is
 * explained from one place. */
#include <stdlib.h>

#include "base/clock.h"
#include "exec/handlers.h"
#include "exec/state.h"
#include "exec/timed.h"

/* Whoever watches is told of training; evaluating and saving are each one thing to it, which
 * train.h tells. */
static const struct engine_observer *observer_of(const struct engine *engine) {
    static const struct engine_observer nobody = {0};
    bool trains = engine->list_name == LIST_START || list_is_step(engine->list_name) ||
                  engine->list_name == LIST_DRAIN;
    return trains ? &engine->state->observer : &nobody;
}

/* --- what is under way --- */

/* Kept at the first of the buffers that it is under way on; a second one points there. */
static struct posted *posted_at(struct engine *engine, int buffer) {
    struct posted *place = &engine->posted[buffer];
    return place->instr ? place : place->by;
}

struct posted *engine_posted(struct engine *engine, const struct instr *instr) {
    return &engine->posted[resource_posted(&engine->map, instr).buffer[0]];
}

bool engine_is_under_way(const struct engine *engine, enum resource kind) {
    return engine->posted[engine->map.first[kind]].instr;
}

static struct posted *posted_on(struct engine *engine, const struct instr *instr, char letter) {
    struct touched touched = resource_touched(&engine->map, instr, letter);
    struct posted *found = NULL;
    for (int i = 0; i < touched.count && !found; i++) found = posted_at(engine, touched.first + i);
    for (int i = 0; i < touched.also_count && !found; i++)
        found = posted_at(engine, touched.also[i]);
    return found;
}

static struct posted *first_posted(struct engine *engine, const struct instr *instr) {
    const struct instr_row *row = instr_row(instr);
    struct posted *found = NULL;
    if (engine->under_way == 0) return NULL;
    for (const char *letter = row->reads; *letter && !found; letter++)
        found = posted_on(engine, instr, *letter);
    for (const char *letter = row->writes; *letter && !found; letter++)
        found = posted_on(engine, instr, *letter);
    return found;
}

/* It is found at its second buffer, too, while it is under way. */
static void note_second(struct engine *engine, const struct instr *instr, struct posted *posted) {
    struct posted_on on = resource_posted(&engine->map, instr);
    if (on.count > 1) engine->posted[on.buffer[1]].by = posted;
}

static int buffer_count(const struct engine *engine) {
    return engine->map.first[RESOURCE_COUNT];
}

/* The hooks of the communicator, which holds its lock. */
static enum status on_post(void *context, const struct comm_event *event) {
    struct posted *posting = ((struct engine *)context)->posting;
    if (!posting) return STATUS_OK;
    posting->group = event->group;
    posting->sequence = event->sequence;
    posting->begin_ns = event->begin_ns;
    posting->end_ns = posting->start_ns = 0;
    return STATUS_OK;
}

static void on_done(void *context, const struct comm_event *event) {
    struct engine *engine = context;
    for (int i = 0; i < buffer_count(engine); i++) {
        struct posted *posted = &engine->posted[i];
        if (posted->group != event->group || posted->sequence != event->sequence) continue;
        posted->end_ns = event->end_ns;
        posted->start_ns = event->start_ns;
    }
}

static void on_wait(void *context, bool begins) {
    const struct engine_clock *clock = ((struct engine *)context)->meeting.clock;
    clock->waits(clock->context, begins);
}

void engine_listen(struct engine *engine, bool on) {
    struct comm_hooks hooks = {engine, on_post, on_done, engine->meeting.clock ? on_wait : NULL};
    if (engine->comm) comm_set_hooks(engine->comm, on ? &hooks : NULL);
}

static enum status finish(struct engine *engine, struct posted *posted) {
    const struct instr *instr = posted->instr;
    const struct engine_observer *observer = observer_of(engine);
    if (engine->law.of) TRY(law_hold(engine, posted));
    if (engine->meeting.clock) timed_take(engine, posted);
    posted->instr = NULL;
    engine->under_way--;
    note_second(engine, instr, NULL);
    if (observer->posted)
        observer->posted(observer->context, instr, posted->step->number, posted->begin_ns,
                         posted->end_ns);
    enum status status = handlers[instr->op].finish(engine, instr);
    engine->now_ns = engine_now(engine);
    return status;
}

static void await(struct engine *engine, struct posted *posted) {
    engine->awaiting = &posted->request;
    engine->awaited = posted->instr;
    engine->awaited_at = posted;
}

/* Finishes what is done of all that the instruction must await; engine->awaiting is the first that
 * is not. */
static enum status settle(struct engine *engine, const struct instr *instr) {
    for (struct posted *posted; (posted = first_posted(engine, instr));) {
        bool done;
        TRY(engine->comm_status);
        TRY(comm_test(&posted->request, &done));
        if (!done) {
            await(engine, posted);
            return STATUS_OK;
        }
        TRY(finish(engine, posted));
    }
    return STATUS_OK;
}

/* --- one instruction --- */

static enum status run_or_post(struct engine *engine, const struct instr *instr) {
    const struct handler *handler = &handlers[instr->op];
    if (instr_row(instr)->queue == QUEUE_COMPUTE) return handler->run(engine, instr);
    struct posted *posted = engine->posting = engine_posted(engine, instr);
    posted->step = engine->step;
    enum status status = handler->post(engine, instr, &posted->request);
    engine->posting = NULL;
    TRY(status);
    if (!posted->request) return handler->finish(engine, instr); /* it needed nobody */
    posted->instr = instr;
    engine->under_way++;
    note_second(engine, instr, posted);
    return comm_progress(engine->comm);
}

/* Instructions are timed by their category, less what they spent on communication. One that goes on
 * after an exchange is run several times. The clock is read once: where nothing was awaited, an
 * instruction begins as the one before it ended. Who times nodes wants to know the gap, too. */
static enum status run_timed(struct engine *engine, const struct instr *instr) {
    if (engine->state->observer.node) engine->now_ns = engine_now(engine);
    int64_t begin = engine->now_ns, comm_before = engine->step->times.of[TIME_COMM];
    if (engine->begin_ns == 0) engine->begin_ns = begin;
    enum status status = run_or_post(engine, instr);
    if (engine->law.of && status == STATUS_OK) status = law_wait(engine, instr, begin, comm_before);
    if (engine_timed_by(engine) && status == STATUS_OK && !engine->awaiting)
        status = timed_ran(engine, instr);
    engine->now_ns = engine_now(engine);
    int64_t spent = engine->now_ns - begin, comm = engine->step->times.of[TIME_COMM] - comm_before;
    engine->step->times.of[instr_row(instr)->time] += spent - comm;
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
    engine->list_step = engine->step->number;
    engine->at = 0;
    engine->pass.instr = NULL; /* of a list that failed */
    free(engine->broadcast.first_steps);
    engine->broadcast = (struct broadcast_run){0};
    engine->now_ns = engine_now(engine);
    begin_next(engine);
}

enum status engine_advance(struct engine *engine, bool *ended) {
    const struct engine_observer *observer = observer_of(engine);
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
    TRY(settle(engine, instr));
    if (!engine->awaiting) TRY(run_timed(engine, instr));
    if (engine->awaiting) return STATUS_OK;
    if (observer->instr)
        observer->instr(observer->context, instr, engine->step->number, engine->begin_ns,
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

enum status engine_wait(struct engine *engine) {
    const struct engine_observer *observer = observer_of(engine);
    const struct instr *waiter =
        engine->at < engine->list->count ? &engine->list->items[engine->at] : NULL;
    int64_t begin = engine_now(engine);
    enum status status = comm_wait(engine->awaiting);
    int64_t end = engine->now_ns = engine_now(engine);
    if (status == STATUS_OK) note_wait(engine, begin, end);
    engine->awaiting = NULL;
    if (observer->waited && !engine->meeting.clock)
        observer->waited(observer->context, waiter, engine->awaited, engine->list_step, begin, end);
    return status;
}

static enum status await_posted(struct engine *engine, struct posted *posted) {
    await(engine, posted);
    TRY(engine_wait(engine));
    return finish(engine, posted);
}

enum status engine_await_losses(struct engine *engine) {
    struct posted *losses = &engine->posted[engine->map.first[RESOURCE_LOSSES]];
    return losses->instr ? await_posted(engine, losses) : STATUS_OK;
}

/* All that is under way, or (leave) all but that on what lasts. */
static enum status settle_rest(struct engine *engine, bool leave) {
    for (int i = 0; engine->under_way > 0 && i < buffer_count(engine); i++)
        if (engine->posted[i].instr && !(leave && resource_lasts(&engine->map, i)))
            TRY(await_posted(engine, &engine->posted[i]));
    return STATUS_OK;
}

/* What a list left under way when it failed is nobody's any more. */
static enum status failed(struct engine *engine, enum status status) {
    for (int i = 0; i < buffer_count(engine); i++)
        engine->posted[i].instr = NULL, engine->posted[i].by = NULL;
    engine->under_way = 0;
    return status;
}

enum status engine_settle(struct engine *engine) {
    enum status status = settle_rest(engine, false);
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
    if (clock) TRY(timed_end(engine, observer_of(engine)));
    return settle_rest(engine, step);
}

/* The verifier has looked at each step that can follow another. */
enum status engine_run_list(struct engine *engine, enum list_name name) {
    bool step = list_is_step(name);
    if (!step || !list_is_step(engine->list_name)) TRY(engine_settle(engine));
    engine_begin_list(engine, name);
    enum status status = run_list(engine, step);
    if (engine_timed_by(engine)) engine->meeting.clock->leave(engine->meeting.clock->context);
    return status == STATUS_OK ? status : failed(engine, status);
}
