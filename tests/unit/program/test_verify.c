/* The verifier: takes what the builders make, and refuses every small damage to it. A damaged
 * program that it does take must mean the same as the whole one. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "between.h"
#include "kit.h"
#include "program/schedule.h"

static int64_t samples[64];
static long refused, taken;

static enum status quiet_verify(const struct program *program) {
    char log[512] = "";
    log_capture(log, sizeof log);
    enum status status = program_verify(program, samples);
    log_capture(NULL, 0);
    if (status != STATUS_OK) {
        cr_expect_eq(status, STATUS_USAGE);
        cr_expect(strstr(log, "program refused"), "%s", log);
        refused++;
    } else
        taken++;
    return status;
}

/* Takes a mutated program only when it means what the whole one means. */
static void refused_or_same(const struct program *mutant, const char *meaning, const char *how,
                            int at) {
    if (quiet_verify(mutant) != STATUS_OK) return;
    char *now = program_meaning(mutant), *text = program_text(mutant);
    cr_expect_str_eq(now, meaning, "%s at %d is taken, but means %s, not %s:\n%s", how, at, now,
                     meaning, text);
    free(now);
    free(text);
}

static struct instr_list *body_of(struct program *program) {
    return &program_edit(program, 0)->list[program_step(program)];
}

static struct program *without(const struct program *program, int at) {
    struct program *mutant = program_copy(program);
    struct instr_list *body = body_of(mutant);
    memmove(body->items + at, body->items + at + 1,
            (size_t)(body->count - at - 1) * sizeof *body->items);
    body->count--;
    return mutant;
}

/* Instruction `at` a second time, before position `to`. */
static struct program *with_twice(const struct program *program, int at, int to) {
    struct program *mutant = program_copy(program);
    program_add(program_edit(mutant, 0), program_step(mutant), INSTR_COUNT);
    struct instr_list *body = body_of(mutant);
    struct instr copy = body->items[at];
    memmove(body->items + to + 1, body->items + to,
            (size_t)(body->count - to - 1) * sizeof *body->items);
    body->items[to] = copy;
    return mutant;
}

static void takes(const struct program_case *of) {
    struct program *program = program_of_case(of, samples);
    cr_expect_eq(program_verify(program, samples), STATUS_OK);
    if (!of->last) cr_expect_eq(program_verify(program, NULL), STATUS_OK);
    program_free(&program);
}

Test(program_verify, takes_what_builders_make) {
    program_cases(takes);
}

static void check_deletions(const struct program_case *of) {
    struct program *program = program_of_case(of, samples);
    for (int i = 0; i < body_of(program)->count; i++) {
        struct program *mutant = without(program, i);
        char line[INSTR_TEXT_BYTES];
        cr_expect_neq(quiet_verify(mutant), STATUS_OK, "taken without %s",
                      instr_text(&body_of(program)->items[i], 0, line));
        program_free(&mutant);
    }
    program_free(&program);
}

Test(program_verify, refuses_every_deletion) {
    program_cases(check_deletions);
    cr_assert_gt(refused, 1000);
}

/* COUNT sets seeds from the step's samples and NORM only reads: doing either twice changes nothing
 * (the executor's tests run such a program). Nothing else may be done twice. */
static void check_duplicates(const struct program_case *of) {
    struct program *program = program_of_case(of, samples);
    int count = body_of(program)->count;
    for (int i = 0; i < count; i++) {
        enum instr_op op = (enum instr_op)body_of(program)->items[i].op;
        for (int to = i + 1; to <= count && to <= i + 6; to++) {
            struct program *mutant = with_twice(program, i, to);
            char line[INSTR_TEXT_BYTES];
            if (quiet_verify(mutant) == STATUS_OK)
                cr_expect(op == INSTR_COUNT || op == INSTR_NORM, "taken twice: %s",
                          instr_text(&body_of(program)->items[i], 0, line));
            program_free(&mutant);
        }
    }
    program_free(&program);
}

Test(program_verify, refuses_every_duplicate_that_does_something) {
    program_cases(check_duplicates);
    cr_assert_gt(refused, 1000);
    cr_assert_gt(taken, 10);
}

static void check_swaps(const struct program_case *of) {
    struct program *program = program_of_case(of, samples);
    char *meaning = program_meaning(program);
    for (int i = 0; i + 1 < body_of(program)->count; i++) {
        struct program *mutant = program_copy(program);
        struct instr *items = body_of(mutant)->items, kept = items[i];
        items[i] = items[i + 1];
        items[i + 1] = kept;
        refused_or_same(mutant, meaning, "a swap", i);
        program_free(&mutant);
    }
    free(meaning);
    program_free(&program);
}

Test(program_verify, refuses_swaps_that_change_the_meaning) {
    program_cases(check_swaps);
    cr_assert_gt(refused, 1000);
}

static int16_t *operand_of(struct instr *instr, int which) {
    return which == 0   ? &instr->stage
           : which == 1 ? &instr->slot
           : which == 2 ? &instr->grad
                        : &instr->other;
}

/* Every operand one up, one down; every flag turned; the micro-batch one up, one down. */
static void check_operands(const struct program_case *of) {
    struct program *program = program_of_case(of, samples);
    char *meaning = program_meaning(program);
    for (int i = 0; i < body_of(program)->count; i++) {
        for (int change = 0; change < 12; change++) {
            struct program *mutant = program_copy(program);
            struct instr *instr = &body_of(mutant)->items[i];
            int by = change % 2 ? 1 : -1;
            if (change < 8) *operand_of(instr, change / 2) += (int16_t)by;
            if (change == 8 || change == 9) instr->micro += by;
            if (change == 10) instr->flags ^= INSTR_NEW;
            if (change == 11) instr->flags ^= INSTR_PURE;
            if (quiet_verify(mutant) == STATUS_OK) {
                char line[INSTR_TEXT_BYTES], *now = program_meaning(mutant);
                cr_expect_str_eq(now, meaning, "taken, but means %s, not %s: %s", now, meaning,
                                 instr_text(instr, 0, line));
                free(now);
            }
            program_free(&mutant);
        }
    }
    free(meaning);
    program_free(&program);
}

Test(program_verify, refuses_wrong_operands_and_flags) {
    program_cases(check_operands);
    cr_assert_gt(refused, 10000);
}

/* B as its two halves, with two micro-batches under way: a program a pipeline would have. */
static const char halves[] = "stretto program 5\n"
                             "ranks 1 stages 1 replicas 1 micro-batches 2 sum replica\n"
                             "groups world\n"
                             "rank 0 slots 2 grads 1 buckets 1\n"
                             "rank 0 body\n"
                             "#0 r0 COUNT q0\n"
                             "#1 r0 LOAD s0 m0 a0\n"
                             "#2 r0 F s0 m0 a0\n"
                             "#3 r0 LOAD s0 m1 a1\n"
                             "#4 r0 F s0 m1 a1\n"
                             "#5 r0 I s0 m0 a0\n"
                             "#6 r0 I s0 m1 a1\n"
                             "#7 r0 W s0 m0 a0 g0 new\n"
                             "#8 r0 W s0 m1 a1 g0\n"
                             "#9 r0 TIE s0 g0\n"
                             "#20 r0 REPORT q0\n"
                             "#10 r0 NORM g0\n"
                             "#11 r0 STEP g0\n" BETWEEN("0");

Test(program_verify, halves_of_backward) {
    struct program *program = NULL;
    samples[0] = samples[1] = 4;
    cr_assert_eq(program_parse("halves", halves, sizeof halves - 1, &program), STATUS_OK);
    cr_assert_eq(program_verify(program, samples), STATUS_OK);
    char *meaning = program_meaning(program);
    cr_expect_str_eq(meaning, "(0+1) | 0 1");
    for (int i = 0; i < body_of(program)->count; i++) {
        struct program *mutant = without(program, i);
        cr_expect_neq(quiet_verify(mutant), STATUS_OK, "taken without instruction %d", i);
        program_free(&mutant);
    }
    /* The seeds are read by the first half already: COUNT between the halves is too late. */
    struct program *late = without(program, 0);
    program_add(program_edit(late, 0), LIST_BODY, INSTR_COUNT);
    struct instr_list *body = body_of(late);
    struct instr count = body->items[body->count - 1];
    memmove(body->items + 7, body->items + 6, (size_t)(body->count - 7) * sizeof *body->items);
    body->items[6] = count;
    cr_expect_neq(quiet_verify(late), STATUS_OK);
    program_free(&late);
    free(meaning);
    program_free(&program);
}

Test(program_verify, instructions_outside_the_body_are_refused) {
    static const enum list_name lists[] = {LIST_START, LIST_DRAIN};
    for (int i = 0; i < 2; i++) {
        struct program *program =
            program_of_case(&(struct program_case){1, 1, SUM_REPLICA, 0}, samples);
        program_add(program_edit(program, 0), lists[i], INSTR_COUNT);
        cr_expect_neq(quiet_verify(program), STATUS_OK);
        program_free(&program);
    }
}

Test(program_verify, an_empty_body_is_refused) {
    struct program *program =
        program_new(&(struct grid){.stages = 1, .chunks = 1, .replicas = 1, .replicas_each = 1}, 1,
                    SUM_REPLICA);
    cr_expect_neq(quiet_verify(program), STATUS_OK);
    program_free(&program);
}

/* A micro-batch without samples must not be loaded, one with samples must not be left out. */
Test(program_verify, the_samples_decide_which_micro_batches_run) {
    struct program *program =
        program_of_case(&(struct program_case){1, 3, SUM_REPLICA, 2}, samples);
    cr_expect_eq(quiet_verify(program), STATUS_OK);
    samples[2] = 1;
    cr_expect_neq(quiet_verify(program), STATUS_OK);
    samples[2] = samples[1] = 0;
    cr_expect_neq(quiet_verify(program), STATUS_OK);
    program_free(&program);
}

Test(program_verify, no_schedule_of_that_name) {
    char log[256] = "";
    struct program *program = NULL;
    log_capture(log, sizeof log);
    cr_expect_eq(schedule_build("waltz",
                                &(struct schedule_config){.grid = grid_flat(1, 1), .sum = SUM_TREE},
                                &program),
                 STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "waltz"));
}
