/* Channels in front of the tables: declaration, checks, blocking calls. */
#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/ring.h"
#include "comm/table.h"

static const char *channel_text(const struct comm_channel *channel, char text[COMM_TEXT_BYTES]) {
    snprintf(text, COMM_TEXT_BYTES, "channel %d from rank %d to rank %d (%d slots of %zu bytes)",
             channel->kind, channel->from, channel->to, channel->slots, channel->bytes);
    return text;
}

enum status comm_channel_misfit(struct comm_channel *channel) {
    char text[COMM_TEXT_BYTES];
    return channel->comm->failed =
               fail(STATUS_BUG, "ranks %d and %d declare channel %d differently\nrank %d: %s",
                    channel->from, channel->to, channel->kind, channel->comm->rank,
                    channel_text(channel, text));
}

/* The buffers lie behind the receiver's heap; every rank keeps the books of all. */
static enum status allocate(struct comm *comm, struct comm_channel *channel) {
    char text[COMM_TEXT_BYTES], all[TEXT_BYTES], left[TEXT_BYTES];
    const struct comm_sizes *sizes = &comm->sizes[channel->to];
    size_t free_bytes = sizes->channels - comm->channel_used[channel->to];
    channel->room = ring_bytes(channel->bytes, channel->slots);
    if (channel->bytes > sizes->channels / (size_t)channel->slots || channel->room > free_bytes)
        return fail(STATUS_MEMORY,
                    "out of memory: %s does not fit into what rank %d has for channels\n"
                    "%s of its %s are left",
                    channel_text(channel, text), channel->to, text_size((int64_t)free_bytes, left),
                    text_size((int64_t)sizes->channels, all));
    channel->offset = sizes->heap + comm->channel_used[channel->to];
    comm->channel_used[channel->to] += channel->room;
    return STATUS_OK;
}

enum status comm_channel_new(struct comm *comm, int from, int to, int kind, size_t bytes, int slots,
                             struct comm_channel **out) {
    PROGRESS_THREAD_GUARD(comm);
    TRY(comm_check(comm));
    CHECK(from >= 0 && from < comm->size && to >= 0 && to < comm->size && slots >= 1,
          "channel from %d to %d with %d slots", from, to, slots);
    uint64_t facts[] = {(uint64_t)from, (uint64_t)to, (uint64_t)kind, bytes, (uint64_t)slots};
    struct comm_channel wanted = {.comm = comm,
                                  .from = from,
                                  .to = to,
                                  .kind = kind,
                                  .slots = slots,
                                  .bytes = bytes,
                                  .hash = crc32c(0, facts, sizeof facts) | 1};
    TRY(allocate(comm, &wanted));
    struct comm_channel *channel = arena_new(&comm->arena, sizeof *channel);
    *channel = wanted;
    TRY(comm->ops->channel_new(channel));
    *out = channel;
    return STATUS_OK;
}

enum status comm_channel_try_send(struct comm_channel *channel, const void *data, bool *sent) {
    struct comm *comm = channel->comm;
    PROGRESS_THREAD_GUARD(comm);
    TRY(comm_check(comm));
    CHECK(comm->rank == channel->from, "rank %d sends on a channel of rank %d", comm->rank,
          channel->from);
    TRY(comm->ops->try_send(channel, data, sent));
    if (*sent && channel->from != channel->to) comm->sent_bytes += channel->bytes;
    return STATUS_OK;
}

enum status comm_channel_try_receive(struct comm_channel *channel, void **data) {
    struct comm *comm = channel->comm;
    PROGRESS_THREAD_GUARD(comm);
    TRY(comm_check(comm));
    CHECK(comm->rank == channel->to, "rank %d receives on a channel of rank %d", comm->rank,
          channel->to);
    return comm->ops->try_receive(channel, data);
}

enum status comm_channel_release(struct comm_channel *channel) {
    PROGRESS_THREAD_GUARD(channel->comm);
    TRY(comm_check(channel->comm));
    CHECK(channel->comm->rank == channel->to, "rank %d releases on a channel of rank %d",
          channel->comm->rank, channel->to);
    return channel->comm->ops->release(channel);
}

/* --- blocking ------------------------------------------------------------------------------ */

struct call {
    struct comm_channel *channel;
    const void *give;
    void *take;
};

static enum status send_ready(void *object, bool *out) {
    struct call *call = object;
    return comm_channel_try_send(call->channel, call->give, out);
}

static int send_whom(void *object, char text[COMM_TEXT_BYTES]) {
    struct call *call = object;
    snprintf(text, COMM_TEXT_BYTES, "send on channel %d to rank %d", call->channel->kind,
             call->channel->to);
    return call->channel->to;
}

static enum status receive_ready(void *object, bool *out) {
    struct call *call = object;
    TRY(comm_channel_try_receive(call->channel, &call->take));
    *out = call->take != NULL;
    return STATUS_OK;
}

static int receive_whom(void *object, char text[COMM_TEXT_BYTES]) {
    struct call *call = object;
    snprintf(text, COMM_TEXT_BYTES, "receive on channel %d from rank %d", call->channel->kind,
             call->channel->from);
    return call->channel->from;
}

enum status comm_channel_send(struct comm_channel *channel, const void *data) {
    struct call call = {channel, data, NULL};
    return comm_await(channel->comm, &(struct comm_subject){&call, send_ready, send_whom});
}

enum status comm_channel_receive(struct comm_channel *channel, void **data) {
    struct call call = {channel, NULL, NULL};
    TRY(comm_await(channel->comm, &(struct comm_subject){&call, receive_ready, receive_whom}));
    *data = call.take;
    return STATUS_OK;
}
