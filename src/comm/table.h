/* What a communicator fills in, and the objects that comm.c keeps for all of them. Private to comm.
 *
 * comm.c owns groups, requests, the bookkeeping of the heap, order, checks and waits; a table moves
 * bytes. To add one: a file NAME.c that exports the table comm_NAME, and a row in comm.def. self.c
 * is the template. */
#ifndef COMM_TABLE_H
#define COMM_TABLE_H

#include <stdatomic.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "comm/progress_thread.h"

enum comm_kind {
#define KIND(NAME, name, dtype) COMM_##NAME,
#include "comm/kind.def"
#undef KIND
    COMM_KIND_COUNT
};

/* What a rank set aside: its heap, and behind it the channels it receives from. */
struct comm_sizes {
    size_t heap, channels;
};

struct comm {
    const struct comm_ops *ops;
    int rank, size;
    const struct comm_link *link;   /* NULL: none */
    char *heap;                     /* set by the table's open */
    const struct comm_sizes *sizes; /* of each rank, likewise */
    enum status failed; /* sticky: what every later call returns, without saying it again */
    bool threads;       /* the table may be used by several threads, one after the other */
    int spins; /* most turns of a wait before it yields; the table's open knows the cores */
    struct arena arena; /* lives until the close; the table may use it too */
    /* The rest is comm.c's, and wait.c's. */
    int spins_now;
    size_t heap_used;     /* of this rank's, by comm_alloc */
    size_t *channel_used; /* of each rank's, known to all: every channel is declared by all */
    struct comm_group **group;
    size_t group_count, group_capacity;
    struct comm_group **active; /* those with requests on their way */
    size_t active_count, active_capacity;
    struct comm_channel *channels;
    struct comm_request *spare; /* a list of unused requests */
    struct comm_hooks hooks;
    uint64_t sent_bytes;
    int blamed;                              /* see comm_blame */
    struct progress_thread *progress_thread; /* NULL: the rank's own thread does all */
};

struct comm_group {
    struct comm *comm;
    int index, count, member;
    int *rank;         /* of each member, in the order of the tree */
    uint32_t hash;     /* of the members: ranks must not differ in what group 7 is */
    uint64_t sequence; /* of the last operation posted */
    uint64_t exchanges;
    struct comm_request *first, *last; /* on their way, in order */
    void *state;                       /* the table's */
};

struct comm_request {
    struct comm_group *group;
    struct comm_request *next;
    enum comm_kind kind;
    int root;
    uint64_t sequence; /* in its group, from 1 */
    char *data;
    size_t offset; /* of data in the heap */
    int64_t count;
    const void *give; /* exchange */
    void *take;
    uint64_t turn; /* exchange: how many came before it */
    int64_t begin_ns;
    bool done;
    /* The table's. */
    bool launched;  /* shown to the others */
    int arrived;    /* members known to have posted it */
    bool checked;   /* all members mean the same */
    bool worked;    /* nothing is left for this rank to do */
    int64_t pieces; /* the operation was cut into, once worked */
};

struct comm_channel {
    struct comm *comm;
    struct comm_channel *next;
    int from, to, kind, slots;
    size_t bytes, offset; /* of one message; of the buffers, from the receiver's heap on */
    size_t room;          /* of the buffers, rounded up */
    uint32_t hash;        /* of all that both ends must agree on */
    bool agreed;
    uint32_t index; /* the table's: its number among all channels */
    void *state;    /* the table's */
};

struct comm_ops {
    const char *name;
    /* Collective over the job, blocking. Sets ops, heap, sizes and spins; comm.c the rest. */
    enum status (*open)(const struct comm_config *config, struct comm **out);
    void (*close)(struct comm *comm); /* frees it */
    /* Memory a rank needs besides its heap, for one group of so many members; NULL: none. */
    size_t (*overhead)(int members);
    /* See comm_foreign_bytes; NULL: shares nothing. */
    size_t (*foreign)(const struct comm *comm);

    /* What the table keeps of a group and of a channel (state); given back by close. */
    enum status (*group_new)(struct comm_group *group);
    enum status (*channel_new)(struct comm_channel *channel);

    /* Shows the last requests to the others; does none of their work. */
    enum status (*post)(struct comm_group *group);
    /* Moves the group's requests on, without waiting; sets `done` in order. */
    enum status (*progress)(struct comm_group *group);
    /* Counts what moved. A communicator that has it gets a progress thread; NULL: none. */
    uint64_t (*moves)(const struct comm *comm);
    /* The rank that a request not done waits for, -1: unknown. */
    int (*awaits)(const struct comm_request *request);

    /* A sleep that misses nothing: arm(true), look once more, rest() or arm(false). rest ends early
     * when a peer did something, and disarms. */
    void (*arm)(struct comm *comm, bool on);
    void (*rest)(struct comm *comm, int64_t limit_ns);
    /* Any thread. aborted: what abort was told, or -1. */
    void (*abort)(struct comm *comm, int rank);
    int (*aborted)(const struct comm *comm);

    enum status (*try_send)(struct comm_channel *channel, const void *data, bool *sent);
    enum status (*try_receive)(struct comm_channel *channel, void **data);
    enum status (*release)(struct comm_channel *channel);
};

#define COMMUNICATOR(name) extern const struct comm_ops comm_##name;
#include "comm/comm.def"

/* Local. Makes what comm.c keeps of a communicator a table just opened, the group of all ranks
 * included. */
enum status comm_begin(struct comm *comm, const struct comm_config *config);
/* Local. The heap of a rank that was asked for `wanted` bytes. */
size_t comm_heap_bytes(size_t wanted);

/* Local. Name of a kind; "all_reduce of 1000 f32 (operation 5 of group 0)" into `text`. */
enum { COMM_TEXT_BYTES = 128 };
const char *comm_kind_name(enum comm_kind kind);
const char *comm_request_text(const struct comm_request *request, char text[COMM_TEXT_BYTES]);

/* Local. As comm_progress, with the lock held or taken. */
enum status comm_progress_now(struct comm *comm);
/* Local. What every call on this communicator now returns: it failed before, or was aborted. */
enum status comm_check(struct comm *comm);
/* Local. Says that a wait of rank `own` ends because of what the link's lost() returned. */
enum status comm_fail_lost(int own, int lost, const char *what);
/* Local. Tells whoever watches that an operation is done. */
void comm_finished(struct comm_request *request);

/* Local. Says that the channel's ends were declared differently; the communicator has failed. */
enum status comm_channel_misfit(struct comm_channel *channel);

/* Blocking. Lets all posted operations progress until `ready` says so; for a wait that lasts,
 * `whom` gives the rank waited for and writes at what. STATUS_PEER once a rank is lost. */
struct comm_subject {
    void *object;
    enum status (*ready)(void *object, bool *out);
    int (*whom)(void *object, char text[COMM_TEXT_BYTES]);
};
enum status comm_await(struct comm *comm, const struct comm_subject *subject);

#endif
