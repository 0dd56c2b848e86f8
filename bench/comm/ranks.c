/* ranks: the time of an all-reduce between local ranks, for bench_comm.py.
 *
 *     build/bench-comm shm|threads|plain RANKS BYTES REPEATS
 *
 * shm and threads are ours; plain is the yardstick: a C loop over a shared mapping, each rank
 * adding its slice of all buffers into all buffers, with spinning barriers and no checks at all.
 * Prints, in microseconds, what each repeat took on rank 0, one a line; a tenth more run before,
 * unprinted. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tests/unit/comm/trial.h"
#include "base/clock.h"
#include "base/clones.h"
#include "base/log.h"
#include "base/mem.h"

static size_t bytes;
static int repeats;

static int warm_up(void) {
    return repeats / 10 + 2;
}

static void print_times(const int64_t *ns) {
    for (int i = 0; i < repeats; i++) printf("%.3f\n", (double)ns[i] * 1e-3);
    fflush(stdout);
}

/* --- ours ---------------------------------------------------------------------------------- */

static void body(struct trial *trial, struct comm *comm) {
    int64_t *ns = MEM_ARRAY(int64_t, repeats);
    float *data;
    NEED(comm_alloc(comm, bytes, "data", (void **)&data) == STATUS_OK);
    memset(data, 0, bytes);
    for (int i = -warm_up(); i < repeats; i++) {
        struct comm_request *request;
        int64_t begin = clock_ns();
        NEED(comm_all_reduce(comm_world(comm), data, (int64_t)(bytes / sizeof *data), &request) ==
             STATUS_OK);
        NEED(comm_wait(&request) == STATUS_OK);
        if (i >= 0) ns[i] = clock_ns() - begin;
    }
    if (comm_rank(comm) == 0) print_times(ns);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    free(ns);
}

static int run_ours(enum trial_mode mode, int size) {
    struct trial trial = {
        .mode = mode, .size = size, .heap_bytes = bytes, .alike = true, .body = body, .killed = -1};
    const char *failure = trial_run(&trial);
    if (failure) fprintf(stderr, "bench-comm: %s\n", failure);
    return failure != NULL;
}

/* --- the yardstick ------------------------------------------------------------------------- */

struct plain {
    _Alignas(64) _Atomic int64_t arrived;
    _Alignas(64) float data[];
};

VECTOR_CLONES static void add_2(float *restrict a, float *restrict b, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) a[i] = b[i] = a[i] + b[i];
}

VECTOR_CLONES static void add_4(float *restrict a, float *restrict b, float *restrict c,
                                float *restrict d, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) a[i] = b[i] = c[i] = d[i] = (a[i] + b[i]) + (c[i] + d[i]);
}

/* Spins as long as that makes sense, so that it can be run with more ranks than cores at all. */
static void plain_barrier(struct plain *plain, int64_t until) {
    atomic_fetch_add(&plain->arrived, 1);
    for (int turn = 0; atomic_load(&plain->arrived) < until; turn++)
        if (turn > 1000) sched_yield();
}

static void plain_rank(struct plain *plain, int rank, int size) {
    int64_t count = (int64_t)(bytes / sizeof(float)), begin = count * rank / size;
    int64_t slice = count * (rank + 1) / size - begin, *ns = MEM_ARRAY(int64_t, repeats);
    int64_t arrived = 0;
    float *at = plain->data + begin;
    for (int i = -warm_up(); i < repeats; i++) {
        int64_t start = clock_ns();
        plain_barrier(plain, arrived += size);
        if (size == 2) add_2(at, at + count, slice);
        if (size == 4) add_4(at, at + count, at + 2 * count, at + 3 * count, slice);
        plain_barrier(plain, arrived += size);
        if (i >= 0) ns[i] = clock_ns() - start;
    }
    if (rank == 0) print_times(ns);
    free(ns);
}

static int run_plain(int size) {
    size_t all = sizeof(struct plain) + bytes * (size_t)size;
    struct plain *plain =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(plain != MAP_FAILED && (size == 2 || size == 4), "plain is for 2 and 4 ranks");
    memset(plain, 0, all);
    for (int rank = 1; rank < size; rank++)
        if (fork() == 0) {
            plain_rank(plain, rank, size);
            _exit(0);
        }
    plain_rank(plain, 0, size);
    while (wait(NULL) > 0) continue;
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: bench-comm shm|threads|plain RANKS BYTES REPEATS\n");
        return 2;
    }
    int size = atoi(argv[2]);
    bytes = strtoull(argv[3], NULL, 10);
    repeats = atoi(argv[4]);
    if (strcmp(argv[1], "plain") == 0) return run_plain(size);
    return run_ours(strcmp(argv[1], "threads") == 0 ? TRIAL_THREADS : TRIAL_PROCESSES, size);
}
