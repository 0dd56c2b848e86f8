/* The communicator of one rank, and the template for others: what must be filled in, doing nothing
 * where nothing is to be done. With one member every sum is the data itself. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "comm/ring.h"
#include "comm/table.h"

struct self {
    struct comm comm;
    struct region heap;
    struct comm_sizes sizes;
    _Atomic int aborted;
};

static enum status self_open(const struct comm_config *config, struct comm **out) {
    struct region heap;
    if (config->size != 1)
        return fail(STATUS_USAGE, "the communicator self is for one rank, not for %d",
                    config->size);
    TRY(region_map(config->heap_bytes + config->channel_bytes, "the shared heap", &heap));
    struct self *self = MEM_NEW(struct self);
    self->comm.ops = &comm_self;
    self->comm.heap = heap.base;
    self->sizes = (struct comm_sizes){config->heap_bytes, config->channel_bytes};
    self->comm.sizes = &self->sizes;
    self->heap = heap;
    atomic_init(&self->aborted, -1);
    *out = &self->comm;
    return STATUS_OK;
}

static void self_close(struct comm *comm) {
    struct self *self = (struct self *)comm;
    region_free(&self->heap);
    free(self);
}

static enum status self_group_new(struct comm_group *group) {
    (void)group;
    return STATUS_OK;
}

static enum status self_post(struct comm_group *group) {
    (void)group;
    return STATUS_OK;
}

static enum status self_progress(struct comm_group *group) {
    for (struct comm_request *request = group->first; request; request = request->next) {
        if (request->kind == COMM_EXCHANGE && request->count > 0)
            memmove(request->take, request->give, (size_t)request->count);
        request->done = true;
    }
    return STATUS_OK;
}

static int self_awaits(const struct comm_request *request) {
    (void)request;
    return -1;
}

static void self_arm(struct comm *comm, bool on) {
    (void)comm, (void)on;
}

/* A lone rank that sleeps has filled its own channel, or waits for a message nobody can send; only
 * comm_abort, from another thread, ends that. */
static void self_rest(struct comm *comm, int64_t limit_ns) {
    (void)comm;
    nanosleep(&(struct timespec){limit_ns / 1000000000, limit_ns % 1000000000}, NULL);
}

static void self_abort(struct comm *comm, int rank) {
    atomic_store(&((struct self *)comm)->aborted, rank);
}

static int self_aborted(const struct comm *comm) {
    return atomic_load_explicit(&((struct self *)comm)->aborted, memory_order_relaxed);
}

static enum status self_channel_new(struct comm_channel *channel) {
    channel->state = channel->comm->heap + channel->offset;
    return STATUS_OK;
}

static enum status self_try_send(struct comm_channel *channel, const struct comm_request *message,
                                 bool *sent) {
    void *slot = ring_reserve(channel->state, channel->bytes, channel->slots);
    if (slot) {
        comm_copy_pieces(message, slot);
        struct ring_head head = {(uint64_t)message->count, message->start_ns};
        ring_publish(channel->state, &head, channel->slots);
    }
    *sent = slot != NULL;
    return STATUS_OK;
}

static enum status self_try_receive(struct comm_channel *channel, uint64_t number, bool *come) {
    *come = ring_has(channel->state, number);
    return STATUS_OK;
}

static void *self_message(struct comm_channel *channel, uint64_t number, struct ring_head *head) {
    return ring_message(channel->state, number, channel->bytes, channel->slots, head);
}

static void self_release(struct comm_channel *channel) {
    ring_release(channel->state);
}

const struct comm_ops comm_self = {
    .name = "self",
    .open = self_open,
    .close = self_close,
    .group_new = self_group_new,
    .channel_new = self_channel_new,
    .post = self_post,
    .progress = self_progress,
    .awaits = self_awaits,
    .arm = self_arm,
    .rest = self_rest,
    .abort = self_abort,
    .aborted = self_aborted,
    .try_send = self_try_send,
    .try_receive = self_try_receive,
    .message = self_message,
    .release = self_release,
};
