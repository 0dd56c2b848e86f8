/* See mover.h. */
#include "comm/mover.h"

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

struct mover {
    struct comm *comm;
    pthread_t thread;
    pthread_mutex_t lock; /* of the communicator and of the rest here; recursive */
    pthread_cond_t news;
    bool stop, pause;
    int64_t busy_ns;
};

void mover_lock(struct comm *comm) {
    if (comm->mover) pthread_mutex_lock(&comm->mover->lock);
}

bool mover_try_lock(struct comm *comm) {
    return !comm->mover || pthread_mutex_trylock(&comm->mover->lock) == 0;
}

void mover_unlock(struct comm *comm) {
    if (comm->mover) pthread_mutex_unlock(&comm->mover->lock);
}

struct comm *mover_guard(struct comm *comm) {
    mover_lock(comm);
    return comm;
}

void mover_unguard(struct comm **comm) {
    mover_unlock(*comm);
}

void mover_wake(struct comm *comm) {
    if (comm->mover) pthread_cond_signal(&comm->mover->news);
}

void mover_pause(struct comm *comm, bool pause) {
    if (!comm->mover) return;
    mover_lock(comm);
    comm->mover->pause = pause;
    if (!pause && comm->active_count > 0) mover_wake(comm);
    mover_unlock(comm);
}

int64_t mover_busy_ns(struct comm *comm) {
    if (!comm->mover) return 0;
    MOVER_GUARD(comm);
    return comm->mover->busy_ns;
}

/* --- the thread ------------------------------------------------------------------------------ */

static bool has_work(const struct mover *mover) {
    const struct comm *comm = mover->comm;
    return !mover->pause && comm->active_count > 0 && comm->failed == STATUS_OK;
}

/* Whether anything moved. A failure stays in the communicator, where the rank finds it. */
static bool look(struct mover *mover) {
    int64_t begin_ns = clock_ns();
    uint64_t before = mover->comm->ops->moves(mover->comm);
    comm_progress_now(mover->comm);
    bool moved = mover->comm->ops->moves(mover->comm) != before;
    if (moved) mover->busy_ns += clock_ns() - begin_ns;
    return moved;
}

static void *run(void *argument) {
    struct mover *mover = argument;
    int64_t nap_ns = NAP_FIRST_NS;
    pthread_mutex_lock(&mover->lock);
    while (!mover->stop) {
        if (!has_work(mover)) {
            pthread_cond_wait(&mover->news, &mover->lock);
            nap_ns = NAP_FIRST_NS;
            continue;
        }
        nap_ns = look(mover) ? NAP_FIRST_NS : nap_ns < NAP_MOST_NS ? 2 * nap_ns : nap_ns;
        pthread_mutex_unlock(&mover->lock);
        nanosleep(&(struct timespec){0, nap_ns}, NULL);
        pthread_mutex_lock(&mover->lock);
    }
    pthread_mutex_unlock(&mover->lock);
    return NULL;
}

static void free_mover(struct mover *mover) {
    pthread_cond_destroy(&mover->news);
    pthread_mutex_destroy(&mover->lock);
    free(mover);
}

enum status mover_start(struct comm *comm) {
    struct mover *mover = MEM_NEW(struct mover);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mover->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_cond_init(&mover->news, NULL);
    mover->comm = comm;
    enum status status = thread_start(&mover->thread, run, mover);
    if (status == STATUS_OK)
        comm->mover = mover;
    else
        free_mover(mover);
    return status;
}

void mover_stop(struct comm *comm) {
    struct mover *mover = comm->mover;
    if (!mover) return;
    pthread_mutex_lock(&mover->lock);
    mover->stop = true;
    pthread_cond_signal(&mover->news);
    pthread_mutex_unlock(&mover->lock);
    pthread_join(mover->thread, NULL);
    comm->mover = NULL;
    free_mover(mover);
}
