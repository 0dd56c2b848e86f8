/* A driver that calls for the passes of the stages: what the emitter makes is taken and read back
 * from its text, and the verifier refuses calls that nobody serves, that come in another order or
 * as something else, and passes without one. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit.h"
#include "program/schedule.h"

static struct program *build(int stages, int micros, const int64_t *samples) {
    struct schedule_config config = {
        .grid = {.stages = stages, .chunks = 1, .replicas = 1, .replicas_each = 1, .drivers = 1},
        .micro_batches = micros,
        .samples = samples};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("rpc", &config, &program), STATUS_OK);
    return samples ? program_with_last(build(stages, micros, NULL), program) : program;
}

static int count(const struct program *program, int rank, enum instr_op op) {
    const struct instr_list *body = program_list(program, rank, program_step(program));
    int found = 0;
    for (int i = 0; i < body->count; i++) found += body->items[i].op == op;
    return found;
}

Test(program_calls, every_shape_is_taken) {
    for (int i = 0; i < 5 * 6; i++) {
        int stages = 1 + i % 5, micros = 1 + i / 5;
        struct program *program = build(stages, micros, NULL);
        cr_expect_eq(program_verify(program, NULL), STATUS_OK, "%d x %d", stages, micros);
        cr_expect_eq(count(program, 0, INSTR_CALL), stages * (2 * micros + 1));
        cr_expect_eq(count(program, 0, INSTR_MEET), micros);
        for (int r = 1; r <= stages; r++)
            cr_expect_eq(count(program, r, INSTR_SERVE), 2 * micros + 1);
        program_free(&program);
    }
}

Test(program_calls, nor_is_called_for_a_micro_batch_without_samples) {
    static const int64_t samples[] = {2, 1, 0, 0};
    struct program *program = build(2, 4, samples);
    cr_expect_eq(program_verify(program, samples), STATUS_OK);
    cr_expect_eq(count(program, 0, INSTR_CALL), 2 * (2 * 2 + 1));
    program_free(&program);
}

static char *body_text(const struct program *program, int rank) {
    const struct instr_list *body = program_list(program, rank, LIST_BODY);
    char *text = mem_text(""), line[INSTR_TEXT_BYTES];
    for (int i = 0; i < body->count; i++) {
        instr_text(&body->items[i], rank, line);
        char *longer = mem_format("%s%s\n", text, strchr(strchr(line, ' ') + 1, ' ') + 1);
        free(text);
        text = longer;
    }
    return text;
}

static void expect_body(const struct program *program, int rank, const char *want) {
    char *text = body_text(program, rank);
    cr_expect_str_eq(text, want, "rank %d:\n%s", rank, text);
    free(text);
}

/* Forwards go by diagonals; B(m) through all stages, met by all, before B(m+1). */
Test(program_calls, golden_order) {
    struct program *program = build(2, 2, NULL);
    expect_body(program, 0,
                "CALL s0 m0 forward\nCALL s0 m1 forward\nCALL s1 m0 forward\nCALL s1 m1 forward\n"
                "CALL s1 m0 backward\nCALL s0 m0 backward\nMEET q0\n"
                "CALL s1 m1 backward\nCALL s0 m1 backward\nMEET q0\n"
                "REPORT q0\nNORM q3\nCALL s0 update\nCALL s1 update\n");
    expect_body(program, 2,
                "COUNT q1\nSERVE s1 m0 forward\nLOAD s1 m0 a0\nRECV_F s1 m0 a0 p0\nF s1 m0 a0\n"
                "SERVE s1 m1 forward\nLOAD s1 m1 a1\nRECV_F s1 m1 a1 p0\nF s1 m1 a1\n"
                "SERVE s1 m0 backward\nB s1 m0 a0 g0 new\nSEND_B s1 m0 a0 p0\nMEET q0\n"
                "SERVE s1 m1 backward\nB s1 m1 a1 g0\nSEND_B s1 m1 a1 p0\nTIE s1 g0\nMEET q0\n"
                "REPORT q0\nNORM g0 q3\nSERVE s1 update\nSTEP g0\n");
    program_free(&program);
}

Test(program_calls, are_read_back_from_their_text) {
    struct program *program = build(1, 2, NULL);
    program->credits = 3;
    struct program *copy = program_copy(program);
    char *text = program_text(program), *again = program_text(copy);
    cr_expect_str_eq(text, again);
    cr_expect_eq(copy->credits, 3, "also of one stage: calls have credits");
    cr_expect_eq(program_verify(copy, NULL), STATUS_OK);
    free(text);
    free(again);
    program_free(&program);
    program_free(&copy);
}

/* --- what is refused --- */

static struct instr *find(struct program *program, int rank, enum instr_op op, int stage, int micro,
                          unsigned flags) {
    struct instr_list *body = &program_edit(program, rank)->list[LIST_BODY];
    for (int i = 0; i < body->count; i++) {
        struct instr *instr = &body->items[i];
        if (instr->op == op && instr->stage == stage && instr->micro == micro &&
            instr->flags == flags)
            return instr;
    }
    cr_assert_fail("no such instruction");
    return NULL;
}

static void drop(struct program *program, int rank, const struct instr *instr) {
    struct instr_list *body = &program_edit(program, rank)->list[LIST_BODY];
    int at = (int)(instr - body->items);
    memmove(body->items + at, body->items + at + 1, (size_t)(body->count - at - 1) * sizeof *instr);
    body->count--;
}

static void swap(struct instr *a, struct instr *b) {
    struct instr kept = *a;
    *a = *b;
    *b = kept;
}

static void expect_refused(struct program *program, const char *words) {
    char log[1024] = "";
    log_capture(log, sizeof log);
    enum status status = program_verify(program, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE, "%s", words);
    cr_expect(strstr(log, words), "\"%s\", not \"%s\"", log, words);
    program_free(&program);
}

Test(program_calls, a_call_too_few_leaves_its_server_waiting) {
    struct program *program = build(2, 2, NULL);
    drop(program, 0, find(program, 0, INSTR_CALL, 1, INSTR_ALL, INSTR_UPDATE));
    expect_refused(program, "refused by rule 23: rank 2 waits at #");
}

Test(program_calls, a_serve_too_few_leaves_a_call) {
    struct program *program = build(2, 2, NULL);
    drop(program, 1, find(program, 1, INSTR_SERVE, 0, INSTR_ALL, INSTR_UPDATE));
    expect_refused(program, "rule 28 at #20 r1 STEP g0: no SERVE of it stands before it");
    program = build(1, 1, NULL);
    program_add(program_edit(program, 0), LIST_BODY, INSTR_CALL)->flags = INSTR_UPDATE;
    expect_refused(program, "r0 CALL s0 update: no rank serves it");
}

Test(program_calls, come_in_the_order_they_are_served) {
    struct program *program = build(2, 2, NULL);
    swap(find(program, 0, INSTR_CALL, 1, 0, INSTR_FORWARD),
         find(program, 0, INSTR_CALL, 1, 1, INSTR_FORWARD));
    expect_refused(program, "SERVE s1 m0 forward: another call comes there");
    program = build(2, 2, NULL);
    find(program, 0, INSTR_CALL, 0, 1, INSTR_BACKWARD)->flags = INSTR_FORWARD;
    expect_refused(program, "SERVE s0 m1 backward: another call comes there");
}

Test(program_calls, a_pass_is_that_of_its_serve) {
    struct program *program = build(2, 2, NULL);
    swap(find(program, 1, INSTR_SERVE, 0, 0, INSTR_FORWARD), find(program, 1, INSTR_LOAD, 0, 0, 0));
    cr_expect_eq(program_verify(program, NULL), STATUS_OK, "loads need no call");
    drop(program, 1, find(program, 1, INSTR_SERVE, 0, 0, INSTR_FORWARD));
    expect_refused(program, "F s0 m0 a0: no SERVE of it stands before it");
    program = build(1, 2, NULL);
    swap(find(program, 1, INSTR_SERVE, 0, 1, INSTR_FORWARD), find(program, 1, INSTR_F, 0, 0, 0));
    expect_refused(program, "SERVE s0 m1 forward: what was called for before has not been done");
}

Test(program_calls, what_is_called_for_follows) {
    struct program *program = build(1, 1, NULL);
    static const enum instr_op ops[] = {INSTR_CALL, INSTR_SERVE};
    for (int r = 0; r < 2; r++)
        program_add(program_edit(program, r), LIST_BODY, ops[r])->flags = INSTR_UPDATE;
    expect_refused(program, "r1 SERVE s0 update: what it was called for does not follow");
}

Test(program_calls, drivers_call_and_stages_serve) {
    struct program *program = build(1, 1, NULL);
    find(program, 1, INSTR_SERVE, 0, 0, INSTR_FORWARD)->op = INSTR_CALL;
    expect_refused(program, "rule 28 at #1 r1 CALL s0 m0 forward: this rank has a stage");
    program = build(1, 1, NULL);
    find(program, 0, INSTR_CALL, 0, INSTR_ALL, INSTR_UPDATE)->op = INSTR_SERVE;
    expect_refused(program, "rule 4 at #5 r0 SERVE s0 update: stage 0 is not this rank's");
}

Test(program_calls, name_one_thing) {
    struct program *program = build(1, 1, NULL);
    find(program, 0, INSTR_CALL, 0, 0, INSTR_FORWARD)->flags |= INSTR_UPDATE;
    expect_refused(program, "it names one of forward, backward, update");
    program = build(1, 1, NULL);
    find(program, 0, INSTR_CALL, 0, 0, INSTR_FORWARD)->micro = INSTR_ALL;
    expect_refused(program, "of which micro-batch?");
    program = build(1, 1, NULL);
    find(program, 0, INSTR_CALL, 0, INSTR_ALL, INSTR_UPDATE)->micro = 0;
    expect_refused(program, "an update has no micro-batch");
    program = build(1, 1, NULL);
    find(program, 0, INSTR_CALL, 0, 0, INSTR_FORWARD)->micro = 1;
    expect_refused(program, "rule 1 at #0 r0 CALL s0 m1 forward: micro-batch 1 of 1");
}

/* The driver would meet the stages before it has called for their last backward. */
Test(program_calls, a_cycle_of_call_and_meeting_is_found) {
    struct program *program = build(2, 1, NULL);
    struct instr_list *body = &program_edit(program, 0)->list[LIST_BODY];
    swap(find(program, 0, INSTR_CALL, 0, 0, INSTR_BACKWARD), &body->items[4]);
    expect_refused(program, "rule 23: rank 0 waits at #4 r0 MEET q0 for rank 1, which waits at");
}

/* With more calls than credits before it goes elsewhere the driver waits for a stage that waits
 * for one that was not called yet. */
Test(program_calls, credits_count) {
    struct program *program = build(2, 4, NULL);
    struct instr_list *body = &program_edit(program, 0)->list[LIST_BODY];
    struct instr sorted[8];
    for (int i = 0; i < 8; i++) sorted[i] = body->items[i];
    for (int i = 0, late = 0, early = 0; i < 8; i++) /* stage 1 first */
        body->items[sorted[i].stage == 1 ? late++ : 4 + early++] = sorted[i];
    program->credits = 4;
    cr_expect_eq(program_verify(program, NULL), STATUS_OK);
    program->credits = 2;
    expect_refused(program, "rule 23: rank 0 waits at");
}
