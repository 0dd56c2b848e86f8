/* The verifier's state; private to src/program. See verify.c for how it works, and one file for
 * each thing it proves: verify_slots.c, verify_gradients.c, verify_groups.c, verify_channels.c. */
#ifndef PROGRAM_VERIFY_H
#define PROGRAM_VERIFY_H

#include "program/program.h"

/* An operation of a group that was posted: done once all members have posted theirs. */
struct meeting {
    int64_t what; /* members must post the same */
    const struct instr *instr;
    int rank;    /* the first that came, with this instruction */
    int arrived; /* members so far */
};

/* A group, reduced to the ranks that are walked. */
struct meeting_group {
    struct meeting *items;
    int count, members;
    size_t capacity;
};

/* Messages from one stage to the next, or back, of one walked pipeline. */
struct message {
    const struct instr *instr;
    int rank;
};
struct channel {
    struct message *sent;            /* all that were posted */
    int sent_count, received, taken; /* receives posted; messages taken out: credits come back */
    size_t capacity;
};

/* What an instruction awaits before it touches a buffer: an operation of a group, a message, or
 * nothing. */
struct pending {
    struct meeting_group *group; /* NULL: none */
    struct channel *channel;     /* NULL: none */
    int number;                  /* of the operation or the message */
    const struct instr *receive; /* of a message; NULL: it is sent */
};

struct slot {
    unsigned facts; /* 0 before its first use */
    int micro;
    int pass, done; /* a pass that is run in segments, and how many of them were; 0: none */
    struct pending pending;
};

struct bucket {
    bool started, tied, reduced;
    int holds;        /* of a window: which bucket */
    int count;        /* gradients of micro-batches in here */
    uint64_t content; /* which, in any order: the sum of their keys */
    uint64_t order;   /* of the additions that made it; 0: nothing added */
    struct pending pending;
};

struct grad {
    bool normed;           /* NORM saw it as it is */
    struct bucket *bucket; /* of all chunks; NULL until it is first used */
};

/* Parameters of a bucket, where replicas update slices. */
struct param_bucket {
    bool whole; /* all slices are there, with the last update */
    struct pending pending;
};

struct verifier;

/* One rank's place in its program. */
struct walk {
    struct verifier *verifier;
    const struct program *program;
    const struct rank_program *own;
    struct grid_cell cell;
    int rank, micros, first_micro;
    int pipeline;       /* the walked one it is in; -1: none */
    struct slot *slots; /* of all chunks */
    struct grad *grads;
    struct param_bucket *params; /* of all chunks */
    bool *loaded;                /* per chunk and micro-batch */
    int present;                 /* micro-batches with samples, and the sum of their keys: */
    uint64_t present_content;
    int tracked[GRID_MAX_CHUNKS]; /* micro-batches below this one have moved the running statistics
                                   */
    int at;                       /* next instruction of the body */
    const struct instr *instr;
    bool counted, reported, stepped, waits;
    struct pending seeds, losses, norm; /* under way: COUNT, REPORT, NORM */
    int posted[PROGRAM_MAX_GROUPS];     /* operations of each group so far */
    bool arrived;                       /* where statistics are shared, but not past it */
    int together, together_what; /* several replicas on a rank: how many have come, to what */
    int in_backward;             /* micro-batch whose backward is between segments, or -1 */
};

/* Ranks that are walked: of pipelines that do the same the first one, and all ranks without a
 * stage. */
struct verifier {
    const struct program *program;
    const int64_t *samples;
    bool shares; /* the program's F and B share statistics */
    struct walk *walks;
    int walk_count;
    struct meeting_group *groups[PROGRAM_MAX_GROUPS]; /* per group of the family */
    struct channel *channels;                         /* per walked pipeline, cut and direction */
    int pipeline_count;
};

/* Local. Refuses the program at the walk's instruction; returns STATUS_USAGE. */
enum status verify_broken(const struct walk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Local. Has micro-batch `micro` of the rank samples? */
bool verify_present(const struct walk *walk, int micro);
/* Local. Of the walk's instruction: its chunk; its stage is the model's first, last. */
int verify_chunk(const struct walk *walk);
bool verify_first_stage(const struct walk *walk);
bool verify_last_stage(const struct walk *walk);

/* Slots: the facts of the columns "needs" and "gives", each micro-batch once, running statistics.
 */
enum status verify_slot(struct walk *walk);

/* Gradients: buffers written before they are read, each micro-batch exactly once, in order. */
enum status verify_gradient(struct walk *walk);

/* The group of the instruction is all ranks that hold its stage, and there are several. */
enum status verify_replicas(const struct walk *walk);

/* Parameters: gathered before they are read, freed once; a step ends as it began. */
void verify_params_at_begin(struct walk *walk);
enum status verify_params(struct walk *walk);
enum status verify_params_at_end(const struct walk *walk);

/* Groups. Waits (walk->waits) until what the instruction reads or writes is done; meets those who
 * share statistics; posts what is done later. */
enum status verify_await(struct walk *walk);
/* ... all that is still under way, behind the last instruction. */
enum status verify_await_all(struct walk *walk);
enum status verify_share(struct walk *walk);
enum status verify_post(struct walk *walk);
/* A bucket of a gradient buffer, counted through all chunks. */
struct bucket *verify_bucket(struct walk *walk, int grad, int index);

/* Channels: messages are received in the order sent, by whom they are for. Posts a send or a
 * receive; whether what is pending on a channel is done; all that was sent was received. */
enum status verify_message(struct walk *walk);
bool verify_message_done(const struct verifier *verifier, const struct pending *pending);
/* What was received is taken out of the channel, which gives a credit back. */
enum status verify_take_message(struct walk *walk, const struct pending *pending);
enum status verify_all_received(const struct verifier *verifier);

#endif
