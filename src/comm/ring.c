/* Counters are sequentially consistent: the table that uses a ring looks, after changing one,
 * whether the other side sleeps, and the sleeper announces itself before it looks at the counters;
 * with anything weaker both could miss one another. */
#include "comm/ring.h"

#include "base/log.h"

static size_t slot_bytes(size_t message_bytes) {
    return (message_bytes + RING_ALIGN - 1) / RING_ALIGN * RING_ALIGN;
}

size_t ring_bytes(size_t message_bytes, int slots) {
    return sizeof(struct ring) + slot_bytes(message_bytes) * (size_t)slots;
}

static void *slot(struct ring *ring, uint64_t number, size_t message_bytes, int slots) {
    return ring->buffer + slot_bytes(message_bytes) * (number % (uint64_t)slots);
}

void *ring_reserve(struct ring *ring, size_t message_bytes, int slots) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - atomic_load(&ring->tail) >= (uint64_t)slots) return NULL;
    return slot(ring, head, message_bytes, slots);
}

void ring_publish(struct ring *ring) {
    atomic_fetch_add(&ring->head, 1);
}

void *ring_oldest(struct ring *ring, size_t message_bytes, int slots) {
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (atomic_load(&ring->head) == tail) return NULL;
    return slot(ring, tail, message_bytes, slots);
}

void ring_release(struct ring *ring) {
    CHECK(atomic_load(&ring->head) != atomic_load(&ring->tail), "no message to release");
    atomic_fetch_add(&ring->tail, 1);
}
