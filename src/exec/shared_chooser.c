/* One controller for the rank threads of a process: see chooser.h.
 *
 * Nobody looks at it but those who come: what is due by time alone is decided by whoever waits for
 * it, or comes next. So it needs no thread of its own. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "exec/chooser.h"

struct shared_rank {
    struct shared_chooser *shared;
    struct comm *comm;
    struct engine_chooser chooser;
};

struct shared_chooser {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct controller *controller;
    struct shared_rank *rank;
};

static void form_all(struct shared_chooser *shared) {
    struct group_formed formed;
    bool any = false;
    while (controller_form(shared->controller, clock_ns(), &formed)) any = true;
    if (any) pthread_cond_broadcast(&shared->changed);
}

/* Until something changes or is due, or a while has passed; others may need what this rank has
 * posted, and tell so if one is lost. */
static enum status wait_a_while(struct shared_rank *own) {
    enum { MOST_NS = 1000 * 1000 };
    struct shared_chooser *shared = own->shared;
    int64_t now_ns = clock_ns(), due_ns = controller_wake_ns(shared->controller),
            left_ns = due_ns < now_ns + MOST_NS ? due_ns - now_ns : MOST_NS;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += left_ns > 0 ? left_ns : 0;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&shared->changed, &shared->lock, &until);
    form_all(shared);
    pthread_mutex_unlock(&shared->lock);
    enum status status = comm_progress(own->comm);
    pthread_mutex_lock(&shared->lock);
    return status;
}

static enum status begin(void *context, struct comm *comm, int64_t round, int64_t end, bool last) {
    struct shared_rank *own = context;
    own->comm = comm;
    pthread_mutex_lock(&own->shared->lock);
    controller_begin(own->shared->controller, round, end, last);
    pthread_mutex_unlock(&own->shared->lock);
    return STATUS_OK;
}

static enum status draw(void *context, int replica, int64_t index) {
    struct shared_chooser *shared = ((struct shared_rank *)context)->shared;
    pthread_mutex_lock(&shared->lock);
    form_all(shared);
    controller_draw(shared->controller, replica, index);
    form_all(shared);
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
    return STATUS_OK;
}

static enum status number(void *context, int replica, int64_t index, bool wait, int64_t *out) {
    struct shared_rank *own = context;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&own->shared->lock);
    *out = controller_number(own->shared->controller, replica, index);
    while (wait && *out == CONTROLLER_UNKNOWN && status == STATUS_OK) {
        status = wait_a_while(own);
        *out = controller_number(own->shared->controller, replica, index);
    }
    pthread_mutex_unlock(&own->shared->lock);
    return status;
}

static enum status arrive(void *context, int key, int replica, int64_t index) {
    struct shared_chooser *shared = ((struct shared_rank *)context)->shared;
    pthread_mutex_lock(&shared->lock);
    form_all(shared);
    controller_arrive(shared->controller, key, replica, index, clock_ns());
    form_all(shared);
    pthread_mutex_unlock(&shared->lock);
    return STATUS_OK;
}

static enum status group(void *context, int key, int replica, int64_t index, bool wait,
                         struct controller_group *out, bool *formed) {
    struct shared_rank *own = context;
    struct shared_chooser *shared = own->shared;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&shared->lock);
    form_all(shared);
    *formed = controller_group(shared->controller, key, replica, index, out);
    while (wait && !*formed && status == STATUS_OK) {
        status = wait_a_while(own);
        *formed = controller_group(shared->controller, key, replica, index, out);
    }
    pthread_mutex_unlock(&shared->lock);
    return status;
}

static enum status pause_round(void *context) {
    struct shared_chooser *shared = ((struct shared_rank *)context)->shared;
    pthread_mutex_lock(&shared->lock);
    controller_pause(shared->controller);
    pthread_mutex_unlock(&shared->lock);
    return STATUS_OK;
}

static int64_t save(void *context, int64_t *out) {
    struct shared_chooser *shared = ((struct shared_rank *)context)->shared;
    pthread_mutex_lock(&shared->lock);
    int64_t count = controller_save(shared->controller, out);
    pthread_mutex_unlock(&shared->lock);
    return count;
}

static enum status load(void *context, const int64_t *numbers, int64_t count) {
    struct shared_chooser *shared = ((struct shared_rank *)context)->shared;
    pthread_mutex_lock(&shared->lock);
    enum status status = controller_load(shared->controller, numbers, count);
    pthread_mutex_unlock(&shared->lock);
    return status;
}

static int64_t drawn(void *context, int replica) {
    struct shared_chooser *shared = ((struct shared_rank *)context)->shared;
    pthread_mutex_lock(&shared->lock);
    int64_t count = controller_drawn(shared->controller, replica);
    pthread_mutex_unlock(&shared->lock);
    return count;
}

static void place(void *context, int64_t next, int64_t each) {
    struct shared_chooser *shared = ((struct shared_rank *)context)->shared;
    pthread_mutex_lock(&shared->lock);
    controller_place(shared->controller, next, each);
    pthread_mutex_unlock(&shared->lock);
}

struct shared_chooser *shared_chooser_new(const struct groups_config *config, int ranks) {
    struct shared_chooser *shared = MEM_NEW(struct shared_chooser);
    pthread_condattr_t monotonic;
    *shared = (struct shared_chooser){.controller = controller_open(config, 0),
                                      .rank = MEM_ARRAY(struct shared_rank, ranks)};
    pthread_mutex_init(&shared->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&shared->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (int r = 0; r < ranks; r++) {
        struct shared_rank *rank = &shared->rank[r];
        *rank = (struct shared_rank){.shared = shared,
                                     .chooser = {.context = rank,
                                                 .begin = begin,
                                                 .draw = draw,
                                                 .number = number,
                                                 .arrive = arrive,
                                                 .group = group,
                                                 .pause = pause_round,
                                                 .save = save,
                                                 .load = load,
                                                 .drawn = drawn,
                                                 .place = place}};
    }
    return shared;
}

void shared_chooser_free(struct shared_chooser **pointer) {
    struct shared_chooser *shared = *pointer;
    if (!shared) return;
    pthread_mutex_destroy(&shared->lock);
    pthread_cond_destroy(&shared->changed);
    controller_close(&shared->controller);
    free(shared->rank);
    free(shared);
    *pointer = NULL;
}

const struct engine_chooser *shared_chooser_of(struct shared_chooser *shared, int rank) {
    return &shared->rank[rank].chooser;
}
