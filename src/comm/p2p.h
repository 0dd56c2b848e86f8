/* Collectives and channels over messages between two ranks. Transports (transport.h) move the
 * messages. Private to comm/p2p*.c, the transports and hosts.c.
 *
 * Hosts are known: members on one host see each other's heaps, and only one of them handles a
 * given slice towards the others. With ucx and mpi every rank is a host of its own; hosts.c puts
 * those that share memory together. Member p owns slice p of the data (comm_slice). On every other
 * host one member, the slice's handler, sends p the sums of the largest whole subtrees of the fixed
 * tree that its host holds (one leaf, where a host is one rank); p adds all of them in tree order
 * and sends the result back to the handlers, who write it to their neighbours. So every host sends
 * and receives the data about once, and the bits are those of the tree whatever the hosts are. */
#ifndef COMM_P2P_H
#define COMM_P2P_H

#include "comm/transport.h"

/* --- what is kept ---------------------------------------------------------------------------- */

enum {
    P2P_IN_FLIGHT = 4,      /* operations of a group whose fingerprints are on their way */
    P2P_WINDOW = 4,         /* pieces of one slice under way between two ranks */
    P2P_PIECE_LEAST = 4096, /* floats of a piece; what is added and sent at a time */
    P2P_PIECE_MOST = 65536,
    P2P_STAGING_BYTES = 8 << 20, /* of a group, unless it is so large that the least is more */
    P2P_HOST_BYTES = 256,
};

enum p2p_phase { P2P_HEADER, P2P_GIVE, P2P_RESULT, P2P_FINISH }; /* streams of a group */
enum { P2P_DATA, P2P_CREDIT, P2P_DECLARED };                     /* streams of a channel */
enum { P2P_HELLO = 1 }; /* a stream; those of groups are even, of channels odd and above 8 */

static inline uint32_t p2p_group_stream(const struct comm_group *group, enum p2p_phase phase) {
    return ((uint32_t)group->index * 4 + phase) * 2;
}

struct p2p {
    struct comm comm;
    struct p2p_transport *transport;
    struct region region;     /* the heap, unless it is shared */
    struct shm_areas *areas;  /* hosts: whose areas are the heaps of this host's ranks */
    int *host;                /* of each rank: the lowest rank of its host */
    char **heap;              /* of each rank whose memory is seen here, else NULL */
    struct comm_sizes *sizes; /* of each rank */
    _Atomic int aborted;
    bool any_order;    /* sums of all ranks may be the transport's own */
    uint64_t moves;    /* of the transport, when a sleep was prepared */
    int64_t broken_ns; /* since when a rank that is waited for is known to be gone, 0: none is */
    void **owned;      /* buffers to free */
    size_t owned_count, owned_capacity;
};

static inline struct p2p *p2p_of(const struct comm *comm) {
    return (struct p2p *)comm;
}

/* What a member says an operation is: all must say the same, but for the offset of its data. Small
 * data follows it at once. */
struct p2p_fingerprint {
    uint64_t sequence, offset;
    int64_t count;
    uint32_t group_hash;
    uint16_t kind, root;
};

struct p2p_header {
    struct p2p_fingerprint fingerprint;
    _Alignas(16) char data[COMM_EXCHANGE_BYTES];
};

struct p2p_entry {
    struct p2p_header mine, *header;      /* of each member */
    struct p2p_transfer *sent, *received; /* of each member */
};

/* A whole subtree of the fixed tree held by one host: leaves [begin, end). */
struct p2p_node {
    int begin, end, host;
    int number; /* among its host's */
};

/* The other end of a slice's pieces, with the transfers of a window. */
struct p2p_end {
    int rank, host, nodes; /* subtrees that come in one message */
    float *staging[P2P_WINDOW];
    struct p2p_transfer out[P2P_WINDOW], in[P2P_WINDOW];
};

/* This rank's part of moving a slice (or, in a broadcast, all of the data), piece by piece. The
 * counters only grow, up to `pieces`. */
struct p2p_task {
    int slice; /* whose */
    struct p2p_end *end;
    int end_count;
    int64_t begin, count, pieces; /* of this operation, in elements */
    int64_t given, gone;          /* handler: parts sent, and seen to be sent */
    int64_t asked, ready;         /* receives posted; pieces that are final here */
    int64_t told;                 /* final pieces sent on */
};

struct p2p_group {
    struct comm_request *unseen; /* the first one not launched */
    struct p2p_entry entry[P2P_IN_FLIGHT];
    int64_t piece; /* floats */
    struct p2p_node *node;
    int node_count;
    int *local, local_count; /* indices of the members on this host */
    int *host;               /* of each member */
    int own_nodes;           /* subtrees of this host */
    struct p2p_task owner, *handler, chain;
    struct p2p_end *handler_end; /* of each */
    int handler_count;
    float *spare; /* staging of chosen members, and how much of it is not given out; else NULL */
    size_t spare_count;
    struct p2p_transfer sum;                            /* of a sum of the transport's own */
    struct p2p_transfer *finish_sent, *finish_received; /* of each local member */
    bool finish_told;
    float **leaf; /* of each member: its data of the operation under way, NULL where not seen */
};

static inline struct p2p_group *p2p_group_of(const struct comm_group *group) {
    return group->state;
}

/* --- inside ---------------------------------------------------------------------------------- */

/* Local. Memory of the communicator, zeroed. */
void *p2p_own(struct p2p *p2p, size_t count, size_t bytes);
/* Collective, blocking: tells all ranks of one's heap and host and learns theirs; refuses those
 * that would add in another order. A round that failed is given back after the transport is closed:
 * messages may still come come into it. */
struct p2p_hello {
    struct comm_sizes sizes;
    uint64_t layout; /* ranks of one build speak alike */
    uint64_t any_order;
    char host[P2P_HOST_BYTES];
};
struct p2p_round {
    struct p2p_hello mine, *all;
    struct p2p_transfer *sent, *received;
};
enum status p2p_handshake(struct p2p_transport *transport, const struct comm_config *config,
                          struct p2p_round *out);
void p2p_round_free(struct p2p_round *round);
/* Local. A communicator on an open transport, which it takes, of ranks that greeted so; `areas` as
 * in struct p2p, or NULL. */
enum status p2p_new(const struct comm_ops *ops, const struct comm_config *config,
                    struct p2p_transport *transport, const struct p2p_hello *all, const int *host,
                    struct shm_areas *areas, struct comm **out);
/* The open of a communicator that is a transport and nothing else. */
enum status p2p_open(const struct comm_ops *ops, const struct p2p_transport_ops *transport,
                     const struct comm_config *config, struct comm **out);
size_t p2p_overhead_bytes(const struct p2p_transport_ops *transport, int members);
/* Local. STATUS_PEER when the rank waited for has been gone for so long that no one else will say
 * it; rank -1: nobody. */
enum status p2p_check_gone(struct p2p *p2p, int rank);

/* p2p_group.c: where a member's data lies in its heap; all letters have come. */
size_t p2p_offset(const struct comm_request *request, int member);
/* p2p_plan.c; p2p_move.c: one operation's data, which is at rest between begin and work == true. */
enum status p2p_group_new(struct comm_group *group);
void p2p_group_choose(struct comm_group *group);
void p2p_move_begin(struct comm_request *request);
bool p2p_move_work(struct comm_request *request);
int p2p_move_awaits(const struct comm_request *request);

/* The rest of the table. */
void p2p_close(struct comm *comm);
size_t p2p_foreign(const struct comm *comm);
enum status p2p_post(struct comm_group *group);
enum status p2p_progress(struct comm_group *group);
int p2p_awaits(const struct comm_request *request);
uint64_t p2p_moves(const struct comm *comm);
void p2p_arm(struct comm *comm, bool on);
void p2p_rest(struct comm *comm, int64_t limit_ns);
void p2p_abort(struct comm *comm, int rank);
int p2p_aborted(const struct comm *comm);
enum status p2p_channel_new(struct comm_channel *channel);
void p2p_poll(struct comm *comm);
enum status p2p_try_send(struct comm_channel *channel, const struct comm_request *message,
                         bool *sent);
enum status p2p_try_receive(struct comm_channel *channel, uint64_t number, bool *come);
void *p2p_message(struct comm_channel *channel, uint64_t number, struct ring_head *head);
void p2p_release(struct comm_channel *channel);
bool p2p_settle(struct comm_channel *channel);
/* near: ranks of one host see one another's heaps. */
size_t p2p_channel_overhead(enum comm_side side, bool same_host, size_t bytes, int slots);
size_t p2p_near_channel_overhead(enum comm_side side, bool same_host, size_t bytes, int slots);

#define P2P_TABLE(NAME, OPEN, OVERHEAD, CHANNEL_OVERHEAD)                                          \
    {                                                                                              \
        .name = NAME, .open = OPEN, .overhead = OVERHEAD, .close = p2p_close,                      \
        .foreign = p2p_foreign, .group_new = p2p_group_new, .channel_new = p2p_channel_new,        \
        .group_choose = p2p_group_choose, .post = p2p_post, .progress = p2p_progress,              \
        .moves = p2p_moves, .awaits = p2p_awaits, .arm = p2p_arm, .rest = p2p_rest,                \
        .abort = p2p_abort, .aborted = p2p_aborted, .poll = p2p_poll, .try_send = p2p_try_send,    \
        .try_receive = p2p_try_receive, .message = p2p_message, .release = p2p_release,            \
        .settle = p2p_settle, .channel_overhead = CHANNEL_OVERHEAD                                 \
    }

#endif
