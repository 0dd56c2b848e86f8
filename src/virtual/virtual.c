/* See virtual.h. Everything is under one lock; a rank that sleeps moves its own operations on now
 * and then, since one that has the baton may wait for them. */
#include "virtual/virtual.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "sim/forecast.h"
#include "sim/live.h"

/* Out of the order; would run; has the baton; awaits a time; really waits for other ranks. */
enum place { OUTSIDE, READY, RUNNING, BLOCKED, WAITING };

struct virtual_rank {
    struct virtual_world *world;
    int rank;
    enum place place;
    pthread_cond_t turn;
    struct comm *comm;
    struct engine_clock clock;
};

struct virtual_world {
    pthread_mutex_t lock;
    int ranks, running; /* -1: nobody has the baton */
    int waiting;        /* ranks that really wait */
    int met;            /* ranks that have come to the meeting under way, and which one it is: */
    int64_t meeting;
    struct virtual_rank *rank;
    struct plan_costs costs;
    struct costs source; /* what those are of */
    struct sim_live *live;
    int64_t full; /* the step before which what was loaded has a full pipeline; or CLOCK_EMPTY */
};

/* --- the baton --- */

static bool is_before(const struct virtual_world *world, int a, int b) {
    double one = sim_live_clock(world->live, a), other = sim_live_clock(world->live, b);
    return one < other || (one == other && a < b);
}

static int next_rank(const struct virtual_world *world) {
    int next = -1;
    for (int r = 0; r < world->ranks; r++)
        if (world->rank[r].place == READY && (next < 0 || is_before(world, r, next))) next = r;
    return next;
}

static void pass_on(struct virtual_world *world) {
    int next = world->running < 0 ? next_rank(world) : -1;
    if (next < 0) return;
    world->running = next;
    world->rank[next].place = RUNNING;
    pthread_cond_signal(&world->rank[next].turn);
}

static void put_down(struct virtual_rank *own, enum place place) {
    struct virtual_world *world = own->world;
    if (own->place == RUNNING) world->running = -1;
    own->place = place;
    pass_on(world);
}

static void nap(struct virtual_rank *own) {
    enum { NAP_NS = 100 * 1000 * 1000, SHORT_NS = 300 * 1000 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += own->world->waiting > 0 ? SHORT_NS : NAP_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&own->turn, &own->world->lock, &until);
}

/* Until it has the baton. A rank that is lost meanwhile ends the wait. */
static enum status take_up(struct virtual_rank *own) {
    pass_on(own->world);
    while (own->place != RUNNING) {
        nap(own);
        if (own->place == RUNNING) break;
        pthread_mutex_unlock(&own->world->lock);
        enum status status = comm_progress(own->comm);
        pthread_mutex_lock(&own->world->lock);
        if (status == STATUS_OK) continue;
        put_down(own, OUTSIDE);
        return status;
    }
    return STATUS_OK;
}

/* Those that now know what they waited for. */
static void wake(struct virtual_world *world) {
    for (int rank; (rank = sim_live_woken(world->live)) >= 0;)
        if (world->rank[rank].place == BLOCKED) world->rank[rank].place = READY;
}

static enum status go_on(struct virtual_rank *own, enum place place) {
    wake(own->world);
    put_down(own, place);
    return take_up(own);
}

/* --- the clock of a rank --- */

static enum status begin(void *context, struct comm *comm, enum list_name list, int64_t step) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    own->comm = comm;
    own->place = READY;
    enum status status = take_up(own);
    if (status == STATUS_OK) sim_live_begin(own->world->live, own->rank, list, step);
    pthread_mutex_unlock(&own->world->lock);
    return status;
}

static enum status advance(struct virtual_rank *own, int at,
                           bool (*by)(struct sim_live *live, int rank, int at)) {
    enum status status = STATUS_OK;
    while (status == STATUS_OK && !by(own->world->live, own->rank, at))
        status = go_on(own, BLOCKED);
    return status;
}

static enum status come(void *context, int at, int64_t *idle_ns) {
    struct virtual_rank *own = context;
    struct virtual_world *world = own->world;
    pthread_mutex_lock(&world->lock);
    double waits = sim_live_waits(world->live, own->rank);
    enum status status = advance(own, at, sim_live_come);
    if (status == STATUS_OK) status = go_on(own, READY);
    *idle_ns = (int64_t)(sim_live_waits(world->live, own->rank) - waits);
    pthread_mutex_unlock(&world->lock);
    return status;
}

static enum status ran(void *context, int at, int *row) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    enum status status = advance(own, at, sim_live_ran);
    *row = sim_live_row(own->world->live, own->rank);
    if (status == STATUS_OK) status = go_on(own, READY);
    pthread_mutex_unlock(&own->world->lock);
    return status;
}

static enum status end(void *context, int at, int64_t *idle_ns) {
    struct virtual_rank *own = context;
    TRY(come(context, at, idle_ns));
    pthread_mutex_lock(&own->world->lock);
    sim_live_end(own->world->live, own->rank);
    put_down(own, OUTSIDE);
    pthread_mutex_unlock(&own->world->lock);
    return STATUS_OK;
}

/* Whoever comes first sleeps, and does not make those that run look around for it. */
static enum status meet(void *context) {
    struct virtual_rank *own = context;
    struct virtual_world *world = own->world;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&world->lock);
    int64_t meeting = world->meeting;
    if (++world->met == world->ranks) {
        world->met = 0;
        world->meeting++;
        for (int r = 0; r < world->ranks; r++) pthread_cond_signal(&world->rank[r].turn);
    }
    while (world->meeting == meeting && status == STATUS_OK) {
        nap(own);
        if (world->meeting != meeting) break;
        pthread_mutex_unlock(&world->lock);
        status = comm_progress(own->comm);
        pthread_mutex_lock(&world->lock);
    }
    pthread_mutex_unlock(&world->lock);
    return status;
}

static void leave(void *context) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    put_down(own, OUTSIDE);
    pthread_mutex_unlock(&own->world->lock);
}

static int64_t now(void *context) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    double clock = sim_live_clock(own->world->live, own->rank);
    pthread_mutex_unlock(&own->world->lock);
    return llrint(clock);
}

static void times(void *context, int row, int64_t *begin_ns, int64_t *end_ns) {
    struct virtual_rank *own = context;
    double issued, ended;
    pthread_mutex_lock(&own->world->lock);
    sim_live_times(own->world->live, own->rank, row, &issued, &ended);
    pthread_mutex_unlock(&own->world->lock);
    *begin_ns = llrint(issued);
    *end_ns = llrint(ended);
}

static int save(void *context, double *out) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    int count = sim_live_save(own->world->live, out);
    pthread_mutex_unlock(&own->world->lock);
    return count;
}

static void load(void *context, const double *numbers, int count, int64_t full) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    bool fits = sim_live_load(own->world->live, numbers, count, full != CLOCK_LATEST);
    own->world->full = fits ? full : CLOCK_EMPTY;
    pthread_mutex_unlock(&own->world->lock);
}

static bool is_full(void *context, int64_t step) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    bool full = own->world->full == step;
    pthread_mutex_unlock(&own->world->lock);
    return full;
}

/* Sleepers are told to move on what they have posted. */
static void waits(void *context, bool begins) {
    struct virtual_rank *own = context;
    struct virtual_world *world = own->world;
    pthread_mutex_lock(&world->lock);
    bool inside = own->place == (begins ? RUNNING : WAITING);
    world->waiting += begins ? 1 : -1;
    for (int r = 0; begins && r < world->ranks; r++)
        if (world->rank[r].place == BLOCKED || world->rank[r].place == READY)
            pthread_cond_signal(&world->rank[r].turn);
    if (inside && begins) put_down(own, WAITING);
    if (inside && !begins) {
        own->place = READY;
        take_up(own); /* a lost rank is found by the wait that comes next */
    }
    pthread_mutex_unlock(&world->lock);
}

/* --- the whole --- */

static void rank_new(struct virtual_world *world, int rank) {
    struct virtual_rank *of = &world->rank[rank];
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    *of = (struct virtual_rank){.world = world,
                                .rank = rank,
                                .clock = {.context = of,
                                          .begin = begin,
                                          .come = come,
                                          .ran = ran,
                                          .end = end,
                                          .meet = meet,
                                          .leave = leave,
                                          .now = now,
                                          .times = times,
                                          .save = save,
                                          .load = load,
                                          .is_full = is_full,
                                          .waits = waits}};
    pthread_cond_init(&of->turn, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* NULL: every step has all its samples. The caller frees it. */
static double *shares_of(const struct plan *plan) {
    int count = plan->config.replicas * plan->config.micro_batches;
    if (!plan->last_samples) return NULL;
    double *shares = MEM_ARRAY(double, count);
    for (int i = 0; i < count; i++)
        shares[i] = (double)plan->last_samples[i] / (double)plan->micro[0].samples;
    return shares;
}

enum status virtual_new(const struct plan *plan, const struct costs *costs,
                        struct virtual_world **out) {
    struct virtual_world *world = MEM_NEW(struct virtual_world);
    struct sim_input input;
    world->source = *costs;
    enum status status = forecast_input(plan, &world->source, &world->costs, &input);
    if (status != STATUS_OK) {
        free(world);
        return status;
    }
    world->ranks = input.program->ranks;
    world->running = -1;
    world->full = CLOCK_EMPTY;
    double *shares = shares_of(plan);
    world->live = sim_live_new(&input, shares);
    free(shares);
    world->rank = MEM_ARRAY(struct virtual_rank, world->ranks);
    pthread_mutex_init(&world->lock, NULL);
    for (int r = 0; r < world->ranks; r++) rank_new(world, r);
    *out = world;
    return STATUS_OK;
}

void virtual_free(struct virtual_world **pointer) {
    struct virtual_world *world = *pointer;
    if (!world) return;
    for (int r = 0; r < world->ranks; r++) pthread_cond_destroy(&world->rank[r].turn);
    pthread_mutex_destroy(&world->lock);
    sim_live_free(&world->live);
    sim_costs_free(&world->costs);
    free(world->rank);
    free(world);
    *pointer = NULL;
}

const struct engine_clock *virtual_clock(struct virtual_world *world, int rank) {
    return &world->rank[rank].clock;
}

double virtual_step_ns(struct virtual_world *world, int64_t step) {
    pthread_mutex_lock(&world->lock);
    double ns = sim_live_step(world->live, step);
    pthread_mutex_unlock(&world->lock);
    return ns;
}
