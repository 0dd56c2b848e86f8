/* Which strategy? A search over all plans of a run: stages x replicas x chunks x schedule x
 * micro-batches x ZeRO stage x recomputation x balance.
 *
 * Every candidate is a set of options. It is planned, its memory is judged and its step is
 * simulated by the functions that a run, explain and simulate use, so its numbers are theirs. To
 * do that for all candidates would take hours: so each has a bound, a sum of the same costs that
 * no plan of it can be faster than, and the one with the least bound is looked at first
 * (planner/bound.h). What is slower by its bound than the best of its kind is never planned. The
 * result is that of looking at all of them, and a test compares.
 *
 * Nothing here prints, asks the machine or reads a clock: whoever calls says what there is. The
 * command `plan` and `--strategy best` call it (planned/planned_search.h), and a run that changes
 * its plan while it goes on can: what is frozen is an option like the others. All local. */
#ifndef PLANNER_PLANNER_H
#define PLANNER_PLANNER_H

#include "plan/plan.h"

enum planner_family {
#define FAMILY(NAME, name) FAMILY_##NAME,
#include "planner/family.def"
    FAMILY_COUNT
};
enum { PLANNER_KINDS = 2 * FAMILY_COUNT }; /* each without recomputation and with it */
const char *planner_family_name(enum planner_family family);

/* What is searched. */
struct planner_choice {
    int32_t ranks, stages, replicas, micro_batches;
    int16_t chunks;   /* 0: auto finds them */
    int16_t schedule; /* row of pipeline.def; PLANNER_WHOLE (the whole model on each rank) or
                         PLANNER_AUTO */
    int8_t zero_stage, recompute, balance;
};
enum { PLANNER_WHOLE = -1, PLANNER_AUTO = -2 };
/* Local. The kind that it is the best of: its family, and behind all families those with
 * recomputation. */
int planner_kind(const struct planner_choice *choice);
static inline enum planner_family planner_family_of(int kind) {
    return (enum planner_family)(kind % FAMILY_COUNT);
}
const char *planner_schedule_name(const struct planner_choice *choice);

enum planner_state {
    PLANNER_BOUNDED,   /* slower than others by its bound: not looked at */
    PLANNER_TOO_LARGE, /* does not fit */
    PLANNER_REFUSED,   /* no such run: what one option asks for another one forbids */
    PLANNER_LOUD,      /* a rank sends more than the budget */
    PLANNER_AGAIN,     /* auto found an order that has a row of its own */
    PLANNER_TIMED
};

struct planner_row {
    struct planner_choice choice;
    enum planner_state state;
    /* No step of it is shorter, no rank that has most needs less. Of one that was planned what it
     * takes. */
    double step_ns;
    int64_t peak_bytes, over_bytes; /* of the rank that has most; by how many it does not fit */
    int peak_rank;
    /* Of one that was timed. */
    double low_ns, high_ns; /* 90% */
    double bubble, exposed_ns;
    int64_t sent_bytes; /* most that a rank sends in a step */
};

/* What a rank may take. */
struct planner_memory {
    int64_t limit_bytes;   /* of each rank; 0: none */
    int64_t machine_bytes; /* of all ranks together; 0: none */
    int64_t shared_bytes;  /* that all ranks of a machine have once, of what `complete` says */
    int64_t beside_bytes;  /* of each rank beside its plan */
};

struct planner_input {
    const struct options *options; /* what they say is fixed, the rest is searched */
    const struct model *model;
    const struct dataset *dataset;
    const struct costs *costs;
    int ranks;   /* there are */
    int threads; /* of a rank, whatever the number of ranks is */
    int cores;   /* that ranks of this machine share; 0: each has a device of its own */
    struct planner_memory memory;
    int64_t budget_bytes; /* that a rank may send in a step; 0: any */
    /* Fills in what the plan does not know of its memory: library and trace. */
    void (*complete)(void *context, struct plan *plan);
    void *context;
    int best;        /* so many rows are wanted */
    bool exhaustive; /* look at all candidates: for tests */
};

struct planner_result {
    struct planner_row *row; /* all candidates; those that were timed first, the best one first */
    int64_t row_count;
    int timed;
    int64_t too_large, refused, bounded, planned; /* how many are, and were */
    int best_of[PLANNER_KINDS]; /* row of the best of each kind; -1: none fits, or there is none */
    bool batch_norm;            /* the model has statistics of micro-batches */
    bool uses_all;              /* some candidate has all ranks */
    double closest_bound;       /* the largest part of a timed step that its bound was: at most 1 */
    int64_t nearest_batch;      /* else: with which one would; 0: with none */
};

/* Local. STATUS_USAGE where what is fixed leaves no candidate. The caller frees the result, which
 * is there with STATUS_OK alone; where nothing fits no row is timed. */
enum status planner_search(const struct planner_input *input, struct planner_result *out);
void planner_free(struct planner_result *result);

/* Local. One candidate of the input, planned and simulated whatever others take. */
enum status planner_measure(const struct planner_input *input, const struct planner_choice *choice,
                            struct planner_row *out);

/* Local. Makes the options those of a candidate: `options` are a copy of the input's. */
enum status planner_apply(const struct planner_choice *choice, const struct costs *costs,
                          struct options *options);
/* Local. The configuration of a candidate, from a copy of the input's options; the caller frees
 * `options`, whose texts it borrows. */
enum status planner_configure(const struct planner_input *input,
                              const struct planner_choice *choice, struct options *options,
                              struct run_config *out);

#endif
