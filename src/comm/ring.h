/* A ring of messages between one sender and one receiver, in memory that both see; none is longer
 * than message_bytes. The receiver owns the buffers; a sender without credit is told so. No
 * waiting, no waking. Local.
 *
 * Counters only grow: `head` messages were sent, `tail` released. Each has a cache line of its own,
 * since each is written by one side and read by the other. Messages are numbered from 1. */
#ifndef COMM_RING_H
#define COMM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RING_ALIGN = 64 };

struct ring {
    _Alignas(RING_ALIGN) _Atomic uint64_t head;
    _Alignas(RING_ALIGN) _Atomic uint64_t tail;
    _Alignas(
        RING_ALIGN) _Atomic uint32_t hash[2]; /* what sender and receiver declared; 0: not yet */
    _Alignas(RING_ALIGN) char buffer[]; /* heads of the slots, then the slots, all rounded up to
                                           RING_ALIGN */
};

/* What is known of a message besides its data. */
struct ring_head {
    uint64_t bytes;
    int64_t start_ns; /* when its sender began to copy it, by the clock of the host; 0: not known */
};

/* Bytes a ring needs. It begins as zeroes. */
size_t ring_bytes(size_t message_bytes, int slots);

/* Sender: a free buffer, or NULL; then publish, with what is known of its message. */
void *ring_reserve(struct ring *ring, size_t message_bytes, int slots);
void ring_publish(struct ring *ring, const struct ring_head *head, int slots);
/* Receiver: whether message `number` has come; where it is, until it is released; and release of
 * the oldest. */
bool ring_has(struct ring *ring, uint64_t number);
void *ring_message(struct ring *ring, uint64_t number, size_t message_bytes, int slots,
                   struct ring_head *head);
void ring_release(struct ring *ring);

#endif
