/* The frame of p2p.h: opening on a transport, handshake, sleeping, closing. The rest is in
 * p2p_plan.c, p2p_group.c, p2p_move.c and p2p_channel.c. */
#include "comm/p2p.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "comm/shm.h"

enum { SPINS = 100, YIELDS = 50, LOOK_NS = 100 * 1000 * 1000 };
enum { NAP_FIRST_NS = 20 * 1000, NAP_MOST_NS = 500 * 1000 };
/* A connection that breaks is rarely the cause: the rank at its other end may have left because of
 * a third. The control plane knows who was first, and is given this long to say so. */
static const int64_t grace_ns = (int64_t)3 * 1000 * 1000 * 1000;

/* --- waiting --------------------------------------------------------------------------------- */

void p2p_nap(struct p2p_transport *transport, int64_t limit_ns) {
    int64_t end_ns = clock_ns() + limit_ns, nap_ns = NAP_FIRST_NS;
    while (!transport->ops->progress(transport) && clock_ns() < end_ns) {
        nanosleep(&(struct timespec){0, nap_ns}, NULL);
        if (nap_ns < NAP_MOST_NS) nap_ns *= 2;
    }
}

static enum status fail_gone(int own, int rank, const char *transport) {
    return fail(STATUS_PEER, "rank %d: the %s connection to rank %d broke", own, transport, rank);
}

enum status p2p_await(struct p2p_transport *transport, const struct comm_config *config,
                      const bool *ready, int rank, const char *what) {
    const struct comm_link *link = config->link;
    int64_t since_ns = clock_ns(), broken_ns = 0;
    for (int turn = 0; !*ready; turn++) {
        if (transport->ops->progress(transport)) continue;
        if (turn < YIELDS) {
            sched_yield();
            continue;
        }
        transport->ops->rest(transport, LOOK_NS);
        int lost = link && link->lost ? link->lost(link->context) : -1;
        if (lost != -1) return comm_fail_lost(config->rank, lost, what);
        if (transport->ops->broken(transport, rank) && !broken_ns) broken_ns = clock_ns();
        if (broken_ns && clock_ns() - broken_ns > grace_ns)
            return fail_gone(config->rank, rank, transport->ops->name);
        if (link && link->waiting) link->waiting(link->context, rank, what, since_ns);
    }
    return STATUS_OK;
}

enum status p2p_check_gone(struct p2p *p2p, int rank) {
    const struct comm *comm = &p2p->comm;
    if (rank < 0 || !p2p->transport->ops->broken(p2p->transport, rank)) return STATUS_OK;
    if (!p2p->broken_ns) p2p->broken_ns = clock_ns();
    if (comm->link && comm->link->lost && clock_ns() - p2p->broken_ns < grace_ns) return STATUS_OK;
    return fail_gone(comm->rank, rank, p2p->transport->ops->name);
}

/* What moved while the question was asked once more may be news for an operation that was looked at
 * before it moved: then there is no sleep. A transport's own rest misses nothing after that. */
void p2p_arm(struct comm *comm, bool on) {
    if (on) p2p_of(comm)->moves = p2p_of(comm)->transport->moves;
}

void p2p_rest(struct comm *comm, int64_t limit_ns) {
    struct p2p_transport *transport = p2p_of(comm)->transport;
    if (transport->moves == p2p_of(comm)->moves) transport->ops->rest(transport, limit_ns);
}

uint64_t p2p_moves(const struct comm *comm) {
    return p2p_of(comm)->transport->moves;
}

void p2p_abort(struct comm *comm, int rank) {
    int none = -1;
    atomic_compare_exchange_strong(&p2p_of(comm)->aborted, &none, rank);
}

int p2p_aborted(const struct comm *comm) {
    return atomic_load_explicit(&p2p_of(comm)->aborted, memory_order_relaxed);
}

/* --- handshake ------------------------------------------------------------------------------- */

static enum status check_hello(const struct p2p_hello *mine, const struct p2p_hello *other, int own,
                               int rank) {
    if (mine->layout != other->layout)
        return fail(STATUS_USAGE,
                    "rank %d and rank %d have different message layouts (%llu and %llu)\n"
                    "  they must be of one build",
                    own, rank, (unsigned long long)mine->layout, (unsigned long long)other->layout);
    if (mine->any_order != other->any_order)
        return fail(STATUS_BUG, "rank %d adds in %s order, rank %d in %s order", own,
                    mine->any_order ? "any" : "the fixed", rank,
                    other->any_order ? "any" : "the fixed");
    return STATUS_OK;
}

/* All are received before any is checked, so that every rank refuses, not only one. */
static enum status handshake(struct p2p_transport *transport, const struct comm_config *config,
                             struct p2p_round *round) {
    for (int rank = 0; rank < transport->size; rank++) {
        if (rank == transport->rank) continue;
        transport->ops->receive(transport, rank, P2P_HELLO, &round->all[rank], sizeof round->mine,
                                &round->received[rank]);
        transport->ops->send(transport, rank, P2P_HELLO, &round->mine, sizeof round->mine,
                             &round->sent[rank]);
    }
    for (int rank = 0; rank < transport->size; rank++) {
        if (rank == transport->rank) continue;
        TRY(p2p_await(transport, config, &round->received[rank].done, rank, "handshake"));
        TRY(p2p_await(transport, config, &round->sent[rank].done, rank, "handshake"));
    }
    round->all[transport->rank] = round->mine;
    for (int rank = 1; rank < transport->size; rank++)
        TRY(check_hello(&round->all[0], &round->all[rank], 0, rank));
    return STATUS_OK;
}

enum status p2p_handshake(struct p2p_transport *transport, const struct comm_config *config,
                          struct p2p_round *out) {
    *out = (struct p2p_round){.mine = {.sizes = {config->heap_bytes, config->channel_bytes},
                                       .layout = sizeof(struct p2p_header),
                                       .any_order = config->any_order}};
    snprintf(out->mine.host, P2P_HOST_BYTES, "%s", config->host ? config->host : "localhost");
    out->all = MEM_ARRAY(struct p2p_hello, transport->size);
    out->sent = MEM_ARRAY(struct p2p_transfer, transport->size);
    out->received = MEM_ARRAY(struct p2p_transfer, transport->size);
    return handshake(transport, config, out);
}

void p2p_round_free(struct p2p_round *round) {
    free(round->all);
    free(round->sent);
    free(round->received);
}

/* --- opening and closing --------------------------------------------------------------------- */

void *p2p_own(struct p2p *p2p, size_t count, size_t bytes) {
    p2p->owned = mem_grow(p2p->owned, &p2p->owned_capacity, p2p->owned_count + 1, sizeof(void *));
    return p2p->owned[p2p->owned_count++] = mem_array(count, bytes);
}

/* Which heaps are seen from here: one's own, and those in the areas, in the order of the ranks. */
static void find_heaps(struct p2p *p2p, const struct comm_config *config) {
    int local = 0;
    for (int rank = 0; rank < config->size; rank++) {
        if (p2p->host[rank] != p2p->host[config->rank]) continue;
        p2p->heap[rank] = p2p->areas ? p2p->areas->area[local++]->heap : p2p->region.base;
    }
    p2p->comm.heap = p2p->heap[config->rank];
}

enum status p2p_new(const struct comm_ops *ops, const struct comm_config *config,
                    struct p2p_transport *transport, const struct p2p_hello *all, const int *host,
                    struct shm_areas *areas, struct comm **out) {
    struct region region = {0};
    size_t bytes = config->heap_bytes + config->channel_bytes;
    if (!areas) TRY(region_map(bytes, "the heap of the communicator", &region));
    struct p2p *p2p = MEM_NEW(struct p2p);
    p2p->comm.ops = ops;
    p2p->comm.spins = config->size <= machine_cores("").usable ? SPINS : 0;
    p2p->transport = transport;
    p2p->areas = areas;
    p2p->region = region;
    p2p->host = p2p_own(p2p, (size_t)config->size, sizeof(int));
    p2p->heap = p2p_own(p2p, (size_t)config->size, sizeof(char *));
    p2p->comm.sizes = p2p->sizes = p2p_own(p2p, (size_t)config->size, sizeof *p2p->sizes);
    for (int rank = 0; rank < config->size; rank++) p2p->sizes[rank] = all[rank].sizes;
    p2p->any_order = config->any_order;
    p2p->comm.threads = !transport->one_thread;
    atomic_init(&p2p->aborted, -1);
    for (int rank = 0; rank < config->size; rank++) p2p->host[rank] = host ? host[rank] : rank;
    find_heaps(p2p, config);
    *out = &p2p->comm;
    return STATUS_OK;
}

enum status p2p_open(const struct comm_ops *ops, const struct p2p_transport_ops *transport_ops,
                     const struct comm_config *config, struct comm **out) {
    struct p2p_transport *transport;
    SCOPED(p2p_round_free) struct p2p_round round = {0};
    TRY(transport_ops->open(config, &transport));
    enum status status = p2p_handshake(transport, config, &round);
    if (status == STATUS_OK) status = p2p_new(ops, config, transport, round.all, NULL, NULL, out);
    if (status != STATUS_OK) transport->ops->close(transport, false);
    return status;
}

size_t p2p_foreign(const struct comm *comm) {
    const struct shm_areas *areas = p2p_of(comm)->areas;
    return areas ? shm_areas_foreign(areas, comm->heap) : 0;
}

/* The transport first: a message may still come into the memory. */
void p2p_close(struct comm *comm) {
    struct p2p *p2p = p2p_of(comm);
    bool clean = comm->failed == STATUS_OK && p2p_aborted(comm) < 0 && comm->active_count == 0;
    p2p->transport->ops->close(p2p->transport, clean);
    for (size_t i = 0; i < p2p->owned_count; i++) free(p2p->owned[i]);
    free(p2p->owned);
    if (p2p->areas) shm_areas_leave(p2p->areas);
    region_free(&p2p->region);
    free(p2p);
}
