/* See instr.h. */
#include "program/instr.h"

#include <stdio.h>
#include <string.h>

#include "cost/units.h"

/* The column "lists" of instr.def. */
#define LISTS_START (1u << LIST_START)
#define LISTS_BODY (1u << LIST_BODY | 1u << LIST_LAST)
#define LISTS_DRAIN (1u << LIST_DRAIN)
#define LISTS_EVAL_START (1u << LIST_EVAL_START)
#define LISTS_EVAL (1u << LIST_EVAL)
#define LISTS_EVAL_END (1u << LIST_EVAL_END)
#define LISTS_SAVE (1u << LIST_SAVE)
#define LISTS_BODY_EVAL (LISTS_BODY | LISTS_EVAL)
#define LISTS_BODY_EVAL_END (LISTS_BODY | LISTS_EVAL_END)
#define LISTS_MEAN (LISTS_DRAIN | LISTS_EVAL_START | LISTS_SAVE)
#define LISTS_BODY_MEAN (LISTS_BODY | LISTS_MEAN)
#define LISTS_OWN (LISTS_EVAL_END | LISTS_SAVE)

const struct instr_row instr_rows[INSTR_COUNT_] = {
#define INSTR(NAME, operands_, flags_, lists_, queue_, time_, needs_, gives_, reads_, writes_,     \
              meets_, doc_)                                                                        \
    [INSTR_##NAME] = {.name = #NAME,                                                               \
                      .operands = operands_,                                                       \
                      .flags = flags_,                                                             \
                      .lists = LISTS_##lists_,                                                     \
                      .queue = QUEUE_##queue_,                                                     \
                      .time = TIME_##time_,                                                        \
                      .needs = needs_,                                                             \
                      .gives = gives_,                                                             \
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

const char *const flag_words[FLAG_COUNT] = {
#define FLAG(NAME, word, doc) word,
#include "program/flag.def"
#undef FLAG
};

const char *const list_names[LIST_COUNT] = {"start",      "body", "last",     "drain",
                                            "eval-start", "eval", "eval-end", "save"};

const char *const fact_words[FACT_COUNT] = {
#define FACT(letter, NAME, words, where) words,
#include "program/fact.def"
#undef FACT
};

unsigned facts_named(const char *letters) {
    static const char all[] = {
#define FACT(letter, ...) letter,
#include "program/fact.def"
#undef FACT
    };
    unsigned facts = 0;
    for (int i = 0; i < FACT_COUNT; i++)
        if (strchr(letters, all[i])) facts |= 1u << i;
    return facts;
}

unsigned instr_gives(const struct instr *instr) {
    unsigned gives = facts_named(instr_row(instr)->gives);
    return instr->flags & INSTR_AGAIN ? gives & ~(1u << FACT_KEPT) : gives;
}

unsigned facts_of_stage(int stage, int stages, int frozen) {
    enum { EVERY, AFTER, BEFORE, TRAINED, TRAINED_AFTER, TRAINED_BEFORE };
    bool trained = stage >= frozen, before = stage < stages - 1;
    const bool is[] = {[EVERY] = true,
                       [AFTER] = stage > 0,
                       [BEFORE] = before,
                       [TRAINED] = trained,
                       [TRAINED_AFTER] = stage > frozen,
                       [TRAINED_BEFORE] = trained && before};
    static const int where[] = {
#define FACT(letter, NAME, words, where) where,
#include "program/fact.def"
#undef FACT
    };
    unsigned facts = 0;
    for (int i = 0; i < FACT_COUNT; i++)
        if (is[where[i]]) facts |= 1u << i;
    return facts;
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
    for (int bit = 0; bit < FLAG_COUNT; bit++) {
        if (instr->flags >> bit & 1)
            used +=
                snprintf(text + used, (size_t)(INSTR_TEXT_BYTES - used), " %s", flag_words[bit]);
    }
    return text;
}

int instr_cost_kind(const struct instr *instr) {
    static const int kind[INSTR_COUNT_] = {[INSTR_F] = 1 + COST_F,
                                           [INSTR_R] = 1 + COST_R,
                                           [INSTR_B] = 1 + COST_B,
                                           [INSTR_I] = 1 + COST_I,
                                           [INSTR_W] = 1 + COST_W};
    return kind[instr->op] - 1;
}
