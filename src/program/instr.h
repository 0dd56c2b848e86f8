/* Instructions: the rows of instr.def as a table, and one instruction as text. */
#ifndef PROGRAM_INSTR_H
#define PROGRAM_INSTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum instr_op {
#define INSTR(NAME, ...) INSTR_##NAME,
#include "program/instr.def"
#undef INSTR
    INSTR_COUNT_
};

enum instr_flags { INSTR_NEW = 1, INSTR_PURE = 2 };

/* Fixed size; operands an instruction does not have are 0, optional ones left out are INSTR_ALL. */
enum { INSTR_ALL = -1 };
struct instr {
    int32_t id, micro, peer;
    uint8_t op, flags;
    int16_t stage, segment, slot, version, grad, other, bucket, group, channel;
};

/* Training: once, every step, once. Evaluation, entered between steps: likewise, where what is
 * repeated is a round. A checkpoint, entered between steps. */
enum list_name {
    LIST_START,
    LIST_BODY,
    LIST_DRAIN,
    LIST_EVAL_START,
    LIST_EVAL,
    LIST_EVAL_END,
    LIST_SAVE,
    LIST_COUNT
};
extern const char *const list_names[LIST_COUNT];

struct instr_list {
    struct instr *items;
    int count;
    size_t capacity;
};

enum instr_queue { QUEUE_COMPUTE, QUEUE_COMM };
enum instr_time { TIME_DATA, TIME_FORWARD, TIME_BACKWARD, TIME_COMM, TIME_OPTIMIZER, TIME_COUNT };
enum instr_meets { MEETS_NOBODY, MEETS_GROUP, MEETS_SHARERS };

/* How far the micro-batch in a slot has come. */
enum slot_state { SLOT_FREE, SLOT_LOADED, SLOT_FORWARD, SLOT_HALF, SLOT_DONE };

/* A row of instr.def; see there. */
struct instr_row {
    const char *name, *operands, *flags, *reads, *writes, *doc;
    unsigned lists; /* a bit for each it may stand in */
    enum instr_queue queue;
    enum instr_time time;
    enum instr_meets meets;
    struct slot_change {
        bool has_slot; /* else the states mean nothing */
        enum slot_state from, to;
    } slot;
};
extern const struct instr_row instr_rows[INSTR_COUNT_];

/* Local. The row of an instruction. */
static inline const struct instr_row *instr_row(const struct instr *instr) {
    return &instr_rows[instr->op];
}
/* Local. Whether an instruction may stand in a list. */
static inline bool instr_may_stand(const struct instr *instr, enum list_name list) {
    return instr_row(instr)->lists >> list & 1;
}
/* Local. Whether a pass shares batch norm's statistics with its group. */
static inline bool instr_shares(const struct instr *instr) {
    return instr_row(instr)->meets == MEETS_SHARERS && instr->group != INSTR_ALL;
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
/* What a letter of the columns "reads" and "writes" means for an instruction, where an operation on
 * it can be under way: the result of an exchange, or buckets of a gradient buffer. One rule for
 * whoever must await it: verifier, executor, simulator. */
enum resource {
    RESOURCE_READY /* is never under way */,
    RESOURCE_SEEDS,
    RESOURCE_LOSSES,
    RESOURCE_GRADIENT
};
struct instr_access {
    enum resource resource;
    int grad, first_bucket, bucket_count; /* of a gradient, of which the rank has `buckets` */
};
/* Local. `letter` is one of the columns. */
struct instr_access instr_access(const struct instr *instr, char letter, int buckets);
/* Local. The word of a flag, as the text form spells it: the first, second bit; NULL beyond. */
const char *instr_flag_name(int bit);
/* Local. An instruction with its optional operands left out. */
struct instr instr_make(enum instr_op op);
/* Local. The line without its newline; returns `text`. */
enum { INSTR_TEXT_BYTES = 96 };
const char *instr_text(const struct instr *instr, int rank, char text[INSTR_TEXT_BYTES]);

#endif
