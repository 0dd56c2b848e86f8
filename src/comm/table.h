/* What a communicator fills in, and the objects that comm.c keeps for all of them. Private to comm.
 *
 * comm.c owns groups, requests, the bookkeeping of the heap, order, checks and waits; a table moves
 * bytes. To add one: a file NAME.c that exports the table comm_NAME, and a row in comm.def. self.c
 * is the template. */
#ifndef COMM_TABLE_H
#define COMM_TABLE_H

#include "base/mem.h"
#include "comm/comm.h"
#include "comm/progress_thread.h"
#include "comm/ring.h"

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
    int channel_count;
    struct comm_channel **active_channel; /* those with something to move on */
    size_t active_channel_count, active_channel_capacity;
    struct comm_request *spare; /* a list of unused requests */
    struct comm_hooks hooks;
    uint64_t sent_bytes;
    int blamed;                         /* see comm_blame */
    enum status (*turn)(void *context); /* see comm_set_turn */
    void *turn_context;
    struct progress_thread *progress_thread; /* NULL: the rank's own thread does all */
};

struct comm_group {
    struct comm *comm;
    int index, count, member;
    int *rank;                    /* of each member, in the order of the tree */
    uint32_t hash;                /* of the members: ranks must not differ in what group 7 is */
    uint64_t sequence, exchanges; /* of the last operation posted; how many exchanges */
    struct comm_request *first, *last; /* on their way, in order */
    int *all, most; /* of chosen members: those they are chosen from, else NULL; how many */
    void *state;    /* the table's */
};

struct comm_request {
    struct comm *comm;
    struct comm_group *group; /* NULL: of a channel */
    struct comm_channel *channel;
    struct comm_request *next;
    enum comm_kind kind;
    int root;
    uint64_t sequence; /* in its group, or end of a channel, from 1 */
    char *data;
    size_t offset; /* of data in the heap */
    int64_t count;
    const void *give; /* exchange */
    void *take;
    uint64_t turn;            /* exchange: how many came before it */
    struct comm_piece *piece; /* send: what it consists of, `count` bytes in all */
    int piece_count, piece_capacity;
    int64_t begin_ns, start_ns; /* see comm_event */
    bool done;
    /* The table's. */
    bool launched;  /* shown to the others */
    int arrived;    /* members known to have posted it */
    bool checked;   /* all members mean the same */
    bool worked;    /* nothing is left for this rank to do */
    int64_t pieces; /* the operation was cut into, once worked */
};

struct comm_queue {
    struct comm_request *first, *last; /* that an end of a channel has posted, in order */
    uint64_t posted, done;
};

struct comm_channel {
    struct comm *comm;
    int index; /* among all channels */
    int from, to, kind, slots;
    size_t bytes, offset; /* of one message; of the buffers, from the receiver's heap on */
    uint32_t hash;        /* of all that both ends must agree on */
    bool agreed;
    struct comm_queue queue[2]; /* by enum comm_side */
    uint64_t released;          /* receiver: messages */
    bool active;                /* is among active_channel */
    void *state;                /* the table's */
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
    void (*group_choose)(struct comm_group *group); /* it has other members; or NULL */

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

    /* Channels. No call waits, and both try calls fail where the two ends were declared
     * differently. poll: looks for news of all of them; NULL: there is nothing to look at. */
    void (*poll)(struct comm *comm);
    /* Copies the pieces of the next message; *sent is false when no credit is left. */
    enum status (*try_send)(struct comm_channel *channel, const struct comm_request *message,
                            bool *sent);
    /* Whether that message, all before it being there, has come; its data and its head. */
    enum status (*try_receive)(struct comm_channel *channel, uint64_t number, bool *come);
    void *(*message)(struct comm_channel *channel, uint64_t number, struct ring_head *head);
    void (*release)(struct comm_channel *channel);
    /* Moves on what was sent or released; false: nothing is left of it. NULL: nothing ever is. */
    bool (*settle)(struct comm_channel *channel);
    /* See comm_channel_overhead; NULL: none. */
    size_t (*channel_overhead)(enum comm_side side, bool same_host, size_t bytes, int slots);
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
/* Local. Asks and tells whoever watches: an operation is to be posted, is done. */
enum status comm_starts(struct comm_request *request);
void comm_finished(struct comm_request *request);
/* Local. A request like `wanted`, out of the spare ones where there is one. */
struct comm_request *comm_request_new(const struct comm_request *wanted);
/* Local. Whether something is on its way that a poll may move on. */
static inline bool comm_is_active(const struct comm *comm) {
    return comm->active_count + comm->active_channel_count > 0;
}

/* Local. Says that the channel's ends were declared differently; the communicator has failed. */
enum status comm_channel_misfit(struct comm_channel *channel);
/* Local. Moves the requests of all active channels on, without waiting. */
enum status comm_channels_progress(struct comm *comm);
/* Local. The rank at the other end of a posted send or receive; which one it is, into `text`. */
int comm_channel_peer(const struct comm_request *request);
const char *comm_channel_request_text(const struct comm_request *request,
                                      char text[COMM_TEXT_BYTES]);
/* Local. Copies the pieces of a message, one behind the other. */
void comm_copy_pieces(const struct comm_request *message, char *to);

#endif
