/* MPI as a transport: non-blocking sends and receives on a communicator of our own.
 *
 * No call here waits, but MPI_Init and MPI_Finalize: neither Open MPI nor MPICH reports a dead
 * peer, so whoever waits inside them waits for ever. Waiting is ours, with an eye on the control
 * plane. All requests are tested together; messages of one tag between two ranks keep their order,
 * which is all that p2p.h asks for.
 *
 * MPI can be started once in a process and ended once: at the first open, and at exit. Finalize
 * waits for all ranks, so it is only called when every communicator was closed in peace, which a
 * non-blocking barrier finds out; otherwise the process leaves without it, and mpirun ends the
 * rest of the job, which has lost a rank anyway. The barrier is waited for as long as the link
 * knows of no loss: whoever left before would have mpirun end those that still write their results.
 * A rank that dies after it would hold the others in Finalize: a watchdog ends the process then. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/p2p.h"

/* Measured: what MPI_Init and the first messages add to the resident size. */
enum { LIBRARY_BYTES = 10 << 20 };
/* For the barrier where no link tells of a loss; for MPI_Finalize. */
static const int64_t close_limit_ns = (int64_t)30 * 1000 * 1000 * 1000;
enum { FINALIZE_LIMIT_S = 5, LOOK_NS = 1000 * 1000 };

struct transport {
    struct p2p_transport base;
    const struct comm_link *link; /* NULL: none */
    MPI_Comm comm;
    size_t count, capacity, other_capacity[3]; /* of requests under way */
    MPI_Request *request;
    struct p2p_transfer **transfer;
    int *index; /* MPI_Testsome's answers */
    MPI_Status *status;
    bool broken; /* MPI reported an error, which it is not required to survive */
};

static struct transport *transport_of(const struct p2p_transport *base) {
    return (struct transport *)base;
}

/* --- starting and ending MPI ----------------------------------------------------------------- */

static bool unclean; /* some transport was not closed in peace */

static void *end_late_process(void *code) {
    nanosleep(&(struct timespec){.tv_sec = FINALIZE_LIMIT_S}, NULL);
    _exit((int)(intptr_t)code);
}

/* Everything is written by now, and said once the streams are flushed. */
static void finalize(int code, void *unused) {
    pthread_t watchdog;
    int ended = 0;
    (void)unused;
    MPI_Finalized(&ended);
    if (unclean || ended) return;
    fflush(NULL);
    if (pthread_create(&watchdog, NULL, end_late_process, (void *)(intptr_t)code) != 0) return;
    MPI_Finalize();
}

/* Open MPI reads its settings when it starts; whoever has set it keeps their choice. */
static void bind_network(const char *interface) {
    if (interface) setenv("OMPI_MCA_btl_tcp_if_include", interface, 0);
}

static enum status start(const struct comm_config *config) {
    int started = 0, ended = 0, level = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (ended) return fail(STATUS_USAGE, "MPI was ended in this process and cannot start again");
    if (started) return STATUS_OK;
    bind_network(config->interface);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return fail(STATUS_PEER, "MPI does not start\nrun under mpirun or srun --mpi=pmix");
    on_exit(finalize, NULL);
    if (level < MPI_THREAD_FUNNELED)
        return fail(STATUS_USAGE, "this MPI was built without threads");
    return STATUS_OK;
}

static enum status check_identity(const struct comm_config *config) {
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == config->rank && size == config->size) return STATUS_OK;
    return fail(STATUS_USAGE,
                "rank %d of %d is rank %d of %d to MPI\n"
                "start the ranks with mpirun -n %d (or srun --mpi=pmix), without -n of our own",
                config->rank, config->size, rank, size, config->size);
}

/* --- messages -------------------------------------------------------------------------------- */

static void add(struct transport *transport, MPI_Request request, struct p2p_transfer *transfer) {
    size_t need = transport->count + 1;
    transport->request =
        mem_grow(transport->request, &transport->capacity, need, sizeof *transport->request);
    transport->transfer = mem_grow(transport->transfer, &transport->other_capacity[0], need,
                                   sizeof *transport->transfer);
    transport->index =
        mem_grow(transport->index, &transport->other_capacity[1], need, sizeof *transport->index);
    transport->status =
        mem_grow(transport->status, &transport->other_capacity[2], need, sizeof *transport->status);
    transport->request[transport->count] = request;
    transport->transfer[transport->count++] = transfer;
}

static bool is_possible(struct transport *transport, size_t bytes) {
    CHECK(bytes <= INT32_MAX, "a message of %zu bytes", bytes);
    return !transport->broken;
}

static void mpi_send(struct p2p_transport *base, int peer, uint32_t stream, const void *data,
                     size_t bytes, struct p2p_transfer *transfer) {
    struct transport *transport = transport_of(base);
    MPI_Request request;
    *transfer = (struct p2p_transfer){.peer = peer};
    if (!is_possible(transport, bytes)) return;
    if (MPI_Isend(data, (int)bytes, MPI_BYTE, peer, (int)stream, transport->comm, &request) ==
        MPI_SUCCESS)
        add(transport, request, transfer);
    else
        transport->broken = true;
}

static void mpi_receive(struct p2p_transport *base, int peer, uint32_t stream, void *data,
                        size_t bytes, struct p2p_transfer *transfer) {
    struct transport *transport = transport_of(base);
    MPI_Request request;
    *transfer = (struct p2p_transfer){.peer = peer};
    if (!is_possible(transport, bytes)) return;
    if (MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, (int)stream, transport->comm, &request) ==
        MPI_SUCCESS)
        add(transport, request, transfer);
    else
        transport->broken = true;
}

/* MPI's own all-reduce: faster on networks it knows well, in an order that nobody promises. */
static void mpi_sum(struct p2p_transport *base, float *data, int64_t count,
                    struct p2p_transfer *transfer) {
    struct transport *transport = transport_of(base);
    MPI_Request request;
    *transfer = (struct p2p_transfer){.peer = -1};
    if (!is_possible(transport, (size_t)count)) return;
    if (MPI_Iallreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, transport->comm,
                       &request) == MPI_SUCCESS)
        add(transport, request, transfer);
    else
        transport->broken = true;
}

/* Drops what is done from the list, keeping the order of the rest. */
static void compact(struct transport *transport) {
    size_t kept = 0;
    for (size_t i = 0; i < transport->count; i++) {
        if (transport->request[i] == MPI_REQUEST_NULL) continue;
        transport->request[kept] = transport->request[i];
        transport->transfer[kept++] = transport->transfer[i];
    }
    transport->count = kept;
}

static bool mpi_progress(struct p2p_transport *base) {
    struct transport *transport = transport_of(base);
    int done = 0;
    if (transport->count == 0 || transport->broken) return false;
    if (MPI_Testsome((int)transport->count, transport->request, &done, transport->index,
                     transport->status) != MPI_SUCCESS) {
        transport->broken = true;
        return false;
    }
    if (done <= 0) return false; /* also MPI_UNDEFINED */
    for (int i = 0; i < done; i++) {
        int bytes = 0;
        struct p2p_transfer *transfer = transport->transfer[transport->index[i]];
        MPI_Get_count(&transport->status[i], MPI_BYTE, &bytes);
        transfer->bytes = bytes > 0 ? (size_t)bytes : 0; /* of a send it is undefined */
        transfer->done = true;
    }
    transport->base.moves += (uint64_t)done;
    compact(transport);
    return true;
}

static bool mpi_broken(const struct p2p_transport *base, int peer) {
    (void)peer;
    return transport_of(base)->broken;
}

/* --- opening and closing --------------------------------------------------------------------- */

/* One request of MPI's own, waited for as any other. */
static enum status await_request(struct transport *transport, const struct comm_config *config,
                                 MPI_Request request, const char *what) {
    struct p2p_transfer transfer = {0};
    add(transport, request, &transfer);
    return p2p_await(&transport->base, config, &transfer.done, -1, what);
}

static enum status open_steps(const struct comm_config *config, struct transport *transport) {
    MPI_Request request;
    int level = 0;
    TRY(start(config));
    TRY(check_identity(config));
    MPI_Query_thread(&level);
    transport->base.one_thread = level < MPI_THREAD_SERIALIZED;
    if (MPI_Comm_idup(MPI_COMM_WORLD, &transport->comm, &request) != MPI_SUCCESS)
        return fail(STATUS_PEER, "rank %d: MPI gives no communicator", config->rank);
    TRY(await_request(transport, config, request, "opening MPI"));
    MPI_Comm_set_errhandler(transport->comm, MPI_ERRORS_RETURN);
    return STATUS_OK;
}

/* Whether it is worth waiting on; says that it is waited. */
static bool all_alive(const struct comm_link *link, int64_t since_ns) {
    if (!link || !link->lost) return clock_ns() - since_ns < close_limit_ns;
    if (link->lost(link->context) != -1) return false;
    if (link->waiting) link->waiting(link->context, -1, "closing MPI", since_ns);
    return true;
}

/* Whether all ranks have come to the close, and none is lost. */
static bool closed_by_all(const struct transport *transport) {
    MPI_Request barrier;
    int64_t since_ns = clock_ns();
    int done = 0;
    if (MPI_Ibarrier(transport->comm, &barrier) != MPI_SUCCESS) return false;
    while (MPI_Test(&barrier, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        if (!all_alive(transport->link, since_ns)) return false;
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
    }
    return done;
}

/* Receives that nobody will answer (a credit, say) are taken back. */
static void cancel_all(struct transport *transport) {
    for (size_t i = 0; i < transport->count; i++) {
        MPI_Cancel(&transport->request[i]);
        MPI_Request_free(&transport->request[i]);
    }
    transport->count = 0;
}

static void mpi_close(struct p2p_transport *base, bool clean) {
    struct transport *transport = transport_of(base);
    if (!clean || transport->broken || !closed_by_all(transport))
        unclean = true;
    else
        cancel_all(transport);
    /* The communicator stays until the process ends: MPI_Comm_free may wait for others. */
    free(transport->request);
    free(transport->transfer);
    free(transport->index);
    free(transport->status);
    free(transport);
}

static enum status mpi_open(const struct comm_config *config, struct p2p_transport **out) {
    struct transport *transport = MEM_NEW(struct transport);
    transport->base = (struct p2p_transport){
        .ops = &p2p_transport_mpi, .rank = config->rank, .size = config->size};
    transport->link = config->link;
    enum status status = open_steps(config, transport);
    if (status == STATUS_OK)
        *out = &transport->base;
    else
        mpi_close(&transport->base, false);
    return status;
}

/* --- before any transport is open
 * ----------------------------------------------------------------- */

/* A program that was built with another MPI than the mpirun that started it finds itself alone. */
static bool mpi_can_bootstrap(const struct comm_config *config) {
    int rank = 0, size = 0;
    if (start(config) != STATUS_OK) return false;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return rank == config->rank && size == config->size;
}

static enum status mpi_bootstrap(const struct comm_config *config, void *data, size_t bytes,
                                 double limit_s) {
    MPI_Request request;
    int64_t end_ns = clock_ns() + (int64_t)(limit_s * 1e9);
    int done = 0;
    CHECK(bytes <= INT32_MAX, "%zu bytes", bytes);
    if (MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request) != MPI_SUCCESS)
        return fail(STATUS_PEER, "rank %d: MPI does not broadcast", config->rank);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        if (clock_ns() > end_ns) {
            unclean = true;
            return fail(STATUS_PEER, "rank %d: no data from rank 0 by MPI within %.0f s",
                        config->rank, limit_s);
        }
        nanosleep(&(struct timespec){0, 200 * 1000}, NULL);
    }
    return done ? STATUS_OK : fail(STATUS_PEER, "rank %d: MPI's broadcast failed", config->rank);
}

/* Variables that Open MPI's mpirun, MPICH's, and srun --mpi=pmix set. */
static bool mpi_fits(void) {
    return getenv("OMPI_COMM_WORLD_RANK") || getenv("PMIX_RANK") || getenv("PMI_RANK");
}

const struct p2p_transport_ops p2p_transport_mpi = {.name = "mpi",
                                                    .fits = mpi_fits,
                                                    .open = mpi_open,
                                                    .close = mpi_close,
                                                    .send = mpi_send,
                                                    .receive = mpi_receive,
                                                    .sum = mpi_sum,
                                                    .progress = mpi_progress,
                                                    .rest = p2p_nap,
                                                    .broken = mpi_broken,
                                                    .overhead_bytes = LIBRARY_BYTES,
                                                    .can_bootstrap = mpi_can_bootstrap,
                                                    .bootstrap = mpi_bootstrap};

static enum status open_comm(const struct comm_config *config, struct comm **out) {
    return p2p_open(&comm_mpi, &p2p_transport_mpi, config, out);
}

static size_t overhead(int members) {
    return p2p_overhead_bytes(&p2p_transport_mpi, members);
}

const struct comm_ops comm_mpi = P2P_TABLE("mpi", open_comm, overhead, p2p_channel_overhead);
