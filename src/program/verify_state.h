/* The verifier's state; private to src/program. See verify.c for how it works; each thing it proves
 * has a file, verify_*.c. */
#ifndef PROGRAM_VERIFY_STATE_H
#define PROGRAM_VERIFY_STATE_H

#include "program/resource.h"

/* The rows of rule.def. */
enum rule {
#define RULE(number, NAME, sentence) RULE_##NAME = number,
#include "program/rule.def"
#undef RULE
};

/* An instruction of a rank; without one: nothing. */
struct place {
    const struct instr *instr;
    int rank;
};

struct walk;

/* An operation of a group that was posted: done once all members have posted theirs. */
struct meeting {
    int64_t what;       /* members must post the same */
    struct place first; /* the member that came first */
    int arrived;        /* members so far */
};

/* A group, reduced to the ranks that are walked. */
struct meeting_group {
    struct meeting *items;
    int count, members;
    size_t capacity;
    struct walk *waiting; /* a list, by next_waiting */
};

/* Messages from one stage to the next, or back, of one walked pipeline. */
struct message {
    struct place sent;
    int micro;                   /* its micro-batch, counted through all steps */
    const struct instr *receive; /* the receive that was posted for it, or NULL */
};
struct channel {
    struct message *items;
    int count, sent, received, taken; /* known; posted; posted; taken out: credits come back */
    size_t capacity;
    struct walk *waiting[2]; /* sender, receiver */
};

/* What an instruction awaits before it touches a buffer: an operation of a group, a message, or
 * nothing. */
struct pending {
    struct meeting_group *group; /* NULL: none */
    struct channel *channel;     /* NULL: none */
    int number;                  /* of the operation or the message */
    int micro;                   /* of a message, counted through all steps */
    const struct instr *instr;   /* that posted it */
};

struct verify_slot {
    unsigned facts; /* 0 before its first use */
    int micro;
    int pass, done; /* a pass that is run in segments, and how many of them were; 0: none */
    unsigned form;  /* INSTR_LIGHT or INSTR_BLOCK of its F; 0: that keeps all */
    int again;      /* block by block: segments that R has made */
    const struct instr *last; /* that changed it */
};

/* What a gradient buffer carries of an average: this replica's term; the sum of all; this replica's
 * parameters, while the mean stands in for them. */
enum average { AVERAGE_NONE, AVERAGE_FILLED, AVERAGE_SUMMED, AVERAGE_OWN };
struct verify_bucket {
    bool started, tied, joined, reduced;
    enum average average;
    int holds;                   /* of a window: which bucket */
    const struct instr *filling; /* of a kept bucket: the first segment of the pass that makes it */
    int count;                   /* gradients of micro-batches in here */
    uint64_t content;            /* which, in any order: the sum of their keys */
    uint64_t order;              /* of the additions that made it; 0: nothing added */
    const struct instr *last;    /* that changed it */
};

struct grad {
    const struct instr *normed;   /* the NORM that saw it as it is, or NULL */
    const struct instr *changed;  /* what changed it since */
    struct verify_bucket *bucket; /* of all chunks; NULL until it is first used */
    /* For windows, per chunk. A chunk can make gradients of parameters that an earlier stage of the
     * rank holds. This is the key of the micro-batch they are from, until that stage adds them by
     * TIE; then 0. */
    uint64_t made[GRID_MAX_CHUNKS];
};

/* Parameters of a bucket, where replicas update slices. */
struct param_bucket {
    bool whole;               /* all slices are there, with the last update */
    bool collected;           /* for the checkpoint */
    const struct instr *last; /* that changed that */
};

/* A posted operation, and the buffers it is under way on. */
struct under_way {
    struct posted_on on;
    struct pending pending;
};

/* An operation on a bucket that a rank has posted, where they are done in order. */
struct ordered {
    struct meeting_group *of;
    int number;
    const struct instr *instr;
    bool came; /* all before it are done */
};

/* One rank's place in its program. */
struct walk {
    struct verifier *verifier;
    const struct program *program;
    const struct rank_program *own;
    struct grid_cell cell;
    int rank, micros, first_micro;
    int pipeline;              /* the walked one it is in; -1: none */
    struct verify_slot *slots; /* of all chunks */
    struct grad *grads;
    struct param_bucket *params; /* of all chunks */
    bool *loaded;                /* per chunk and micro-batch */
    int present;                 /* micro-batches with samples, and the sum of their keys: */
    uint64_t present_content;
    uint64_t defined;             /* the order of its sums by the header */
    const struct instr **tracked; /* per segment: what moved its running statistics last */
    int *tracked_micro;           /* ... and its micro-batch */
    int step;                     /* that is walked; those that fill a pipeline are below 0 */
    int updates;                  /* STEPs so far */
    enum list_name list;          /* of `instr` */
    int at;                       /* next instruction of the step */
    const struct instr *instr;    /* now */
    const struct instr *counted, *reported, *stepped, *averaged, *asked;
    struct resource_map map;
    struct under_way *under_way; /* in any order */
    int under_way_count;
    size_t under_way_capacity;
    uint64_t left;                  /* what the step before left under way */
    int posted[PROGRAM_MAX_GROUPS]; /* operations of each group so far */
    struct ordered *ordered;        /* see verify_ordered.c */
    int ordered_first, ordered_count;
    size_t ordered_capacity;
    bool arrived;                 /* where statistics are shared, but not past it */
    int together, together_what;  /* several replicas on a rank: how many have come, to what */
    int shared;                   /* segments of the pass that it has met for */
    const struct instr *served;   /* SERVE whose pass has not come yet, or NULL */
    const struct instr *again;    /* R whose backward has not ended yet, or NULL */
    const struct instr *light[2]; /* an F of either form that is made again, or NULL */
    int live, peak;               /* slots in use: now, most */
    bool waits, queued, ended;
    struct pending awaited; /* where it waits */
    struct walk *next_waiting;
    bool broadcast;           /* BCAST stands in its start */
    int rounds_done;          /* stages of a round of evaluation that are done */
    int round_stage;          /* the one under way, and */
    unsigned round_facts;     /* how far it is; 0: none */
    int round_segments;       /* of F, where it is run by segments */
    int eval_reports;         /* of an evaluation */
    int outputs;              /* OUTPUTs of a round */
    int saved;                /* how many of OPEN, WRITE, COMMIT have come */
    const struct instr *mean; /* stands in for the own parameters */
    unsigned means;           /* lists that have MEAN, by bits */
    bool replaced;            /* running statistics of another rank stand in for the own */
};

/* Looked up for every instruction: its operands and those it may leave out, as bits in the order of
 * operand.def, its facts, whether it has to do with the loss. */
struct known_row {
    unsigned operands, optional, needs, gives;
    bool reads_seeds, writes_losses;
};

/* Ranks that are walked: of pipelines that do the same the first one, and all ranks without a
 * stage. */
struct verifier {
    const struct program *program;
    const int64_t *samples; /* of the short last step */
    struct program_proof proof;
    bool shares;                        /* the program's F and B share statistics */
    const struct verify_choice *choice; /* of groups; NULL: all replicas are chosen */
    bool in_order;                      /* rule 35 is asked for */
    struct known_row rows[INSTR_COUNT_];
    struct walk *walks;
    int walk_count;
    struct meeting_group *groups[PROGRAM_MAX_GROUPS]; /* per group of the family */
    struct channel *channels;                         /* per walked pipeline, cut and direction */
    struct channel *calls;                            /* per position: from the driver to it */
    struct place updates; /* the first that updates: the others clip, too, or not */
    bool has_calls;       /* the program's passes stand behind SERVEs */
    int output_stage;     /* of a forward program; -1: none */
    int pipeline_count;
    struct walk **queue; /* ranks that can go on, a ring */
    int queue_first, queue_count;
};

#endif
