/* Channels over messages. The sender copies a message aside, so that its data may be reused at
 * once; the receiver offers one buffer a slot, in order, and sends a credit for each one released.
 *
 * The ends tell one another what they declared; the receiver offers no buffer before the two agree,
 * so a message of another length finds none. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "comm/p2p.h"

enum { ALIGN = 64 };

struct end {
    uint64_t moved;    /* sender: messages sent; receiver: messages offered a buffer */
    uint64_t released; /* sender: credits that came back; receiver: given back */
    char *buffer;
    size_t stride;
    struct p2p_transfer *data; /* of each slot */
    uint32_t mine, other;
    uint64_t credit_word; /* sender */
    struct p2p_transfer told, heard, credit, *credit_sent;
    uint64_t *credit_out; /* receiver: of each slot */
};

static uint32_t stream_of(const struct comm_channel *channel, int what) {
    return (channel->index * 4 + (uint32_t)what) * 2 + 1;
}

static bool is_sender(const struct comm_channel *channel) {
    return channel->comm->rank == channel->from;
}

static int peer_of(const struct comm_channel *channel) {
    return is_sender(channel) ? channel->to : channel->from;
}

static char *slot(const struct comm_channel *channel, uint64_t number) {
    const struct end *end = channel->state;
    return end->buffer + end->stride * (number % (uint64_t)channel->slots);
}

static struct p2p_transfer *data_of(const struct comm_channel *channel, uint64_t number) {
    return &((struct end *)channel->state)->data[number % (uint64_t)channel->slots];
}

static void await_credit(struct comm_channel *channel, struct p2p_transport *transport) {
    struct end *end = channel->state;
    transport->ops->receive(transport, channel->to, stream_of(channel, P2P_CREDIT),
                            &end->credit_word, sizeof end->credit_word, &end->credit);
}

static void declare(struct comm_channel *channel, struct p2p_transport *transport) {
    struct end *end = channel->state;
    uint32_t stream = stream_of(channel, P2P_DECLARED);
    end->mine = channel->hash;
    transport->ops->receive(transport, peer_of(channel), stream, &end->other, sizeof end->other,
                            &end->heard);
    transport->ops->send(transport, peer_of(channel), stream, &end->mine, sizeof end->mine,
                         &end->told);
    if (is_sender(channel)) await_credit(channel, transport);
}

/* To itself: one buffer serves both ends. */
static bool is_inside(const struct comm_channel *channel) {
    return channel->from == channel->to;
}

/* The receiver's buffers are in its heap, behind the head of a ring that is not needed here. */
enum status p2p_channel_new(struct comm_channel *channel) {
    struct p2p *p2p = p2p_of(channel->comm);
    channel->index = p2p->channel_count++;
    if (p2p->comm.rank != channel->from && p2p->comm.rank != channel->to) return STATUS_OK;
    size_t slots = (size_t)channel->slots, stride = (channel->bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct end *end = channel->state = p2p_own(p2p, 1, sizeof *end);
    end->stride = stride;
    end->data = p2p_own(p2p, slots, sizeof *end->data);
    for (size_t i = 0; i < slots; i++) end->data[i].done = true;
    if (p2p->comm.rank == channel->to) {
        end->buffer = p2p->comm.heap + channel->offset;
        end->credit_out = p2p_own(p2p, slots, sizeof *end->credit_out);
        end->credit_sent = p2p_own(p2p, slots, sizeof *end->credit_sent);
        for (size_t i = 0; i < slots; i++) end->credit_sent[i].done = true;
    } else {
        end->buffer = p2p_own(p2p, slots, stride);
    }
    if (!is_inside(channel)) declare(channel, p2p->transport);
    return STATUS_OK;
}

static enum status check_ends(struct comm_channel *channel) {
    const struct end *end = channel->state;
    if (!end->heard.done) return STATUS_OK;
    if (end->other != end->mine) return comm_channel_misfit(channel);
    channel->agreed = true;
    return STATUS_OK;
}

static enum status look(struct comm_channel *channel) {
    struct p2p *p2p = p2p_of(channel->comm);
    p2p->transport->ops->progress(p2p->transport);
    return channel->agreed ? STATUS_OK : check_ends(channel);
}

/* --- sending --------------------------------------------------------------------------------- */

static void take_credits(struct comm_channel *channel) {
    struct end *end = channel->state;
    while (end->credit.done) {
        end->released = end->credit_word;
        await_credit(channel, p2p_of(channel->comm)->transport);
    }
}

enum status p2p_try_send(struct comm_channel *channel, const void *data, bool *sent) {
    struct p2p *p2p = p2p_of(channel->comm);
    struct end *end = channel->state;
    bool inside = is_inside(channel);
    if (!inside) {
        TRY(look(channel));
        take_credits(channel);
    }
    *sent =
        end->moved - end->released < (uint64_t)channel->slots && data_of(channel, end->moved)->done;
    if (!*sent) return p2p_check_gone(p2p, inside ? -1 : channel->to);
    if (channel->bytes) memcpy(slot(channel, end->moved), data, channel->bytes);
    if (!inside)
        p2p->transport->ops->send(p2p->transport, channel->to, stream_of(channel, P2P_DATA),
                                  slot(channel, end->moved), channel->bytes,
                                  data_of(channel, end->moved));
    end->moved++;
    return STATUS_OK;
}

/* --- receiving ------------------------------------------------------------------------------- */

/* A slot is offered once its last message was released, from the start all of them. */
static void offer(struct comm_channel *channel) {
    struct p2p_transport *transport = p2p_of(channel->comm)->transport;
    struct end *end = channel->state;
    for (; end->moved < end->released + (uint64_t)channel->slots; end->moved++)
        transport->ops->receive(transport, channel->from, stream_of(channel, P2P_DATA),
                                slot(channel, end->moved), channel->bytes,
                                data_of(channel, end->moved));
}

enum status p2p_try_receive(struct comm_channel *channel, void **data) {
    struct end *end = channel->state;
    *data = NULL;
    if (!is_inside(channel)) {
        TRY(look(channel));
        if (channel->agreed) offer(channel);
    }
    if (end->moved > end->released && data_of(channel, end->released)->done)
        *data = slot(channel, end->released);
    else
        return p2p_check_gone(p2p_of(channel->comm), is_inside(channel) ? -1 : channel->from);
    return STATUS_OK;
}

/* Whether the last credit of the slot released just now has left. */
static enum status credit_ready(void *object, bool *out) {
    struct comm_channel *channel = object;
    struct p2p *p2p = p2p_of(channel->comm);
    const struct end *end = channel->state;
    p2p->transport->ops->progress(p2p->transport);
    *out = end->credit_sent[(end->released - 1) % (uint64_t)channel->slots].done;
    return *out ? STATUS_OK : p2p_check_gone(p2p, channel->from);
}

static int credit_whom(void *object, char text[COMM_TEXT_BYTES]) {
    const struct comm_channel *channel = object;
    snprintf(text, COMM_TEXT_BYTES, "credit on channel %d to rank %d", channel->kind,
             channel->from);
    return channel->from;
}

/* The slot's last credit has long left when its next message is released: that message was sent for
 * it. */
enum status p2p_release(struct comm_channel *channel) {
    struct p2p_transport *transport = p2p_of(channel->comm)->transport;
    struct comm_subject subject = {channel, credit_ready, credit_whom};
    struct end *end = channel->state;
    uint64_t at = end->released % (uint64_t)channel->slots;
    CHECK(end->moved > end->released && data_of(channel, end->released)->done,
          "no message to release");
    end->released++;
    if (is_inside(channel)) return STATUS_OK;
    offer(channel);
    if (!end->credit_sent[at].done) TRY(comm_await(channel->comm, &subject));
    end->credit_out[at] = end->released;
    transport->ops->send(transport, channel->from, stream_of(channel, P2P_CREDIT),
                         &end->credit_out[at], sizeof end->credit_out[at], &end->credit_sent[at]);
    return STATUS_OK;
}
