/* A transport: messages between two ranks, which is all that ucx and mpi do for p2p.h.
 * To add one: a file NAME.c that exports p2p_transport_NAME and comm_NAME, and a row in
 * comm.def. Private to comm. */
#ifndef COMM_TRANSPORT_H
#define COMM_TRANSPORT_H

#include "comm/table.h"

/* A message under way, owned by the caller; it stays where it is until it is done. */
struct p2p_transfer {
    bool done;    /* set by the transport, while it progresses */
    size_t bytes; /* that came, of a receive */
    int peer;
    /* The transport's. */
    void *transport, *handle;
    struct p2p_transfer *next;
};

struct p2p_transport {
    const struct p2p_transport_ops *ops;
    int rank, size;
    uint64_t moves;  /* transfers that were done so far; counted by the transport */
    bool one_thread; /* only the thread that opened it may use it */
};

/* Messages of one stream between two ranks arrive in the order sent, and are taken by receives in
 * the order posted; a receive may be longer than its message, never shorter. No call waits. What
 * cannot be done any more, because the peer is gone, is never done. */
struct p2p_transport_ops {
    const char *name;
    /* Whether this job was started for it: the best transport between hosts is the first that fits.
     */
    bool (*fits)(void);
    enum status (*open)(const struct comm_config *config,
                        struct p2p_transport **out); /* blocking */
    /* Local; `clean`: nothing failed, so what was sent is still delivered. Frees it. */
    void (*close)(struct p2p_transport *transport, bool clean);
    void (*send)(struct p2p_transport *transport, int peer, uint32_t stream, const void *data,
                 size_t bytes, struct p2p_transfer *transfer);
    void (*receive)(struct p2p_transport *transport, int peer, uint32_t stream, void *data,
                    size_t bytes, struct p2p_transfer *transfer);
    /* The library's own sum over all ranks, in place and in its own order; NULL: it has none. All
     * ranks call these in the same order. */
    void (*sum)(struct p2p_transport *transport, float *data, int64_t count,
                struct p2p_transfer *transfer);
    bool (*progress)(struct p2p_transport *transport); /* whether anything moved */
    /* Sleeps until something may have moved, or the limit. */
    void (*rest)(struct p2p_transport *transport, int64_t limit_ns);
    bool (*broken)(const struct p2p_transport *transport,
                   int peer); /* the transport knows that it is gone */
    size_t overhead_bytes;    /* of the library itself, a rank */
    /* See comm_bootstrap_exists and comm_bootstrap; NULL: nothing started the job that could. */
    bool (*can_bootstrap)(const struct comm_config *config);
    enum status (*bootstrap)(const struct comm_config *config, void *data, size_t bytes,
                             double limit_s);
};

#define TRANSPORT(name) extern const struct p2p_transport_ops p2p_transport_##name;
#include "comm/comm.def"

/* Local. The best transport between hosts, NULL: this build has none. */
const struct p2p_transport_ops *p2p_transport_best(void);

/* Local. One nap of a transport that has no way to sleep until news: it tests, with growing naps.
 */
void p2p_nap(struct p2p_transport *transport, int64_t limit_ns);

/* Blocking, for opening: progresses until `ready`, looks for lost ranks meanwhile and tells the
 * link that `rank` is waited for. */
enum status p2p_await(struct p2p_transport *transport, const struct comm_config *config,
                      const bool *ready, int rank, const char *what);

#endif
