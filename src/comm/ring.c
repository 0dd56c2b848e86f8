/* Counters are sequentially consistent: the table that uses a ring looks, after changing one,
 * whether the other side sleeps, and the sleeper announces itself before it looks at the counters;
 * with anything weaker both could miss one another. */
#include "comm/ring.h"

#include "base/log.h"

static size_t round_up(size_t bytes) {
    return (bytes + RING_ALIGN - 1) / RING_ALIGN * RING_ALIGN;
}

static size_t heads_bytes(int slots) {
    return round_up((size_t)slots * sizeof(struct ring_head));
}

size_t ring_bytes(size_t message_bytes, int slots) {
    return sizeof(struct ring) + heads_bytes(slots) + round_up(message_bytes) * (size_t)slots;
}

/* Of the message after `before` others. */
static void *slot(struct ring *ring, uint64_t before, size_t message_bytes, int slots) {
    return ring->buffer + heads_bytes(slots) + round_up(message_bytes) * (before % (uint64_t)slots);
}

static struct ring_head *head_of(struct ring *ring, uint64_t before, int slots) {
    return &((struct ring_head *)ring->buffer)[before % (uint64_t)slots];
}

void *ring_reserve(struct ring *ring, size_t message_bytes, int slots) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - atomic_load(&ring->tail) >= (uint64_t)slots) return NULL;
    return slot(ring, head, message_bytes, slots);
}

void ring_publish(struct ring *ring, const struct ring_head *head, int slots) {
    *head_of(ring, atomic_load_explicit(&ring->head, memory_order_relaxed), slots) = *head;
    atomic_fetch_add(&ring->head, 1);
}

bool ring_has(struct ring *ring, uint64_t number) {
    return atomic_load(&ring->head) >= number;
}

void *ring_message(struct ring *ring, uint64_t number, size_t message_bytes, int slots,
                   struct ring_head *head) {
    *head = *head_of(ring, number - 1, slots);
    return slot(ring, number - 1, message_bytes, slots);
}

void ring_release(struct ring *ring) {
    CHECK(atomic_load(&ring->head) != atomic_load(&ring->tail), "no message to release");
    atomic_fetch_add(&ring->tail, 1);
}
