/* Channels over messages. The receiver offers one buffer a slot, in order, and tells how many it
 * has released; while that message is on its way, further releases wait for the next one, so that a
 * release never blocks. The sender copies a message aside, so that it is done when it has a credit
 * and the rank's data may be reused at once; only its used part is sent, and its length is that of
 * the message that came. (Rejected: sending from where the data is. A rank would keep activations
 * until the network has taken them, and pieces would need a message each.)
 *
 * Where the sender sees the receiver's heap (ranks of one host, with hosts, and a rank and itself)
 * the buffers are a ring there, as in shm: the sender copies straight into it, and messages are
 * empty, to wake the other.
 *
 * The ends tell one another what they declared; the receiver offers no buffer before the two agree,
 * so a message of another length finds none, and nothing is written into a neighbour's heap. */

#include "comm/p2p.h"
#include "comm/ring.h"

enum { ALIGN = 64 };

struct end {
    uint64_t moved;    /* sender: messages sent; receiver: messages offered a buffer */
    uint64_t released; /* sender: credits that came back; receiver: given back */
    struct ring *ring; /* that both see, or NULL; then: */
    char *buffer;
    size_t stride;
    struct p2p_transfer *data; /* of each slot */
    uint32_t mine, other;
    struct p2p_transfer told, heard, credit;
    uint64_t credit_word; /* the last credits that came, or were sent: `released` then */
};

static uint32_t stream_of(const struct comm_channel *channel, int what) {
    return ((uint32_t)(channel->index + 1) * 4 + (uint32_t)what) * 2 + 1;
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
    end->credit.done = true;
    transport->ops->receive(transport, peer_of(channel), stream, &end->other, sizeof end->other,
                            &end->heard);
    transport->ops->send(transport, peer_of(channel), stream, &end->mine, sizeof end->mine,
                         &end->told);
    if (is_sender(channel)) await_credit(channel, transport);
}

/* To itself: no messages. */
static bool is_inside(const struct comm_channel *channel) {
    return channel->from == channel->to;
}

static size_t stride_of(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* What p2p_channel_new takes of the system. */
static size_t end_bytes(enum comm_side side, bool near, size_t bytes, size_t slots) {
    size_t each = sizeof(struct p2p_transfer);
    if (side == COMM_SENDER && !near) each += stride_of(bytes);
    return sizeof(struct end) + slots * each;
}

size_t p2p_channel_overhead(enum comm_side side, bool same_host, size_t bytes, int slots) {
    (void)same_host;
    return end_bytes(side, false, bytes, (size_t)slots);
}

size_t p2p_near_channel_overhead(enum comm_side side, bool same_host, size_t bytes, int slots) {
    return end_bytes(side, same_host, bytes, (size_t)slots);
}

static void find_buffers(const struct comm_channel *channel, struct end *end) {
    struct p2p *p2p = p2p_of(channel->comm);
    char *heap = p2p->heap[channel->to];
    end->stride = stride_of(channel->bytes);
    if (p2p->host[channel->from] == p2p->host[channel->to])
        end->ring = (struct ring *)(heap + channel->offset);
    else if (p2p->comm.rank == channel->to)
        end->buffer = heap + channel->offset; /* no more than a ring needs */
    else
        end->buffer = p2p_own(p2p, (size_t)channel->slots, end->stride);
}

enum status p2p_channel_new(struct comm_channel *channel) {
    struct p2p *p2p = p2p_of(channel->comm);
    size_t slots = (size_t)channel->slots;
    if (p2p->comm.rank != channel->from && p2p->comm.rank != channel->to) return STATUS_OK;
    struct end *end = channel->state = p2p_own(p2p, 1, sizeof *end);
    end->data = p2p_own(p2p, slots, sizeof *end->data);
    for (size_t i = 0; i < slots; i++) end->data[i].done = true;
    find_buffers(channel, end);
    if (!is_inside(channel)) declare(channel, p2p->transport);
    return STATUS_OK;
}

void p2p_poll(struct comm *comm) {
    struct p2p_transport *transport = p2p_of(comm)->transport;
    transport->ops->progress(transport);
}

static enum status check_ends(struct comm_channel *channel) {
    const struct end *end = channel->state;
    if (channel->agreed || !end->heard.done) return STATUS_OK;
    if (end->other != end->mine) return comm_channel_misfit(channel);
    channel->agreed = true;
    return STATUS_OK;
}

/* --- sending --------------------------------------------------------------------------------- */

static void take_credits(struct comm_channel *channel) {
    struct end *end = channel->state;
    while (end->credit.done) {
        end->released = end->credit_word;
        await_credit(channel, p2p_of(channel->comm)->transport);
    }
}

/* A free buffer, or NULL. Nothing is written into a neighbour's heap before the ends agree. */
static char *reserve(const struct comm_channel *channel) {
    const struct end *end = channel->state;
    if (!data_of(channel, end->moved)->done) return NULL;
    if (end->ring && !is_inside(channel) && !channel->agreed) return NULL;
    if (end->ring) return ring_reserve(end->ring, channel->bytes, channel->slots);
    return end->moved - end->released < (uint64_t)channel->slots ? slot(channel, end->moved) : NULL;
}

static void publish(struct comm_channel *channel, const struct comm_request *message) {
    struct p2p_transport *transport = p2p_of(channel->comm)->transport;
    struct end *end = channel->state;
    struct ring_head head = {(uint64_t)message->count, message->start_ns};
    if (end->ring) ring_publish(end->ring, &head, channel->slots);
    if (!is_inside(channel))
        transport->ops->send(transport, channel->to, stream_of(channel, P2P_DATA),
                             end->ring ? NULL : slot(channel, end->moved),
                             end->ring ? 0 : head.bytes, data_of(channel, end->moved));
    end->moved++;
}

enum status p2p_try_send(struct comm_channel *channel, const struct comm_request *message,
                         bool *sent) {
    if (!is_inside(channel)) {
        TRY(check_ends(channel));
        take_credits(channel);
    }
    char *buffer = reserve(channel);
    *sent = buffer != NULL;
    if (!buffer)
        return p2p_check_gone(p2p_of(channel->comm), is_inside(channel) ? -1 : channel->to);
    comm_copy_pieces(message, buffer);
    publish(channel, message);
    return STATUS_OK;
}

/* --- receiving ------------------------------------------------------------------------------- */

/* A slot is offered once its last message was released, from the start all of them. */
static void offer(struct comm_channel *channel) {
    struct p2p_transport *transport = p2p_of(channel->comm)->transport;
    struct end *end = channel->state;
    for (; end->moved < end->released + (uint64_t)channel->slots; end->moved++)
        transport->ops->receive(transport, channel->from, stream_of(channel, P2P_DATA),
                                end->ring ? NULL : slot(channel, end->moved),
                                end->ring ? 0 : channel->bytes, data_of(channel, end->moved));
}

enum status p2p_try_receive(struct comm_channel *channel, uint64_t number, bool *come) {
    struct end *end = channel->state;
    if (!is_inside(channel)) {
        TRY(check_ends(channel));
        if (channel->agreed) offer(channel);
    }
    *come = number <= end->moved && data_of(channel, number - 1)->done &&
            (!end->ring || ring_has(end->ring, number));
    if (*come || is_inside(channel)) return STATUS_OK;
    return p2p_check_gone(p2p_of(channel->comm), channel->from);
}

/* Clocks of hosts differ: when a message began to move is told inside one only. */
void *p2p_message(struct comm_channel *channel, uint64_t number, struct ring_head *head) {
    const struct end *end = channel->state;
    if (end->ring) return ring_message(end->ring, number, channel->bytes, channel->slots, head);
    *head = (struct ring_head){.bytes = data_of(channel, number - 1)->bytes};
    return slot(channel, number - 1);
}

/* --- credits and what is on its way ---------------------------------------------------------- */

/* Whether credits are still on their way. */
static bool give_credits(struct comm_channel *channel) {
    struct p2p_transport *transport = p2p_of(channel->comm)->transport;
    struct end *end = channel->state;
    if (end->credit.done && end->credit_word != end->released) {
        end->credit_word = end->released;
        transport->ops->send(transport, channel->from, stream_of(channel, P2P_CREDIT),
                             &end->credit_word, sizeof end->credit_word, &end->credit);
    }
    return !end->credit.done;
}

bool p2p_settle(struct comm_channel *channel) {
    const struct end *end = channel->state;
    if (is_inside(channel)) return false;
    if (!is_sender(channel)) return give_credits(channel);
    int i = 0;
    while (i < channel->slots && end->data[i].done) i++;
    return i < channel->slots;
}

/* The credit is given by settle, which follows. */
void p2p_release(struct comm_channel *channel) {
    struct end *end = channel->state;
    end->released++;
    if (end->ring) ring_release(end->ring);
    if (!is_inside(channel)) offer(channel);
}
