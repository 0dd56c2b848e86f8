/* See late.h. A device is one of `ref` behind its queues; what differs is where memory is and when
 * work is done. */
#include "late.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/blend.h"
#include "backend/host.h"
#include "backend/registry.h"
#include "base/log.h"
#include "base/mem.h"
#include "late_reach.h"
#include "late_rows.h"
#include "late_stream.h"

struct late_kernel {
    struct kernel base;
    struct kernel *ref;
};

void late_add(void) {
    backend_add(&backend_late);
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
    const struct late_device *self = late_of(device);
    *out = (struct device_bytes){.peak = self->peak, .taken = self->taken, .all = SPAN_BYTES};
}

static enum status late_copy_in(struct device *device, void *to, const void *host, size_t bytes,
                                struct stream *stream) {
    struct late_op op = {.kind = LATE_COPY_IN,
                         .to = there(late_of(device), to),
                         .from = on_host(late_of(device), host),
                         .bytes = bytes};
    return bytes ? late_enqueue(device, stream, &op) : STATUS_OK;
}

static enum status late_copy_out(struct device *device, void *host, const void *from, size_t bytes,
                                 struct stream *stream) {
    struct late_op op = {.kind = LATE_COPY_OUT,
                         .to = on_host(late_of(device), host),
                         .from = there(late_of(device), from),
                         .bytes = bytes};
    return bytes ? late_enqueue(device, stream, &op) : STATUS_OK;
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
    return late_enqueue(device, stream, &op);
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

static enum status late_blend(struct device *device, const struct elements *into, float keep,
                              const struct elements *from, float share, struct stream *stream) {
    return array(device, stream,
                 (struct late_op){.array = BLEND,
                                  .into = *into,
                                  .number = keep,
                                  .of = from ? *from : (struct elements){0},
                                  .share = share});
}

static enum status late_swap(struct device *device, const struct elements *one,
                             const struct elements *other, struct stream *stream) {
    return array(device, stream, (struct late_op){.array = SWAP, .into = *one, .of = *other});
}

static const struct backend_blend blends = {.blend = late_blend, .swap = late_swap};

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
    /* The place it will have: nobody else enqueues on this device. */
    op.update.step = &late_next(device, stream)->step;
    return late_enqueue(device, stream, &op);
}

enum status late_array_tree(struct device *device, const struct tree_terms *terms,
                            struct stream *stream) {
    struct late_op op = {.kind = LATE_ARRAY, .array = TREE, .tree = MEM_NEW(struct tree_terms)};
    *op.tree = *terms;
    for (int i = 0; i < terms->terms; i++)
        op.tree->term[i] = there(late_of(device), terms->term[i]);
    for (int i = 0; i < terms->outs; i++) op.tree->out[i] = there(late_of(device), terms->out[i]);
    return late_enqueue(device, stream, &op);
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
    return late_enqueue(kernel->device, stream, &op);
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
    .watch = &late_watch,
    .blend = &blends,
};
