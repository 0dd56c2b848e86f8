/* See device_times.h. An event says when it was passed only relative to another one. The first is
 * recorded when the engine opens, with the host's clock beside it; from then on each step is held
 * against the one before, so that no difference grows too large for the driver's floats. */
#include "exec/device_times.h"
#include "exec/reached.h"

#include <stdlib.h>

#include "base/mem.h"

static const struct backend *backend_of(const struct engine *engine) {
    return engine->plan->device->backend;
}

static enum status new_event(struct engine *engine, struct event **out) {
    return backend_of(engine)->event_new(engine->plan->device, true, out);
}

/* --- opening --- */

static int longest(const struct engine *engine) {
    int most = 0;
    for (int name = 0; name < LIST_COUNT; name++) {
        const struct instr_list *list =
            program_list(engine->plan->program, engine->plan->config.rank, (enum list_name)name);
        if (list_is_step((enum list_name)name) && list->count > most) most = list->count;
    }
    return most;
}

static enum status open_step(struct engine *engine, struct step *step, int count) {
    step->ran = MEM_ARRAY(struct instr_times, count + 1);
    step->ran_room = count;
    TRY(new_event(engine, &step->began));
    for (int i = 0; i < count; i++) {
        TRY(new_event(engine, &step->ran[i].begin));
        TRY(new_event(engine, &step->ran[i].end));
    }
    return STATUS_OK;
}

enum status times_open(struct engine *engine) {
    if (!engine->apart) return STATUS_OK;
    for (int i = 0; i < engine->ring_count; i++)
        TRY(open_step(engine, &engine->ring[i], longest(engine)));
    for (int i = 0; i < 2; i++) TRY(new_event(engine, &engine->kernel_at[i]));
    TRY(new_event(engine, &engine->origin));
    backend_of(engine)->event_record(engine->origin, engine->stream[STREAM_COMPUTE]);
    engine->before = engine->origin;
    TRY(backend_of(engine)->event_wait(engine->origin));
    engine->before_ns = clock_ns();
    return STATUS_OK;
}

static void free_event(struct engine *engine, struct event *event) {
    if (event) backend_of(engine)->event_free(engine->plan->device, event);
}

void times_close(struct engine *engine) {
    for (int i = 0; i < engine->ring_count; i++) {
        struct step *step = &engine->ring[i];
        for (int k = 0; k < step->ran_room; k++) {
            free_event(engine, step->ran[k].begin);
            free_event(engine, step->ran[k].end);
        }
        free_event(engine, step->began);
        free(step->ran);
    }
    for (int i = 0; i < 2; i++) free_event(engine, engine->kernel_at[i]);
    free_event(engine, engine->origin);
}

/* --- noting --- */

void times_step(struct engine *engine, struct step *step) {
    step->ran_count = 0;
    if (engine->apart)
        backend_of(engine)->event_record(step->began, engine->stream[STREAM_COMPUTE]);
}

void times_begin(struct engine *engine, const struct instr *instr) {
    struct step *step = engine->step;
    struct instr_times *at = &step->ran[step->ran_count];
    at->instr = instr;
    backend_of(engine)->event_record(at->begin, engine->stream[STREAM_COMPUTE]);
}

void times_end(struct engine *engine) {
    struct step *step = engine->step;
    backend_of(engine)->event_record(step->ran[step->ran_count++].end,
                                     engine->stream[STREAM_COMPUTE]);
}

/* --- telling --- */

static enum status tell_one(struct engine *engine, struct step *step,
                            const struct instr_times *at) {
    const struct engine_observer *observer = &engine->state->observer;
    int64_t begin, end;
    TRY(backend_of(engine)->event_ns(step->began, at->begin, &begin));
    TRY(backend_of(engine)->event_ns(step->began, at->end, &end));
    step->times.of[instr_row(at->instr)->time] += end - begin;
    if (observer->instr)
        observer->instr(observer->context, at->instr, step->number, engine->before_ns + begin,
                        engine->before_ns + end);
    return STATUS_OK;
}

enum status times_tell(struct engine *engine, struct step *step) {
    int64_t since;
    if (!engine->apart) return STATUS_OK;
    TRY(backend_of(engine)->event_ns(engine->before, step->began, &since));
    engine->before_ns += since;
    engine->before = step->began;
    for (int i = 0; i < step->ran_count; i++) TRY(tell_one(engine, step, &step->ran[i]));
    return STATUS_OK;
}

static const struct instr *first_not_done(const struct engine *engine, const struct step *step) {
    for (int i = 0; i < step->ran_count; i++) {
        bool done;
        if (backend_of(engine)->event_done(step->ran[i].end, &done) != STATUS_OK || !done)
            return step->ran[i].instr;
    }
    return NULL;
}

const struct instr *engine_reached(struct engine *engine, int64_t *step) {
    const struct instr *found = NULL;
    if (!engine->apart || !engine->step) return NULL;
    for (int behind = engine->unfinished; behind >= 0 && !found; behind--) {
        int64_t number = engine->step->number - behind;
        const struct step *of = number >= 0 ? &engine->ring[number % engine->ring_count] : NULL;
        if (of && of->number == number) found = first_not_done(engine, of);
        *step = number;
    }
    return found;
}

enum status times_kernel(struct engine *engine, enum status (*run)(void *context), void *context,
                         int64_t *ns) {
    struct stream *stream = engine->stream[STREAM_COMPUTE];
    if (!engine->apart) {
        int64_t begin = clock_ns();
        TRY(run(context));
        *ns = clock_ns() - begin;
        return STATUS_OK;
    }
    backend_of(engine)->event_record(engine->kernel_at[0], stream);
    TRY(run(context));
    backend_of(engine)->event_record(engine->kernel_at[1], stream);
    TRY(backend_of(engine)->event_wait(engine->kernel_at[1]));
    return backend_of(engine)->event_ns(engine->kernel_at[0], engine->kernel_at[1], ns);
}
