/* The data plane: how bytes move between the ranks of a job.
 *
 * A communicator is a const table (struct comm_ops) behind the thin wrappers below. `self` is the
 * one-rank communicator and the template; `shm` serves ranks on one machine, as threads or
 * processes; `mpi` and `ucx` serve hosts; `hosts` is shm inside a host and one of them between.
 * Which one is used never changes a bit of the result: sums follow the fixed tree over the group's
 * members.
 *
 * Memory that others read or write comes from comm_alloc, out of a heap of each rank's own: sizes
 * and order may differ from rank to rank, and an operation tells its members where the data of each
 * lies. Groups and channels (channel.h) are declared alike: every rank declares each one, in the
 * same order, members or not.
 *
 * Collectives are asynchronous: a call posts the operation and returns a request; comm_progress
 * moves all posted ones on without waiting (the executor calls it between pieces of work);
 * comm_wait finishes one. Operations of a group complete in the order posted. Each carries a
 * fingerprint (sequence, kind, dtype, count): ranks that disagree all fail, naming both sides.
 *
 * A handle belongs to one thread. Waits yield some 50 times, then sleep; they end with STATUS_PEER
 * soon after the link says that a rank is lost, and tell the link whom they wait for. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* What a communicator needs of the control plane: an exchange of small texts to find one another,
 * and news. */
struct comm_link {
    void *context;
    /* Blocking. Publishes a value of at most COMM_LINK_VALUE_BYTES under a key; waits for the value
     * of a key (the caller frees it). Keys are of the job. */
    enum status (*put)(void *context, const char *key, const void *value, size_t bytes);
    enum status (*get)(void *context, const char *key, void **value, size_t *bytes);
    /* Any time, cheap. A rank known to be lost, -1: none, another negative: the link itself. */
    int (*lost)(void *context);
    /* In a wait that lasts, about ten times a second: for which rank, at what, since when
     * (clock_ns). */
    void (*waiting)(void *context, int rank, const char *what, int64_t since_ns);
};

enum { COMM_LINK_VALUE_BYTES = 1 << 20 };

struct comm_config {
    int rank, size;
    const struct comm_link *link; /* outlives the communicator; may be NULL for self */
    int epoch;             /* tells communicators opened one after the other on one link apart */
    size_t heap_bytes;     /* of comm_alloc in all; may differ between ranks */
    size_t channel_bytes;  /* of all channels this rank receives from; likewise */
    const char *host;      /* ranks with equal hosts share memory */
    const char *interface; /* network to bind to, NULL: any that fits */
    bool any_order;        /* of sums: a library's own all-reduce will do; alike on all ranks */
};

struct comm;         /* one rank's handle; it owns groups and requests */
struct comm_group;   /* declared members */
struct comm_request; /* a posted operation, gone after comm_wait */

/* Collective over the job, blocking. By a name of comm_name_at; the caller closes it. */
enum status comm_open(const char *name, const struct comm_config *config, struct comm **out);
/* Local. All ranks of one process at once, for ranks as threads: fills out[size]; each thread then
 * uses (and closes) its own. The sizes are the most that any rank needs: what is not touched costs
 * nothing. The first failure of a rank can be told to the others with comm_abort. */
enum status comm_open_threads(int size, size_t heap_bytes, size_t channel_bytes, struct comm **out);
/* Local. What the waits of a rank that is a thread report to: only lost and waiting of `link` are
 * used, either may be NULL. It outlives the communicator. */
void comm_set_link(struct comm *comm, const struct comm_link *link);
/* Collective over the job, blocking. Before any communicator is open, the library that started the
 * ranks may broadcast a few bytes from rank 0: MPI does, under mpirun or srun --mpi=pmix. Whether
 * there is one (of `config` rank, size and interface count); the broadcast, within limit_s. */
bool comm_bootstrap_exists(const struct comm_config *config);
enum status comm_bootstrap(const struct comm_config *config, void *data, size_t bytes,
                           double limit_s);
/* Local. Names that a build can have, one rank's first, NULL last; whether this one has it. */
const char *comm_name_at(int index);
bool comm_exists(const char *name);
void comm_close(struct comm **comm); /* accepts NULL, and clears it */
/* Local, any thread. Makes every wait of every rank of this process end with STATUS_PEER, as if
 * `rank` were lost; says nothing, since whoever calls it has said why. */
void comm_abort(struct comm *comm, int rank);

/* Local. Memory that a communicator takes besides its heap and its channels, a rank, for the group
 * of all ranks; each further group of n members takes at most that of n ranks, each channel what
 * comm_channel_overhead says. 0 for a name this build does not have. */
size_t comm_overhead_bytes(const char *name, int size);
/* Local, reads a file. Memory of other ranks' processes that is resident in this one because it
 * shares it: a measured size less this is the rank's own. */
size_t comm_foreign_bytes(const struct comm *comm);

int comm_rank(const struct comm *comm);
int comm_size(const struct comm *comm);
const char *comm_name(const struct comm *comm);
/* Bytes this rank has sent to others since the start: its even share of each operation, also where
 * memory is shared and whoever has time does the work, so that the figure repeats. */
uint64_t comm_sent_bytes(const struct comm *comm);
/* Time that was spent on moving bytes beside the rank's own thread, since the start. */
int64_t comm_hidden_ns(struct comm *comm);

/* Collective over the job (the same calls in order), not blocking. Members in the tree's order. */
enum status comm_group_new(struct comm *comm, const int *ranks, int count, struct comm_group **out);
/* The group of all ranks; members of a group; this rank's index among them, -1 when it is none; the
 * rank of a member. */
struct comm_group *comm_world(struct comm *comm);
int comm_group_count(const struct comm_group *group);
int comm_group_member(const struct comm_group *group);
int comm_group_rank(const struct comm_group *group, int member);

/* Local. 64-byte aligned, zeroed; lives until the close. STATUS_MEMORY when the heap is used up. */
enum status comm_alloc(struct comm *comm, size_t bytes, const char *what, void **out);

/* Collective over the group, not blocking: all return at once with a request. Data must lie in
 * comm_alloc memory, wherever that is on each member, and stay untouched by the
 * caller until the request is done; operations of one group on overlapping data may follow one
 * another without a wait. Sums of floats follow the fixed tree over members: level by level
 * neighbours 2i and 2i+1 are added, an odd last one is carried up.
 *
 *     all_reduce      every member ends with the sum
 *     reduce_scatter  member p ends with the sum of its slice (comm_slice), the rest is undefined
 *     all_gather      member p gives its slice, every member ends with all slices
 *     broadcast       every member ends with the data of member `root`
 */
enum status comm_all_reduce(struct comm_group *group, float *data, int64_t count,
                            struct comm_request **out);
enum status comm_reduce_scatter(struct comm_group *group, float *data, int64_t count,
                                struct comm_request **out);
enum status comm_all_gather(struct comm_group *group, float *data, int64_t count,
                            struct comm_request **out);
enum status comm_broadcast(struct comm_group *group, int root, void *data, size_t bytes,
                           struct comm_request **out);

/* Local. The slice of member `member` of `count` elements: whole blocks of COMM_SLICE_BLOCK (the
 * last one shorter), spread evenly. */
enum { COMM_SLICE_BLOCK = 1024 };
void comm_slice(const struct comm_group *group, int64_t count, int member, int64_t *begin,
                int64_t *slice_count);
/* Local. The same of any group of so many members, before there is one. */
void comm_slice_of(int members, int64_t count, int member, int64_t *begin, int64_t *slice_count);

/* Local. Moves posted operations on as far as they go without waiting. After STATUS_PEER, or after
 * ranks disagreed, every call on the communicator fails alike. */
enum status comm_progress(struct comm *comm);
/* Local. The number of a posted operation in its group, or of a message in its channel, from 1. */
uint64_t comm_request_sequence(const struct comm_request *request);
/* Local. Whether it is done (then the request is gone). */
enum status comm_test(struct comm_request **request, bool *done);
/* Blocking. Accepts a NULL request. */
enum status comm_wait(struct comm_request **request);

/* Collective over the group, for small things; those that return a request
 * are posted, the others block. exchange: every member
 * gives `bytes` and gets those of all members, in member order. Of a posted one both buffers stay
 * untouched until it is done, and the next exchange of the group comes after that. agree: STATUS_OK
 * on every member when all pass STATUS_OK, else on every member the first failing member's status.
 */
enum status comm_barrier(struct comm_group *group);
enum status comm_barrier_post(struct comm_group *group, struct comm_request **out);
enum status comm_exchange(struct comm_group *group, const void *mine, size_t bytes, void *all);
enum status comm_exchange_post(struct comm_group *group, const void *mine, size_t bytes, void *all,
                               struct comm_request **out);
enum { COMM_EXCHANGE_BYTES = 4096 }; /* at most, of one member */
enum status comm_agree(struct comm_group *group, enum status mine);

/* Local. Whose failure all ranks share: a report names that rank, not the one that ends first.
 * agree notes the first member that failed; who knows more notes it itself, in its own thread. The
 * first note stays. */
enum { COMM_NOBODY = -1, COMM_ANOTHER = -2 /* not this rank, but it is not known which */ };
void comm_blame(struct comm *comm, int rank);
int comm_blamed(const struct comm *comm);

/* Local. Who watches, or disturbs: `before` is called at each post and makes it fail when it
 * returns a failure, `after` when an operation is seen to be done, by whatever thread, before a
 * test or a wait tells so; that of a send may come before its post returns. Both under the
 * communicator's lock; either may be NULL. Group and sequence tell which request it is. */
struct comm_event {
    const char *kind; /* "all_reduce", ..., "send", "receive" */
    int group;        /* of a channel: a negative number, another one for each of its ends */
    int members;
    int channel, peer; /* of a send or receive: the channel's kind, the rank at the other end */
    uint64_t sequence;
    size_t bytes;
    int64_t begin_ns, end_ns;
    int64_t start_ns; /* of a message that is done: when it had a credit and its sender began to
                         move it; 0: not known, as where it did not come through shared memory */
};
struct comm_hooks {
    void *context;
    enum status (*before)(void *context, const struct comm_event *event);
    void (*after)(void *context, const struct comm_event *event);
    void (*waits)(void *context, bool begins); /* around a wait for other ranks; without the lock */
};
void comm_set_hooks(struct comm *comm, const struct comm_hooks *hooks);

#include "comm/channel.h"
#include "comm/chosen.h"

#endif
