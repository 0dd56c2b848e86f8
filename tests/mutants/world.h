/* Private to the judge: all ranks, what is under way between them, and what they hold. */
#ifndef TESTS_MUTANTS_WORLD_H
#define TESTS_MUTANTS_WORLD_H

#include "program/program.h"
#include "reference.h"

enum { STEPS = 2, MOST_MEMBERS = 32, MOST_LOCKSTEP = 64 };

/* One operation of a group. */
enum meeting_kind {
    MEETING_LABELS,
    MEETING_REPORT,
    MEETING_NORM,
    MEETING_REDUCE,
    MEETING_BARRIER,
    MEETING_PASS,
    MEETING_PASS_END,
    MEETING_BROADCAST
};
struct meeting {
    enum meeting_kind kind;
    int64_t detail; /* must be the same for all */
    int arrived;
    value given[MOST_MEMBERS], also[MOST_MEMBERS];
};
struct meeting_group {
    struct meeting *items;
    int count, members;
    size_t capacity;
};

struct message {
    value value;
    int micro;
};
/* From one rank to another, of one cut and direction. */
struct wire {
    int from, to, cut;
    bool backward;
    struct message *items;
    int sent, posted, released; /* sends posted; receives posted; messages given back */
    size_t capacity;
};

/* What was posted on a buffer and is not awaited yet. */
struct under_way {
    const struct instr *instr; /* NULL: nothing */
    struct meeting_group *group;
    int wire; /* -1: none */
    int number;
    int step; /* that posted it */
};

struct slot {
    int micro; /* loaded, or -1 */
    value samples, received, forward, output, gradient, kept, input_gradient, shared;
    int segment;
    struct under_way posted;
};

struct bucket {
    value value;
    struct under_way posted;
};

struct rank {
    int number, list, at, step;
    const struct rank_program *own;
    struct grid_cell cell;
    struct slot *slots;
    struct bucket *buckets; /* per gradient buffer, of all chunks */
    int slot_count, bucket_count;
    value params[GRID_MAX_CHUNKS], statistics[GRID_MAX_CHUNKS];
    value seeds, losses, heard, norm;
    value norms[STEPS]; /* per step, once it is known */
    struct under_way count, report, squares;
    int posted[PROGRAM_MAX_GROUPS]; /* operations of each group so far */
    int exchange[PROGRAM_MAX_GROUPS];
    bool in_pass; /* waits inside a pass or at a barrier: its operation was posted */
    const struct instr *lockstep[MOST_LOCKSTEP];
    int lockstep_count;
    bool ended;
};

struct world {
    const struct program *program;
    const int64_t *samples;
    struct reference at[STEPS + 1]; /* before the first step, behind each */
    struct rank *ranks;
    struct meeting_group *groups[PROGRAM_MAX_GROUPS];
    struct wire *wires;
    int wire_count;
    size_t wire_capacity;
    const char *wrong;
};

/* Local. Notes why the program is wrong, the first time; false. */
bool world_wrong(struct world *world, const char *why);
bool world_present(const struct world *world, const struct rank *rank, int micro);

/* Local. Posts the rank's next operation of a group; its number. */
int group_post(struct world *world, struct rank *rank, int group, enum meeting_kind kind,
               int64_t detail, value given, value also);
struct meeting_group *group_here(const struct world *world, const struct rank *rank, int group);
int group_place(const struct world *world, const struct rank *rank, int group);
bool group_done(const struct meeting_group *group, int number);

/* Local. The number of a wire, made where there is none. */
int wire_find(struct world *world, struct wire like);
void wire_send(struct world *world, int wire, struct message message);

/* Local. False where the rank must wait (or the program turned out wrong): all that is posted on a
 * slot, on a bucket, on one of the exchanges is awaited and takes effect. */
bool await(struct world *world, struct rank *rank, struct under_way *posted);
bool await_slot(struct world *world, struct rank *rank, struct slot *slot);
bool await_buckets(struct world *world, struct rank *rank, int grad, int first, int count);
/* ... all of the step's; everything: the norm, which may be known later, too. */
bool await_step(struct world *world, struct rank *rank);
bool await_everything(struct world *world, struct rank *rank);

/* Local. Runs one instruction; false where the rank waits there. */
bool rank_run(struct world *world, struct rank *rank, const struct instr *instr);

#endif
