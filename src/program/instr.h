/* Instructions: the rows of instr.def as a table, and one instruction as text. */
#ifndef PROGRAM_INSTR_H
#define PROGRAM_INSTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum instr_op {
#define INSTR(NAME, ...) INSTR_##NAME,
#include "program/instr.def"
#undef INSTR
    INSTR_COUNT_
};

/* The rows of flag.def, a bit each. */
enum {
#define FLAG(NAME, ...) FLAG_##NAME,
#include "program/flag.def"
#undef FLAG
    FLAG_COUNT
};
enum instr_flags {
#define FLAG(NAME, ...) INSTR_##NAME = 1 << FLAG_##NAME,
#include "program/flag.def"
#undef FLAG
    INSTR_AGAIN = INSTR_LIGHT | INSTR_BLOCK /* of F: its activations are made again */
};

/* Fixed size; operands an instruction does not have are 0, optional ones left out are INSTR_ALL. */
enum { INSTR_ALL = -1 };
struct instr {
    int32_t id, micro, peer;
    uint16_t flags;
    uint8_t op;
    uint8_t reserved; /* 0 */
    int16_t stage, segment, slot, version, grad, other, bucket, group;
};
_Static_assert(sizeof(struct instr) ==
                   3 * sizeof(int32_t) + 2 * sizeof(uint8_t) + 9 * sizeof(int16_t),
               "struct instr has padding, and is compared and hashed as bytes");

/* Training: start (once), a step, the short last step of an epoch, drain (once). Evaluation,
 * entered between steps: begin, a round, end. A checkpoint, entered between steps. */
enum list_name {
    LIST_START,
    LIST_BODY,
    LIST_LAST,
    LIST_DRAIN,
    LIST_EVAL_START,
    LIST_EVAL,
    LIST_EVAL_END,
    LIST_SAVE,
    LIST_COUNT
};
extern const char *const list_names[LIST_COUNT];
/* Local. Whether a list is a step: what lasts may stay under way from one to the next. */
static inline bool list_is_step(enum list_name list) {
    return list == LIST_BODY || list == LIST_LAST;
}

struct instr_list {
    struct instr *items;
    int count;
    size_t capacity;
};

enum instr_queue { QUEUE_COMPUTE, QUEUE_COMM };
enum instr_time { TIME_DATA, TIME_FORWARD, TIME_BACKWARD, TIME_COMM, TIME_OPTIMIZER, TIME_COUNT };
enum instr_meets { MEETS_NOBODY, MEETS_GROUP, MEETS_SHARERS, MEETS_PEER, MEETS_CALL, MEETS_CHOICE };

/* How far the micro-batch in a slot has come: a set of facts, the rows of fact.def, as bits. */
enum {
#define FACT(letter, NAME, words, where) FACT_##NAME,
#include "program/fact.def"
#undef FACT
    FACT_COUNT
};
extern const char *const fact_words[FACT_COUNT];
/* Local. The set that letters name. */
unsigned facts_named(const char *letters);
/* Local. All that a stage can have, of so many: the first one receives nothing, the last one sends
 * nothing, and the first `frozen` ones run forward only. */
unsigned facts_of_stage(int stage, int stages, int frozen);

/* A row of instr.def; see there. */
struct instr_row {
    const char *name, *operands, *flags, *needs, *gives, *reads, *writes, *doc;
    unsigned lists; /* a bit for each it may stand in */
    enum instr_queue queue;
    enum instr_time time;
    enum instr_meets meets;
};
extern const struct instr_row instr_rows[INSTR_COUNT_];

/* Local. The row of an instruction. */
static inline const struct instr_row *instr_row(const struct instr *instr) {
    return &instr_rows[instr->op];
}
/* Local. Facts of its slot that an instruction gives, its flags considered. */
unsigned instr_gives(const struct instr *instr);
/* Local. Whether an instruction runs nodes of a stage: it uses the memory that slots share. */
static inline bool instr_runs_nodes(const struct instr *instr) {
    return instr_row(instr)->time == TIME_FORWARD || instr_row(instr)->time == TIME_BACKWARD;
}
/* Local. Of such an instruction: whether it is forward, whose segments come in descending order;
 * whether it is a single segment. */
static inline bool instr_is_forward(const struct instr *instr) {
    return instr_row(instr)->time == TIME_FORWARD;
}
static inline bool instr_is_segment(const struct instr *instr) {
    return instr->segment != INSTR_ALL && strchr(instr_row(instr)->operands, 'e');
}
/* Local. Whether an instruction may stand in a list. */
static inline bool instr_may_stand(const struct instr *instr, enum list_name list) {
    return instr_row(instr)->lists >> list & 1;
}
/* Local. Whether a pass shares batch norm's statistics with its group. */
static inline bool instr_shares(const struct instr *instr) {
    return instr_row(instr)->meets == MEETS_SHARERS && instr->group != INSTR_ALL;
}
/* Local. Whether an instruction posts an operation of a group on a bucket; the part of an
 * all-reduce that it is: a scatter and a gather are the halves of one. */
static inline bool instr_moves_bucket(const struct instr *instr) {
    const struct instr_row *row = instr_row(instr);
    return row->meets == MEETS_GROUP && row->queue == QUEUE_COMM && strchr(row->operands, 'b');
}
static inline double instr_reduce_share(const struct instr *instr) {
    return instr->op == INSTR_SCATTER || instr->op == INSTR_GATHER ? 0.5 : 1;
}
/* Local. Of a message or a call: whether this is the receiving end. */
static inline bool instr_receives(const struct instr *instr) {
    return instr->op == INSTR_RECV_F || instr->op == INSTR_RECV_B || instr->op == INSTR_SERVE;
}
/* Local. Of either end of a message between stages: whether it carries gradients; the cut it
 * crosses (cut s is between stages s and s + 1); its channel, of which each cut has two. */
static inline bool instr_goes_back(const struct instr *instr) {
    return instr->op == INSTR_SEND_B || instr->op == INSTR_RECV_B;
}
static inline int instr_cut(const struct instr *instr) {
    bool to_next = instr->op == INSTR_SEND_F || instr->op == INSTR_RECV_B;
    return to_next ? instr->stage : instr->stage - 1;
}
static inline int instr_channel(const struct instr *instr) {
    return instr_cut(instr) * 2 + instr_goes_back(instr);
}
/* A row of operand.def; see there. */
enum {
#define OPERAND(letter, field, ...) OPERAND_##field,
#include "program/operand.def"
#undef OPERAND
    OPERAND_COUNT
};
struct operand_row {
    char letter;
    const char *key, *words;
};
extern const struct operand_row operand_rows[OPERAND_COUNT];

/* Local. An operand by its letter. */
int instr_operand(const struct instr *instr, char letter);
void instr_set_operand(struct instr *instr, char letter, int value);
/* The words of flags, as the text form spells them: of the first, second bit. */
extern const char *const flag_words[FLAG_COUNT];
/* Local. An instruction with its optional operands left out. */
struct instr instr_make(enum instr_op op);
/* Local. The line without its newline; returns `text`. */
enum { INSTR_TEXT_BYTES = 96 };
const char *instr_text(const struct instr *instr, int rank, char text[INSTR_TEXT_BYTES]);

/* Local. The kind of cost (cost/units.h) that a pass has; -1: it is no pass. */
int instr_cost_kind(const struct instr *instr);

#endif
