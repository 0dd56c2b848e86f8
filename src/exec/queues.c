/* See queues.h. */
#include "exec/queues.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/turn.h"
#include "exec/places.h"

static const struct backend *backend_of(const struct engine *engine) {
    return engine->plan->device->backend;
}

/* --- opening --- */

static int micro_count(const struct plan *plan) {
    int count = plan->config.cell.replica_count * plan->config.micro_batches;
    return count > 1 ? count : 1; /* an evaluation has one */
}

/* Of one step, padded so that the next one is aligned. */
static size_t told_bytes(const struct plan *plan) {
    size_t bytes = sizeof(struct step_told) +
                   (size_t)micro_count(plan) * GRAPH_MAX_LOSSES * sizeof(struct loss_told);
    return (bytes + 63) / 64 * 64;
}

static size_t read_bytes(const struct plan *plan) {
    return sizeof(struct step_read) - sizeof(struct step_told) + told_bytes(plan);
}

/* Where memory is the host's, the device tells where the host reads. */
static enum status open_told(struct engine *engine) {
    const struct plan *plan = engine->plan;
    const struct backend *backend = backend_of(engine);
    size_t each = told_bytes(plan), all = each * (size_t)engine->ring_count;
    TRY(backend->memory_new(plan->device, all + 64, "what a step tells", (void **)&engine->told));
    engine->stop = (int32_t *)(void *)(engine->told + all);
    for (int i = 0; i < engine->ring_count; i++) {
        struct step *step = &engine->ring[i];
        step->micros = micro_count(plan);
        step->noted = MEM_ARRAY(const struct runnable *, micro_count(plan));
        TRY(backend->event_new(plan->device, false, &step->done));
        TRY(backend->pinned_new(plan->device, read_bytes(plan), "what a step tells",
                                (void **)&step->read));
        step->told = engine->apart ? (struct step_told *)(void *)(engine->told + each * (size_t)i)
                                   : &step->read->told;
    }
    return STATUS_OK;
}

enum status queues_open(struct engine *engine) {
    struct device *device = engine->plan->device;
    const struct backend *backend = backend_of(engine);
    for (int s = 0; s < STREAM_COUNT; s++) TRY(backend->stream_new(device, &engine->stream[s]));
    TRY(backend->event_new(device, false, &engine->computed));
    int slots = sizes_slot(engine->plan->sizes, engine->plan->chunk_count, 0);
    for (int s = 0; s < slots; s++) TRY(backend->event_new(device, false, &engine->slot[s].used));
    return open_told(engine);
}

static void close_steps(struct engine *engine) {
    struct device *device = engine->plan->device;
    const struct backend *backend = backend_of(engine);
    for (int i = 0; i < engine->ring_count; i++) {
        struct step *step = &engine->ring[i];
        free(step->noted);
        backend->event_free(device, step->done);
        if (step->read) backend->pinned_free(device, step->read, read_bytes(engine->plan));
    }
    if (engine->told)
        backend->memory_free(device, engine->told,
                             told_bytes(engine->plan) * (size_t)engine->ring_count + 64);
}

void queues_close(struct engine *engine) {
    struct device *device = engine->plan->device;
    const struct backend *backend = backend_of(engine);
    for (int s = 0; s < STREAM_COUNT; s++) backend->stream_free(device, engine->stream[s]);
    backend->event_free(device, engine->computed);
    int slots = sizes_slot(engine->plan->sizes, engine->plan->chunk_count, 0);
    for (int s = 0; engine->slot && s < slots; s++)
        backend->event_free(device, engine->slot[s].used);
    close_steps(engine);
}

/* A device may wait for a rank that is gone: looks around meanwhile. */
static enum status watch_event(struct engine *engine, struct event *event) {
    enum { TURNS = 1000, NAP_NS = 50 * 1000, LOOK_NS = 100 * 1000 * 1000 };
    int64_t since_ns = clock_ns(), looked_ns = since_ns;
    bool done = false;
    for (int turn = 0; !done; turn++) {
        TRY(backend_of(engine)->event_done(event, &done));
        if (done || turn < TURNS) continue;
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        if (clock_ns() - looked_ns < LOOK_NS) continue;
        looked_ns = clock_ns();
        enum status status = comm_look(engine->comm, "the device", since_ns);
        if (status == STATUS_OK) continue;
        plane_abort(engine->plane);
        return status;
    }
    return STATUS_OK;
}

enum status queues_wait(struct engine *engine, struct event *event) {
    return plane_waits(engine->plane) ? watch_event(engine, event)
                                      : backend_of(engine)->event_wait(event);
}

enum status queues_await(struct engine *engine) {
    for (int s = 0; engine->apart && s < STREAM_COUNT; s++) {
        if (plane_waits(engine->plane)) {
            backend_of(engine)->event_record(engine->computed, engine->stream[s]);
            TRY(queues_wait(engine, engine->computed));
        }
        TRY(backend_of(engine)->stream_wait(engine->plan->device, engine->stream[s]));
    }
    return STATUS_OK;
}

/* --- copies for the communicator --- */

void queues_follow(struct engine *engine) {
    const struct backend *backend = backend_of(engine);
    if (!engine->apart) return;
    backend->event_record(engine->computed, engine->stream[STREAM_COMPUTE]);
    backend->stream_wait_event(engine->stream[STREAM_COMM], engine->computed);
    if (engine->plane) backend->stream_wait_event(engine->stream[STREAM_MOVE], engine->computed);
}

enum status queues_copy_out(struct engine *engine, void *host, const void *from, size_t bytes) {
    if (host == from || bytes == 0) return STATUS_OK;
    engine->copied = true;
    return backend_of(engine)->copy_out(engine->plan->device, host, from, bytes,
                                        engine->stream[STREAM_COMM]);
}

enum status queues_copy_in(struct engine *engine, void *to, const void *host, size_t bytes) {
    if (host == to || bytes == 0) return STATUS_OK;
    engine->copied = true;
    return backend_of(engine)->copy_in(engine->plan->device, to, host, bytes,
                                       engine->stream[STREAM_COMM]);
}

/* --- slots --- */

void queues_use_slot(struct engine *engine, const struct instr *instr) {
    if (!instr_row(instr)->needs) return;
    backend_of(engine)->event_record(slot_of(engine, instr)->used, engine->stream[STREAM_COMPUTE]);
}

static enum status copy_inputs(struct engine *engine, const struct slot *slot, int index,
                               bool seeds, enum engine_stream stream) {
    const struct runnable *runnable = slot->runnable;
    const struct graph *graph = runnable->plan->graph;
    const struct micro_batch *samples = &slot->step->batch->micro[slot->micro];
    for (int i = 0; i < graph->input_count; i++) {
        void *place = runnable->slot[index].address[graph->inputs[i]];
        bool is_seed = runnable->input[i].source == INPUT_SEED;
        if (!place || is_seed != seeds) continue;
        TRY(backend_of(engine)->copy_in(
            engine->plan->device, place, bound_source(slot->step, runnable, i, samples),
            graph->values[graph->inputs[i]].layout->bytes, engine->stream[stream]));
    }
    return STATUS_OK;
}

enum status queues_load(struct engine *engine, struct slot *slot, int index) {
    backend_of(engine)->stream_wait_event(engine->stream[STREAM_LOAD], slot->used);
    return copy_inputs(engine, slot, index, false, STREAM_LOAD);
}

enum status queues_give_seeds(struct engine *engine, const struct slot *slot, int index) {
    if (!engine->apart) return STATUS_OK;
    return copy_inputs(engine, slot, index, true, STREAM_COMPUTE);
}

/* --- what a step tells --- */

/* A few bytes: a team would take longer to begin. */
enum status queues_clear(struct engine *engine, void *at, size_t bytes) {
    struct elements all = {DTYPE_F32, at, (int64_t)(bytes / sizeof(float))};
    if (engine->apart)
        return backend_of(engine)->array_fill(engine->plan->device, &all, 0,
                                              engine->stream[STREAM_COMPUTE]);
    memset(at, 0, bytes);
    return STATUS_OK;
}

enum status queues_clear_stop(struct engine *engine) {
    return queues_clear(engine, engine->stop, sizeof *engine->stop);
}

enum status queues_clear_told(struct engine *engine, struct step *step) {
    if (!engine->apart) TRY(queues_clear_stop(engine)); /* who goes on has looked at it */
    return queues_clear(engine, step->told, told_bytes(engine->plan));
}

enum status queues_read_told(struct engine *engine, struct step *step, enum told_part part) {
    size_t forward = offsetof(struct step_told, losses);
    size_t begin = part == TOLD_BY_FORWARD ? forward : 0;
    size_t end = part == TOLD_BY_NORM ? offsetof(struct step_told, bad) : told_bytes(engine->plan);
    queues_follow(engine);
    TRY(queues_copy_out(engine, (char *)&step->read->told + begin, (char *)step->told + begin,
                        end - begin));
    if (engine->apart) backend_of(engine)->event_record(step->done, engine->stream[STREAM_COMM]);
    return STATUS_OK;
}
