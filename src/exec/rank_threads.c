/* See rank_threads.h. */
#include "exec/rank_threads.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"

struct rank_thread {
    struct rank_threads *threads;
    int rank;
    enum status status; /* of the last task */
    struct comm *comm;  /* the newest; its engine's once it is taken */
    int64_t taken;      /* how many it has taken */
    pthread_t thread;
};

struct rank_threads {
    int count, started; /* `started`: ranks below it have a thread, or are the caller's */
    bool apart;
    struct rank_thread *rank;

    pthread_mutex_t lock; /* guards what follows, and the communicators */
    pthread_cond_t news;  /* for those who wait for any of it */
    rank_task *task;
    void *context;
    bool aborts;    /* one that fails tells the others, which would wait for it */
    int ready;      /* threads that have begun */
    int64_t number; /* of tasks so far */
    int pending;
    int64_t openings;   /* of communicators by rank 0 */
    int broken;         /* a rank that has failed, -1: none */
    enum status failed; /* the first failure */
};

/* --- tasks --- */

static void tell_others(struct rank_thread *rank) {
    struct rank_threads *threads = rank->threads;
    pthread_mutex_lock(&threads->lock);
    if (threads->broken < 0) threads->broken = rank->rank;
    if (rank->comm) comm_abort(rank->comm, rank->rank);
    pthread_cond_broadcast(&threads->news);
    pthread_mutex_unlock(&threads->lock);
}

static void run_task(struct rank_thread *rank, rank_task *task, void *context, bool aborts) {
    rank->status = task(context, rank->rank);
    bool failed = rank->status != STATUS_OK && rank->status != STATUS_STOPPED;
    if (failed && aborts) tell_others(rank);
}

static void *work(void *argument) {
    struct rank_thread *rank = argument;
    struct rank_threads *threads = rank->threads;
    int64_t number = 0;
    pthread_mutex_lock(&threads->lock);
    threads->ready++;
    pthread_cond_broadcast(&threads->news);
    for (;;) {
        while (threads->number == number) pthread_cond_wait(&threads->news, &threads->lock);
        number = threads->number;
        rank_task *task = threads->task;
        void *context = threads->context;
        bool aborts = threads->aborts;
        if (!task) break;
        pthread_mutex_unlock(&threads->lock);
        run_task(rank, task, context, aborts);
        pthread_mutex_lock(&threads->lock);
        if (--threads->pending == 0) pthread_cond_broadcast(&threads->news);
    }
    pthread_mutex_unlock(&threads->lock);
    return NULL;
}

/* On all ranks; a task NULL ends the threads. */
static void tell(struct rank_threads *threads, rank_task *task, void *context, bool aborts) {
    pthread_mutex_lock(&threads->lock);
    threads->task = task;
    threads->context = context;
    threads->aborts = aborts;
    threads->pending = task ? threads->started - !threads->apart : 0;
    threads->number++;
    pthread_cond_broadcast(&threads->news);
    pthread_mutex_unlock(&threads->lock);
    if (task && !threads->apart) run_task(&threads->rank[0], task, context, aborts);
    pthread_mutex_lock(&threads->lock);
    while (threads->pending > 0) pthread_cond_wait(&threads->news, &threads->lock);
    pthread_mutex_unlock(&threads->lock);
}

static enum status on_all(struct rank_threads *threads, rank_task *task, void *context,
                          bool aborts) {
    enum status status = STATUS_OK;
    tell(threads, task, context, aborts);
    for (int r = 0; r < threads->count; r++) {
        enum status one = threads->rank[r].status;
        if (one == STATUS_OK) continue;
        if (status == STATUS_OK || status == STATUS_PEER) status = one;
    }
    if (status != STATUS_OK && aborts && threads->failed == STATUS_OK) threads->failed = status;
    return status;
}

enum status rank_threads_do(struct rank_threads *threads, rank_task *task, void *context) {
    return on_all(threads, task, context, true);
}

enum status rank_threads_try(struct rank_threads *threads, rank_task *task, void *context) {
    return on_all(threads, task, context, false);
}

enum status rank_threads_failed(const struct rank_threads *threads) {
    return threads->failed;
}

/* --- communicators --- */

/* A rank that failed before had none to tell the others through. */
static enum status open_all(struct rank_threads *threads, const struct plan *plan) {
    SCOPED_FREE struct comm **comms = MEM_ARRAY(struct comm *, threads->count);
    size_t heap, channels;
    plan_most_shared_bytes(plan, &heap, &channels);
    enum status status = comm_open_threads(threads->count, heap, channels, comms);
    pthread_mutex_lock(&threads->lock);
    for (int r = 0; r < threads->count && status == STATUS_OK; r++)
        threads->rank[r].comm = comms[r];
    if (status == STATUS_OK) threads->openings++;
    if (status == STATUS_OK && threads->broken >= 0) comm_abort(comms[0], threads->broken);
    pthread_cond_broadcast(&threads->news);
    pthread_mutex_unlock(&threads->lock);
    return status;
}

enum status rank_threads_comm(struct rank_threads *threads, int rank, const struct plan *plan,
                              struct comm **out) {
    struct rank_thread *own = &threads->rank[rank];
    pthread_mutex_lock(&threads->lock);
    if (own->taken == threads->openings) own->comm = NULL; /* it has closed that */
    pthread_mutex_unlock(&threads->lock);
    if (rank == 0) TRY(open_all(threads, plan));
    pthread_mutex_lock(&threads->lock);
    while (threads->openings == own->taken && threads->broken < 0)
        pthread_cond_wait(&threads->news, &threads->lock);
    bool there = threads->openings > own->taken;
    own->taken += there;
    if (there) *out = own->comm;
    pthread_mutex_unlock(&threads->lock);
    return there ? STATUS_OK : STATUS_PEER;
}

/* --- opening and closing --- */

/* Planning forks (what an instruction set does, what ranks take): a thread that is still beginning
 * may hold a lock of an allocator, which nobody would give back in the child. */
static void await_ready(struct rank_threads *threads) {
    pthread_mutex_lock(&threads->lock);
    while (threads->ready < threads->started - !threads->apart)
        pthread_cond_wait(&threads->news, &threads->lock);
    pthread_mutex_unlock(&threads->lock);
}

enum status rank_threads_open(int count, bool apart, struct rank_threads **out) {
    struct rank_threads *threads = MEM_NEW(struct rank_threads);
    *threads = (struct rank_threads){.count = count,
                                     .started = !apart,
                                     .apart = apart,
                                     .rank = MEM_ARRAY(struct rank_thread, count),
                                     .broken = -1};
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->news, NULL);
    enum status status = STATUS_OK;
    for (int r = 0; r < count; r++)
        threads->rank[r] = (struct rank_thread){.threads = threads, .rank = r};
    for (int r = threads->started; r < count && status == STATUS_OK; r++) {
        status = thread_start(&threads->rank[r].thread, work, &threads->rank[r]);
        threads->started += status == STATUS_OK;
    }
    await_ready(threads);
    *out = threads;
    if (status != STATUS_OK) rank_threads_close(out);
    return status;
}

void rank_threads_close(struct rank_threads **pointer) {
    struct rank_threads *threads = *pointer;
    if (!threads) return;
    tell(threads, NULL, NULL, false);
    for (int r = !threads->apart; r < threads->started; r++)
        pthread_join(threads->rank[r].thread, NULL);
    for (int r = 0; r < threads->count; r++)
        if (threads->rank[r].taken < threads->openings) comm_close(&threads->rank[r].comm);
    pthread_cond_destroy(&threads->news);
    pthread_mutex_destroy(&threads->lock);
    free(threads->rank);
    free(threads);
    *pointer = NULL;
}
