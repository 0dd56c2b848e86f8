/* Over messages, operations go on while their rank does something else. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/tree_sum.h"
#include "trial.h"

enum { OPERATIONS = 6, COUNT = 300000 };

static void count_done(void *context, const struct comm_event *event) {
    (void)event;
    atomic_fetch_add((_Atomic int *)context, 1);
}

/* No call of the communicator between the last post and the end of all: only the hook tells. */
static void alone_body(struct trial *trial, struct comm *comm) {
    _Atomic int done = 0;
    struct comm_request *request[OPERATIONS];
    float *data[OPERATIONS];
    int rank = comm_rank(comm), ranks = comm_size(comm);
    for (int i = 0; i < OPERATIONS; i++) {
        NEED(comm_alloc(comm, COUNT * sizeof(float), "data", (void **)&data[i]) == STATUS_OK);
        for (int k = 0; k < COUNT; k++) data[i][k] = trial_value(rank, k + i);
    }
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    comm_set_hooks(comm, &(struct comm_hooks){&done, NULL, count_done, NULL});
    for (int i = 0; i < OPERATIONS; i++)
        NEED(comm_all_reduce(comm_world(comm), data[i], COUNT, &request[i]) == STATUS_OK);
    for (int turn = 0; turn < 30000 && atomic_load(&done) < OPERATIONS; turn++) usleep(1000);
    NEED(atomic_load(&done) == OPERATIONS);
    NEED(comm_hidden_ns(comm) > 0);
    for (int i = 0; i < OPERATIONS; i++) NEED(comm_wait(&request[i]) == STATUS_OK);
    for (int k = 0; k < COUNT; k += 997) {
        float leaf[TRIAL_MOST], *leaves[TRIAL_MOST], sum;
        for (int r = 0; r < ranks; r++) leaf[r] = trial_value(r, k + 2), leaves[r] = &leaf[r];
        comm_tree_sum(leaves, ranks, 0, 1, &sum);
        NEED(data[2][k] == sum);
    }
    comm_set_hooks(comm, NULL);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_progress_thread, operations_end_without_their_rank) {
    for (int mode = TRIAL_UCX; mode < TRIAL_MODE_COUNT; mode++) {
        struct trial trial = {.mode = (enum trial_mode)mode,
                              .size = 3,
                              .heap_bytes = OPERATIONS * COUNT * sizeof(float) + 4096,
                              .body = alone_body,
                              .killed = -1};
        if (!trial_mode_there(trial.mode)) continue;
        const char *failure = trial_run(&trial);
        cr_assert(!failure, "%s", failure);
    }
}

/* Nothing moves beside a rank that shares memory: no thread takes a core from the computation. */
static void none_body(struct trial *trial, struct comm *comm) {
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    NEED(comm_hidden_ns(comm) == 0);
}

Test(comm_progress_thread, shared_memory_has_none) {
    struct trial trial = {
        .mode = TRIAL_PROCESSES, .size = 2, .heap_bytes = 4096, .body = none_body, .killed = -1};
    const char *failure = trial_run(&trial);
    cr_assert(!failure, "%s", failure);
}
