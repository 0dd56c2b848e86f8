/* Private to the judge: all ranks, what is under way between them, and what they hold. */
#ifndef TESTS_MUTANTS_WORLD_H
#define TESTS_MUTANTS_WORLD_H

#include "program/program.h"
#include "reference.h"
#include "wires.h"

enum { MOST_STEPS = 12, MOST_PHASES = 40, MOST_OLDER = 8, MOST_SLICES = 8, MOST_LOCKSTEP = 64 };

struct slot {
    int micro;   /* loaded, or -1; counted through all steps where they overlap */
    int version; /* that its forward has read: after so many updates */
    value samples, received, forward, output, gradient, kept, input_gradient, shared;
    value read;        /* of the parameters, by the pass under way */
    unsigned form;     /* INSTR_AGAIN of its forward: what is not kept */
    bool lost;         /* another pass ran in the middle of its backward, in the same memory */
    int pass, segment; /* under way, where segments of it were run: so many */
    struct under_way posted;
};

/* Of a gradient buffer, or a window of it. */
struct bucket {
    value use[MOST_USES]; /* the first is what sums take */
    bool is_slice;        /* only the rank's own slice is there */
    int holds;            /* the bucket that a window is of; -1: none */
    struct under_way posted;
};

/* Of parameters: slice by slice what the rank holds, and what it gathered. */
struct param_bucket {
    value own[MOST_SLICES], whole[MOST_SLICES], collected[MOST_SLICES];
    value common;            /* of all replicas, where they train apart */
    value older[MOST_OLDER]; /* before the last update, the one before that ... */
    bool there;              /* gathered, and not freed */
    struct under_way posted;
};

struct rank {
    int number, phase, at, step, round;
    int updates; /* so far */
    enum list_name list;
    const struct rank_program *own;
    struct grid_cell cell;
    int chunks; /* 0 without a stage */
    struct slot *slots;
    struct bucket *buckets; /* per gradient buffer, of all chunks */
    struct param_bucket *params;
    int slot_count, bucket_count, slice; /* which slice is its own */
    value *statistics, *replaced;        /* running, per bucket: of the segment that has it */
    bool is_replaced;                    /* another rank's statistics stand in for the own */
    value seeds, losses, heard, norm;
    value norms[MOST_STEPS]; /* per step, once it is known */
    struct under_way count, report, squares;
    int posted[PROGRAM_MAX_GROUPS]; /* operations of each group so far */
    int exchange[PROGRAM_MAX_GROUPS];
    bool in_pass;                  /* waits inside an instruction: its operation was posted */
    int met;                       /* segments of the pass that were shared */
    const struct instr *stands_in; /* segments of it were run: */
    int stood;
    const struct instr *lockstep[MOST_LOCKSTEP];
    int lockstep_count, saved; /* how many; of opening, writing and committing */
    struct slot *again;        /* its forward was run again: the memory is that of all slots */
    int made;                  /* so many segments of it, or, by block, which one */
    unsigned forms;            /* of all slots: memory is laid out for one */
    const struct instr *served;
    bool asked;   /* for the members of a group that is chosen, in this step */
    int averages; /* over them since */
    bool ended;
};

struct world {
    const struct program *program;
    const int64_t *samples;       /* of the short last step */
    const enum list_name *phases; /* the lists that are run, in order; how many, and steps: */
    int phase_count, step_count;
    /* Where steps overlap, per phase: the step of a body, and the steps that the pipeline runs from
     * when it is filled until it is drained. */
    struct turn {
        int body, first, end;
    } turn[MOST_PHASES];
    enum list_name overlapping[MOST_PHASES];
    bool overlaps;
    bool driven;                         /* passes are run on calls */
    int slices;                          /* ranks that hold a stage */
    struct reference at[MOST_STEPS + 1]; /* before the first step, behind each */
    struct rank *ranks;
    struct meeting_group *groups[PROGRAM_MAX_GROUPS];
    struct wire *wires;
    int wire_count;
    size_t wire_capacity;
    long posted; /* grows whenever anything went on */
    const char *wrong;
};

/* Local. Notes why the program is wrong, the first time; false. */
bool world_wrong(struct world *world, const char *why);
bool world_present(const struct world *world, const struct rank *rank, int micro);
int world_stages(const struct world *world);
bool world_slices(const struct world *world, unsigned what);
/* Local. Where steps overlap: the step that an instruction belongs to, its micro-batch counted
 * through all steps; else the step, and its operand. Whether it is run. */
int world_step(const struct world *world, const struct rank *rank, const struct instr *instr);
int world_micro(const struct world *world, const struct rank *rank, const struct instr *instr);
bool world_runs(const struct world *world, const struct rank *rank, const struct instr *instr);
/* Local. Posts the rank's next operation of a group; its number. */
int group_post(struct world *world, struct rank *rank, int group, int kind, int64_t detail,
               value given, value also);
struct meeting_group *group_here(const struct world *world, const struct rank *rank, int group);
int group_place(const struct world *world, const struct rank *rank, int group);
bool group_done(const struct meeting_group *group, int number);
/* Local. Posts once and waits where it stands; NULL while members are missing. */
const struct meeting *group_meet(struct world *world, struct rank *rank, int group, int kind,
                                 int64_t detail, value given);

/* Local. The number of a wire, made where there is none. */
int wire_find(struct world *world, struct wire like);
void wire_send(struct world *world, int wire, struct message message);
/* Local. A message leaves when it has a credit, and all before it have left. */
bool wire_has(const struct world *world, int wire, int number);

/* Local. False where the rank must wait (or the program turned out wrong): all that is posted on a
 * slot, on buckets, on one of the exchanges is awaited and takes effect. */
bool await(struct world *world, struct rank *rank, struct under_way *posted);
bool await_norm(struct world *world, struct rank *rank); /* and the losses, as clipping does */
bool await_slot(struct world *world, struct rank *rank, struct slot *slot);
bool await_bucket(struct world *world, struct rank *rank, struct bucket *bucket);
bool await_params(struct world *world, struct rank *rank, struct param_bucket *params);
/* ... all that must have come when a list ends; goes_on: it is a step, and another one follows. */
bool await_list(struct world *world, struct rank *rank, bool goes_on);

/* Local. Whether the instruction's stage runs forward only; whether the rank has one that does not.
 */
bool is_frozen(const struct world *world, const struct instr *instr);
bool rank_trains(const struct world *world, const struct rank *rank);

/* Local. Where things are; `bucket` is counted in its stage. */
int chunk_of(const struct world *world, const struct instr *instr);
const struct chunk_sizes *sizes_of(const struct world *world, const struct rank *rank,
                                   const struct instr *instr);
struct slot *slot_of(const struct world *world, const struct rank *rank, const struct instr *instr);
int bucket_index(const struct rank *rank, int chunk, int bucket);
/* Local. NULL where there is no such memory, which is wrong. */
struct bucket *bucket_of(struct world *world, const struct rank *rank, int stage, int grad,
                         int bucket);

/* Local. Run one instruction of their kind; false where the rank waits there. */
bool run_pass(struct world *world, struct rank *rank, const struct instr *instr);
bool run_again(struct world *world, struct rank *rank, const struct instr *instr);
bool run_stand_in(struct world *world, struct rank *rank, const struct instr *instr);
bool run_gradient(struct world *world, struct rank *rank, const struct instr *instr);
bool run_scatter(struct world *world, struct rank *rank, const struct instr *instr);
bool run_norm(struct world *world, struct rank *rank, const struct instr *instr);
bool run_step(struct world *world, struct rank *rank, const struct instr *instr);
bool run_gather(struct world *world, struct rank *rank, const struct instr *instr);
bool run_free(struct world *world, struct rank *rank, const struct instr *instr);
bool run_call(struct world *world, struct rank *rank, const struct instr *instr);
bool run_standing(struct world *world, struct rank *rank, const struct instr *instr);
bool run_write(struct world *world, struct rank *rank, const struct instr *instr);
/* ... of groups that are chosen. */
bool is_chosen(const struct world *world, int group);
bool run_question(struct world *world, struct rank *rank, const struct instr *instr);
bool run_chosen(struct world *world, struct rank *rank, const struct instr *instr);
void take_chosen(struct world *world, struct rank *rank, const struct under_way *posted);
/* ... of replicas that train apart; statistics that each gives, and their mean. */
bool run_average(struct world *world, struct rank *rank, const struct instr *instr);
void give_statistics(const struct world *world, const struct rank *rank, const struct instr *instr);
bool take_statistics(struct world *world, struct rank *rank, const struct instr *instr,
                     const struct meeting *meeting);
bool run_restore(struct world *world, struct rank *rank, const struct instr *instr);
bool rank_run(struct world *world, struct rank *rank, const struct instr *instr);

/* Local. What was posted takes effect; of an exchange: what its members gave, together. */
void take_sums(struct rank *rank, const struct instr *instr, int step, value sum, value also);
void take_sum(struct world *world, struct rank *rank, const struct under_way *posted);
void take_gather(struct world *world, struct param_bucket *params, const struct under_way *posted);
/* Local. Parameters of a bucket as its readers find them; 0: they are not there. */
value params_value(const struct world *world, const struct param_bucket *params);
value slices_value(const value *slices, int count);
value statistics_of(const struct rank *rank, int chunk); /* running ones, of a stage */
/* The driver called for it; else the program is wrong. */
bool was_called(struct world *world, struct rank *rank, const struct instr *instr, unsigned what);

#endif
