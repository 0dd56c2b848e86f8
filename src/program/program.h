/* Programs: a strategy is a short list of instructions per rank, read by verifier, executor,
 * simulator and viewer alike.
 *
 * A rank has lists: start (once), body (one step, repeated), last (the short last step of an epoch,
 * where there is one), drain (once); eval-start, eval (one round, repeated), eval-end and save are
 * entered between steps. A forward program (eval, predict) has no step and no save. Ranks that do
 * the same share one rank program: micro-batches are numbered from the first of the rank's own, and
 * groups are named by their family, so the replicas of a stage have equal lists. Text form, one
 * instruction a line: `#17 r0 B s0 m5 a0 g1 new`; see docs/program.md. */
#ifndef PROGRAM_PROGRAM_H
#define PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "program/grid.h"
#include "program/instr.h"
#include "program/prove.h"
#include "program/recompute_policy.h"

/* What one rank runs, or several that do the same. */
struct rank_program {
    struct instr_list list[LIST_COUNT];
    int grads; /* gradient buffers, each for all chunks */
    int chunks;
    struct chunk_sizes {
        int slots;   /* for activations */
        int buckets; /* of its part of a gradient buffer: what REDUCE takes at a time */
        /* Buckets that are whole at a time, where ranks hold slices; bucket b lies in place b
         * modulo that number. 0 where the program does not slice them. */
        int windows;  /* of gradients */
        int gathered; /* of parameters */
        /* 1: the last bucket has places of its own: parameters that are kept whole for a step.
         * Every segment reads them and makes gradients of them; its own has no nodes. */
        int kept;
        /* Versions of the parameters that are kept beside the newest, the last ones: passes read
         * the one that was there so many updates before their step. */
        int older;
    } chunk[GRID_MAX_CHUNKS];
};

/* How gradients of micro-batches and replicas are added: see design contract 1. */
enum sum_order { SUM_REPLICA, SUM_TREE, SUM_REPLICAS_FIRST };
enum { SUM_ORDER_COUNT = SUM_REPLICAS_FIRST + 1 };
/* Local. As --sum and the text form spell it; the order of a name, or -1. */
const char *sum_order_name(enum sum_order sum);
int sum_order_find(const char *name);

enum { PROGRAM_MAX_GROUPS = 8, PROGRAM_MAX_TIES = 8 };

/* Parameters that two stages use. On two ranks both hold them: bucket `bucket` of the earlier stage
 * and `other_bucket` of the other one are these parameters and nothing else, and JOIN adds them. On
 * one rank they are held once, with the earlier stage; the other's gradients of them lie behind
 * that bucket until its TIE. A stage is in one tie at most. */
struct program_tie {
    int stage, bucket, other;
    int other_bucket; /* INSTR_ALL: both stages are on one rank */
};

/* Of which arrays the replicas of a stage hold a slice each and not the whole, as a set: optimizer
 * state; gradients, where buffer 0 holds slices and those behind it a few whole buckets;
 * parameters. */
enum { SLICED_STATE = 1, SLICED_GRADIENTS = 2, SLICED_PARAMS = 4 };
/* Local. In the text form: letters of instr.def, "ogp"; the set that letters name, or -1. */
const char *sliced_name(unsigned sliced);
int sliced_find(const char *letters);
/* The gradient buffers then: slices, to which SCATTER adds; windows, which backward writes, one
 * buffer of them or more. */
enum { GRAD_SLICES, GRAD_WINDOWS, GRAD_COUNT_SLICED };

/* The most a program may have: the text form and the schedules share these limits, so that whatever
 * is built can be written and read again. Operands but micro-batches are of 16 bits. */
enum { PROGRAM_CREDITS = 2, PROGRAM_CALL_BYTES = 32 }; /* unless it says otherwise; of INSTR_CALL */
enum { PROGRAM_MAX_RANKS = 1 << 20, PROGRAM_MAX_MICROS = 1 << 20, PROGRAM_MAX_SMALL = INT16_MAX };
enum { PROGRAM_MAX_EVERY = 1 << 24 };   /* steps */
enum { PROGRAM_MAX_BUFFERS = 1 << 30 }; /* gradient buffers times buckets of a rank */

struct program {
    struct grid grid;
    int ranks;         /* of the grid */
    int micro_batches; /* M, of one replica; a step has G = R*M. 0: a forward program */
    enum sum_order sum;
    enum group_family group[PROGRAM_MAX_GROUPS]; /* operand q is an index here */
    int group_count;
    struct program_tie tie[PROGRAM_MAX_TIES];
    int tie_count;
    int frozen; /* stages, the first ones, that run forward only */
    int ahead;  /* steps that a body's forwards may be ahead (ahead.h); 0: steps flush */
    int every;  /* replicas train apart, and average at each step of so many, which is list last; 0:
                   they are the same after every step */
    int credits;      /* messages that a channel holds: how far a sender runs ahead */
    unsigned sliced;  /* SLICED_...; with nothing sliced, 0 */
    unsigned lasting; /* kinds of buffers (resource.h), by bits: a step may leave something
                         under way on them, which the next awaits */
    struct rank_program *kinds; /* the different rank programs */
    int kind_count;
    size_t kind_capacity;
    int32_t *kind_of; /* per rank */
};

/* Local. A program whose ranks all have one empty rank program, also with the header of another
 * one; program_free accepts NULL and clears the pointer. */
struct program *program_new(const struct grid *grid, int micro_batches, enum sum_order sum);
struct program *program_like(const struct program *other);
void program_free(struct program **program);

/* Local. What a rank runs; one of its lists. */
const struct rank_program *program_of(const struct program *program, int rank);
const struct instr_list *program_list(const struct program *program, int rank, enum list_name list);
/* Local. An empty rank program, or a copy of its own, of this rank alone, to be changed; valid
 * until the next such call. */
struct rank_program *program_begin(struct program *program, int rank);
struct rank_program *program_edit(struct program *program, int rank);
/* Local. Lets ranks whose rank programs have become equal share one. */
void program_share(struct program *program);

/* Local. Whether there is a short last step: instructions in list last. The body of another program
 * of the same grid, groups and buckets becomes that list; sizes are the larger of both. Without
 * one: the list is dropped. */
bool program_has_last(const struct program *program);
void program_set_last(struct program *program, const struct program *last);
/* Local. Which micro-batches of the step have samples, told by what list last loads: G entries,
 * which the caller frees. */
int64_t *program_last_samples(const struct program *program);

/* Local. A slot or a bucket of a chunk, counted through all chunks; with the number of chunks for
 * `chunk` and 0: how many there are in all. */
static inline int sizes_slot(const struct chunk_sizes *sizes, int chunk, int slot) {
    for (int c = 0; c < chunk; c++) slot += sizes[c].slots;
    return slot;
}
static inline int sizes_bucket(const struct chunk_sizes *sizes, int chunk, int bucket) {
    for (int c = 0; c < chunk; c++) bucket += sizes[c].buckets;
    return bucket;
}

/* Local. The place of a bucket of the chunk among `places` (windows or gathered); the kept
 * bucket has a place of its own after them. */
int sizes_place(const struct chunk_sizes *sizes, int places, int bucket);

/* Local. Appends to a list; gives the instruction the next id of the rank. */
struct instr *program_add(struct rank_program *rank, enum list_name list, enum instr_op op);
void program_add_step(struct rank_program *rank, int grad, bool clips); /* to the body */
/* Local. A list becomes a copy of another one of the rank; gives back what a list has. */
void program_copy_list(struct rank_program *rank, enum list_name from, enum list_name to);
void program_drop_list(struct instr_list *list);
/* Local. Gives the instructions ids in the order they stand. */
void program_renumber(struct rank_program *rank);
/* Local. The index of a group of this family, declared anew; the first one of all ranks, or -1. */
int program_declare_group(struct program *program, enum group_family family);
int program_world(const struct program *program);

/* Local. The group whose members are chosen while ranks run, or -1. Whether replicas have
 * parameters of their own between averages. */
int program_chosen(const struct program *program);
static inline bool program_is_apart(const struct program *program) {
    return program->every > 0 || program_chosen(program) >= 0;
}

/* Local. Adds a tie. NULL, or what of it cannot be, in words; then nothing is added. */
const char *program_declare_tie(struct program *program, const struct program_tie *tie);
/* Local. The tie that a stage is in; NULL: none. Are its stages on two ranks? */
const struct program_tie *program_tie_of(const struct program *program, int stage);
static inline bool tie_is_apart(const struct program_tie *tie) {
    return tie->other_bucket != INSTR_ALL;
}
/* Local. The tie whose bucket this is, of either stage, or NULL. */
const struct program_tie *program_tie_at(const struct program *program, int stage, int bucket);

/* Local. Has it no step: evaluation alone, whose rounds hand out what the model makes (OUTPUT)? Its
 * round as a body, which the caller frees. Do its F and B share statistics? Do its STEPs clip? */
bool program_is_forward(const struct program *program);
struct program *program_round(const struct program *program);
/* Local. The program whose steps are all as list last, which the caller frees. */
struct program *program_of_last(const struct program *program);
bool program_shares(const struct program *program);
/* Local. Whether a rank's REPORT meets less than all other ranks: rank 0 puts rows of metrics
 * together from what replicas tell it, and none waits for another. */
bool program_reports_apart(const struct program *program);
bool program_clips(const struct program *program);
/* Local. Micro-batches of a rank in a step; the first of them among all of the step's. */
int program_micros(const struct program *program, int rank);
int program_first_micro(const struct program *program, int rank);
/* Local. A hash of the whole program that does not depend on how it came about. */
uint64_t program_hash(const struct program *program);

/* The first line of the text form. */
#define PROGRAM_TEXT_VERSION "stretto program 5"
/* Local. Text form and back: program_parse(program_print(p)) is p. `name` is for messages: file,
 * line, field, value. */
void program_print(const struct program *program, FILE *out);
enum status program_parse(const char *name, const char *text, size_t count, struct program **out);

#endif
