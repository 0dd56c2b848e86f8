/* Damages of programs, each a row of MUTATIONS. */
#ifndef TESTS_MUTANTS_MUTATE_H
#define TESTS_MUTANTS_MUTATE_H

#include "program/program.h"

#define MUTATIONS(ROW)                                                                             \
    ROW(REMOVE, "removed")                                                                         \
    ROW(NEIGHBOURS, "neighbours swapped")                                                          \
    ROW(SWAP, "swapped")                                                                           \
    ROW(DUPLICATE, "duplicated")                                                                   \
    ROW(MOVE, "moved")                                                                             \
    ROW(OPERAND, "re-targeted")                                                                    \
    ROW(FLAG, "flag flipped")                                                                      \
    ROW(OPCODE, "other instruction")                                                               \
    ROW(LIST, "other list")                                                                        \
    ROW(SIZE, "size changed")                                                                      \
    ROW(HEADER, "header changed")                                                                  \
    ROW(GROUP, "group family changed")                                                             \
    ROW(START, "damage in start")                                                                  \
    ROW(BETWEEN, "damage between steps")                                                           \
    ROW(BLOCK, "block moved")                                                                      \
    ROW(WAITS, "waits swapped")                                                                    \
    ROW(TWO, "two of these")

enum mutation {
#define ROW(NAME, words) MUTATION_##NAME,
    MUTATIONS(ROW)
#undef ROW
        MUTATION_COUNT
};
extern const char *const mutation_words[MUTATION_COUNT];

/* A small generator, so that a seed names a mutant on every machine. */
struct dice {
    uint64_t state;
};
/* Local. 0 .. count - 1. */
int dice_roll(struct dice *dice, int count);

/* Local. A copy; the caller frees it. */
struct program *mutant_copy(const struct program *program);
/* Local. Changes the program in place, in one rank or in all that run the same; false where it
 * could not: the program is of no use then. `what` says what was done. */
bool mutate(struct program *program, enum mutation mutation, struct dice *dice, char what[160]);

#endif
