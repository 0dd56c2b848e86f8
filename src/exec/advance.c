/* Advancing through a list of instructions: see exec_advance in state.h.
 *
 * Before an instruction touches a buffer, what was posted on that buffer must be done: which
 * buffers those are is said by program/resource.h. All waiting for other
 * ranks happens in exec_wait, so one process can drive many ranks, and a wait that lasts is
 * explained from one place. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/handlers.h"
#include "exec/state.h"

/* Whoever watches is told of training; evaluating and saving are each one thing to it, which
 * train.h tells. */
static const struct exec_observer *observer_of(const struct exec *exec) {
    static const struct exec_observer nobody = {0};
    bool trains = exec->list_name == LIST_START || list_is_step(exec->list_name) ||
                  exec->list_name == LIST_DRAIN;
    return trains ? &exec->state->observer : &nobody;
}

/* --- what is under way --- */

/* Kept at the first of the buffers that it is under way on; a second one points there. */
static struct posted *posted_at(struct exec *exec, int buffer) {
    struct posted *place = &exec->posted[buffer];
    return place->instr ? place : place->by;
}

struct posted *exec_posted(struct exec *exec, const struct instr *instr) {
    return &exec->posted[resource_posted(&exec->map, instr).buffer[0]];
}

bool exec_is_under_way(const struct exec *exec, enum resource kind) {
    return exec->posted[exec->map.first[kind]].instr;
}

static struct posted *posted_on(struct exec *exec, const struct instr *instr, char letter) {
    struct touched touched = resource_touched(&exec->map, instr, letter);
    struct posted *found = NULL;
    for (int i = 0; i < touched.count && !found; i++) found = posted_at(exec, touched.first + i);
    for (int i = 0; i < touched.also_count && !found; i++) found = posted_at(exec, touched.also[i]);
    return found;
}

static struct posted *first_posted(struct exec *exec, const struct instr *instr) {
    const struct instr_row *row = instr_row(instr);
    struct posted *found = NULL;
    if (exec->under_way == 0) return NULL;
    for (const char *letter = row->reads; *letter && !found; letter++)
        found = posted_on(exec, instr, *letter);
    for (const char *letter = row->writes; *letter && !found; letter++)
        found = posted_on(exec, instr, *letter);
    return found;
}

/* It is found at its second buffer, too, while it is under way. */
static void note_second(struct exec *exec, const struct instr *instr, struct posted *posted) {
    struct posted_on on = resource_posted(&exec->map, instr);
    if (on.count > 1) exec->posted[on.buffer[1]].by = posted;
}

static int buffer_count(const struct exec *exec) {
    return exec->map.first[RESOURCE_COUNT];
}

/* The hooks of the communicator, which holds its lock. */
static enum status on_post(void *context, const struct comm_event *event) {
    struct posted *posting = ((struct exec *)context)->posting;
    if (!posting) return STATUS_OK;
    posting->group = event->group;
    posting->sequence = event->sequence;
    posting->begin_ns = event->begin_ns;
    posting->end_ns = posting->start_ns = 0;
    return STATUS_OK;
}

static void on_done(void *context, const struct comm_event *event) {
    struct exec *exec = context;
    for (int i = 0; i < buffer_count(exec); i++) {
        struct posted *posted = &exec->posted[i];
        if (posted->group != event->group || posted->sequence != event->sequence) continue;
        posted->end_ns = event->end_ns;
        posted->start_ns = event->start_ns;
    }
}

void exec_listen(struct exec *exec, bool on) {
    struct comm_hooks hooks = {exec, on_post, on_done};
    if (exec->comm) comm_set_hooks(exec->comm, on ? &hooks : NULL);
}

static enum status finish(struct exec *exec, struct posted *posted) {
    const struct instr *instr = posted->instr;
    const struct exec_observer *observer = observer_of(exec);
    posted->instr = NULL;
    exec->under_way--;
    note_second(exec, instr, NULL);
    if (observer->posted)
        observer->posted(observer->context, instr, posted->step->number, posted->begin_ns,
                         posted->end_ns);
    enum status status = handlers[instr->op].finish(exec, instr);
    exec->now_ns = clock_ns();
    return status;
}

static void await(struct exec *exec, struct posted *posted) {
    exec->awaiting = &posted->request;
    exec->awaited = posted->instr;
    exec->awaited_at = posted;
}

/* Finishes what is done of all that the instruction must await; exec->awaiting is the first that is
 * not. */
static enum status settle(struct exec *exec, const struct instr *instr) {
    for (struct posted *posted; (posted = first_posted(exec, instr));) {
        bool done;
        TRY(exec->comm_status);
        TRY(comm_test(&posted->request, &done));
        if (!done) {
            await(exec, posted);
            return STATUS_OK;
        }
        TRY(finish(exec, posted));
    }
    return STATUS_OK;
}

/* --- one instruction --- */

static enum status run_or_post(struct exec *exec, const struct instr *instr) {
    const struct handler *handler = &handlers[instr->op];
    if (instr_row(instr)->queue == QUEUE_COMPUTE) return handler->run(exec, instr);
    struct posted *posted = exec->posting = exec_posted(exec, instr);
    posted->step = exec->step;
    enum status status = handler->post(exec, instr, &posted->request);
    exec->posting = NULL;
    TRY(status);
    if (!posted->request) return handler->finish(exec, instr); /* it needed nobody */
    posted->instr = instr;
    exec->under_way++;
    note_second(exec, instr, posted);
    return comm_progress(exec->comm);
}

/* Instructions are timed by their category, less what they spent on communication. One that goes on
 * after an exchange is run several times. The clock is read once: where nothing was awaited, an
 * instruction begins as the one before it ended. Who times nodes wants to know the gap, too. */
static enum status run_timed(struct exec *exec, const struct instr *instr) {
    if (exec->state->observer.node) exec->now_ns = clock_ns();
    int64_t begin = exec->now_ns, comm_before = exec->step->times.of[TIME_COMM];
    if (exec->begin_ns == 0) exec->begin_ns = begin;
    enum status status = run_or_post(exec, instr);
    exec->now_ns = clock_ns();
    int64_t spent = exec->now_ns - begin, comm = exec->step->times.of[TIME_COMM] - comm_before;
    exec->step->times.of[instr_row(instr)->time] += spent - comm;
    return status;
}

static void begin_next(struct exec *exec) {
    exec->begun = false;
    exec->begin_ns = 0;
    exec->awaiting = NULL;
}

void exec_begin_list(struct exec *exec, enum list_name name) {
    exec->list = program_list(exec->plan->program, exec->plan->config.rank, name);
    exec->list_name = name;
    exec->list_step = exec->step->number;
    exec->at = 0;
    exec->pass.instr = NULL; /* of a list that failed */
    free(exec->broadcast.first_steps);
    exec->broadcast = (struct broadcast_run){0};
    exec->now_ns = clock_ns();
    begin_next(exec);
}

enum status exec_advance(struct exec *exec, bool *ended) {
    const struct exec_observer *observer = observer_of(exec);
    *ended = exec->at == exec->list->count;
    if (*ended) return STATUS_OK;
    const struct instr *instr = &exec->list->items[exec->at];
    if (!exec->begun && observer->starting)
        observer->starting(observer->context, instr, exec->step->number, exec->now_ns);
    exec->begun = true;
    exec->awaiting = NULL;
    exec->awaited = instr;
    exec->awaited_at = NULL;
    TRY(settle(exec, instr));
    if (!exec->awaiting) TRY(run_timed(exec, instr));
    if (exec->awaiting) return STATUS_OK;
    if (observer->instr)
        observer->instr(observer->context, instr, exec->step->number, exec->begin_ns, exec->now_ns);
    exec->at++;
    begin_next(exec);
    return STATUS_OK;
}

/* Of a message: the wait before it began to move is for its sender, or for a credit. */
static void note_wait(struct exec *exec, int64_t begin, int64_t end) {
    const struct posted *at = exec->awaited_at;
    exec->step->times.of[TIME_COMM] += end - begin;
    if (!at || instr_row(at->instr)->meets != MEETS_PEER) return;
    int64_t moving = at->start_ns < end ? at->start_ns : end;
    exec->step->times.message_ns += end - begin;
    if (moving > begin) exec->step->times.unsent_ns += moving - begin;
}

enum status exec_wait(struct exec *exec) {
    const struct exec_observer *observer = observer_of(exec);
    const struct instr *waiter = exec->at < exec->list->count ? &exec->list->items[exec->at] : NULL;
    int64_t begin = clock_ns();
    enum status status = comm_wait(exec->awaiting);
    int64_t end = exec->now_ns = clock_ns();
    if (status == STATUS_OK) note_wait(exec, begin, end);
    exec->awaiting = NULL;
    if (observer->waited)
        observer->waited(observer->context, waiter, exec->awaited, exec->list_step, begin, end);
    return status;
}

static enum status await_posted(struct exec *exec, struct posted *posted) {
    await(exec, posted);
    TRY(exec_wait(exec));
    return finish(exec, posted);
}

enum status exec_await_losses(struct exec *exec) {
    struct posted *losses = &exec->posted[exec->map.first[RESOURCE_LOSSES]];
    return losses->instr ? await_posted(exec, losses) : STATUS_OK;
}

/* All that is under way, or (leave) all but that on what lasts. */
static enum status settle_rest(struct exec *exec, bool leave) {
    for (int i = 0; exec->under_way > 0 && i < buffer_count(exec); i++)
        if (exec->posted[i].instr && !(leave && resource_lasts(&exec->map, i)))
            TRY(await_posted(exec, &exec->posted[i]));
    return STATUS_OK;
}

/* What a list left under way when it failed is nobody's any more. */
static enum status failed(struct exec *exec, enum status status) {
    for (int i = 0; i < buffer_count(exec); i++)
        exec->posted[i].instr = NULL, exec->posted[i].by = NULL;
    exec->under_way = 0;
    return status;
}

enum status exec_settle(struct exec *exec) {
    enum status status = settle_rest(exec, false);
    return status == STATUS_OK ? status : failed(exec, status);
}

static enum status run_list(struct exec *exec, bool step) {
    for (bool ended = false; !ended;) {
        TRY(exec_advance(exec, &ended));
        if (exec->awaiting) TRY(exec_wait(exec));
    }
    return settle_rest(exec, step);
}

/* The verifier has looked at each step that can follow another. */
enum status exec_run_list(struct exec *exec, enum list_name name) {
    bool step = list_is_step(name);
    if (!step || !list_is_step(exec->list_name)) TRY(exec_settle(exec));
    exec_begin_list(exec, name);
    enum status status = run_list(exec, step);
    return status == STATUS_OK ? status : failed(exec, status);
}
