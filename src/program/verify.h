/* The verifier's state; private to src/program. See verify.c for how it works, and one file for
 * each thing it proves: verify_slots.c, verify_gradients.c, verify_groups.c, verify_between.c. */
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

/* What an instruction awaits before it touches a buffer: an operation of a group, or nothing. */
struct pending {
    struct meeting_group *group; /* NULL: nothing */
    int number;
};

struct slot {
    enum slot_state state;
    int micro, stage, segment; /* the next segment of backward */
};

struct bucket {
    bool started, tied, reduced;
    int count;        /* gradients of micro-batches in here */
    uint64_t content; /* which, in any order: the sum of their keys */
    uint64_t order;   /* of the additions that made it; 0: nothing added */
    struct pending pending;
};

struct grad {
    bool normed;           /* NORM saw it as it is */
    struct bucket *bucket; /* NULL until it is first used */
};

struct verifier;

/* One rank's place in its program. */
struct walk {
    struct verifier *verifier;
    const struct program *program;
    const struct rank_program *own;
    struct grid_cell cell;
    int rank, micros, first_micro;
    struct slot *slots;
    struct grad *grads;
    bool *loaded; /* per micro-batch */
    int present;  /* micro-batches with samples, and the sum of their keys: */
    uint64_t present_content;
    int tracked; /* micro-batches below this one have moved the running statistics */
    enum list_name list;
    int at; /* next instruction of the body */
    const struct instr *instr;
    bool counted, reported, stepped, waits;
    struct pending seeds, losses;   /* under way: COUNT, REPORT */
    int posted[PROGRAM_MAX_GROUPS]; /* operations of each group so far */
    bool arrived;                   /* where statistics are shared, but not past it */
    int together, together_what;    /* several replicas on a rank: how many have come, to what */
    int in_backward;                /* micro-batch whose backward is between segments, or -1 */
    int loads, forwards;            /* of a round of evaluation, so far */
    int eval_reports;               /* of an evaluation */
    int saved;                      /* how many of OPEN, WRITE, COMMIT have come */
    bool replaced;                  /* running statistics of another rank stand in for the own */
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
};

/* Local. Refuses the program at the walk's instruction; returns STATUS_USAGE. */
enum status verify_broken(const struct walk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Local. Has micro-batch `micro` of the rank samples? */
bool verify_present(const struct walk *walk, int micro);

/* Operands and flags have a meaning, and the instruction may stand in the walk's list. */
enum status verify_form(const struct walk *walk);

/* The lists besides the body, each instruction; then whether evaluation does all it must. */
enum status verify_other_lists(struct walk *walk);
enum status verify_between(const struct walk *walk);

/* Slots: the state machine of the column "slot", each micro-batch once, running statistics. */
enum status verify_slot(struct walk *walk);

/* Gradients: buffers written before they are read, each micro-batch exactly once, in order. */
enum status verify_gradient(struct walk *walk);

/* Groups. Waits (walk->waits) until what the instruction reads or writes is done; meets those who
 * share statistics; posts what is done later. */
void verify_await(struct walk *walk);
enum status verify_share(struct walk *walk);
enum status verify_post(struct walk *walk);
/* Whether a group is all ranks that hold the walk's stages. */
bool verify_holds_replicas(const struct walk *walk, int group);
/* A bucket of a gradient buffer. */
struct bucket *verify_bucket(struct walk *walk, int grad, int index);

#endif
