/* Posted sends and receives that are not answered: who is waited for, how a wait ends when a rank
 * is lost or gives up, and ends that were declared differently. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trial.h"

static void run(struct trial trial) {
    const char *failure = trial_run(&trial);
    cr_assert(!failure, "%s", failure);
}

/* --- who is waited for ----------------------------------------------------------------------- */

struct told {
    struct trial *trial;
    int rank, at;
    char what[2][128];
};

/* Only the first of a wait is kept; the other rank comes once it was told. */
static void note_waiting(void *context, int rank, const char *what, int64_t since_ns) {
    struct told *told = context;
    (void)since_ns;
    told->rank = rank;
    snprintf(told->what[told->at], sizeof told->what[0], "%s", what);
    atomic_store(&told->trial->shared->note[told->at], 1);
}

/* Rank 0 waits for a credit, then for a message; rank 1 gives each when rank 0 has told that. */
static void told_body(struct trial *trial, struct comm *comm) {
    struct comm_channel *there, *back;
    struct comm_request *request[3] = {NULL};
    struct told told = {.trial = trial};
    struct comm_link link = {.context = &told, .waiting = note_waiting};
    void *data;
    NEED(comm_channel_new(comm, 0, 1, 3, 8, 1, &there) == STATUS_OK);
    NEED(comm_channel_new(comm, 1, 0, 4, 8, 1, &back) == STATUS_OK);
    if (comm_rank(comm) == 1) {
        while (!atomic_load(&trial->shared->note[0])) usleep(1000);
        for (int i = 0; i < 2; i++)
            NEED(comm_channel_receive(there, &data) == STATUS_OK &&
                 comm_channel_release(there) == STATUS_OK);
        while (!atomic_load(&trial->shared->note[1])) usleep(1000);
        NEED(comm_channel_send(back, "message") == STATUS_OK);
        return;
    }
    comm_set_link(comm, &link);
    struct comm_piece piece = {"message", 8};
    for (int i = 0; i < 2; i++)
        NEED(comm_channel_post_send(there, &piece, 1, &request[i]) == STATUS_OK);
    for (int i = 0; i < 2; i++) NEED(comm_wait(&request[i]) == STATUS_OK);
    NEED(told.rank == 1 && strstr(told.what[0], "send on channel 3 to rank 1"));
    told.at = 1;
    NEED(comm_channel_post_receive(back, &request[2]) == STATUS_OK);
    NEED(comm_wait(&request[2]) == STATUS_OK);
    NEED(told.rank == 1 && strstr(told.what[1], "receive on channel 4 from rank 1"));
    NEED(memcmp(comm_channel_message(back, 1, NULL), "message", 8) == 0);
}

Test(comm_post_faults, a_wait_that_lasts_names_channel_and_rank) {
    run((struct trial){
        .mode = TRIAL_THREADS, .size = 2, .heap_bytes = 4096, .body = told_body, .killed = -1});
}

/* --- ranks that are lost --------------------------------------------------------------------- */

/* The victim has given one message and one credit, and dies; who waits for another of either is
 * told, and what had come is still there. */
static void death_body(struct trial *trial, struct comm *comm) {
    bool sends = *(bool *)trial->argument;
    struct comm_channel *there, *back;
    struct comm_request *send[4], *receive[2], *late = NULL;
    struct comm_piece piece = {"message", 8};
    bool done = false;
    NEED(comm_channel_new(comm, 0, 1, 3, 8, 2, &there) == STATUS_OK);
    NEED(comm_channel_new(comm, 1, 0, 4, 8, 2, &back) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    if (comm_rank(comm) == 1) {
        void *data;
        NEED(comm_channel_send(back, "message") == STATUS_OK);
        NEED(comm_channel_receive(there, &data) == STATUS_OK);
        NEED(comm_channel_release(there) == STATUS_OK);
        while (atomic_load(&trial->shared->note[0]) == 0)
            NEED(comm_progress(comm) == STATUS_OK && usleep(100) == 0);
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < 4; i++)
        NEED(comm_channel_post_send(there, &piece, 1, &send[i]) == STATUS_OK);
    for (int i = 0; i < 2; i++) NEED(comm_channel_post_receive(back, &receive[i]) == STATUS_OK);
    for (int i = 0; i < 3; i++) NEED(comm_wait(&send[i]) == STATUS_OK);
    NEED(comm_wait(&receive[0]) == STATUS_OK);
    atomic_store(&trial->shared->note[0], 1);
    NEED(comm_wait(sends ? &send[3] : &receive[1]) == STATUS_PEER);
    NEED(memcmp(comm_channel_message(back, 1, NULL), "message", 8) == 0);
    NEED(comm_channel_post_send(there, &piece, 1, &late) == STATUS_PEER && !late);
    NEED(comm_channel_post_receive(back, &late) == STATUS_PEER && !late);
    NEED(comm_test(sends ? &receive[1] : &send[3], &done) == STATUS_PEER && !done);
    NEED(comm_channel_release(back) == STATUS_PEER && comm_progress(comm) == STATUS_PEER);
}

static void death_after(struct trial *trial) {
    const char *what = *(bool *)trial->argument ? "send on channel 3" : "receive on channel 4";
    const char *said = trial->shared->log[0];
    cr_expect(strstr(said, "rank 1 is lost") && strstr(said, what), "rank 0 said: %s", said);
}

Test(comm_post_faults, a_rank_that_dies_ends_the_wait, .timeout = 60) {
    for (int sends = 0; sends < 2; sends++)
        for (int mode = TRIAL_PROCESSES; mode < TRIAL_MODE_COUNT; mode++) {
            bool argument = sends;
            if (trial_mode_there((enum trial_mode)mode))
                run((struct trial){.mode = (enum trial_mode)mode,
                                   .size = 2,
                                   .heap_bytes = 4096,
                                   .argument = &argument,
                                   .body = death_body,
                                   .after = death_after,
                                   .killed = 1});
        }
}

static void abort_body(struct trial *trial, struct comm *comm) {
    struct comm_channel *channel[2];
    struct comm_request *send[2] = {NULL}, *receive = NULL;
    struct comm_piece piece = {"message", 8};
    int rank = comm_rank(comm);
    for (int r = 0; r < 2; r++)
        NEED(comm_channel_new(comm, r, 1 - r, r, 8, 1, &channel[r]) == STATUS_OK);
    if (rank == 0) NEED(comm_channel_post_send(channel[0], &piece, 1, &send[0]) == STATUS_OK);
    /* The other one may have aborted by now. */
    enum status second =
        rank == 0 ? comm_channel_post_send(channel[0], &piece, 1, &send[1]) : STATUS_OK;
    NEED(second == STATUS_OK || second == STATUS_PEER);
    if (second != STATUS_OK) return;
    if (rank == 1) NEED(comm_channel_post_receive(channel[0], &receive) == STATUS_OK);
    if (rank == 1) NEED(comm_wait(&receive) == STATUS_OK);
    if (rank == 1) comm_abort(comm, 1);
    NEED(comm_wait(rank ? &receive : &send[1]) == (rank ? STATUS_OK : STATUS_PEER));
    NEED(comm_channel_post_receive(channel[1 - rank], &receive) == STATUS_PEER);
}

Test(comm_post_faults, an_abort_ends_the_wait) {
    run((struct trial){
        .mode = TRIAL_THREADS, .size = 2, .heap_bytes = 4096, .body = abort_body, .killed = -1});
}

/* --- ends that differ ------------------------------------------------------------------------ */

static void misfit_body(struct trial *trial, struct comm *comm) {
    struct comm_channel *channel;
    struct comm_request *request[3] = {NULL};
    struct comm_piece piece = {"message", 8};
    enum status status = STATUS_OK;
    int rank = comm_rank(comm);
    NEED(comm_channel_new(comm, 0, 1, 3, rank ? 16 : 8, 2, &channel) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        status = rank ? comm_channel_post_receive(channel, &request[i])
                      : comm_channel_post_send(channel, &piece, 1, &request[i]);
    for (int i = 0; i < 3 && status == STATUS_OK; i++) status = comm_wait(&request[i]);
    /* Who posts may find it before what moves messages does. */
    enum status later = STATUS_OK;
    for (int i = 0; i < 5000 && later == STATUS_OK; i++) {
        later = comm_progress(comm);
        if (later == STATUS_OK) usleep(1000);
    }
    /* One that ended at once would be lost to the other, before that one has looked. */
    atomic_fetch_add(&trial->shared->note[0], 1);
    for (int i = 0; i < 5000 && atomic_load(&trial->shared->note[0]) < 2; i++) {
        comm_progress(comm);
        usleep(1000);
    }
    NEED(status == STATUS_BUG && later == STATUS_BUG);
}

static void misfit_after(struct trial *trial) {
    for (int rank = 0; rank < 2; rank++)
        cr_expect(strstr(trial->shared->log[rank], "ranks 0 and 1 declare channel 3 differently"),
                  "rank %d said: %s", rank, trial->shared->log[rank]);
}

Test(comm_post_faults, ends_that_differ_are_found_by_both, .timeout = 60) {
    for (int mode = TRIAL_PROCESSES; mode < TRIAL_MODE_COUNT; mode++)
        if (trial_mode_there((enum trial_mode)mode))
            run((struct trial){.mode = (enum trial_mode)mode,
                               .size = 2,
                               .heap_bytes = 4096,
                               .body = misfit_body,
                               .after = misfit_after,
                               .killed = -1});
}
