/* Channels on every communicator: order, credits, blocking, both directions at once, sizes that are
 * no multiple of anything; and that what does not fit is refused: a channel on all ranks. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "trial.h"

static void run(enum trial_mode mode, int size, void (*body)(struct trial *, struct comm *),
                size_t heap_bytes) {
    struct trial trial = {
        .mode = mode, .size = size, .heap_bytes = heap_bytes, .body = body, .killed = -1};
    const char *failure = trial_run(&trial);
    cr_assert(!failure, "%s", failure);
}

/* On every communicator whose ranks are processes, from this mode on. */
static void run_from(int first, int size, void (*body)(struct trial *, struct comm *),
                     size_t heap_bytes) {
    for (int mode = first; mode < TRIAL_MODE_COUNT; mode++)
        if (trial_mode_there((enum trial_mode)mode))
            run((enum trial_mode)mode, size, body, heap_bytes);
}

static void run_processes(int size, void (*body)(struct trial *, struct comm *),
                          size_t heap_bytes) {
    run_from(TRIAL_PROCESSES, size, body, heap_bytes);
}

enum { MESSAGES = 10000, BYTES = 100, SLOTS = 3 };

static void message(int kind, int number, unsigned char out[BYTES]) {
    for (int i = 0; i < BYTES; i++) out[i] = (unsigned char)(number * 13 + i * 7 + kind);
    memcpy(out, &number, sizeof number);
}

/* Each sends to the next and receives from the one before, so all wait for one another. */
static void circle_body(struct trial *trial, struct comm *comm) {
    int size = trial->size, rank = comm_rank(comm);
    int messages =
        trial->mode < TRIAL_UCX ? MESSAGES : MESSAGES / 5; /* each a trip to the kernel */
    struct comm_channel *channel[TRIAL_MOST];
    unsigned char given[BYTES], expected[BYTES];
    for (int r = 0; r < size; r++)
        NEED(comm_channel_new(comm, r, (r + 1) % size, r, BYTES, SLOTS, &channel[r]) == STATUS_OK);
    struct comm_channel *out = channel[rank], *in = channel[(rank + size - 1) % size];
    for (int number = 0; number < messages; number++) {
        void *data = NULL;
        message(rank, number, given);
        NEED(comm_channel_send(out, given) == STATUS_OK);
        memset(given, 0, sizeof given); /* reused at once */
        NEED(comm_channel_receive(in, &data) == STATUS_OK);
        message((rank + size - 1) % size, number, expected);
        NEED(memcmp(data, expected, BYTES) == 0);
        NEED(comm_channel_release(in) == STATUS_OK);
    }
    NEED(comm_sent_bytes(comm) == (size > 1 ? (uint64_t)messages * BYTES : 0));
}

Test(comm_channels, ten_thousand_messages_around_a_circle_of_threads) {
    run(TRIAL_SELF, 1, circle_body, 4096);
    for (int size = 1; size <= 4; size++) run(TRIAL_THREADS, size, circle_body, 4096);
}

Test(comm_channels, ten_thousand_messages_around_a_circle_of_processes) {
    for (int size = 1; size <= 4; size++) run(TRIAL_PROCESSES, size, circle_body, 4096);
}

Test(comm_channels, messages_around_a_circle_of_wires) {
    for (int size = 1; size <= 4; size++) run_from(TRIAL_UCX, size, circle_body, 4096);
}

/* A fast sender, a slow receiver: blocked by credits, nothing lost. */
static void stream_body(struct trial *trial, struct comm *comm) {
    struct comm_channel *channel;
    unsigned char given[BYTES], expected[BYTES];
    NEED(comm_channel_new(comm, 0, 1, 5, BYTES, SLOTS, &channel) == STATUS_OK);
    for (int number = 0; number < MESSAGES; number++) {
        void *data = NULL;
        message(5, number, comm_rank(comm) == 0 ? given : expected);
        if (comm_rank(comm) == 0) {
            NEED(comm_channel_send(channel, given) == STATUS_OK);
            atomic_store(&trial->shared->note[0], number + 1);
        } else {
            NEED(comm_channel_receive(channel, &data) == STATUS_OK);
            /* Not released yet: the sender is at most SLOTS ahead. */
            NEED(atomic_load(&trial->shared->note[0]) <= number + SLOTS);
            NEED(memcmp(data, expected, BYTES) == 0);
            NEED(comm_channel_release(channel) == STATUS_OK);
        }
    }
}

Test(comm_channels, a_sender_runs_ahead_by_its_credits_only) {
    run(TRIAL_THREADS, 2, stream_body, 4096);
    run_processes(2, stream_body, 4096);
}

/* One more than there are credits: the last one is done by a release, and no other. */
static void credits_body(struct trial *trial, struct comm *comm) {
    struct comm_channel *channel;
    struct comm_group *world = comm_world(comm);
    struct comm_request *request[SLOTS + 1] = {NULL};
    int value[SLOTS + 1], last = trial->size - 1, rank = comm_rank(comm);
    NEED(comm_channel_new(comm, 0, last, 0, sizeof(int), SLOTS, &channel) == STATUS_OK);
    NEED(comm_barrier(world) == STATUS_OK);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i <= SLOTS && rank == 0; i++) {
            value[i] = turn * 100 + i;
            struct comm_piece piece = {&value[i], sizeof value[i]};
            NEED(comm_channel_post_send(channel, &piece, 1, &request[i]) == STATUS_OK);
        }
        NEED(comm_barrier(world) == STATUS_OK);
        for (int i = 0; i <= SLOTS && rank == 0; i++) {
            bool done;
            NEED(comm_test(&request[i], &done) == STATUS_OK && done == (i < SLOTS));
        }
        NEED(comm_barrier(world) == STATUS_OK);
        for (int i = 0; i <= SLOTS && rank == last; i++) {
            void *data;
            int got;
            NEED(comm_channel_receive(channel, &data) == STATUS_OK && (uintptr_t)data % 64 == 0);
            memcpy(&got, data, sizeof got);
            NEED(got == turn * 100 + i);
            NEED(comm_channel_release(channel) == STATUS_OK);
        }
        NEED(comm_wait(&request[SLOTS]) == STATUS_OK);
        NEED(comm_barrier(world) == STATUS_OK);
    }
}

Test(comm_channels, credits_are_counted) {
    run(TRIAL_SELF, 1, credits_body, 4096);
    run(TRIAL_THREADS, 3, credits_body, 4096);
    run_processes(3, credits_body, 4096);
}

/* --- the heap ------------------------------------------------------------------------------ */

/* Buffers of channels are the receiver's alone, but every rank refuses what one cannot hold. What a
 * rank takes of its heap concerns nobody else. */
static void full_body(struct trial *trial, struct comm *comm) {
    struct comm_channel *channel, *none = NULL;
    void *data = NULL, *more = NULL;
    int last = trial->size - 1;
    size_t own = comm_rank(comm) == last ? 45000 : 50000;
    NEED(comm_alloc(comm, own, "most of it", &data) == STATUS_OK);
    NEED(comm_channel_new(comm, 0, last, 0, 1000, 40, &channel) == STATUS_OK);
    NEED(comm_channel_new(comm, 0, last, 1, 1000, 30, &none) == STATUS_MEMORY && !none);
    NEED(comm_channel_new(comm, 0, last, 1, SIZE_MAX / 2, 20, &none) == STATUS_MEMORY && !none);
    NEED(comm_alloc(comm, 20000, "the rest", &more) == STATUS_MEMORY && !more);
    NEED(comm_alloc(comm, SIZE_MAX, "everything", &more) == STATUS_MEMORY && !more);
    NEED(comm_alloc(comm, 1000, "a little", &more) == STATUS_OK);
    for (int i = 0; i < 1000; i++) NEED(((char *)more)[i] == 0);
    memset(data, 255, own);
    if (last > 0) NEED(comm_channel_new(comm, last, 0, 2, 50000, 1, &channel) == STATUS_OK);
    if (last > 0) NEED(comm_channel_new(comm, 0, last, 3, 10000, 1, &channel) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_channels, what_does_not_fit_is_refused) {
    char text[4096];
    log_capture(text, sizeof text);
    run(TRIAL_SELF, 1, full_body, 60000);
    cr_expect(strstr(text, "out of memory") && strstr(text, "heap"), "%s", text);
    log_capture(NULL, 0);
    run_processes(3, full_body, 60000);
}

Test(comm_channels, an_impossible_heap_is_refused) {
    char text[4096] = "";
    struct comm *comm[2] = {NULL};
    struct comm_config config = {.rank = 0, .size = 1, .heap_bytes = (size_t)1 << 60};
    log_capture(text, sizeof text);
    cr_expect(comm_open_threads(2, (size_t)1 << 60, 0, comm) == STATUS_MEMORY && !comm[0]);
    cr_expect(comm_open_threads(2, 0, (size_t)1 << 60, comm) == STATUS_MEMORY && !comm[0]);
    cr_expect(strstr(text, "out of memory"), "%s", text);
    cr_expect(comm_open("shm", &config, comm) == STATUS_MEMORY && !comm[0]);
    cr_expect(comm_open("self", &config, comm) == STATUS_MEMORY && !comm[0]);
    config.heap_bytes = SIZE_MAX;
    cr_expect(comm_open("self", &config, comm) == STATUS_MEMORY && !comm[0]);
    cr_expect(comm_open("shm", &config, comm) == STATUS_MEMORY && !comm[0]);
    log_capture(NULL, 0);
}
