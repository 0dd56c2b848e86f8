/* Progress and waits, for all communicators alike.
 *
 * A wait first turns a little without giving up the core (where every rank has one), then yields
 * some 50 times, then sleeps in pieces of a tenth of a second. After each piece it looks whether a
 * rank was lost and tells the link whom it waits for: no wait lasts for ever without a message. In
 * all of them every posted operation goes on, so two ranks that wait for different things cannot
 * block one another. */
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/table.h"
#include "comm/turn.h"

enum { YIELDS = 50, NAP_NS = 100 * 1000 * 1000, SPINS_LEAST = 32 };

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Takes what is done off the front of the group's queue. */
static void retire(struct comm_group *group) {
    while (group->first && group->first->done) {
        struct comm_request *request = group->first;
        group->first = request->next;
        if (!group->first) group->last = NULL;
        comm_finished(request);
    }
}

enum status comm_check(struct comm *comm) {
    if (comm->failed == STATUS_OK && comm->ops->aborted(comm) >= 0) comm->failed = STATUS_PEER;
    return comm->failed;
}

enum status comm_progress_now(struct comm *comm) {
    PROGRESS_THREAD_GUARD(comm);
    TRY(comm_check(comm));
    size_t kept = 0;
    for (size_t i = 0; i < comm->active_count; i++) {
        struct comm_group *group = comm->active[i];
        if (comm->failed == STATUS_OK) comm->failed = comm->ops->progress(group);
        retire(group);
        if (group->first) comm->active[kept++] = group;
    }
    comm->active_count = kept;
    if (comm->failed == STATUS_OK) comm->failed = comm_channels_progress(comm);
    return comm->failed;
}

/* Where the progress thread holds the lock there is nothing to do. */
enum status comm_progress(struct comm *comm) {
    if (!comm_thread_try_lock(comm)) return STATUS_OK;
    enum status status = comm_progress_now(comm);
    comm_thread_unlock(comm);
    return status;
}

void comm_set_turn(struct comm *comm, enum status (*turn)(void *context), void *context) {
    comm->turn = turn;
    comm->turn_context = context;
}

static enum status is_ready(const struct comm_request *request, bool *out) {
    struct comm *comm = request->comm;
    TRY(comm_progress_now(comm));
    if (comm->turn && !request->done) TRY(comm->turn(comm->turn_context));
    *out = request->done;
    return STATUS_OK;
}

/* Armed first and asked once more after, so that no news falls between the question and the sleep.
 */
static enum status nap(const struct comm_request *request, bool *ready) {
    struct comm *comm = request->comm;
    comm->ops->arm(comm, true);
    enum status status = is_ready(request, ready);
    if (status != STATUS_OK || *ready)
        comm->ops->arm(comm, false);
    else
        comm->ops->rest(comm, NAP_NS);
    return status;
}

enum status comm_fail_lost(int own, int lost, const char *what) {
    char who[32] = "the control plane";
    if (lost >= 0) snprintf(who, sizeof who, "rank %d", lost);
    return fail(STATUS_PEER, "rank %d: %s is lost, seen while waiting at %s", own, who, what);
}

static int awaited_rank(const struct comm_request *request) {
    return request->channel ? comm_channel_peer(request) : request->comm->ops->awaits(request);
}

/* What the link knows, and what it should know. What the lost rank has still done counts: whether
 * it is lost is asked first, whether the wait is over second. */
static enum status look_around(const struct comm_request *request, int64_t since_ns, bool *ready) {
    struct comm *comm = request->comm;
    char what[COMM_TEXT_BYTES];
    if (!comm->link) return STATUS_OK;
    int lost = comm->link->lost ? comm->link->lost(comm->link->context) : -1;
    TRY(is_ready(request, ready));
    if (*ready) return STATUS_OK;
    comm_request_text(request, what);
    if (lost != -1) return comm->failed = comm_fail_lost(comm->rank, lost, what);
    if (comm->link->waiting)
        comm->link->waiting(comm->link->context, awaited_rank(request), what, since_ns);
    return STATUS_OK;
}

enum status comm_look(struct comm *comm, const char *what, int64_t since_ns) {
    const struct comm_link *link = comm->link;
    TRY(comm_progress_now(comm));
    if (!link) return STATUS_OK;
    int lost = link->lost ? link->lost(link->context) : -1;
    if (lost != -1) return comm->failed = comm_fail_lost(comm->rank, lost, what);
    if (link->waiting) link->waiting(link->context, -1, what, since_ns);
    return STATUS_OK;
}

/* Where a peer shares this rank's core it cannot answer while we turn, only once we yield. So turns
 * that were in vain make the next wait turn less, and turns that paid, more. */
static void learn(struct comm *comm, int turn) {
    int spins = comm->spins_now;
    if (turn == 0) return; /* no wait, no lesson */
    if (turn < spins)
        spins *= 2;
    else if (turn < spins + YIELDS)
        spins /= 2;
    if (spins < SPINS_LEAST) spins = SPINS_LEAST;
    comm->spins_now = spins < comm->spins ? spins : comm->spins;
}

static enum status await(const struct comm_request *request) {
    struct comm *comm = request->comm;
    int64_t since_ns = 0;
    bool ready = false;
    for (int turn = 0;; turn++) {
        TRY(is_ready(request, &ready));
        if (ready) learn(comm, turn);
        if (ready) return STATUS_OK;
        if (turn < comm->spins_now) {
            relax();
        } else if (turn < comm->spins_now + YIELDS) {
            sched_yield();
        } else {
            if (!since_ns) since_ns = clock_ns();
            TRY(nap(request, &ready));
            if (!ready) TRY(look_around(request, since_ns, &ready));
            if (ready) return STATUS_OK;
        }
    }
}

/* --- requests ------------------------------------------------------------------------------ */

static void give_back(struct comm_request **request) {
    struct comm *comm = (*request)->comm;
    (*request)->next = comm->spare;
    comm->spare = *request;
    *request = NULL;
}

enum status comm_test(struct comm_request **request, bool *done) {
    struct comm_request *asked = *request;
    *done = !asked;
    if (!asked) return STATUS_OK;
    PROGRESS_THREAD_GUARD(asked->comm);
    if (!asked->done) TRY(comm_progress_now(asked->comm));
    *done = asked->done;
    if (*done) give_back(request);
    return STATUS_OK;
}

enum status comm_wait(struct comm_request **request) {
    struct comm_request *asked = *request;
    if (!asked) return STATUS_OK;
    comm_thread_pause(asked->comm, true);
    struct comm_hooks hooks = asked->comm->hooks;
    bool told = hooks.waits && !asked->done;
    if (told) hooks.waits(hooks.context, true);
    enum status status = asked->done ? STATUS_OK : await(asked);
    if (told) hooks.waits(hooks.context, false);
    if (status == STATUS_OK)
        give_back(request);
    else
        *request = NULL; /* its memory lives until the close */
    comm_thread_pause(asked->comm, false);
    return status;
}
