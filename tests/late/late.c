/* See late.h. A device is one of `ref` behind its queues; what differs is where memory is and when
 * work is done. */
#include "late.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "backend/host.h"
#include "backend/registry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "late_reach.h"
#include "late_rows.h"

/* Of each mapping; operations that a queue has room for; how old undemanded work gets. */
#define SPAN_BYTES ((size_t)1 << 33)
enum { QUEUE = 1024, LATEST_MS = 20, MOST_STREAMS = 8 };

struct late_device {
    struct device base;
    struct device *ref;
    char *window; /* what the host knows, without access; SPAN_BYTES behind it what streams use */
    size_t used, taken, peak; /* used: of the window, which is not used twice */
    struct stream *own;       /* the default one */
    struct stream *stream[MOST_STREAMS];
    int streams; /* made so far */
};

struct late_kernel {
    struct kernel base;
    struct kernel *ref;
};

struct late_op {
    enum late_kind kind;
    int64_t since_ns;
    struct kernel *kernel;
    void *in[OP_MAX_IN], *out[OP_MAX_OUT], *scratch;
    /* Of arrays and copies: which, and its operands. */
    enum { COPY, FILL, ADD, SQUARES, SUM, DECIDE, CHECK_FINITE, UPDATE, TREE } array;
    struct tree_terms *tree; /* owned */
    struct optim_limits limits;
    void *to, *flag;
    const void *from;
    size_t bytes;
    struct elements into, of;
    double number;
    struct optim_update update;
    struct optim_step step;
    /* Of a wait. */
    struct stream *stream;
    uint64_t until;
};

/* Operations are counted: `asked` of them are wanted now. */
struct stream {
    struct late_device *device;
    int number; /* -1: the default one */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct late_op queue[QUEUE];
    uint64_t posted, done, asked;
    enum late_kind last;
    enum status status;
    bool ends, blocked; /* blocked: it waits for another stream */
};

/* Other ranks wait for the events of a window. */
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;

struct event {
    struct late_device *device;
    struct stream *stream; /* that it was recorded on; NULL: never */
    uint64_t after;        /* so many of its operations */
    enum late_kind behind;
};

static _Atomic int drop_stream = -1, drop_kind, dropped;

static struct late_device *late_of(struct device *device) {
    return (struct late_device *)device;
}

void late_add(void) {
    backend_add(&backend_late);
}

void late_drop_waits(int stream, enum late_kind kind) {
    drop_kind = (int)kind;
    drop_stream = stream;
}

int late_dropped(void) {
    return dropped;
}

/* --- addresses --- */

static bool is_ours(const struct late_device *device, const void *address) {
    return (const char *)address >= device->window &&
           (const char *)address < device->window + SPAN_BYTES;
}

/* Where a stream finds device memory. */
static void *there(const struct late_device *device, const void *address) {
    if (!address) return NULL;
    CHECK(is_ours(device, address) || late_is_reached(address), "%p is no memory of the device",
          address);
    return (char *)(uintptr_t)address + SPAN_BYTES;
}

static void *on_host(const struct late_device *device, const void *address) {
    CHECK(!is_ours(device, address), "%p is no memory of the host", address);
    return (void *)(uintptr_t)address;
}

static struct elements elements_there(const struct late_device *device, struct elements elements) {
    if (elements.data) elements.data = there(device, elements.data);
    return elements;
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
    }
    return STATUS_BUG;
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
        enum status status = run_op(stream, op);
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
    stream->last = op->kind;
    enum status status = stream->status;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static enum status late_stream_new(struct device *device, struct stream **out) {
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
static void late_stream_free(struct device *device, struct stream *stream) {
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

static enum status late_stream_wait(struct device *device, struct stream *stream) {
    stream = stream_of(device, stream);
    return demand(stream, posted_on(stream));
}

static enum status late_event_new(struct device *device, bool timed, struct event **out) {
    (void)timed;
    *out = MEM_NEW(struct event);
    (*out)->device = late_of(device);
    return STATUS_OK;
}

static void late_event_free(struct device *device, struct event *event) {
    (void)device;
    free(event);
}

static void late_event_record(struct event *event, struct stream *stream) {
    stream = stream_of(&event->device->base, stream);
    struct event now = {event->device, stream, posted_on(stream), stream->last};
    pthread_mutex_lock(&recording);
    *event = now;
    pthread_mutex_unlock(&recording);
}

static void late_stream_wait_event(struct stream *stream, struct event *given) {
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

static enum status late_event_wait(struct event *event) {
    return event->stream ? demand(event->stream, event->after) : STATUS_OK;
}

/* Who only looks has not asked for it. */
static enum status late_event_done(struct event *event, bool *done) {
    *done = true;
    if (!event->stream) return STATUS_OK;
    pthread_mutex_lock(&event->stream->lock);
    *done = event->stream->done >= event->after;
    pthread_mutex_unlock(&event->stream->lock);
    return STATUS_OK;
}

/* --- memory --- */

static size_t whole_pages(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page) / page * page; /* and at least a byte */
}

static enum status late_memory_new(struct device *device, size_t bytes, const char *what,
                                   void **out) {
    struct late_device *self = late_of(device);
    size_t need = whole_pages(bytes);
    if (self->used + need > SPAN_BYTES || bytes > SPAN_BYTES)
        return fail(STATUS_MEMORY, "no memory for %s on late:0", what);
    char *place = self->window + self->used;
    self->used += need;
    self->taken += bytes;
    if (self->taken > self->peak) self->peak = self->taken;
    CHECK(mprotect(place + SPAN_BYTES, need, PROT_READ | PROT_WRITE) == 0, "mprotect: %s",
          strerror(errno));
    *out = place;
    return STATUS_OK;
}

static void late_memory_free(struct device *device, void *memory, size_t bytes) {
    if (!memory) return;
    char *place = there(late_of(device), memory);
    madvise(place, whole_pages(bytes), MADV_DONTNEED);
    mprotect(place, whole_pages(bytes), PROT_NONE);
    late_of(device)->taken -= bytes;
}

static void late_memory_bytes(struct device *device, struct device_bytes *out) {
    *out = (struct device_bytes){.peak = late_of(device)->peak, .all = SPAN_BYTES};
}

static enum status late_copy_in(struct device *device, void *to, const void *host, size_t bytes,
                                struct stream *stream) {
    struct late_op op = {.kind = LATE_COPY_IN,
                         .to = there(late_of(device), to),
                         .from = on_host(late_of(device), host),
                         .bytes = bytes};
    return bytes ? enqueue(stream_of(device, stream), &op) : STATUS_OK;
}

static enum status late_copy_out(struct device *device, void *host, const void *from, size_t bytes,
                                 struct stream *stream) {
    struct late_op op = {.kind = LATE_COPY_OUT,
                         .to = on_host(late_of(device), host),
                         .from = there(late_of(device), from),
                         .bytes = bytes};
    return bytes ? enqueue(stream_of(device, stream), &op) : STATUS_OK;
}

/* --- arrays --- */

static enum status array(struct device *device, struct stream *stream, struct late_op op) {
    const struct late_device *self = late_of(device);
    op.kind = LATE_ARRAY;
    op.to = there(self, op.to);
    op.flag = there(self, op.flag);
    op.from = there(self, op.from);
    op.into = elements_there(self, op.into);
    op.of = elements_there(self, op.of);
    return enqueue(stream_of(device, stream), &op);
}

static enum status late_array_copy(struct device *device, void *to, const void *from, size_t bytes,
                                   struct stream *stream) {
    return array(device, stream,
                 (struct late_op){.array = COPY, .to = to, .from = from, .bytes = bytes});
}

static enum status late_array_fill(struct device *device, const struct elements *to, float value,
                                   struct stream *stream) {
    return array(device, stream, (struct late_op){.array = FILL, .into = *to, .number = value});
}

static enum status late_array_add(struct device *device, const struct elements *into,
                                  const struct elements *from, struct stream *stream) {
    return array(device, stream, (struct late_op){.array = ADD, .into = *into, .of = *from});
}

static enum status late_array_squares(struct device *device, const struct elements *of,
                                      double *sums, struct stream *stream) {
    return array(device, stream, (struct late_op){.array = SQUARES, .of = *of, .to = sums});
}

static enum status late_array_sum(struct device *device, const double *sums, int64_t count,
                                  struct exact_sum *total, struct stream *stream) {
    return array(
        device, stream,
        (struct late_op){.array = SUM, .from = sums, .bytes = (size_t)count, .to = (void *)total});
}

static enum status late_array_decide(struct device *device, const struct exact_sum *squares,
                                     const struct exact_sum *losses,
                                     const struct optim_limits *limits, struct optim_decision *out,
                                     int32_t *stop, struct stream *stream) {
    return array(device, stream,
                 (struct late_op){.array = DECIDE,
                                  .from = squares,
                                  .of = {.data = (void *)(uintptr_t)losses},
                                  .limits = *limits,
                                  .to = out,
                                  .flag = stop});
}

static enum status late_array_check(struct device *device, const struct elements *of, int32_t *bad,
                                    struct stream *stream) {
    return array(device, stream, (struct late_op){.array = CHECK_FINITE, .of = *of, .flag = bad});
}

/* The queue keeps the step: it is read when the call is made. */
static enum status late_array_update(struct device *device, const struct optim_update *update,
                                     int32_t *bad, struct stream *stream) {
    const struct late_device *self = late_of(device);
    struct late_op op = {.kind = LATE_ARRAY,
                         .array = UPDATE,
                         .update = *update,
                         .step = *update->step,
                         .flag = there(self, bad)};
    op.update.param = elements_there(self, update->param);
    op.update.gradient = elements_there(self, update->gradient);
    for (int i = 0; i < OPTIM_MAX_STATES; i++)
        op.update.state[i] = elements_there(self, update->state[i]);
    op.update.decision = there(self, update->decision);
    stream = stream_of(device, stream);
    pthread_mutex_lock(&stream->lock);
    /* The place it will have: nobody else enqueues on this device. */
    op.update.step = &stream->queue[stream->posted % QUEUE].step;
    pthread_mutex_unlock(&stream->lock);
    return enqueue(stream, &op);
}

enum status late_array_tree(struct device *device, const struct tree_terms *terms,
                            struct stream *stream) {
    struct late_op op = {.kind = LATE_ARRAY, .array = TREE, .tree = MEM_NEW(struct tree_terms)};
    *op.tree = *terms;
    for (int i = 0; i < terms->terms; i++)
        op.tree->term[i] = there(late_of(device), terms->term[i]);
    for (int i = 0; i < terms->outs; i++) op.tree->out[i] = there(late_of(device), terms->out[i]);
    return enqueue(stream_of(device, stream), &op);
}

/* --- kernels --- */

static enum status late_kernel_create(struct device *device, const struct op_call *call,
                                      const struct layout *const in[], struct kernel **out) {
    struct late_kernel *kernel = MEM_NEW(struct late_kernel);
    enum status status = kernel_create(late_of(device)->ref, call, in, &kernel->ref);
    if (status != STATUS_OK) {
        free(kernel);
        return status;
    }
    kernel->base = *kernel->ref;
    kernel->base.device = device;
    *out = &kernel->base;
    return STATUS_OK;
}

static void late_kernel_free(struct kernel *kernel) {
    kernel_free(&((struct late_kernel *)kernel)->ref);
    free(kernel);
}

static enum status late_kernel_run(struct kernel *kernel, void *const in[], void *const out[],
                                   void *scratch, struct stream *stream) {
    const struct late_device *self = late_of(kernel->device);
    struct late_op op = {.kind = LATE_KERNEL,
                         .kernel = ((struct late_kernel *)kernel)->ref,
                         .scratch = there(self, scratch)};
    for (int i = 0; i < OP_MAX_IN && kernel->in[i]; i++) op.in[i] = there(self, in[i]);
    for (int i = 0; i < OP_MAX_OUT && kernel->out[i]; i++) op.out[i] = there(self, out[i]);
    return enqueue(stream_of(kernel->device, stream), &op);
}

/* --- device --- */

static enum status late_open(int index, int threads, struct device **out) {
    struct late_device *self = MEM_NEW(struct late_device);
    self->base = (struct device){.backend = &backend_late, .index = index, .threads = threads};
    CHECK(device_open("ref", 0, threads, &self->ref) == STATUS_OK, "no device ref");
    self->window =
        mmap(NULL, 2 * SPAN_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(self->window != MAP_FAILED, "mmap: %s", strerror(errno));
    CHECK(late_stream_new(&self->base, &self->own) == STATUS_OK, "no stream");
    self->own->number = -1;
    self->streams = 0;
    self->stream[0] = NULL;
    *out = &self->base;
    return STATUS_OK;
}

static void late_close(struct device *device) {
    struct late_device *self = late_of(device);
    late_stream_free(device, self->own);
    munmap(self->window, 2 * SPAN_BYTES);
    device_close(&self->ref);
    free(self);
}

struct device *late_ref(struct device *device) {
    return late_of(device)->ref;
}

const struct backend backend_late = {
    .name = "late",
    .help = "reference kernels, as late as they may run, on memory of their own",
    .apart = true,
    .open = late_open,
    .close = late_close,
    .describe = late_describe,
    .isa = late_isa,
    .takes = late_takes,
    .supports = late_supports,
    .cost_ns = late_cost_ns,
    .plain = late_plain,
    .kernel_create = late_kernel_create,
    .kernel_free = late_kernel_free,
    .kernel_run = late_kernel_run,
    .memory_new = late_memory_new,
    .memory_free = late_memory_free,
    .memory_bytes = late_memory_bytes,
    .pinned_new = host_memory_new,
    .pinned_free = host_memory_free,
    .pin = host_pin,
    .unpin = host_unpin,
    .copy_in = late_copy_in,
    .copy_out = late_copy_out,
    .array_copy = late_array_copy,
    .array_fill = late_array_fill,
    .array_add = late_array_add,
    .array_squares = late_array_squares,
    .array_sum = late_array_sum,
    .array_decide = late_array_decide,
    .array_check = late_array_check,
    .array_update = late_array_update,
    .stream_new = late_stream_new,
    .stream_free = late_stream_free,
    .stream_wait = late_stream_wait,
    .event_new = late_event_new,
    .event_free = late_event_free,
    .event_record = late_event_record,
    .stream_wait_event = late_stream_wait_event,
    .event_wait = late_event_wait,
    .event_done = late_event_done,
    .event_ns = host_event_ns,
    .reach = &late_reach,
};
