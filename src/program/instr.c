/* See instr.h. */
#include "program/instr.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* The column "slot" of instr.def. */
#define SLOT_NONE                                                                                  \
    { false }
#define SLOT_FREE_FREE                                                                             \
    { true, SLOT_FREE, SLOT_FREE }
#define SLOT_FREE_LOADED                                                                           \
    { true, SLOT_FREE, SLOT_LOADED }
#define SLOT_LOADED_FORWARD                                                                        \
    { true, SLOT_LOADED, SLOT_FORWARD }
#define SLOT_FORWARD_HALF                                                                          \
    { true, SLOT_FORWARD, SLOT_HALF }
#define SLOT_FORWARD_DONE                                                                          \
    { true, SLOT_FORWARD, SLOT_DONE }
#define SLOT_HALF_DONE                                                                             \
    { true, SLOT_HALF, SLOT_DONE }

/* The column "lists" of instr.def. */
#define LISTS_START (1u << LIST_START)
#define LISTS_BODY (1u << LIST_BODY)
#define LISTS_DRAIN (1u << LIST_DRAIN)
#define LISTS_EVAL_START (1u << LIST_EVAL_START)
#define LISTS_EVAL_END (1u << LIST_EVAL_END)
#define LISTS_SAVE (1u << LIST_SAVE)
#define LISTS_BODY_EVAL (1u << LIST_BODY | 1u << LIST_EVAL)
#define LISTS_BODY_EVAL_END (1u << LIST_BODY | 1u << LIST_EVAL_END)

const struct instr_row instr_rows[INSTR_COUNT_] = {
#define INSTR(NAME, operands_, flags_, lists_, queue_, time_, slot_, reads_, writes_, meets_,      \
              doc_)                                                                                \
    [INSTR_##NAME] = {.name = #NAME,                                                               \
                      .operands = operands_,                                                       \
                      .flags = flags_,                                                             \
                      .lists = LISTS_##lists_,                                                     \
                      .queue = QUEUE_##queue_,                                                     \
                      .time = TIME_##time_,                                                        \
                      .slot = SLOT_##slot_,                                                        \
                      .reads = reads_,                                                             \
                      .writes = writes_,                                                           \
                      .meets = MEETS_##meets_,                                                     \
                      .doc = doc_},
#include "program/instr.def"
#undef INSTR
};

const struct operand_row operand_rows[OPERAND_COUNT] = {
#define OPERAND(letter_, field, key_, words_) {.letter = letter_, .key = key_, .words = words_},
#include "program/operand.def"
#undef OPERAND
};

static const char *const flag_names[] = {"new", "pure"};

const char *const list_names[LIST_COUNT] = {"start", "body",     "drain", "eval-start",
                                            "eval",  "eval-end", "save"};

const char *instr_flag_name(int bit) {
    return bit < (int)(sizeof flag_names / sizeof flag_names[0]) ? flag_names[bit] : NULL;
}

int instr_operand(const struct instr *instr, char letter) {
    switch (letter) {
#define OPERAND(letter, field, ...)                                                                \
    case letter:                                                                                   \
        return instr->field;
#include "program/operand.def"
#undef OPERAND
    default: return 0;
    }
}

void instr_set_operand(struct instr *instr, char letter, int value) {
    switch (letter) {
#define OPERAND(letter, field, ...)                                                                \
    case letter:                                                                                   \
        instr->field = (__typeof__(instr->field))value;                                            \
        break;
#include "program/operand.def"
#undef OPERAND
    default: break;
    }
}

/* Segment e of backward makes bucket e whole. */
static struct instr_access gradient(const struct instr *instr, int grad, int buckets) {
    const char *operands = instr_row(instr)->operands;
    int one = strchr(operands, 'b')   ? instr->bucket
              : strchr(operands, 'e') ? instr->segment
                                      : INSTR_ALL;
    return (struct instr_access){.resource = RESOURCE_GRADIENT,
                                 .grad = grad,
                                 .first_bucket = one == INSTR_ALL ? 0 : one,
                                 .bucket_count = one == INSTR_ALL ? buckets : 1};
}

struct instr_access instr_access(const struct instr *instr, char letter, int buckets) {
    switch (letter) {
    case 'k': return (struct instr_access){.resource = RESOURCE_SEEDS};
    case 'l': return (struct instr_access){.resource = RESOURCE_LOSSES};
    case 'g': return gradient(instr, instr->grad, buckets);
    case 'h': return gradient(instr, instr->other, buckets);
    default: CHECK(strchr("xapotn", letter), "a buffer called %c", letter);
    }
    return (struct instr_access){.resource = RESOURCE_READY};
}

struct instr instr_make(enum instr_op op) {
    struct instr instr = {.op = (uint8_t)op};
    for (const char *letter = instr_rows[op].operands; *letter; letter++)
        if (*letter == '?') instr_set_operand(&instr, letter[1], INSTR_ALL);
    return instr;
}

const char *instr_text(const struct instr *instr, int rank, char text[INSTR_TEXT_BYTES]) {
    const struct instr_row *row = instr_row(instr);
    int used = snprintf(text, INSTR_TEXT_BYTES, "#%d r%d %s", instr->id, rank, row->name);
    for (const char *letter = row->operands; *letter; letter++) {
        if (*letter == '?' && instr_operand(instr, letter[1]) == INSTR_ALL)
            letter++;
        else if (*letter != '?')
            used += snprintf(text + used, (size_t)(INSTR_TEXT_BYTES - used), " %c%d", *letter,
                             instr_operand(instr, *letter));
    }
    for (int bit = 0; instr_flag_name(bit); bit++) {
        if (instr->flags >> bit & 1)
            used += snprintf(text + used, (size_t)(INSTR_TEXT_BYTES - used), " %s",
                             instr_flag_name(bit));
    }
    return text;
}
