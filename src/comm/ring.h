/* A ring of messages of one size between one sender and one receiver, in memory that both see. The
 * receiver owns the buffers; a sender without credit is told so. No waiting, no waking. Local.
 *
 * Counters only grow: `head` messages were sent, `tail` released. Each has a cache line of its own,
 * since each is written by one side and read by the other. */
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
    _Alignas(RING_ALIGN) char buffer[];       /* slots, each rounded up to RING_ALIGN */
};

/* Bytes a ring needs. It begins as zeroes. */
size_t ring_bytes(size_t message_bytes, int slots);

/* Sender: a free buffer, or NULL; then publish. */
void *ring_reserve(struct ring *ring, size_t message_bytes, int slots);
void ring_publish(struct ring *ring);
/* Receiver: the oldest message, or NULL; then release. */
void *ring_oldest(struct ring *ring, size_t message_bytes, int slots);
void ring_release(struct ring *ring);

#endif
