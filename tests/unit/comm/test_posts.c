/* Sends and receives that are posted on channels: order, content and lengths with many on their way
 * and few credits; ranks that wait for different things; pieces; a rank that sends to itself; what
 * watchers see; and the memory it takes. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "trial.h"

static void run(struct trial trial) {
    const char *failure = trial_run(&trial);
    cr_assert(!failure, "%s", failure);
}

/* On every communicator that this build has, for all sizes from `least` to `most` that it can be.
 */
static void run_sizes(int least, int most, void (*body)(struct trial *, struct comm *),
                      size_t bytes) {
    for (int mode = TRIAL_SELF; mode < TRIAL_MODE_COUNT; mode++)
        for (int size = least; size <= (mode == TRIAL_SELF ? 1 : most); size++)
            if (trial_mode_there((enum trial_mode)mode))
                run((struct trial){.mode = (enum trial_mode)mode,
                                   .size = size,
                                   .heap_bytes = bytes,
                                   .body = body,
                                   .killed = -1});
}

/* --- order, content, length ------------------------------------------------------------------ */

enum { MANY = 100, BYTES = 20000, SLOTS = 2, PIECES = 3 };

/* Of message `number`, in pieces of uneven length, some of them empty. */
static size_t length_of(int number, int piece) {
    return number % 7 == 3 ? 0 : (size_t)(number * 37 + piece * 1001) % (BYTES / PIECES);
}

static unsigned char byte_of(int number, int piece, size_t at) {
    return (unsigned char)((size_t)number * 13 + (size_t)piece * 101 + at * 7);
}

static enum status post_message(struct comm_channel *channel, int number, unsigned char *room,
                                struct comm_request **out) {
    struct comm_piece piece[PIECES];
    for (int p = 0; p < PIECES; p++) {
        size_t bytes = length_of(number, p);
        for (size_t i = 0; i < bytes; i++) room[i] = byte_of(number, p, i);
        piece[p] = (struct comm_piece){bytes ? room : NULL, bytes};
        room += bytes;
    }
    enum status status = comm_channel_post_send(channel, piece, PIECES, out);
    memset(piece, 0xff, sizeof piece); /* the array is copied */
    return status;
}

static bool is_message(struct comm_channel *channel, int number) {
    size_t bytes, at = 0;
    const unsigned char *data = comm_channel_message(channel, (uint64_t)number + 1, &bytes);
    for (int p = 0; p < PIECES; p++)
        for (size_t i = 0; i < length_of(number, p); i++)
            if (at >= bytes || data[at++] != byte_of(number, p, i)) return false;
    return at == bytes && (uintptr_t)data % 64 == 0;
}

/* Rank 0 sends to the last one, all at once; it receives all that were posted at once. */
static void many_body(struct trial *trial, struct comm *comm) {
    struct comm_request *send[MANY] = {NULL}, *receive[MANY] = {NULL};
    struct comm_channel *channel;
    int last = trial->size - 1, rank = comm_rank(comm);
    unsigned char *room;
    uint64_t expected = 0;
    NEED(comm_alloc(comm, MANY * BYTES, "messages", (void **)&room) == STATUS_OK);
    NEED(comm_channel_new(comm, 0, last, 7, BYTES, SLOTS, &channel) == STATUS_OK);
    for (int i = 0; i < MANY && rank == last; i++) {
        NEED(comm_channel_post_receive(channel, &receive[i]) == STATUS_OK);
        NEED(comm_request_sequence(receive[i]) == (uint64_t)i + 1);
    }
    for (int i = 0; i < MANY && rank == 0; i++) {
        NEED(post_message(channel, i, room + (size_t)i * BYTES, &send[i]) == STATUS_OK);
        for (int p = 0; p < PIECES; p++) expected += length_of(i, p);
    }
    for (int i = 0; i < MANY && rank == last; i++) {
        NEED(comm_wait(&receive[i]) == STATUS_OK && !receive[i] && is_message(channel, i));
        NEED(comm_channel_release(channel) == STATUS_OK);
    }
    for (int i = MANY - 1; i >= 0; i--) NEED(comm_wait(&send[i]) == STATUS_OK && !send[i]);
    NEED(comm_sent_bytes(comm) == (last > 0 ? expected : 0));
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_posts, order_content_and_length, .timeout = 120) {
    run_sizes(1, 3, many_body, MANY * BYTES);
}

/* Several messages are held at once, as many as there are slots; each stays where it is. */
static void held_body(struct trial *trial, struct comm *comm) {
    enum { HELD = 4, ROUNDS = 5 };
    struct comm_request *request[2 * HELD] = {NULL};
    struct comm_channel *channel;
    int last = trial->size - 1, rank = comm_rank(comm);
    unsigned char *room;
    NEED(comm_alloc(comm, HELD * BYTES, "messages", (void **)&room) == STATUS_OK);
    NEED(comm_channel_new(comm, 0, last, 7, BYTES, HELD, &channel) == STATUS_OK);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < HELD && rank == 0; i++)
            NEED(post_message(channel, round * HELD + i, room + (size_t)i * BYTES, &request[i]) ==
                 STATUS_OK);
        for (int i = 0; i < HELD && rank == last; i++)
            NEED(comm_channel_post_receive(channel, &request[HELD + i]) == STATUS_OK);
        for (int i = 0; i < 2 * HELD; i++) NEED(comm_wait(&request[i]) == STATUS_OK);
        for (int i = HELD - 1; i >= 0 && rank == last; i--)
            NEED(is_message(channel, round * HELD + i));
        for (int i = 0; i < HELD && rank == last; i++)
            NEED(comm_channel_release(channel) == STATUS_OK);
    }
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_posts, as_many_are_held_as_there_are_slots) {
    run_sizes(1, 3, held_body, 8 * BYTES);
}

/* --- waits for different things -------------------------------------------------------------- */

/* Both post all sends, on channels with one credit each, then receive kind by kind, one rank up and
 * the other down: whoever waits must let its own sends go. */
static void crossed_body(struct trial *trial, struct comm *comm) {
    enum { KINDS = 4, EACH = MANY / KINDS };
    struct comm_channel *channel[2][KINDS];
    struct comm_request *send[KINDS][EACH], *receive;
    int rank = comm_rank(comm), word[KINDS][EACH];
    for (int k = 0; k < 2 * KINDS; k++)
        NEED(comm_channel_new(comm, k % 2, 1 - k % 2, k / 2, sizeof(int), 1,
                              &channel[k % 2][k / 2]) == STATUS_OK);
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < EACH; i++) {
            word[k][i] = rank * 10000 + k * 100 + i;
            struct comm_piece piece = {&word[k][i], sizeof(int)};
            NEED(comm_channel_post_send(channel[rank][k], &piece, 1, &send[k][i]) == STATUS_OK);
        }
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < EACH; i++) {
            int kind = rank ? KINDS - 1 - k : k, got;
            struct comm_channel *in = channel[1 - rank][kind];
            NEED(comm_channel_post_receive(in, &receive) == STATUS_OK);
            NEED(comm_wait(&receive) == STATUS_OK);
            memcpy(&got, comm_channel_message(in, (uint64_t)i + 1, NULL), sizeof got);
            NEED(got == (1 - rank) * 10000 + kind * 100 + i);
            NEED(comm_channel_release(in) == STATUS_OK);
        }
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < EACH; i++) NEED(comm_wait(&send[k][i]) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_posts, ranks_that_wait_for_different_things, .timeout = 120) {
    run_sizes(2, 2, crossed_body, 65536);
}

/* A rank that waits in a collective lets its posted sends go, which the other needs to come there.
 */
static void collective_body(struct trial *trial, struct comm *comm) {
    enum { MESSAGES = 20 };
    struct comm_channel *channel;
    struct comm_request *send[MESSAGES] = {NULL};
    int last = trial->size - 1, word[MESSAGES];
    void *data;
    NEED(comm_channel_new(comm, 0, last, 0, sizeof(int), 1, &channel) == STATUS_OK);
    for (int i = 0; i < MESSAGES && comm_rank(comm) == 0; i++) {
        word[i] = i;
        struct comm_piece piece = {&word[i], sizeof(int)};
        NEED(comm_channel_post_send(channel, &piece, 1, &send[i]) == STATUS_OK);
    }
    for (int i = 0; i < MESSAGES && comm_rank(comm) == last; i++) {
        NEED(comm_channel_receive(channel, &data) == STATUS_OK && memcmp(data, &i, sizeof i) == 0);
        NEED(comm_channel_release(channel) == STATUS_OK);
    }
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    for (int i = 0; i < MESSAGES; i++) NEED(comm_wait(&send[i]) == STATUS_OK);
}

Test(comm_posts, a_collective_lets_sends_go) {
    run_sizes(3, 3, collective_body, 65536);
}

/* Each passes on what it got, so that every message goes once around; receives are posted ahead. */
static void ring_body(struct trial *trial, struct comm *comm) {
    enum { ROUNDS = 50, FLOATS = 3000 };
    int size = trial->size, rank = comm_rank(comm);
    struct comm_channel *channel[TRIAL_MOST];
    struct comm_request *send[2] = {NULL}, *receive = NULL, *next = NULL;
    float *room[2];
    for (int i = 0; i < 2; i++)
        NEED(comm_alloc(comm, FLOATS * sizeof(float), "data", (void **)&room[i]) == STATUS_OK);
    for (int r = 0; r < size; r++)
        NEED(comm_channel_new(comm, r, (r + 1) % size, r, FLOATS * sizeof(float), SLOTS,
                              &channel[r]) == STATUS_OK);
    struct comm_channel *out = channel[rank], *in = channel[(rank + size - 1) % size];
    for (int i = 0; i < FLOATS; i++) room[0][i] = trial_value(rank, i);
    NEED(comm_channel_post_receive(in, &receive) == STATUS_OK);
    for (int round = 0; round < ROUNDS; round++) {
        int from = (rank + (round + 1) * (size - 1)) % size, at = (round + 1) % 2;
        struct comm_piece piece = {room[round % 2], FLOATS * sizeof(float)};
        NEED(comm_channel_post_send(out, &piece, 1, &send[round % 2]) == STATUS_OK);
        if (round + 1 < ROUNDS) NEED(comm_channel_post_receive(in, &next) == STATUS_OK);
        NEED(comm_wait(&receive) == STATUS_OK);
        NEED(comm_wait(&send[at]) == STATUS_OK);
        memcpy(room[at], comm_channel_message(in, (uint64_t)round + 1, NULL), piece.bytes);
        NEED(comm_channel_release(in) == STATUS_OK);
        for (int i = 0; i < FLOATS; i++) NEED(room[at][i] == trial_value(from, i));
        receive = next;
        next = NULL;
    }
    for (int i = 0; i < 2; i++) NEED(comm_wait(&send[i]) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_posts, a_ring_of_four, .timeout = 120) {
    run_sizes(4, 4, ring_body, 65536);
}

/* --- a rank to itself ------------------------------------------------------------------------ */

/* Beside a channel to the neighbour; the queue of the one without credit does not hold up the
 * other. */
static void inside_body(struct trial *trial, struct comm *comm) {
    enum { MESSAGES = 10 };
    struct comm_channel *channel[TRIAL_MOST];
    struct comm_request *send[MESSAGES], *receive[MESSAGES];
    int rank = comm_rank(comm), word[MESSAGES];
    uint64_t before = comm_sent_bytes(comm);
    for (int r = 0; r < trial->size; r++)
        NEED(comm_channel_new(comm, r, r, 1, sizeof(int), 1, &channel[r]) == STATUS_OK);
    for (int i = 0; i < MESSAGES; i++) {
        bool done;
        word[i] = rank * 100 + i;
        struct comm_piece piece = {&word[i], i == 5 ? 0 : sizeof(int)};
        NEED(comm_channel_post_receive(channel[rank], &receive[i]) == STATUS_OK);
        NEED(comm_channel_post_send(channel[rank], &piece, 1, &send[i]) == STATUS_OK);
        NEED(comm_test(&send[i], &done) == STATUS_OK && done == (i == 0));
    }
    for (int i = 0; i < MESSAGES; i++) {
        size_t bytes;
        NEED(comm_wait(&receive[i]) == STATUS_OK);
        void *data = comm_channel_message(channel[rank], (uint64_t)i + 1, &bytes);
        NEED(bytes == (i == 5 ? 0 : sizeof(int)));
        NEED(memcmp(data, &word[i], bytes) == 0);
        NEED(comm_channel_release(channel[rank]) == STATUS_OK);
        NEED(comm_wait(&send[i]) == STATUS_OK);
    }
    NEED(comm_sent_bytes(comm) == before);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_posts, a_rank_sends_to_itself) {
    run_sizes(1, 3, inside_body, 65536);
}

/* --- while the rank computes ----------------------------------------------------------------- */

static void count_sends(void *context, const struct comm_event *event) {
    if (strcmp(event->kind, "send") == 0) atomic_fetch_add((_Atomic int *)context, 1);
}

/* No call on the sender's communicator after the posts: the progress thread lets them go, also the
 * last ones, which are done as soon as they are copied aside. */
static void alone_body(struct trial *trial, struct comm *comm) {
    enum { MESSAGES = 12, LARGE = 1 << 20 };
    struct comm_request *send[MESSAGES] = {NULL};
    struct comm_channel *channel;
    _Atomic int done = 0;
    char *room;
    NEED(comm_alloc(comm, LARGE, "data", (void **)&room) == STATUS_OK);
    NEED(comm_channel_new(comm, 0, 1, 0, LARGE, SLOTS, &channel) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    if (comm_rank(comm) == 0) {
        struct comm_piece piece = {room, LARGE};
        comm_set_hooks(comm, &(struct comm_hooks){&done, NULL, count_sends, NULL});
        for (int i = 0; i < MESSAGES; i++)
            NEED(comm_channel_post_send(channel, &piece, 1, &send[i]) == STATUS_OK);
        for (int turn = 0; turn < 30000 && (atomic_load(&trial->shared->note[0]) < MESSAGES ||
                                            atomic_load(&done) < MESSAGES);
             turn++)
            usleep(1000);
        NEED(atomic_load(&trial->shared->note[0]) == MESSAGES && atomic_load(&done) == MESSAGES);
        comm_set_hooks(comm, NULL);
    }
    for (int i = 0; i < MESSAGES && comm_rank(comm) == 1; i++) {
        void *data;
        NEED(comm_channel_receive(channel, &data) == STATUS_OK);
        NEED(comm_channel_release(channel) == STATUS_OK);
        atomic_fetch_add(&trial->shared->note[0], 1);
    }
    for (int i = 0; i < MESSAGES; i++) NEED(comm_wait(&send[i]) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_posts, sends_leave_while_the_rank_computes, .timeout = 60) {
    for (int mode = TRIAL_UCX; mode < TRIAL_MODE_COUNT; mode++)
        if (trial_mode_there((enum trial_mode)mode))
            run((struct trial){.mode = (enum trial_mode)mode,
                               .size = 2,
                               .heap_bytes = 3 << 20,
                               .body = alone_body,
                               .killed = -1});
}

/* --- watchers -------------------------------------------------------------------------------- */

enum { SEEN = 64 };
struct seen {
    int before, after;
    struct comm_event began[SEEN], ended[SEEN];
    bool refuse;
};

static enum status see_before(void *context, const struct comm_event *event) {
    struct seen *seen = context;
    if (event->group >= 0) return STATUS_OK;
    seen->began[seen->before++] = *event;
    return seen->refuse ? STATUS_NUMERIC : STATUS_OK;
}

static void see_after(void *context, const struct comm_event *event) {
    struct seen *seen = context;
    if (event->group < 0) seen->ended[seen->after++] = *event;
}

/* The one event with this group and sequence. */
static const struct comm_event *find(const struct comm_event *event, int count, int group,
                                     uint64_t sequence) {
    const struct comm_event *found = NULL;
    for (int i = 0; i < count; i++)
        if (event[i].group == group && event[i].sequence == sequence)
            found = found ? NULL : &event[i];
    return found;
}

/* Two channels to the peer and one to itself, both ends of which this rank has. */
static void hooks_body(struct trial *trial, struct comm *comm) {
    enum { CHANNELS = 3, EACH = 4 };
    struct comm_request *send[CHANNELS][EACH], *receive[CHANNELS][EACH];
    struct comm_channel *channel[2][CHANNELS];
    struct seen seen = {0};
    int rank = comm_rank(comm), other = trial->size - 1 - rank;
    char word[16] = "word";
    for (int k = 0; k < CHANNELS; k++)
        for (int r = 0; r < trial->size; r++) {
            int to = k == 2 ? r : trial->size - 1 - r;
            NEED(comm_channel_new(comm, r, to, 40 + k, sizeof word, 1, &channel[r][k]) ==
                 STATUS_OK);
        }
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    comm_set_hooks(comm, &(struct comm_hooks){&seen, see_before, see_after, NULL});
    for (int k = 0; k < CHANNELS; k++)
        for (int i = 0; i < EACH; i++) {
            struct comm_piece piece = {word, (size_t)i};
            struct comm_channel *in = channel[k == 2 ? rank : other][k];
            NEED(comm_channel_post_send(channel[rank][k], &piece, 1, &send[k][i]) == STATUS_OK);
            NEED(comm_channel_post_receive(in, &receive[k][i]) == STATUS_OK);
        }
    for (int k = 0; k < CHANNELS; k++)
        for (int i = 0; i < EACH; i++) {
            NEED(comm_wait(&receive[k][i]) == STATUS_OK);
            NEED(comm_channel_release(channel[k == 2 ? rank : other][k]) == STATUS_OK);
        }
    for (int k = 0; k < CHANNELS; k++)
        for (int i = 0; i < EACH; i++) NEED(comm_wait(&send[k][i]) == STATUS_OK);
    NEED(seen.before == 2 * CHANNELS * EACH && seen.after == seen.before);
    for (int i = 0; i < seen.before; i++) {
        const struct comm_event *began = &seen.began[i],
                                *ended =
                                    find(seen.ended, seen.after, began->group, began->sequence);
        bool sends = strcmp(began->kind, "send") == 0;
        NEED(sends || strcmp(began->kind, "receive") == 0);
        NEED(ended && strcmp(ended->kind, began->kind) == 0 && ended->channel == began->channel);
        NEED(began->peer == (began->channel == 42 ? rank : other));
        NEED(began->members == (began->peer == rank ? 1 : 2));
        NEED(began->sequence >= 1 && began->sequence <= EACH);
        NEED(ended->bytes == began->sequence - 1 && began->bytes == (sends ? ended->bytes : 0));
        NEED(ended->begin_ns == began->begin_ns && ended->end_ns >= ended->begin_ns);
    }
    /* Refused, a post leaves nothing behind; the numbers go on without a gap. */
    seen.refuse = true;
    struct comm_request *none = NULL;
    struct comm_piece piece = {word, 1};
    NEED(comm_channel_post_send(channel[rank][0], &piece, 1, &none) == STATUS_NUMERIC && !none);
    NEED(comm_channel_post_receive(channel[other][0], &none) == STATUS_NUMERIC && !none);
    comm_set_hooks(comm, NULL);
    NEED(comm_channel_post_send(channel[rank][0], &piece, 1, &none) == STATUS_OK);
    NEED(comm_request_sequence(none) == EACH + 1 && comm_wait(&none) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_posts, watchers_see_sends_and_receives) {
    run_sizes(2, 2, hooks_body, 65536);
}

/* --- memory ---------------------------------------------------------------------------------- */

static size_t allocated(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Once as many requests were made as are on their way at a time, posts take no memory. */
static void steady_body(struct trial *trial, struct comm *comm) {
    enum { WINDOW = 8, ROUNDS = 1000 };
    struct comm_request *send[WINDOW] = {NULL}, *receive[WINDOW] = {NULL};
    struct comm_channel *channel;
    int last = trial->size - 1, rank = comm_rank(comm);
    unsigned char *room;
    size_t before = 0;
    NEED(comm_alloc(comm, WINDOW * BYTES, "messages", (void **)&room) == STATUS_OK);
    NEED(comm_channel_new(comm, 0, last, 7, BYTES, SLOTS, &channel) == STATUS_OK);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == 2) before = allocated();
        for (int i = 0; i < WINDOW; i++) {
            int number = round * WINDOW + i;
            unsigned char *at = room + (size_t)i * BYTES;
            if (rank == 0) NEED(post_message(channel, number, at, &send[i]) == STATUS_OK);
            if (rank == last) NEED(comm_channel_post_receive(channel, &receive[i]) == STATUS_OK);
        }
        for (int i = 0; i < WINDOW && rank == last; i++) {
            NEED(comm_wait(&receive[i]) == STATUS_OK);
            NEED(is_message(channel, round * WINDOW + i));
            NEED(comm_channel_release(channel) == STATUS_OK);
        }
        for (int i = 0; i < WINDOW; i++) NEED(comm_wait(&send[i]) == STATUS_OK);
    }
    NEED(allocated() == before);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_posts, posts_allocate_nothing) {
    for (int size = 1; size <= 2; size++)
        run((struct trial){.mode = size == 1 ? TRIAL_SELF : TRIAL_PROCESSES,
                           .size = size,
                           .heap_bytes = 10 * BYTES,
                           .body = steady_body,
                           .killed = -1});
}

Test(comm_posts, memory_of_a_channel_is_told) {
    enum { MESSAGE = 100000, COUNT = 4 };
    size_t message = comm_channel_bytes(MESSAGE, COUNT + 1) - comm_channel_bytes(MESSAGE, COUNT);
    cr_expect(message >= MESSAGE && message < MESSAGE + 256);
    for (int side = COMM_SENDER; side <= COMM_RECEIVER; side++)
        cr_expect(comm_channel_overhead("self", side, true, MESSAGE, COUNT) == 0 &&
                  comm_channel_overhead("shm", side, true, MESSAGE, COUNT) == 0 &&
                  comm_channel_overhead("pigeon", side, true, MESSAGE, COUNT) == 0);
    if (!trial_mode_there(TRIAL_UCX)) cr_skip_test("this build has no UCX");
    static const char *const name[] = {"ucx", "hosts"};
    for (int i = 0; i < 2; i++)
        for (int near = 0; near < 2; near++) {
            size_t sender = comm_channel_overhead(name[i], COMM_SENDER, near, MESSAGE, COUNT);
            bool copies = i == 0 || !near; /* hosts: straight into the receiver's memory */
            cr_expect((sender > MESSAGE * COUNT) == copies && sender < MESSAGE * COUNT + 4096);
            cr_expect(comm_channel_overhead(name[i], COMM_RECEIVER, near, MESSAGE, COUNT) < 4096);
        }
}
