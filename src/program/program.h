/* Programs: a strategy is a short list of instructions per rank, read by verifier, executor,
 * simulator and viewer alike.
 *
 * A rank has three lists: start (once), body (one step, repeated), drain (once). The body of an
 * epoch's short last step is a program of its own. Text form, one instruction a line: `#17 r0 B s0
 * m5 a0 g1 new`; see docs/program.md. */
#ifndef PROGRAM_PROGRAM_H
#define PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

enum instr_op {
#define INSTR(NAME, operands, doc) INSTR_##NAME,
#include "program/instr.def"
#undef INSTR
    INSTR_COUNT_
};

enum instr_flags { INSTR_NEW = 1, INSTR_PURE = 2, INSTR_SHARES = 4 };
/* Local. The word of a flag, as the text form spells it: the first, second, third bit; NULL beyond.
 */
const char *instr_flag_name(int bit);

/* Fixed size; operands an instruction does not have are 0, optional ones left out are INSTR_ALL. */
enum { INSTR_ALL = -1 };
struct instr {
    int32_t id;
    uint8_t op, flags;
    int16_t stage, segment;
    int32_t micro;
    int16_t slot, grad, other, bucket;
};

const char *instr_name(enum instr_op op);
const char *instr_doc(enum instr_op op);
/* The operand letters of instr.def. */
const char *instr_operands(enum instr_op op);
/* Local. The line without its newline; returns `text`. */
enum { INSTR_TEXT_BYTES = 96 };
const char *instr_text(const struct instr *instr, int rank, char text[INSTR_TEXT_BYTES]);

enum list_name { LIST_START, LIST_BODY, LIST_DRAIN, LIST_COUNT };
extern const char *const list_names[LIST_COUNT];

struct instr_list {
    struct instr *items;
    int count;
    size_t capacity;
};

struct rank_program {
    struct instr_list list[LIST_COUNT];
};

/* How gradients of micro-batches and replicas are added: see design contract 1. */
enum sum_order { SUM_REPLICA, SUM_TREE, SUM_REPLICAS_FIRST };
/* Local. As --sum and the text form spell it. */
const char *sum_order_name(enum sum_order sum);

/* The most a program may have: the text form and the schedules share these limits, so that whatever
 * is built can be written and read again. Operands but micro-batches are of 16 bits. */
enum { PROGRAM_MAX_RANKS = 1 << 20, PROGRAM_MAX_MICROS = 1 << 20, PROGRAM_MAX_SMALL = INT16_MAX };

struct program {
    int ranks, stages, replicas,
        micro_batches; /* micro_batches is M, of one replica; a step has G = R*M */
    enum sum_order sum;
    int slots, grads; /* activation slots and gradient buffers of a rank, the most any needs */
    int buckets;      /* of a gradient buffer: what REDUCE takes at a time */
    struct rank_program *rank;
};

/* Local. Empty program; program_free accepts NULL and clears the pointer. */
struct program *program_new(int ranks, int stages, int replicas, int micro_batches,
                            enum sum_order sum);
void program_free(struct program **program);
/* Local. Appends to a list; gives the instruction the next id of the rank. */
struct instr *program_add(struct program *program, int rank, enum list_name list, enum instr_op op);

/* Local. Gives a rank's instructions ids in the order they stand. */
void program_renumber(struct program *program, int rank);

/* Local. Do its F and B share statistics ("stats")? */
bool program_shares(const struct program *program);

/* Local. Text form and back: program_parse(program_print(p)) is p. `name` is for messages: file,
 * line, field, value. */
void program_print(const struct program *program, FILE *out);
enum status program_parse(const char *name, const char *text, size_t count, struct program **out);

/* Local. Proves of every rank's body, before anything runs: operands in range; every slot and
 * gradient buffer written before it is read; each micro-batch of `samples` (G entries, those with 0
 * skipped; NULL: all present) forward and backward exactly once; running statistics moved by
 * replica 0 alone, in order; at STEP the buffer holds each micro-batch exactly once, added in the
 * order the header names, and NORM has seen it; ranks that share statistics do so in the same
 * order, so that none waits for ever; on one rank the replicas that share stand together.
 * STATUS_USAGE with the first instruction that breaks it. */
enum status program_verify(const struct program *program, const int64_t *samples);

/* What a schedule builder is told. */
struct schedule_config {
    int ranks; /* 1: all replicas on one device, one after the other; else a rank for each */
    int stages, replicas, micro_batches;
    enum sum_order sum;
    const int64_t
        *samples; /* per micro-batch of the step, G entries; NULL: all present; 0: skip it */
    bool shares;  /* replicas share batch norm's statistics: F and B wait for one another */
};

struct schedule {
    const char *name, *help;
    enum status (*build)(const struct schedule_config *config, struct program **out);
};

/* Local. By name, NULL when there is none. The caller owns the program. */
const struct schedule *schedule_find(const char *name);
enum status schedule_build(const char *name, const struct schedule_config *config,
                           struct program **out);

#endif
