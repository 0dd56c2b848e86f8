/* Programs that run forward again: what the emitter makes of every schedule is taken, each light F
 * has its R right before its backward, and the verifier refuses what would read activations that
 * are not there. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kit.h"
#include "program/pipeline.h"
#include "program/schedule.h"

static const int buckets[] = {3, 1, 2, 3, 4, 2, 1, 2};

static struct program *build(const char *schedule, int stages, int micros,
                             enum recompute_policy recompute, const int64_t *samples) {
    const struct pipeline_schedule *pipeline = pipeline_find(schedule);
    struct schedule_config config = {.grid = {.stages = stages,
                                              .chunks = pipeline->chunks,
                                              .replicas = 1,
                                              .replicas_each = 1,
                                              .v_shape = pipeline->v_shape},
                                     .micro_batches = micros,
                                     .samples = samples,
                                     .buckets = buckets,
                                     .recompute = recompute};
    struct program *program = NULL;
    cr_assert_eq(schedule_build(schedule, &config, &program), STATUS_OK);
    if (!samples) return program;
    return program_with_last(build(schedule, stages, micros, recompute, NULL), program);
}

static bool is_pass(const struct instr *instr) {
    return strchr("FRBIW", instr_row(instr)->name[0]) && !instr_row(instr)->name[1];
}

/* The next pass of the rank, behind `at`; NULL: none. */
static const struct instr *next_pass(const struct instr_list *body, int at) {
    for (int i = at + 1; i < body->count; i++)
        if (is_pass(&body->items[i])) return &body->items[i];
    return NULL;
}

/* Does each backward follow its forward, in a program that keeps all? Then nothing would be saved.
 */
static bool is_at_once(const struct program *kept, int rank) {
    const struct instr_list *body = program_list(kept, rank, LIST_BODY);
    for (int i = 0; i < body->count; i++) {
        const struct instr *next = next_pass(body, i);
        if (body->items[i].op != INSTR_F) continue;
        if (next->op != INSTR_B || next->stage != body->items[i].stage ||
            next->micro != body->items[i].micro)
            return false;
    }
    return true;
}

static void check_rank(const struct program *program, int rank, enum recompute_policy policy) {
    const struct instr_list *body = program_list(program, rank, program_step(program));
    int last = program->micro_batches - 1, light = 0, again = 0;
    bool blocks = recompute_by_block(policy);
    for (int i = 0; i < body->count; i++) {
        const struct instr *instr = &body->items[i], *next = next_pass(body, i);
        bool wanted =
            policy != RECOMPUTE_NEVER && (!recompute_keeps_last(policy) || instr->micro != last);
        if (instr->op == INSTR_F) {
            cr_expect_eq(instr->flags, !wanted ? 0 : blocks ? INSTR_BLOCK : INSTR_LIGHT);
            light += wanted ? blocks ? buckets[instr->stage] : 1 : 0;
            if (recompute_keeps_last(policy)) cr_expect_eq(instr->slot == 0, !wanted);
        }
        if (instr->op != INSTR_R) continue;
        again++;
        cr_assert(next && (next->op == INSTR_B || next->op == INSTR_I));
        cr_expect_eq(next->stage, instr->stage);
        cr_expect_eq(next->micro, instr->micro);
        cr_expect_eq(next->slot, instr->slot);
        cr_expect_eq(next->segment, instr->segment);
        cr_expect_eq(instr->segment == INSTR_ALL, !blocks || buckets[instr->stage] == 1);
    }
    cr_expect_eq(light, again);
}

Test(program_recompute, every_schedule_makes_again_what_it_does_not_keep) {
    static const int micros[] = {1, 3, 4};
    for (int p = 0; p < pipeline_count(); p++) {
        if (pipeline_at(p)->older) continue; /* steps overlap: see test_ahead.c */
        for (int i = 0; i < 3 * 3 * RECOMPUTE_POLICY_COUNT; i++) {
            int stages = 1 + i / 3 % 3;
            enum recompute_policy policy = (enum recompute_policy)(i / 9);
            struct program *program =
                build(pipeline_at(p)->name, stages, micros[i % 3], policy, NULL);
            cr_expect_eq(program_verify(program, NULL), STATUS_OK, "%s", pipeline_at(p)->name);
            struct program *kept =
                build(pipeline_at(p)->name, stages, micros[i % 3], RECOMPUTE_NEVER, NULL);
            for (int rank = 0; rank < program->ranks; rank++)
                check_rank(program, rank,
                           is_at_once(kept, rank) && policy != RECOMPUTE_ALWAYS_BLOCK
                               ? RECOMPUTE_NEVER
                               : policy);
            program_free(&program);
            program_free(&kept);
        }
    }
}

/* A short step whose last micro-batches have no samples. */
Test(program_recompute, nor_is_a_missing_micro_batch_made_again) {
    static const int64_t samples[] = {1, 1, 0, 0};
    static const enum recompute_policy policies[] = {RECOMPUTE_ALWAYS, RECOMPUTE_EXCEPT_LAST};
    for (int i = 0; i < 2; i++) {
        struct program *program = build("1f1b", 2, 4, policies[i], samples);
        cr_expect_eq(program_verify(program, samples), STATUS_OK);
        check_rank(program, 0, policies[i]);
        check_rank(program, 1, RECOMPUTE_NEVER); /* each backward follows its forward */
        program_free(&program);
    }
}

Test(program_recompute, is_read_back_from_its_text) {
    struct program *program = build("zb-h1", 2, 3, RECOMPUTE_EXCEPT_LAST, NULL),
                   *copy = program_copy(program);
    char *text = program_text(program), *again = program_text(copy);
    cr_expect_str_eq(text, again);
    cr_expect(strstr(text, " light\n") && strstr(text, " R s0 m0 a1\n"), "%s", text);
    free(text);
    free(again);
    program_free(&program);
    program_free(&copy);
}

/* --- what is refused --- */

static struct instr_list *body_of(struct program *program) {
    return &program_edit(program, 0)->list[LIST_BODY];
}

static int find(const struct instr_list *body, enum instr_op op, int micro) {
    for (int i = 0; i < body->count; i++)
        if (body->items[i].op == op && body->items[i].micro == micro) return i;
    cr_assert_fail("no such instruction");
    return -1;
}

/* Takes instruction `from` out and puts it back before the one that was at `to`; -1: nowhere. */
static void move(struct instr_list *body, int from, int to) {
    struct instr moved = body->items[from];
    memmove(body->items + from, body->items + from + 1,
            (size_t)(body->count - from - 1) * sizeof moved);
    body->count--;
    if (to < 0) return;
    if (to > from) to--;
    memmove(body->items + to + 1, body->items + to, (size_t)(body->count - to) * sizeof moved);
    body->items[to] = moved;
    body->count++;
}

static void expect_refused(struct program *program, const char *words) {
    char log[512] = "";
    log_capture(log, sizeof log);
    enum status status = program_verify(program, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE, "%s", words);
    cr_expect(strstr(log, words), "\"%s\", not \"%s\"", log, words);
    program_free(&program);
}

Test(program_recompute, without_r_backward_has_no_activations) {
    struct program *program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS, NULL);
    struct instr_list *body = body_of(program);
    move(body, find(body, INSTR_R, 1), -1);
    expect_refused(program, "B s0 m1 a1 g0: slot 1 is not \"activations there\" yet");

    program = build("zb-h1", 1, 3, RECOMPUTE_ALWAYS, NULL);
    body = body_of(program);
    move(body, find(body, INSTR_R, 1), -1);
    expect_refused(program, "is not \"activations there\" yet");
}

Test(program_recompute, what_is_there_is_not_made_again) {
    struct program *program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS, NULL);
    struct instr_list *body = body_of(program);
    body->items[find(body, INSTR_F, 1)].flags = 0;
    expect_refused(program, "R s0 m1 a1: slot 1 is \"activations there\" already");
}

Test(program_recompute, before_its_forward_there_is_nothing_to_make_again) {
    struct program *program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS, NULL);
    struct instr_list *body = body_of(program);
    move(body, find(body, INSTR_R, 0), find(body, INSTR_F, 0));
    expect_refused(program, "slot 0 is not \"forward done\" yet");
}

/* All slots of a rank share the memory that R works in. */
Test(program_recompute, no_other_pass_comes_between_r_and_its_backward) {
    struct program *program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS, NULL);
    struct instr_list *body = body_of(program);
    move(body, find(body, INSTR_R, 0), find(body, INSTR_F, 2));
    expect_refused(program, "R of stage 0 on micro-batch 0 stands before it");

    program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS, NULL);
    body = body_of(program);
    move(body, find(body, INSTR_R, 1), find(body, INSTR_B, 0));
    expect_refused(program, "R of stage 0 on micro-batch 0 stands before it");

    program = build("zb-h1", 2, 2, RECOMPUTE_ALWAYS, NULL);
    body = body_of(program);
    move(body, find(body, INSTR_W, 0), find(body, INSTR_I, 1));
    expect_refused(program, "R of stage 0 on micro-batch 1 stands before it");
}

Test(program_recompute, light_is_a_flag_of_forward_in_training) {
    struct program *program = build("gpipe", 1, 2, RECOMPUTE_ALWAYS, NULL);
    struct instr_list *body = body_of(program);
    body->items[find(body, INSTR_B, 1)].flags |= INSTR_LIGHT;
    expect_refused(program, "B has no such flag");

    program = build("gpipe", 1, 2, RECOMPUTE_ALWAYS, NULL);
    struct instr_list *eval = &program_edit(program, 0)->list[LIST_EVAL];
    eval->items[find(eval, INSTR_F, 0)].flags |= INSTR_LIGHT;
    expect_refused(program, "F s0 m0 a0 light");
}

/* --- block by block --- */

static int find_segment(const struct instr_list *body, enum instr_op op, int micro, int segment) {
    int at = find(body, op, micro);
    while (body->items[at].op != op || body->items[at].segment != segment) at++;
    return at;
}

Test(program_recompute, blocks_stand_before_their_own_backward) {
    struct program *program = build("gpipe", 1, 2, RECOMPUTE_ALWAYS_BLOCK, NULL);
    char *text = program_text(program);
    cr_expect(strstr(text,
                     "R s0 e0 m0 a0\n#6 r0 B s0 e0 m0 a0 g0 new\n#7 r0 R s0 e1 m0 a0\n#8 r0 B "
                     "s0 e1 m0 a0 g0 new\n#9 r0 R s0 e2 m0 a0\n#10 r0 B s0 e2 m0 a0 g0 new\n"),
              "%s", text);
    cr_expect(strstr(text, "F s0 m0 a0 block\n"), "%s", text);
    free(text);
    program_free(&program);
}

Test(program_recompute, each_block_is_made_again_once_before_its_backward) {
    struct program *program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS_BLOCK, NULL);
    struct instr_list *body = body_of(program);
    move(body, find_segment(body, INSTR_R, 1, 1), -1);
    expect_refused(program, "B s0 e1 m1 a1 g0: slot 1 is not \"activations there\" yet");

    program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS_BLOCK, NULL);
    body = body_of(program);
    body->items[find_segment(body, INSTR_R, 1, 1)].segment = 2;
    expect_refused(program, "R s0 e2 m1 a1: segment 1 is made again next");

    program = build("zb-h1", 1, 3, RECOMPUTE_ALWAYS_BLOCK, NULL);
    body = body_of(program);
    move(body, find_segment(body, INSTR_R, 1, 1), find_segment(body, INSTR_I, 1, 0));
    expect_refused(program, "R s0 e1 m1 a0: backward of segment 0 is next");

    program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS_BLOCK, NULL);
    body = body_of(program);
    body->items[find_segment(body, INSTR_R, 0, 0)].segment = INSTR_ALL;
    expect_refused(program, "R s0 m0 a0: segment 0 is made again next");
}

Test(program_recompute, all_of_a_backward_needs_all_blocks) {
    struct program *program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS_BLOCK, NULL);
    struct instr_list *body = body_of(program);
    body->items[find_segment(body, INSTR_B, 1, 0)].segment = INSTR_ALL;
    expect_refused(program, "B s0 m1 a1 g0: slot 1 is not \"activations there\" yet");
}

Test(program_recompute, a_rank_recomputes_by_stage_or_by_block) {
    struct program *program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS_BLOCK, NULL);
    struct instr_list *body = body_of(program);
    body->items[find(body, INSTR_F, 2)].flags = INSTR_LIGHT;
    expect_refused(program,
                   "F s0 m2 a2 light: a rank makes activations again by stage or by block");

    program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS_BLOCK, NULL);
    body = body_of(program);
    body->items[find(body, INSTR_F, 2)].flags = INSTR_AGAIN;
    expect_refused(program, "either \"light\" or \"block\"");

    program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS_BLOCK, NULL);
    body = body_of(program);
    for (int i = 0; i < body->count; i++)
        if (body->items[i].op == INSTR_F) body->items[i].flags = INSTR_LIGHT;
    expect_refused(program, "of a light F all is made again at once");
}

/* Nor a pass between two blocks: the memory that both work in is one. */
Test(program_recompute, no_other_pass_comes_between_blocks) {
    struct program *program = build("gpipe", 1, 3, RECOMPUTE_ALWAYS_BLOCK, NULL);
    struct instr_list *body = body_of(program);
    move(body, find(body, INSTR_F, 2), find_segment(body, INSTR_R, 0, 1));
    expect_refused(program, "R of stage 0 on micro-batch 0 stands before it");
}
