/* See virtual.h. One lock protects everything. A rank that sleeps wakes now and then to make
 * progress with its own operations, since the rank that has the baton may wait for them. */
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

/* Not in a step; ready to run; has the baton; waits for a time that is not known yet; waits for
 * other ranks in the communicator. */
enum place { OUTSIDE, READY, RUNNING, BLOCKED, WAITING };

struct virtual_rank {
    struct virtual_world *world;
    int rank;
    enum place place;
    pthread_cond_t turn;
    struct comm *comm;
    struct engine_clock clock;
    struct engine_chooser chooser;
};

struct virtual_world {
    pthread_mutex_t lock;
    int ranks, running; /* -1: nobody has the baton */
    int waiting;        /* ranks that really wait */
    int met;            /* ranks that have come to the meeting under way, and which one it is: */
    int64_t meeting;
    struct virtual_rank *rank;
    struct plan_costs *costs;
    struct costs source; /* what those are of */
    struct sim_live *live;
    bool chooses; /* members of groups are chosen */
    int64_t came; /* ranks that have come to the begin of a round, in all rounds */
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

static void wake(struct virtual_world *world);

/* The first rank that may ask for something at its time; -1: all wait. */
static int first_active(const struct virtual_world *world) {
    int first = -1;
    for (int r = 0; r < world->ranks; r++) {
        enum place place = world->rank[r].place;
        if ((place == READY || place == WAITING) && (first < 0 || is_before(world, r, first)))
            first = r;
    }
    return first;
}

/* What ranks have asked for is decided in the order of time. */
static void decide(struct virtual_world *world) {
    for (bool any = true; any;) {
        int first = first_active(world);
        any = first < 0 ? sim_live_decide(world->live, INFINITY, world->ranks)
                        : sim_live_decide(world->live, sim_live_clock(world->live, first), first);
        wake(world);
    }
}

/* A round begins when all ranks have come. */
static bool all_came(const struct virtual_world *world) {
    return world->came % world->ranks == 0;
}

static void pass_on(struct virtual_world *world) {
    if (world->chooses && world->running < 0 && all_came(world)) decide(world);
    int next = world->running < 0 && all_came(world) ? next_rank(world) : -1;
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

/* Waits until this rank has the baton, or another one is lost. */
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

/* Ranks whose times are known now. */
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
    put_down(own, READY);
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
    if (!own->world->chooses) put_down(own, OUTSIDE); /* what it asks for next has its time, too */
    pthread_mutex_unlock(&own->world->lock);
    return STATUS_OK;
}

/* Whoever comes first sleeps, and does not make those that run look around for it. */
static enum status meet(void *context) {
    struct virtual_rank *own = context;
    struct virtual_world *world = own->world;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&world->lock);
    put_down(own, OUTSIDE);
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

/* NULL: every step has all its samples. The caller frees it. */
static double *shares_of(const struct plan *plan) {
    int count = plan->config.replicas * plan->config.micro_batches;
    if (!plan->last_samples) return NULL;
    double *shares = MEM_ARRAY(double, count);
    for (int i = 0; i < count; i++)
        shares[i] = (double)plan->last_samples[i] / (double)plan->micro[0].samples;
    return shares;
}

/* The simulator of a plan's program, with the costs it borrows. */
static enum status simulate(const struct plan *plan, const struct costs *source,
                            struct plan_costs *costs, struct sim_live **out) {
    struct sim_input input;
    TRY(forecast_input(plan, source, costs, &input));
    SCOPED_FREE double *shares = shares_of(plan);
    *out = sim_live_new(&input, shares);
    return STATUS_OK;
}

/* The numbers of the program before set the clocks alone. */
static void take_over(struct virtual_world *world, struct sim_live *next, double later) {
    SCOPED_FREE double *numbers = MEM_ARRAY(double, sim_live_save(world->live, NULL));
    int count = sim_live_save(world->live, numbers);
    numbers[SIM_LIVE_LATEST] += later;
    sim_live_load(next, numbers, count, false);
    sim_live_free(&world->live);
    world->live = next;
    world->full = CLOCK_EMPTY;
}

/* Costs are where the simulator's input points to, so they stay in the world. */
static enum status follow(void *context, const struct plan *plan, bool changes) {
    struct virtual_world *world = ((struct virtual_rank *)context)->world;
    struct sim_live *next;
    struct plan_costs *costs = MEM_NEW(struct plan_costs);
    enum status status = simulate(plan, &world->source, costs, &next);
    if (status != STATUS_OK) {
        free(costs);
        return status;
    }
    pthread_mutex_lock(&world->lock);
    take_over(world, next, changes ? forecast_change(plan, &world->source) : 0);
    sim_costs_free(world->costs);
    free(world->costs);
    world->costs = costs;
    pthread_mutex_unlock(&world->lock);
    return STATUS_OK;
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

/* --- who decides on groups --- */

static enum status begin_round(void *context, struct comm *comm, int64_t round, int64_t end_number,
                               bool last) {
    struct virtual_rank *own = context;
    struct virtual_world *world = own->world;
    pthread_mutex_lock(&world->lock);
    own->comm = comm;
    world->came++;
    if (all_came(world)) sim_live_round(world->live, round, end_number, last);
    put_down(own, READY);
    enum status status = take_up(own);
    pthread_mutex_unlock(&world->lock);
    return status;
}

static enum status draw(void *context, int replica, int64_t index) {
    struct virtual_rank *own = context;
    (void)replica;
    pthread_mutex_lock(&own->world->lock);
    sim_live_draw(own->world->live, own->rank, index);
    pthread_mutex_unlock(&own->world->lock);
    return STATUS_OK;
}

static enum status number(void *context, int replica, int64_t index, bool wait, int64_t *out) {
    struct virtual_rank *own = context;
    struct virtual_world *world = own->world;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&world->lock);
    if (!wait) *out = controller_number(sim_live_controller(world->live), replica, index);
    while (wait && status == STATUS_OK && !sim_live_number(world->live, own->rank, index, out))
        status = go_on(own, BLOCKED);
    pthread_mutex_unlock(&world->lock);
    return status;
}

/* Its clock has come there. */
static enum status arrive(void *context, int key, int replica, int64_t index) {
    (void)context, (void)key, (void)replica, (void)index;
    return STATUS_OK;
}

/* What awaits it has waited for it in virtual time. */
static enum status group(void *context, int key, int replica, int64_t index, bool wait,
                         struct controller_group *out, bool *formed) {
    struct virtual_rank *own = context;
    struct virtual_world *world = own->world;
    pthread_mutex_lock(&world->lock);
    *formed = controller_group(sim_live_controller(world->live), key, replica, index, out);
    pthread_mutex_unlock(&world->lock);
    CHECK(*formed || !wait, "replica %d waits for its group behind its time", replica);
    return STATUS_OK;
}

static enum status pause_round(void *context) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    controller_pause(sim_live_controller(own->world->live));
    pthread_mutex_unlock(&own->world->lock);
    return STATUS_OK;
}

static int64_t save_groups(void *context, int64_t *out) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    int64_t count = controller_save(sim_live_controller(own->world->live), out);
    pthread_mutex_unlock(&own->world->lock);
    return count;
}

static enum status load_groups(void *context, const int64_t *numbers, int64_t count) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    enum status status = controller_load(sim_live_controller(own->world->live), numbers, count);
    pthread_mutex_unlock(&own->world->lock);
    return status;
}

static int64_t drawn(void *context, int replica) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    int64_t count = controller_drawn(sim_live_controller(own->world->live), replica);
    pthread_mutex_unlock(&own->world->lock);
    return count;
}

static void place_groups(void *context, int64_t next, int64_t each) {
    struct virtual_rank *own = context;
    pthread_mutex_lock(&own->world->lock);
    controller_place(sim_live_controller(own->world->live), next, each);
    pthread_mutex_unlock(&own->world->lock);
}

/* --- the whole --- */

static struct engine_chooser chooser_of(struct virtual_rank *rank) {
    return (struct engine_chooser){.context = rank,
                                   .begin = begin_round,
                                   .draw = draw,
                                   .number = number,
                                   .arrive = arrive,
                                   .group = group,
                                   .pause = pause_round,
                                   .save = save_groups,
                                   .load = load_groups,
                                   .drawn = drawn,
                                   .place = place_groups};
}

static void rank_new(struct virtual_world *world, int rank) {
    struct virtual_rank *of = &world->rank[rank];
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    *of = (struct virtual_rank){.world = world,
                                .rank = rank,
                                .chooser = chooser_of(of),
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
                                          .follow = follow,
                                          .is_full = is_full,
                                          .waits = waits}};
    pthread_cond_init(&of->turn, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

enum status virtual_new(const struct plan *plan, const struct costs *costs,
                        struct virtual_world **out) {
    struct virtual_world *world = MEM_NEW(struct virtual_world);
    world->source = *costs;
    world->costs = MEM_NEW(struct plan_costs);
    enum status status = simulate(plan, &world->source, world->costs, &world->live);
    if (status != STATUS_OK) {
        free(world->costs);
        free(world);
        return status;
    }
    world->ranks = plan->program->ranks;
    world->running = -1;
    world->full = CLOCK_EMPTY;
    world->chooses = sim_live_controller(world->live);
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
    sim_costs_free(world->costs);
    free(world->costs);
    free(world->rank);
    free(world);
    *pointer = NULL;
}

const struct engine_clock *virtual_clock(struct virtual_world *world, int rank) {
    return &world->rank[rank].clock;
}

const struct engine_chooser *virtual_chooser(struct virtual_world *world, int rank) {
    return world->chooses ? &world->rank[rank].chooser : NULL;
}

double virtual_step_ns(struct virtual_world *world, int64_t step) {
    pthread_mutex_lock(&world->lock);
    double ns = sim_live_step(world->live, step);
    pthread_mutex_unlock(&world->lock);
    return ns;
}
