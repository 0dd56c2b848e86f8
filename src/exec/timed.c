/* See timed.h. */
#include "exec/timed.h"

#include <math.h>

#include "exec/queues.h"

/* What the clock moved on by is a wait for others, or for data under way. */
static void note_wait(struct engine *engine, const struct instr *waiter,
                      const struct engine_observer *observer, int64_t begin_ns, int64_t idle_ns) {
    int64_t end_ns = engine_now(engine);
    struct step_times *times = &engine->step->times;
    engine->now_ns = end_ns;
    if (end_ns <= begin_ns) return;
    times->of[TIME_COMM] += end_ns - begin_ns;
    times->message_ns += end_ns - begin_ns;
    times->unsent_ns += idle_ns;
    if (observer->waited)
        observer->waited(observer->context, waiter, waiter ? waiter : engine->awaited,
                         engine->list_step + engine->overlap.fill, begin_ns, end_ns);
}

double engine_virtual_s(const struct engine *engine) {
    return engine->meeting.clock ? (double)engine_now(engine) * 1e-9 : NAN;
}

enum status timed_come(struct engine *engine, const struct instr *instr,
                       const struct engine_observer *observer) {
    const struct engine_clock *clock = engine->meeting.clock;
    int64_t begin_ns = engine_now(engine), idle_ns;
    if (engine->apart) TRY(posted_move(engine, true)); /* others may need it to come here */
    TRY(clock->come(clock->context, engine->at, &idle_ns));
    note_wait(engine, instr, observer, begin_ns, idle_ns);
    return STATUS_OK;
}

enum status timed_ran(struct engine *engine, const struct instr *instr) {
    const struct engine_clock *clock = engine->meeting.clock;
    int row;
    if (engine->apart) TRY(queues_await(engine)); /* one rank at a time: its device, too */
    TRY(clock->ran(clock->context, engine->at, &row));
    if (instr_row(instr)->queue == QUEUE_COMM) engine_posted(engine, instr)->row = row;
    return STATUS_OK;
}

enum status timed_end(struct engine *engine, const struct engine_observer *observer) {
    const struct engine_clock *clock = engine->meeting.clock;
    int64_t begin_ns = engine_now(engine), idle_ns;
    if (engine->apart) TRY(posted_move(engine, true));
    TRY(clock->end(clock->context, engine->at, &idle_ns));
    note_wait(engine, NULL, observer, begin_ns, idle_ns);
    return STATUS_OK;
}

/* What is awaited behind its step may end later than that. What is not known, as behind a failure,
 * ends now. */
void timed_take(struct engine *engine, struct posted *posted) {
    const struct engine_clock *clock = engine->meeting.clock;
    int64_t now_ns = engine_now(engine);
    clock->times(clock->context, posted->row, &posted->begin_ns, &posted->end_ns);
    if (posted->end_ns < posted->begin_ns) posted->end_ns = now_ns;
}
