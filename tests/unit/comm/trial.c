/* How trial_run starts its ranks. A rank that fails aborts its peers (threads) or is declared lost
 * (processes), so that a failing test ends. */
#include "trial.h"

#include <dirent.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

const char *const trial_mode_name[TRIAL_MODE_COUNT] = {
#define TRIAL(ID, name, communicator) name,
#include "trial.def"
};
static const char *const communicator[TRIAL_MODE_COUNT] = {
#define TRIAL(ID, name, communicator) communicator,
#include "trial.def"
};

/* The thread sanitizer judges threads and shared memory; it knows nothing of the libraries' own. */
#if defined(__SANITIZE_THREAD__)
#define WIRES 0
#elif defined(__has_feature)
#define WIRES !__has_feature(thread_sanitizer)
#else
#define WIRES 1
#endif

bool trial_mode_there(enum trial_mode mode) {
    if (mode >= TRIAL_UCX && !(WIRES)) return false;
    return comm_exists(communicator[mode]);
}

float trial_value(int rank, int64_t index) {
    uint64_t word = ((uint64_t)rank + 1) * 0x9E3779B97F4A7C15u + (uint64_t)index;
    word = (word ^ word >> 32) * 0xD6E8FEB86659FD93u;
    word = (word ^ word >> 32) * 0xD6E8FEB86659FD93u;
    /* 24 random bits, magnitudes over a factor of 256: sums in another order differ. */
    return (float)((int64_t)(word >> 40) - (1 << 23)) * (float)(1 << (word & 7));
}

void trial_fail(struct trial *trial, int rank, const char *file, int line, const char *what) {
    if (atomic_fetch_add(&trial->shared->failures, 1) == 0)
        snprintf(trial->shared->failure, sizeof trial->shared->failure,
                 "%s, rank %d of %d: %s:%d: %s", trial_mode_name[trial->mode], rank, trial->size,
                 file, line, what);
    atomic_store(&trial->shared->lost, rank);
}

/* --- a link in a shared mapping ------------------------------------------------------------ */

static void lock(struct trial_shared *shared) {
    while (atomic_exchange(&shared->lock, 1)) usleep(50);
}

static enum status link_put(void *context, const char *key, const void *value, size_t bytes) {
    struct trial_shared *shared = context;
    lock(shared);
    int at = atomic_load(&shared->key_count);
    if (at == TRIAL_KEYS || bytes > TRIAL_VALUE_BYTES || strlen(key) >= 64) abort();
    memcpy(shared->pair[at].key, key, strlen(key) + 1);
    memcpy(shared->pair[at].value, value, bytes);
    shared->pair[at].bytes = bytes;
    atomic_store(&shared->key_count, at + 1);
    atomic_store(&shared->lock, 0);
    return STATUS_OK;
}

static enum status link_get(void *context, const char *key, void **value, size_t *bytes) {
    struct trial_shared *shared = context;
    while (atomic_load(&shared->lost) < 0) {
        for (int i = 0; i < atomic_load(&shared->key_count); i++)
            if (strcmp(shared->pair[i].key, key) == 0) {
                *value = memcpy(mem_new(shared->pair[i].bytes), shared->pair[i].value,
                                shared->pair[i].bytes);
                *bytes = shared->pair[i].bytes;
                return STATUS_OK;
            }
        usleep(100);
    }
    return STATUS_PEER;
}

static int link_lost(void *context) {
    return atomic_load(&((struct trial_shared *)context)->lost);
}

/* Which rank of this process waits is not told: a link belongs to one. */
static int link_rank = 0;
static void link_waiting(void *context, int rank, const char *what, int64_t since_ns) {
    (void)what, (void)since_ns;
    atomic_store(&((struct trial_shared *)context)->waited_for[link_rank], rank);
}

struct comm_link trial_link(struct trial_shared *shared) {
    return (struct comm_link){shared, link_put, link_get, link_lost, link_waiting};
}

/* --- starting ------------------------------------------------------------------------------ */

static size_t skew(const struct trial *trial, int rank) {
    return trial->alike ? 0 : (size_t)rank * 4096;
}

static void run_one(struct trial *trial, struct comm *comm) {
    void *own;
    omp_set_num_threads(trial->threads ? trial->threads : 1);
    if (comm_alloc(comm, skew(trial, comm_rank(comm)), "pages of its own", &own) != STATUS_OK)
        abort();
    trial->body(trial, comm);
    if (atomic_load(&trial->shared->failures)) comm_abort(comm, 0);
    comm_close(&comm);
}

static const char *host_of(enum trial_mode mode, int rank) {
    static const char *const names[] = {"one",  "two", "three", "four",
                                        "five", "six", "seven", "ate"};
    return mode == TRIAL_HOSTS ? names[rank / 2] : names[mode == TRIAL_HOSTS_MIXED ? rank % 2 : 0];
}

static void run_opened(struct trial *trial, int rank) {
    struct comm_link link = trial_link(trial->shared);
    struct comm_config config = {.rank = rank,
                                 .size = trial->size,
                                 .link = &link,
                                 .heap_bytes = trial->heap_bytes + skew(trial, rank),
                                 .channel_bytes = trial->heap_bytes,
                                 .host = host_of(trial->mode, rank)};
    const char *name = communicator[trial->mode];
    struct comm *comm = NULL;
    link_rank = rank;
    if (comm_open(name, &config, &comm) == STATUS_OK)
        run_one(trial, comm);
    else
        trial_fail(trial, rank, __FILE__, __LINE__, "comm_open");
}

struct thread {
    struct trial *trial;
    struct comm *comm;
    pthread_t id;
};

static void *thread_main(void *argument) {
    struct thread *thread = argument;
    run_one(thread->trial, thread->comm);
    return NULL;
}

static void run_threads(struct trial *trial) {
    struct thread thread[TRIAL_MOST];
    struct comm *comm[TRIAL_MOST] = {NULL};
    size_t heap_bytes = trial->heap_bytes + skew(trial, trial->size - 1);
    if (comm_open_threads(trial->size, heap_bytes, trial->heap_bytes, comm) != STATUS_OK) {
        trial_fail(trial, 0, __FILE__, __LINE__, "comm_open_threads");
        return;
    }
    for (int r = 0; r < trial->size; r++) {
        thread[r] = (struct thread){trial, comm[r], 0};
        if (pthread_create(&thread[r].id, NULL, thread_main, &thread[r]) != 0) abort();
    }
    for (int r = 0; r < trial->size; r++) pthread_join(thread[r].id, NULL);
}

/* As a launcher would: waits for any of them, and tells all of one that was killed. */
static void collect(struct trial *trial) {
    int how = 0, rank = 0;
    pid_t pid = waitpid(-1, &how, 0);
    while (rank < trial->size && trial->shared->pid[rank] != pid) rank++;
    if (WIFSIGNALED(how) && rank == trial->killed)
        atomic_store(&trial->shared->lost, rank);
    else if (!(WIFEXITED(how) && WEXITSTATUS(how) == 0))
        trial_fail(trial, rank, __FILE__, __LINE__, "the process ended badly");
}

static void run_processes(struct trial *trial) {
    for (int r = 0; r < trial->size; r++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            log_capture(trial->shared->log[r], TRIAL_LOG_BYTES);
            run_opened(trial, r);
            _exit(0);
        }
        trial->shared->pid[r] = pid;
    }
    for (int r = 0; r < trial->size; r++) collect(trial);
}

const char *trial_run(struct trial *trial) {
    static char failure[256];
    trial->shared = mmap(NULL, sizeof *trial->shared, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trial->shared == MAP_FAILED) abort();
    atomic_store(&trial->shared->lost, -1);
    for (int r = 0; r < TRIAL_MOST; r++) atomic_store(&trial->shared->waited_for[r], -1);
    switch (trial->mode) {
    case TRIAL_SELF: run_opened(trial, 0); break;
    case TRIAL_THREADS: run_threads(trial); break;
    default: run_processes(trial);
    }
    bool failed = atomic_load(&trial->shared->failures) > 0;
    memcpy(failure, trial->shared->failure, sizeof failure);
    if (trial->after) trial->after(trial);
    munmap(trial->shared, sizeof *trial->shared);
    return failed ? failure : NULL;
}

int trial_open_files(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}
