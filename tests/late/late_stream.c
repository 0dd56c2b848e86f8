/* See late_stream.h. */
#include "late_stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/blend.h"
#include "backend/watch.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "late_reach.h"

/* Other ranks wait for the events of a window. */
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;

static _Atomic int drop_stream = -1, drop_kind, dropped;
static _Atomic int64_t fails_at;

void late_drop_waits(int stream, enum late_kind kind) {
    drop_kind = (int)kind;
    drop_stream = stream;
}

int late_dropped(void) {
    return dropped;
}

void late_fail_kernel(int64_t kernels) {
    fails_at = kernels;
}

/* --- what a thread does --- */

/* Makes a stream come to `until`, and waits for that. */
static enum status demand(struct stream *stream, uint64_t until) {
    pthread_mutex_lock(&stream->lock);
    if (until > stream->asked) stream->asked = until;
    pthread_cond_broadcast(&stream->changed);
    while (stream->done < until) pthread_cond_wait(&stream->changed, &stream->lock);
    enum status status = stream->status;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static void set_blocked(struct stream *stream, bool blocked) {
    pthread_mutex_lock(&stream->lock);
    stream->blocked = blocked;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

/* Lets the other streams run as far as they can: whoever should wait for this one and does not is
 * past it then. */
static void let_others_go(struct stream *self) {
    set_blocked(self, true);
    for (int i = 0; i < self->device->streams; i++) {
        struct stream *other = self->device->stream[i];
        if (!other || other == self) continue;
        pthread_mutex_lock(&other->lock);
        other->asked = other->posted;
        pthread_cond_broadcast(&other->changed);
        while (other->done < other->asked && !other->blocked)
            pthread_cond_wait(&other->changed, &other->lock);
        pthread_mutex_unlock(&other->lock);
    }
    set_blocked(self, false);
}

static enum status run_array(struct device *ref, const struct late_op *op) {
    const struct backend *table = ref->backend;
    switch (op->array) {
    case COPY: return table->array_copy(ref, op->to, op->from, op->bytes, NULL);
    case FILL: return table->array_fill(ref, &op->into, (float)op->number, NULL);
    case ADD: return table->array_add(ref, &op->into, &op->of, NULL);
    case BLEND:
        return table->blend->blend(ref, &op->into, (float)op->number, op->of.data ? &op->of : NULL,
                                   (float)op->share, NULL);
    case SWAP: return table->blend->swap(ref, &op->into, &op->of, NULL);
    case SQUARES: return table->array_squares(ref, &op->of, op->to, NULL);
    case SUM: return table->array_sum(ref, op->from, (int64_t)op->bytes, op->to, NULL);
    case DECIDE:
        return table->array_decide(ref, op->from, op->of.data, &op->limits, op->to, op->flag, NULL);
    case CHECK_FINITE: return table->array_check(ref, &op->of, op->flag, NULL);
    case UPDATE: return table->array_update(ref, &op->update, op->flag, NULL);
    case TREE: return late_run_tree(ref, op->tree);
    }
    return STATUS_BUG;
}

static enum status await_other(struct stream *self, const struct late_op *op) {
    set_blocked(self, true);
    enum status status = demand(op->stream, op->until);
    set_blocked(self, false);
    return status;
}

static enum status run_op(struct stream *self, const struct late_op *op) {
    struct device *ref = self->device->ref;
    switch (op->kind) {
    case LATE_KERNEL: return kernel_run(op->kernel, op->in, op->out, op->scratch, NULL);
    case LATE_COPY_IN:
        let_others_go(self);
        memcpy(op->to, op->from, op->bytes);
        return STATUS_OK;
    case LATE_COPY_OUT: memcpy(op->to, op->from, op->bytes); return STATUS_OK;
    case LATE_ARRAY: return run_array(ref, op);
    case LATE_WAIT: return await_other(self, op);
    case LATE_MARK: self->device->marked = op->number_of_mark; return STATUS_OK;
    }
    return STATUS_BUG;
}

/* A device that has failed does nothing any more. */
static enum status run_or_fail(struct stream *self, const struct late_op *op) {
    enum status failed = self->device->failed;
    if (op->kind == LATE_KERNEL && atomic_fetch_sub(&fails_at, 1) == 1)
        failed = fail(STATUS_BUG, "late: a kernel read what is not its own");
    if (failed == STATUS_OK) failed = run_op(self, op);
    if (failed != STATUS_OK) self->device->failed = failed;
    return failed;
}

static void await_due(struct stream *stream) {
    int64_t due_ns =
        stream->queue[stream->done % QUEUE].since_ns + (int64_t)LATEST_MS * 1000 * 1000;
    while (stream->asked <= stream->done && !stream->ends && clock_ns() < due_ns) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        int64_t ns = until.tv_nsec + (due_ns - clock_ns());
        until.tv_sec += ns / 1000000000, until.tv_nsec = ns % 1000000000;
        pthread_cond_timedwait(&stream->changed, &stream->lock, &until);
    }
}

static void *stream_main(void *context) {
    struct stream *stream = context;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (stream->done == stream->posted && !stream->ends)
            pthread_cond_wait(&stream->changed, &stream->lock);
        if (stream->done == stream->posted) break;
        await_due(stream);
        struct late_op *op = &stream->queue[stream->done % QUEUE];
        pthread_mutex_unlock(&stream->lock);
        enum status status = run_or_fail(stream, op);
        if (op->stream) op->stream = NULL;
        pthread_mutex_lock(&stream->lock);
        if (stream->status == STATUS_OK) stream->status = status;
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/* --- streams and events --- */

static struct stream *stream_of(struct device *device, struct stream *stream) {
    return stream ? stream : late_of(device)->own;
}

static enum status enqueue(struct stream *stream, const struct late_op *op) {
    pthread_mutex_lock(&stream->lock);
    while (stream->posted - stream->done == QUEUE) {
        stream->asked = stream->posted - QUEUE / 2;
        pthread_cond_broadcast(&stream->changed);
        pthread_cond_wait(&stream->changed, &stream->lock);
    }
    stream->queue[stream->posted % QUEUE] = *op;
    stream->queue[stream->posted % QUEUE].since_ns = clock_ns();
    stream->posted++;
    if (op->kind != LATE_MARK) stream->last = op->kind;
    enum status status = stream->status;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

enum status late_enqueue(struct device *device, struct stream *stream, const struct late_op *op) {
    return enqueue(stream_of(device, stream), op);
}

struct late_op *late_next(struct device *device, struct stream *stream) {
    stream = stream_of(device, stream);
    pthread_mutex_lock(&stream->lock);
    struct late_op *next = &stream->queue[stream->posted % QUEUE];
    pthread_mutex_unlock(&stream->lock);
    return next;
}

enum status late_stream_new(struct device *device, struct stream **out) {
    struct stream *stream = MEM_NEW(struct stream);
    stream->device = late_of(device);
    stream->number = stream->device->streams;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    CHECK(pthread_create(&stream->thread, NULL, stream_main, stream) == 0, "no thread");
    CHECK(stream->number < MOST_STREAMS, "more than %d streams", MOST_STREAMS);
    stream->device->stream[stream->device->streams++] = stream;
    *out = stream;
    return STATUS_OK;
}

/* The host has awaited them all: nobody looks for it any more. */
void late_stream_free(struct device *device, struct stream *stream) {
    if (!stream) return;
    if (stream->number >= 0) late_of(device)->stream[stream->number] = NULL;
    pthread_mutex_lock(&stream->lock);
    stream->ends = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->changed);
    free(stream);
}

static uint64_t posted_on(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    uint64_t posted = stream->posted;
    pthread_mutex_unlock(&stream->lock);
    return posted;
}

enum status late_stream_wait(struct device *device, struct stream *stream) {
    stream = stream_of(device, stream);
    return demand(stream, posted_on(stream));
}

enum status late_event_new(struct device *device, bool timed, struct event **out) {
    (void)timed;
    *out = MEM_NEW(struct event);
    (*out)->device = late_of(device);
    return STATUS_OK;
}

void late_event_free(struct device *device, struct event *event) {
    (void)device;
    free(event);
}

void late_event_record(struct event *event, struct stream *stream) {
    stream = stream_of(&event->device->base, stream);
    struct event now = {event->device, stream, posted_on(stream), stream->last};
    pthread_mutex_lock(&recording);
    *event = now;
    pthread_mutex_unlock(&recording);
}

void late_stream_wait_event(struct stream *stream, struct event *given) {
    pthread_mutex_lock(&recording);
    struct event now = *given, *event = &now;
    pthread_mutex_unlock(&recording);
    stream = stream_of(&event->device->base, stream);
    if (!event->stream || event->stream == stream) return;
    if (event->stream->number == drop_stream && (int)event->behind == drop_kind) {
        dropped++;
        return;
    }
    struct late_op op = {.kind = LATE_WAIT, .stream = event->stream, .until = event->after};
    enqueue(stream, &op);
}

enum status late_event_wait(struct event *event) {
    return event->stream ? demand(event->stream, event->after) : STATUS_OK;
}

/* Who only looks has not asked for it. */
enum status late_event_done(struct event *event, bool *done) {
    *done = true;
    if (!event->stream) return STATUS_OK;
    pthread_mutex_lock(&event->stream->lock);
    *done = event->stream->done >= event->after;
    pthread_mutex_unlock(&event->stream->lock);
    return event->device->failed;
}

/* --- marks --- */

static void mark(struct device *device, struct stream *stream, uint32_t number) {
    late_enqueue(device, stream, &(struct late_op){.kind = LATE_MARK, .number_of_mark = number});
}

static uint32_t marked(struct device *device) {
    return late_of(device)->marked;
}

static bool failed(struct device *device) {
    return late_of(device)->failed != STATUS_OK;
}

const struct backend_watch late_watch = {.mark = mark, .marked = marked, .failed = failed};
