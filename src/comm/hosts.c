/* Ranks on several hosts: shared memory inside a host, a transport between hosts. The sums, the
 * order and the messages are those of p2p.h; here only the memory is put together: ranks that
 * name the same host map one another's areas, as shm does, and each rank's heap is in its area.
 *
 * Small things (fingerprints, headers, the end of an operation) go over the transport between all
 * ranks; transports use shared memory of their own inside a host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/p2p.h"
#include "comm/shm.h"

/* --- the link as the ranks of one host see it ------------------------------------------------- */

struct neighbours {
    const struct comm_link *link;
    int host;        /* its lowest rank */
    const int *rank; /* of each member */
};

static void host_key(const struct neighbours *neighbours, const char *key, char out[128]) {
    snprintf(out, 128, "host-%d/%s", neighbours->host, key);
}

static enum status link_put(void *context, const char *key, const void *value, size_t bytes) {
    struct neighbours *neighbours = context;
    char full[128];
    host_key(neighbours, key, full);
    return neighbours->link->put(neighbours->link->context, full, value, bytes);
}

static enum status link_get(void *context, const char *key, void **value, size_t *bytes) {
    struct neighbours *neighbours = context;
    char full[128];
    host_key(neighbours, key, full);
    return neighbours->link->get(neighbours->link->context, full, value, bytes);
}

/* Any rank's loss ends the job, whatever its host. */
static int link_lost(void *context) {
    const struct comm_link *link = ((struct neighbours *)context)->link;
    return link->lost ? link->lost(link->context) : -1;
}

static void link_waiting(void *context, int member, const char *what, int64_t since_ns) {
    struct neighbours *neighbours = context;
    const struct comm_link *link = neighbours->link;
    if (link->waiting)
        link->waiting(link->context, member < 0 ? member : neighbours->rank[member], what,
                      since_ns);
}

/* --- opening --------------------------------------------------------------------------------- */

/* host[r]: the lowest rank that names the same host as rank r. */
static void find_hosts(const struct p2p_hello *all, int size, int *host) {
    for (int rank = 0; rank < size; rank++) {
        host[rank] = 0;
        while (strcmp(all[host[rank]].host, all[rank].host) != 0) host[rank]++;
    }
}

static enum status join(const struct comm_config *config, const int *host, struct shm_areas **out) {
    int *rank = MEM_ARRAY(int, config->size), count = 0, member = 0;
    for (int r = 0; r < config->size; r++) {
        if (host[r] != host[config->rank]) continue;
        if (r == config->rank) member = count;
        rank[count++] = r;
    }
    struct neighbours neighbours = {config->link, host[config->rank], rank};
    struct comm_link link = {&neighbours, link_put, link_get, link_lost, link_waiting};
    struct comm_config inner = *config;
    inner.rank = member;
    inner.size = count;
    inner.link = &link;
    struct shm_areas *areas;
    struct comm_sizes sizes = {config->heap_bytes, config->channel_bytes};
    enum status status = shm_areas_new(count, &sizes, &areas);
    if (status == STATUS_OK) {
        atomic_store(&areas->users, 1);
        status = shm_join(&inner, areas);
        if (status == STATUS_OK)
            *out = areas;
        else
            shm_areas_leave(areas);
    }
    free(rank);
    return status;
}

static enum status open_on(struct p2p_transport *transport, const struct comm_config *config,
                           const struct p2p_hello *all, struct comm **out) {
    SCOPED_FREE int *host = MEM_ARRAY(int, config->size);
    struct shm_areas *areas;
    find_hosts(all, config->size, host);
    enum status status = join(config, host, &areas);
    if (status == STATUS_OK) {
        status = p2p_new(&comm_hosts, config, transport, all, host, areas, out);
        if (status != STATUS_OK) shm_areas_leave(areas);
    }
    return status;
}

static enum status hosts_open(const struct comm_config *config, struct comm **out) {
    const struct p2p_transport_ops *ops = p2p_transport_best();
    struct p2p_transport *transport;
    SCOPED(p2p_round_free) struct p2p_round round = {0};
    CHECK(config->link || config->size == 1, "hosts needs a link");
    if (!ops)
        return fail(STATUS_USAGE, "between hosts this build has MPI alone\n"
                                  "start the ranks with mpirun or srun --mpi=pmix");
    TRY(ops->open(config, &transport));
    enum status status = p2p_handshake(transport, config, &round);
    if (status == STATUS_OK) status = open_on(transport, config, round.all, out);
    if (status != STATUS_OK) ops->close(transport, false);
    return status;
}

static size_t overhead(int members) {
    const struct p2p_transport_ops *ops = p2p_transport_best();
    return ops ? p2p_overhead_bytes(ops, members) : 0;
}

const struct comm_ops comm_hosts =
    P2P_TABLE("hosts", hosts_open, overhead, p2p_near_channel_overhead);
