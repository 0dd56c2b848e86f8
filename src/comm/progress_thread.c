/* See progress_thread.h. */
#include "comm/progress_thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "comm/table.h"

/* A nap in vain doubles the next one. The longest bounds what a look costs (some microseconds) to a
 * percent of the time, the shortest is what a message takes. */
enum { NAP_FIRST_NS = 20 * 1000, NAP_MOST_NS = 500 * 1000 };

struct progress_thread {
    struct comm *comm;
    pthread_t thread;
    pthread_mutex_t lock; /* of the communicator and of the rest here; recursive */
    pthread_cond_t posted;
    bool stop, pause;
    int64_t busy_ns;
};

void comm_thread_lock(struct comm *comm) {
    if (comm->progress_thread) pthread_mutex_lock(&comm->progress_thread->lock);
}

bool comm_thread_try_lock(struct comm *comm) {
    return !comm->progress_thread || pthread_mutex_trylock(&comm->progress_thread->lock) == 0;
}

void comm_thread_unlock(struct comm *comm) {
    if (comm->progress_thread) pthread_mutex_unlock(&comm->progress_thread->lock);
}

struct comm *comm_thread_guard(struct comm *comm) {
    comm_thread_lock(comm);
    return comm;
}

void comm_thread_unguard(struct comm **comm) {
    comm_thread_unlock(*comm);
}

void comm_thread_wake(struct comm *comm) {
    if (comm->progress_thread) pthread_cond_signal(&comm->progress_thread->posted);
}

void comm_thread_pause(struct comm *comm, bool pause) {
    if (!comm->progress_thread) return;
    comm_thread_lock(comm);
    comm->progress_thread->pause = pause;
    if (!pause && comm_is_active(comm)) comm_thread_wake(comm);
    comm_thread_unlock(comm);
}

int64_t comm_thread_busy_ns(struct comm *comm) {
    if (!comm->progress_thread) return 0;
    PROGRESS_THREAD_GUARD(comm);
    return comm->progress_thread->busy_ns;
}

/* --- the thread ------------------------------------------------------------------------------ */

static bool has_work(const struct progress_thread *self) {
    const struct comm *comm = self->comm;
    return !self->pause && comm_is_active(comm) && comm->failed == STATUS_OK;
}

/* Whether anything moved. A failure stays in the communicator, where the rank finds it. */
static bool look(struct progress_thread *self) {
    int64_t begin_ns = clock_ns();
    uint64_t before = self->comm->ops->moves(self->comm);
    comm_progress_now(self->comm);
    bool moved = self->comm->ops->moves(self->comm) != before;
    if (moved) self->busy_ns += clock_ns() - begin_ns;
    return moved;
}

static void *run(void *argument) {
    struct progress_thread *self = argument;
    int64_t nap_ns = NAP_FIRST_NS;
    pthread_mutex_lock(&self->lock);
    while (!self->stop) {
        if (!has_work(self)) {
            pthread_cond_wait(&self->posted, &self->lock);
            nap_ns = NAP_FIRST_NS;
            continue;
        }
        nap_ns = look(self) ? NAP_FIRST_NS : nap_ns < NAP_MOST_NS ? 2 * nap_ns : nap_ns;
        pthread_mutex_unlock(&self->lock);
        nanosleep(&(struct timespec){0, nap_ns}, NULL);
        pthread_mutex_lock(&self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static void free_progress_thread(struct progress_thread *self) {
    pthread_cond_destroy(&self->posted);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

enum status comm_thread_start(struct comm *comm) {
    struct progress_thread *self = MEM_NEW(struct progress_thread);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&self->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_cond_init(&self->posted, NULL);
    self->comm = comm;
    enum status status = thread_start(&self->thread, run, self);
    if (status == STATUS_OK)
        comm->progress_thread = self;
    else
        free_progress_thread(self);
    return status;
}

void comm_thread_stop(struct comm *comm) {
    struct progress_thread *self = comm->progress_thread;
    if (!self) return;
    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_cond_signal(&self->posted);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    comm->progress_thread = NULL;
    free_progress_thread(self);
}
