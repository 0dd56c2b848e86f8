/* What the program tests share: builder outputs of many shapes, text in memory, and an executor on
 * strings that says what a program adds to what. */
#ifndef TESTS_PROGRAM_KIT_H
#define TESTS_PROGRAM_KIT_H

#include "program/program.h"

/* One case: how a step is dealt. `last` samples in all (0: every micro-batch is full), spread as
 * the sampler does: micro-batch g of G gets those at g, g+G, ... */
struct program_case {
    int replicas, micro_batches;
    enum sum_order sum;
    int64_t last;
};

/* Calls `check` for every combination the tests look at. */
void program_cases(void (*check)(const struct program_case *of));
/* The builder's program, with a short last step where `last` says so; `samples` (G entries) is
 * filled when not NULL. The caller frees it. */
struct program *program_of_case(const struct program_case *of, int64_t *samples);
/* The first program, with the body of the other, which is freed, as its list last. */
struct program *program_with_last(struct program *whole, struct program *last);
/* The step that a test looks at: list last where there is one. */
enum list_name program_step(const struct program *program);

/* By way of its text. The caller frees these. */
struct program *program_copy(const struct program *program);
char *program_text(const struct program *program);
/* Runs rank 0's step on strings: what STEP reads, then the order of the forward passes that move
 * running statistics. "(0+1)+2 | 0 1 2" */
char *program_meaning(const struct program *program);

#endif
