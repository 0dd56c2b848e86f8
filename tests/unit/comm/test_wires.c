/* What only shows on wires: data of many pieces, so that windows fill and staging is used again;
 * what ranks refuse when they meet; a connection that breaks with nobody to say so; and that what
 * was opened is given back. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "trial.h"

enum { LARGE = 1300007, SIZES = 3 };
static const int rank_counts[SIZES] = {2, 3, 4};

static void run(struct trial trial) {
    const char *failure = trial_run(&trial);
    cr_assert(!failure, "%s", failure);
}

static void run_wires(void (*body)(struct trial *, struct comm *), size_t heap_bytes) {
    for (int mode = TRIAL_PROCESSES; mode < TRIAL_MODE_COUNT; mode++)
        for (int i = 0; i < SIZES && trial_mode_there((enum trial_mode)mode); i++)
            run((struct trial){.mode = (enum trial_mode)mode,
                               .size = rank_counts[i],
                               .heap_bytes = heap_bytes,
                               .body = body,
                               .killed = -1});
}

/* The tree over at most four, written out. */
static float tree_value(int size, int64_t i) {
    float a = trial_value(0, i), b = trial_value(1, i);
    if (size == 2) return a + b;
    float c = trial_value(2, i);
    return size == 3 ? a + b + c : (a + b) + (c + trial_value(3, i));
}

static void large_body(struct trial *trial, struct comm *comm) {
    struct comm_group *world = comm_world(comm);
    struct comm_request *request[3] = {NULL};
    int64_t begin, count;
    float *data;
    NEED(comm_alloc(comm, LARGE * sizeof *data, "data", (void **)&data) == STATUS_OK);
    for (int64_t i = 0; i < LARGE; i++) data[i] = trial_value(comm_rank(comm), i);
    NEED(comm_all_reduce(world, data, LARGE, &request[0]) == STATUS_OK);
    NEED(comm_wait(&request[0]) == STATUS_OK);
    for (int64_t i = 0; i < LARGE; i++) {
        float value = tree_value(trial->size, i);
        NEED(memcmp(&data[i], &value, sizeof value) == 0);
    }
    /* Three on their way at once: a scatter and a gather of one half, a broadcast of the other. */
    int64_t half = LARGE / 2 / 1024 * 1024;
    for (int64_t i = 0; i < LARGE; i++) data[i] = trial_value(comm_rank(comm), i);
    NEED(comm_reduce_scatter(world, data, half, &request[0]) == STATUS_OK);
    NEED(comm_broadcast(world, trial->size - 1, data + half, (LARGE - half) * sizeof *data,
                        &request[1]) == STATUS_OK);
    NEED(comm_all_gather(world, data, half, &request[2]) == STATUS_OK);
    for (int i = 2; i >= 0; i--) NEED(comm_wait(&request[i]) == STATUS_OK);
    comm_slice(world, half, comm_rank(comm), &begin, &count);
    for (int64_t i = 0; i < LARGE; i++) {
        float value = i < half ? tree_value(trial->size, i) : trial_value(trial->size - 1, i);
        NEED(memcmp(&data[i], &value, sizeof value) == 0);
    }
}

Test(comm_wires, many_pieces, .timeout = 120) {
    run_wires(large_body, LARGE * sizeof(float));
}

/* A channel whose messages are too large to be sent in one go. */
static void large_channel_body(struct trial *trial, struct comm *comm) {
    enum { BYTES = 3000001, SLOTS = 2, MESSAGES = 9 };
    struct comm_channel *there, *back;
    unsigned char *given = mem_new(BYTES);
    int last = trial->size - 1, rank = comm_rank(comm);
    bool good = comm_channel_new(comm, 0, last, 0, BYTES, SLOTS, &there) == STATUS_OK &&
                comm_channel_new(comm, last, 0, 1, BYTES, SLOTS, &back) == STATUS_OK;
    for (int number = 0; number < MESSAGES && good && (rank == 0 || rank == last); number++) {
        struct comm_channel *out = rank ? back : there, *in = rank ? there : back;
        void *data = NULL;
        memset(given, number * 3 + rank, BYTES);
        good = comm_channel_send(out, given) == STATUS_OK;
        memset(given, 0xff, BYTES); /* reused at once */
        good = good && comm_channel_receive(in, &data) == STATUS_OK;
        unsigned char expected = (unsigned char)(number * 3 + (rank ? 0 : last));
        good = good && ((unsigned char *)data)[0] == expected &&
               ((unsigned char *)data)[BYTES - 1] == expected;
        good = good && comm_channel_release(in) == STATUS_OK;
    }
    free(given);
    NEED(good);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_wires, large_messages_on_channels, .timeout = 120) {
    run_wires(large_channel_body, 8 << 20);
}

/* --- meeting --------------------------------------------------------------------------------- */

static const char *name_of(enum trial_mode mode) {
    return mode == TRIAL_UCX ? "ucx" : "hosts";
}

/* Orders of sums that differ are refused by all, five times; then the same ranks meet again as if
 * nothing had been. A way out that leaves a file open leaves five; two connections of the outer
 * communicator may still be settling when they are first counted. */
enum { EPOCHS = 8, REFUSED_FIRST = 2, REFUSED_LAST = 6, SETTLING = 2 };

static void meet_body(struct trial *trial, struct comm *comm) {
    struct comm_link link = trial_link(trial->shared);
    int files = 0;
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        bool refused = epoch >= REFUSED_FIRST && epoch <= REFUSED_LAST;
        bool odd = refused && comm_rank(comm) == 1;
        struct comm_config config = {.rank = comm_rank(comm),
                                     .size = trial->size,
                                     .link = &link,
                                     .epoch = epoch,
                                     .heap_bytes = 4096,
                                     .any_order = odd,
                                     .host = "here"};
        struct comm *second = NULL;
        enum status status = comm_open(name_of(trial->mode), &config, &second);
        NEED(status == (refused ? STATUS_BUG : STATUS_OK) && !second == refused);
        if (second) NEED(comm_barrier(comm_world(second)) == STATUS_OK);
        comm_close(&second);
        NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
        if (epoch == 1) files = trial_open_files(); /* what a library opens once it keeps */
        NEED(trial_open_files() <= files + SETTLING);
    }
}

static void meet_after(struct trial *trial) {
    for (int rank = 0; rank < trial->size; rank++)
        cr_expect(strstr(trial->shared->log[rank], "the fixed order") &&
                      strstr(trial->shared->log[rank], "any order"),
                  "rank %d said: %s", rank, trial->shared->log[rank]);
}

Test(comm_wires, orders_that_differ_are_refused_and_nothing_is_left_open, .timeout = 120) {
    for (int mode = TRIAL_UCX; mode <= TRIAL_HOSTS; mode++)
        if (trial_mode_there((enum trial_mode)mode))
            run((struct trial){.mode = (enum trial_mode)mode,
                               .size = 3,
                               .heap_bytes = 4096,
                               .body = meet_body,
                               .after = meet_after,
                               .killed = -1});
}

/* --- a rank that leaves ---------------------------------------------------------------------- */

/* One that has finished its part and goes disturbs nobody; and what it sent still arrives. */
static void early_body(struct trial *trial, struct comm *comm) {
    struct comm_channel *channel;
    int got = -1, last = trial->size - 1;
    void *data;
    NEED(comm_channel_new(comm, 0, last, 0, sizeof(int), 4, &channel) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    for (int i = 0; i < 3 && comm_rank(comm) == 0; i++)
        NEED(comm_channel_send(channel, &i) == STATUS_OK);
    if (comm_rank(comm) != last) return;
    usleep(300000);
    for (int i = 0; i < 3; i++) {
        NEED(comm_channel_receive(channel, &data) == STATUS_OK);
        memcpy(&got, data, sizeof got);
        NEED(got == i);
        NEED(comm_channel_release(channel) == STATUS_OK);
    }
}

Test(comm_wires, what_was_sent_arrives_after_the_sender_left, .timeout = 60) {
    run_wires(early_body, 1 << 16);
}

/* A rank that dies, and no control plane to say so: the connection itself does. */
static void silent_body(struct trial *trial, struct comm *comm) {
    struct comm_link link = trial_link(trial->shared);
    struct comm_config config = {.rank = comm_rank(comm),
                                 .size = trial->size,
                                 .link = &link,
                                 .epoch = 1,
                                 .heap_bytes = LARGE * sizeof(float),
                                 .host = comm_rank(comm) ? "one" : "two"};
    struct comm_request *request = NULL;
    struct comm *second = NULL;
    enum status status = STATUS_OK;
    float *data;
    link.lost = NULL;
    NEED(comm_open(name_of(trial->mode), &config, &second) == STATUS_OK);
    NEED(comm_alloc(second, LARGE * sizeof *data, "data", (void **)&data) == STATUS_OK);
    for (int turn = 0; status == STATUS_OK; turn++) {
        if (turn == 3 && comm_rank(comm) == 1) kill(getpid(), SIGKILL);
        NEED(comm_all_reduce(comm_world(second), data, LARGE, &request) == STATUS_OK);
        status = comm_wait(&request);
    }
    NEED(status == STATUS_PEER);
    comm_close(&second);
}

static void silent_after(struct trial *trial) {
    cr_expect(strstr(trial->shared->log[0], "connection to rank 1 broke"), "rank 0 said: %s",
              trial->shared->log[0]);
}

Test(comm_wires, a_connection_that_breaks_is_enough, .timeout = 60) {
    for (int mode = TRIAL_UCX; mode <= TRIAL_HOSTS; mode++)
        if (trial_mode_there((enum trial_mode)mode))
            run((struct trial){.mode = (enum trial_mode)mode,
                               .size = 2,
                               .heap_bytes = 4096,
                               .body = silent_body,
                               .after = silent_after,
                               .killed = 1});
}

Test(comm_wires, memory_besides_the_heap_is_told) {
    cr_expect(comm_overhead_bytes("self", 1) == 0 && comm_overhead_bytes("pigeon", 4) == 0);
    if (!trial_mode_there(TRIAL_UCX)) cr_skip_test("this build has no UCX");
    cr_expect(comm_overhead_bytes("ucx", 4) > comm_overhead_bytes("ucx", 2));
    cr_expect(comm_overhead_bytes("ucx", 64) < (size_t)64 << 20);
}

Test(comm_wires, what_ucx_looked_at_is_said) {
    char said[600] = "";
    struct comm_config config = {.rank = 0, .size = 1, .heap_bytes = 4096};
    struct comm *comm = NULL;
    if (!trial_mode_there(TRIAL_UCX)) cr_skip_test("this build has no UCX");
    setenv("UCX_TLS", "pigeon", 1);
    log_capture(said, sizeof said);
    enum status status = comm_open("ucx", &config, &comm);
    log_capture(NULL, 0);
    cr_assert(status == STATUS_PEER && !comm);
    cr_assert(strstr(said, "UCX, starting") && strstr(said, "UCX_TLS is set to pigeon"), "%s",
              said);
}
