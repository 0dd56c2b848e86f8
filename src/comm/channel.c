/* Channels in front of the tables: declaration, checks, and the queues of what was posted.
 *
 * A post tries at once and joins the end's queue only where that fails. A queue moves in order, so
 * a table never sees a message before its turn and keeps no list of its own. Channels with a queue,
 * or with something that the table still moves, are in a list that every progress goes through;
 * the others cost nothing. Per channel sends move before receives: of a channel from a rank to
 * itself both may become possible in one turn, and a wait that sleeps must not miss the second.
 *
 * Rejected: one queue of the rank for all its sends. A channel without credit would hold up the
 * others. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
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
    size_t room = ring_bytes(channel->bytes, channel->slots);
    if (channel->bytes > sizes->channels / (size_t)channel->slots || room > free_bytes)
        return fail(STATUS_MEMORY,
                    "out of memory: %s does not fit into what rank %d has for channels\n"
                    "%s of its %s are left",
                    channel_text(channel, text), channel->to, text_size((int64_t)free_bytes, left),
                    text_size((int64_t)sizes->channels, all));
    channel->offset = sizes->heap + comm->channel_used[channel->to];
    comm->channel_used[channel->to] += room;
    if (channel->to == comm->rank) mem_touch((char *)comm->heap + channel->offset, room);
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
    channel->index = comm->channel_count++;
    comm->active_channel =
        mem_grow(comm->active_channel, &comm->active_channel_capacity, (size_t)comm->channel_count,
                 sizeof *comm->active_channel); /* no post allocates */
    TRY(comm->ops->channel_new(channel));
    *out = channel;
    return STATUS_OK;
}

size_t comm_channel_bytes(size_t bytes, int slots) {
    return ring_bytes(bytes, slots);
}

/* --- the queues ---------------------------------------------------------------------------- */

int comm_channel_peer(const struct comm_request *request) {
    return request->kind == COMM_SEND ? request->channel->to : request->channel->from;
}

const char *comm_channel_request_text(const struct comm_request *request,
                                      char text[COMM_TEXT_BYTES]) {
    snprintf(text, COMM_TEXT_BYTES, "%s on channel %d %s rank %d (message %llu)",
             comm_kind_name(request->kind), request->channel->kind,
             request->kind == COMM_SEND ? "to" : "from", comm_channel_peer(request),
             (unsigned long long)request->sequence);
    return text;
}

void comm_copy_pieces(const struct comm_request *message, char *to) {
    for (int i = 0; i < message->piece_count; i++) {
        if (message->piece[i].bytes) memcpy(to, message->piece[i].data, message->piece[i].bytes);
        to += message->piece[i].bytes;
    }
}

/* The first request of a queue is done. */
static void finish_first(struct comm_queue *queue) {
    struct comm_request *request = queue->first;
    queue->first = request->next;
    if (!queue->first) queue->last = NULL;
    queue->done++;
    request->done = true;
    comm_finished(request);
}

static enum status move_sends(struct comm_channel *channel) {
    struct comm_queue *queue = &channel->queue[COMM_SENDER];
    while (queue->first) {
        bool sent;
        queue->first->start_ns = clock_ns();
        TRY(channel->comm->ops->try_send(channel, queue->first, &sent));
        if (!sent) break;
        finish_first(queue);
    }
    return STATUS_OK;
}

static enum status move_receives(struct comm_channel *channel) {
    struct comm_queue *queue = &channel->queue[COMM_RECEIVER];
    const struct comm_ops *ops = channel->comm->ops;
    while (queue->first) {
        struct ring_head head;
        bool come;
        TRY(ops->try_receive(channel, queue->first->sequence, &come));
        if (!come) break;
        ops->message(channel, queue->first->sequence, &head);
        queue->first->count = (int64_t)head.bytes;
        queue->first->start_ns = head.start_ns;
        finish_first(queue);
    }
    return STATUS_OK;
}

static enum status move(struct comm_channel *channel) {
    TRY(move_sends(channel));
    return move_receives(channel);
}

static bool has_work(struct comm_channel *channel) {
    const struct comm_ops *ops = channel->comm->ops;
    bool unsettled = ops->settle && ops->settle(channel);
    return unsettled || channel->queue[COMM_SENDER].first || channel->queue[COMM_RECEIVER].first;
}

/* What could not be done at once is left to progress. */
static void leave_to_progress(struct comm_channel *channel) {
    struct comm *comm = channel->comm;
    if (!has_work(channel)) return;
    if (!channel->active) comm->active_channel[comm->active_channel_count++] = channel;
    channel->active = true;
    comm_thread_wake(comm);
}

enum status comm_channels_progress(struct comm *comm) {
    enum status status = STATUS_OK;
    size_t kept = 0;
    if (comm->active_channel_count > 0 && comm->ops->poll) comm->ops->poll(comm);
    for (size_t i = 0; i < comm->active_channel_count; i++) {
        struct comm_channel *channel = comm->active_channel[i];
        if (status == STATUS_OK) status = move(channel);
        channel->active = has_work(channel);
        if (channel->active) comm->active_channel[kept++] = channel;
    }
    comm->active_channel_count = kept;
    return status;
}

/* --- posting ------------------------------------------------------------------------------- */

static void keep_pieces(struct comm_request *request, const struct comm_piece *pieces, int count) {
    if (count > request->piece_capacity) {
        int capacity = request->piece_capacity ? request->piece_capacity : 1;
        while (capacity < count) capacity *= 2;
        request->piece =
            arena_new(&request->comm->arena, (size_t)capacity * sizeof *request->piece);
        request->piece_capacity = capacity;
    }
    if (count) memcpy(request->piece, pieces, (size_t)count * sizeof *pieces);
    request->piece_count = count;
}

static enum status post(struct comm_channel *channel, enum comm_side side, int64_t bytes,
                        const struct comm_piece *pieces, int count, struct comm_request **out) {
    struct comm *comm = channel->comm;
    struct comm_queue *queue = &channel->queue[side];
    struct comm_request wanted = {.comm = comm,
                                  .channel = channel,
                                  .kind = side == COMM_SENDER ? COMM_SEND : COMM_RECEIVE,
                                  .sequence = queue->posted + 1,
                                  .count = bytes};
    TRY(comm_check(comm));
    TRY(comm_starts(&wanted));
    struct comm_request *request = comm_request_new(&wanted);
    keep_pieces(request, pieces, count);
    queue->posted++;
    if (queue->last)
        queue->last->next = request;
    else
        queue->first = request;
    queue->last = request;
    if (comm->ops->poll) comm->ops->poll(comm);
    TRY(comm->failed = move(channel));
    leave_to_progress(channel);
    *out = request;
    return STATUS_OK;
}

enum status comm_channel_post_send(struct comm_channel *channel, const struct comm_piece *pieces,
                                   int count, struct comm_request **out) {
    struct comm *comm = channel->comm;
    size_t left = channel->bytes;
    PROGRESS_THREAD_GUARD(comm);
    CHECK(comm->rank == channel->from, "rank %d sends on a channel of rank %d", comm->rank,
          channel->from);
    for (int i = 0; i < count; i++) {
        CHECK(pieces[i].bytes <= left, "a message on channel %d has more than %zu bytes",
              channel->kind, channel->bytes);
        left -= pieces[i].bytes;
    }
    size_t bytes = channel->bytes - left;
    TRY(post(channel, COMM_SENDER, (int64_t)bytes, pieces, count, out));
    if (channel->from != channel->to) comm->sent_bytes += bytes;
    return STATUS_OK;
}

enum status comm_channel_post_receive(struct comm_channel *channel, struct comm_request **out) {
    struct comm *comm = channel->comm;
    PROGRESS_THREAD_GUARD(comm);
    CHECK(comm->rank == channel->to, "rank %d receives on a channel of rank %d", comm->rank,
          channel->to);
    return post(channel, COMM_RECEIVER, 0, NULL, 0, out);
}

void *comm_channel_message(struct comm_channel *channel, uint64_t number, size_t *bytes) {
    struct comm *comm = channel->comm;
    struct ring_head head;
    PROGRESS_THREAD_GUARD(comm);
    CHECK(number > channel->released && number <= channel->queue[COMM_RECEIVER].done,
          "message %llu of channel %d: %llu were received, %llu released",
          (unsigned long long)number, channel->kind,
          (unsigned long long)channel->queue[COMM_RECEIVER].done,
          (unsigned long long)channel->released);
    void *message = comm->ops->message(channel, number, &head);
    if (bytes) *bytes = (size_t)head.bytes;
    return message;
}

enum status comm_channel_release(struct comm_channel *channel) {
    struct comm *comm = channel->comm;
    PROGRESS_THREAD_GUARD(comm);
    TRY(comm_check(comm));
    CHECK(channel->released < channel->queue[COMM_RECEIVER].done,
          "channel %d: no message to release", channel->kind);
    channel->released++;
    comm->ops->release(channel);
    leave_to_progress(channel);
    return STATUS_OK;
}

/* --- blocking ------------------------------------------------------------------------------ */

enum status comm_channel_send(struct comm_channel *channel, const void *data) {
    struct comm_request *request;
    TRY(comm_channel_post_send(channel, &(struct comm_piece){data, channel->bytes}, 1, &request));
    return comm_wait(&request);
}

enum status comm_channel_receive(struct comm_channel *channel, void **data) {
    struct comm_request *request;
    TRY(comm_channel_post_receive(channel, &request));
    uint64_t number = comm_request_sequence(request);
    TRY(comm_wait(&request));
    *data = comm_channel_message(channel, number, NULL);
    return STATUS_OK;
}
