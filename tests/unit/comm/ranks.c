/* How ranks_run starts its ranks. A rank that fails aborts its peers (threads) or is declared lost
 * (processes), so that a failing test ends. */
#include "ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"

const char *const ranks_mode_name[RANKS_MODE_COUNT] = {"self", "threads", "processes"};

float ranks_value(int rank, int64_t index) {
    return rng_normal((uint64_t)rank + 1, (uint64_t)index);
}

void ranks_fail(struct ranks *ranks, int rank, const char *file, int line, const char *what) {
    if (atomic_fetch_add(&ranks->board->failures, 1) == 0)
        snprintf(ranks->board->failure, sizeof ranks->board->failure,
                 "%s, rank %d of %d: %s:%d: %s", ranks_mode_name[ranks->mode], rank, ranks->size,
                 file, line, what);
    atomic_store(&ranks->board->lost, rank);
}

/* --- a link in a shared mapping ------------------------------------------------------------ */

static void lock(struct ranks_board *board) {
    while (atomic_exchange(&board->lock, 1)) usleep(50);
}

static enum status link_put(void *context, const char *key, const void *value, size_t bytes) {
    struct ranks_board *board = context;
    lock(board);
    int at = atomic_load(&board->key_count);
    if (at == RANKS_KEYS || bytes > RANKS_VALUE_BYTES || strlen(key) >= 64) abort();
    memcpy(board->pair[at].key, key, strlen(key) + 1);
    memcpy(board->pair[at].value, value, bytes);
    board->pair[at].bytes = bytes;
    atomic_store(&board->key_count, at + 1);
    atomic_store(&board->lock, 0);
    return STATUS_OK;
}

static enum status link_get(void *context, const char *key, void **value, size_t *bytes) {
    struct ranks_board *board = context;
    while (atomic_load(&board->lost) < 0) {
        for (int i = 0; i < atomic_load(&board->key_count); i++)
            if (strcmp(board->pair[i].key, key) == 0) {
                *value = memcpy(mem_new(board->pair[i].bytes), board->pair[i].value,
                                board->pair[i].bytes);
                *bytes = board->pair[i].bytes;
                return STATUS_OK;
            }
        usleep(100);
    }
    return STATUS_PEER;
}

static int link_lost(void *context) {
    return atomic_load(&((struct ranks_board *)context)->lost);
}

/* Which rank of this process waits is not told: a link belongs to one. */
static int link_rank = 0;
static void link_waiting(void *context, int rank, const char *what, int64_t since_ns) {
    (void)what, (void)since_ns;
    atomic_store(&((struct ranks_board *)context)->waited_for[link_rank], rank);
}

struct comm_link ranks_link(struct ranks_board *board) {
    return (struct comm_link){board, link_put, link_get, link_lost, link_waiting};
}

/* --- starting ------------------------------------------------------------------------------ */

static void run_one(struct ranks *ranks, struct comm *comm) {
    ranks->body(ranks, comm);
    if (atomic_load(&ranks->board->failures)) comm_abort(comm, 0);
    comm_close(&comm);
}

static void run_opened(struct ranks *ranks, int rank, const char *name) {
    struct comm_link link = ranks_link(ranks->board);
    struct comm_config config = {.rank = rank,
                                 .size = ranks->size,
                                 .link = &link,
                                 .heap_bytes = ranks->heap_bytes,
                                 .host = "here"};
    struct comm *comm = NULL;
    link_rank = rank;
    if (comm_open(name, &config, &comm) == STATUS_OK)
        run_one(ranks, comm);
    else
        ranks_fail(ranks, rank, __FILE__, __LINE__, "comm_open");
}

struct thread {
    struct ranks *ranks;
    struct comm *comm;
    pthread_t id;
};

static void *thread_main(void *argument) {
    struct thread *thread = argument;
    run_one(thread->ranks, thread->comm);
    return NULL;
}

static void run_threads(struct ranks *ranks) {
    struct thread thread[RANKS_MOST];
    struct comm *comm[RANKS_MOST] = {NULL};
    if (comm_open_threads(ranks->size, ranks->heap_bytes, comm) != STATUS_OK) {
        ranks_fail(ranks, 0, __FILE__, __LINE__, "comm_open_threads");
        return;
    }
    for (int r = 0; r < ranks->size; r++) {
        thread[r] = (struct thread){ranks, comm[r], 0};
        if (pthread_create(&thread[r].id, NULL, thread_main, &thread[r]) != 0) abort();
    }
    for (int r = 0; r < ranks->size; r++) pthread_join(thread[r].id, NULL);
}

static void collect(struct ranks *ranks, int rank) {
    int how = 0;
    waitpid(ranks->board->pid[rank], &how, 0);
    if (!(WIFEXITED(how) && WEXITSTATUS(how) == 0) && rank != ranks->killed)
        ranks_fail(ranks, rank, __FILE__, __LINE__, "the process ended badly");
}

static void run_processes(struct ranks *ranks) {
    for (int r = 0; r < ranks->size; r++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_opened(ranks, r, "shm");
            _exit(0);
        }
        ranks->board->pid[r] = pid;
    }
    for (int r = 0; r < ranks->size; r++) collect(ranks, r);
}

const char *ranks_run(struct ranks *ranks) {
    static char failure[256];
    ranks->board =
        mmap(NULL, sizeof *ranks->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ranks->board == MAP_FAILED) abort();
    atomic_store(&ranks->board->lost, -1);
    for (int r = 0; r < RANKS_MOST; r++) atomic_store(&ranks->board->waited_for[r], -1);
    switch (ranks->mode) {
    case RANKS_SELF: run_opened(ranks, 0, "self"); break;
    case RANKS_THREADS: run_threads(ranks); break;
    default: run_processes(ranks);
    }
    bool failed = atomic_load(&ranks->board->failures) > 0;
    memcpy(failure, ranks->board->failure, sizeof failure);
    munmap(ranks->board, sizeof *ranks->board);
    return failed ? failure : NULL;
}
