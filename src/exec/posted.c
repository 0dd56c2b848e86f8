/* See posted.h. Which buffers an instruction touches is said by program/resource.h. */
#include "exec/posted.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/chosen.h"
#include "exec/handlers.h"
#include "exec/queues.h"
#include "exec/state.h"
#include "exec/timed.h"

static const struct backend *backend_of(const struct engine *engine) {
    return engine->plan->device->backend;
}

static int buffer_count(const struct engine *engine) {
    return engine->map.first[RESOURCE_COUNT];
}

/* --- places --- */

enum status posted_open(struct engine *engine) {
    int count = buffer_count(engine);
    engine->posted = MEM_ARRAY(struct posted, count);
    engine->leaving =
        (struct posted_queue){.items = MEM_ARRAY(struct posted *, count + 1), .room = count + 1};
    engine->closing =
        (struct posted_queue){.items = MEM_ARRAY(struct posted *, count + 1), .room = count + 1};
    for (int i = 0; i < count; i++)
        TRY(backend_of(engine)->event_new(engine->plan->device, false, &engine->posted[i].event));
    return STATUS_OK;
}

void posted_free(struct engine *engine) {
    for (int i = 0; engine->posted && i < buffer_count(engine); i++)
        backend_of(engine)->event_free(engine->plan->device, engine->posted[i].event);
    free(engine->posted);
    free(engine->leaving.items);
    free(engine->closing.items);
}

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

static void push(struct posted_queue *queue, struct posted *posted) {
    CHECK(queue->count < queue->room, "more than %d operations", queue->room);
    queue->items[(queue->first + queue->count++) % queue->room] = posted;
}

static void pop(struct posted_queue *queue) {
    queue->first = (queue->first + 1) % queue->room;
    queue->count--;
}

/* --- the communicator's hooks, under its lock --- */

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

/* --- from stage to stage --- */

static void begin(struct engine *engine, const struct instr *instr, struct posted *posted,
                  enum posted_stage stage) {
    posted->instr = instr;
    posted->stage = stage;
    posted->pretended = false;
    engine->under_way++;
    note_second(engine, instr, posted);
    posted->of_step =
        engine->plan->program->ahead > 0 ? overlap_number(engine, instr) : posted->step->number;
}

/* The communicator's hooks know nothing of what a plane moves, nor of questions. */
static void note_moving(struct engine *engine, struct posted *posted) {
    posted->by_plane = posted->moving;
    if (!posted->by_plane && !posted->asks) return;
    posted->begin_ns = engine_now(engine);
    posted->end_ns = posted->start_ns = 0;
    posted->sequence = 0;
}

static enum status hand_over(struct engine *engine, const struct instr *instr,
                             struct posted *posted) {
    engine->posting = posted;
    enum status status = handlers[instr->op].post(engine, instr, &posted->request);
    engine->posting = NULL;
    posted->stage = POSTED_MOVES;
    note_moving(engine, posted);
    return status;
}

/* The device has come to the event of the first in a queue; *ready is false where it has not. */
static enum status look_at(struct engine *engine, const struct posted *posted, bool wait,
                           bool *ready) {
    *ready = true;
    if (!posted->copies) return STATUS_OK;
    if (wait) return queues_wait(engine, posted->event);
    return backend_of(engine)->event_done(posted->event, ready);
}

/* Operations of a group are handed over in the order of the program, alike on all its members. */
static enum status hand_over_all(struct engine *engine, bool wait) {
    while (engine->leaving.count > 0) {
        struct posted *posted = engine->leaving.items[engine->leaving.first];
        bool ready;
        TRY(look_at(engine, posted, wait, &ready));
        if (!ready) return STATUS_OK;
        pop(&engine->leaving);
        TRY(hand_over(engine, posted->instr, posted));
    }
    return STATUS_OK;
}

static enum status close_all(struct engine *engine, bool wait) {
    while (engine->closing.count > 0) {
        struct posted *posted = engine->closing.items[engine->closing.first];
        bool ready;
        TRY(look_at(engine, posted, wait, &ready));
        if (!ready) return STATUS_OK;
        pop(&engine->closing);
        TRY(close_receive(engine, posted->closing));
        posted->closing = NULL;
    }
    return STATUS_OK;
}

enum status posted_move(struct engine *engine, bool wait) {
    TRY(hand_over_all(engine, wait));
    return close_all(engine, wait);
}

enum status posted_begin(struct engine *engine, const struct instr *instr) {
    struct posted *posted = engine_posted(engine, instr);
    if (posted->closing) TRY(close_all(engine, true));
    posted->step = engine->step;
    engine->copied = false;
    TRY(handlers[instr->op].prepare(engine, instr));
    posted->copies = engine->copied;
    if (engine->apart) {
        backend_of(engine)->event_record(posted->event, engine->stream[STREAM_COMM]);
        begin(engine, instr, posted, POSTED_OUT);
        push(&engine->leaving, posted);
        TRY(hand_over_all(engine, false));
        return comm_progress(engine->comm);
    }
    TRY(hand_over(engine, instr, posted));
    if (!posted->request && !posted->asks)
        return handlers[instr->op].finish(engine, instr); /* it needed nobody */
    begin(engine, instr, posted, POSTED_MOVES);
    return comm_progress(engine->comm);
}

enum status posted_pretend(struct engine *engine, const struct instr *instr) {
    struct posted *posted = engine_posted(engine, instr);
    if (posted->closing) TRY(close_all(engine, true));
    posted->step = engine->step;
    posted->request = NULL;
    posted->number = 0;
    begin(engine, instr, posted, POSTED_MOVES);
    posted->pretended = true;
    return STATUS_OK;
}

enum status posted_begin_copy(struct engine *engine, const struct instr *instr,
                              struct stream *stream) {
    struct posted *posted = engine_posted(engine, instr);
    if (posted->closing) TRY(close_all(engine, true));
    posted->step = engine->step;
    posted->copies = true;
    backend_of(engine)->event_record(posted->event, stream);
    begin(engine, instr, posted, POSTED_IN);
    return STATUS_OK;
}

static bool is_message(const struct instr *instr) {
    return instr_row(instr)->meets == MEETS_PEER;
}

/* It is done: what came goes to the device. */
static enum status bring(struct engine *engine, struct posted *posted) {
    const struct engine_observer *observer = engine->watcher;
    if (engine->law.of && !posted->pretended) TRY(law_hold(engine, posted));
    if (engine->meeting.clock) timed_take(engine, posted);
    if (posted->by_plane || posted->asks) posted->end_ns = engine_now(engine);
    if (observer->posted)
        observer->posted(observer->context, posted->instr, posted->of_step, posted->begin_ns,
                         posted->end_ns);
    bool moved = posted->by_plane || (engine->mail.plane && is_message(posted->instr));
    enum engine_stream stream = moved ? STREAM_MOVE : STREAM_COMM;
    engine->copied = false;
    if (!posted->pretended) TRY(handlers[posted->instr->op].finish(engine, posted->instr));
    posted->copies = engine->copied || moved;
    if (posted->copies) backend_of(engine)->event_record(posted->event, engine->stream[stream]);
    posted->stage = POSTED_IN;
    return STATUS_OK;
}

/* A stream goes on behind it; nobody looks for it any more. */
static enum status retire(struct engine *engine, struct posted *posted, struct stream *stream) {
    const struct instr *instr = posted->instr;
    if (posted->copies && engine->apart)
        backend_of(engine)->stream_wait_event(stream, posted->event);
    posted->instr = NULL;
    engine->under_way--;
    note_second(engine, instr, NULL);
    engine->now_ns = engine_now(engine);
    if (!instr_receives(instr)) return STATUS_OK;
    posted->closing = instr;
    push(&engine->closing, posted);
    return close_all(engine, false);
}

/* --- awaiting --- */

static void await(struct engine *engine, struct posted *posted) {
    engine->awaiting = &posted->request;
    engine->awaited = posted->instr;
    engine->awaited_at = posted;
}

/* Who posts on the buffer of another operation has it awaited by computation, which its own copies
 * follow: so has whoever touches the buffer later. */
static struct stream *stream_of(const struct engine *engine, const struct instr *instr) {
    return engine->stream[instr->op == INSTR_LOAD ? STREAM_LOAD : STREAM_COMPUTE];
}

static enum status test(struct engine *engine, struct posted *posted, bool *done) {
    *done = true;
    if (posted->pretended) return STATUS_OK;
    if (posted->asks) return chosen_test(engine, posted, done);
    if (posted->moving) return plane_test(&posted->moving, done);
    return comm_test(&posted->request, done);
}

enum status posted_settle(struct engine *engine, const struct instr *instr) {
    for (struct posted *posted; (posted = first_posted(engine, instr));) {
        bool done = true;
        TRY(engine->comm_status);
        if (posted->stage == POSTED_OUT) TRY(hand_over_all(engine, false));
        if (posted->stage == POSTED_OUT)
            done = false;
        else if (posted->stage == POSTED_MOVES)
            TRY(test(engine, posted, &done));
        if (!done) {
            await(engine, posted);
            return STATUS_OK;
        }
        if (posted->stage == POSTED_MOVES) TRY(bring(engine, posted));
        TRY(retire(engine, posted, stream_of(engine, instr)));
    }
    return STATUS_OK;
}

enum status posted_await(struct engine *engine, struct posted *posted) {
    if (posted->stage != POSTED_IN && !posted->pretended) {
        await(engine, posted);
        TRY(engine_wait(engine));
    }
    if (posted->stage != POSTED_IN) TRY(bring(engine, posted));
    return retire(engine, posted, engine->stream[STREAM_COMPUTE]);
}

enum status posted_await_all(struct engine *engine, bool leave) {
    for (int i = 0; engine->under_way > 0 && i < buffer_count(engine); i++)
        if (engine->posted[i].instr && !(leave && resource_lasts(&engine->map, i)))
            TRY(posted_await(engine, &engine->posted[i]));
    return STATUS_OK;
}

enum status posted_tell(struct engine *engine, const struct instr *instr) {
    struct comm_request *request = NULL;
    struct posted *posted = engine_posted(engine, instr);
    posted->step = engine->step;
    TRY(handlers[instr->op].post(engine, instr, &request));
    TRY(plane_wait(&posted->moving));
    TRY(comm_wait(&request));
    return handlers[instr->op].finish(engine, instr);
}

enum status posted_run(struct engine *engine, const struct instr *instr) {
    TRY(handlers[instr->op].prepare(engine, instr));
    TRY(queues_await(engine));
    TRY(posted_tell(engine, instr));
    return queues_await(engine);
}

void posted_forget(struct engine *engine) {
    for (int i = 0; i < buffer_count(engine); i++)
        engine->posted[i].instr = engine->posted[i].closing = NULL, engine->posted[i].by = NULL;
    engine->under_way = engine->leaving.count = engine->closing.count = 0;
}
