/* Sync policy zero with what else changes passes and gradients: recomputation, and parameters that
 * two stages share. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "kit.h"

#include "base/log.h"
#include "base/mem.h"
#include "program/pipeline.h"
#include "program/schedule.h"
#include "sync/sync.h"

enum { ALL_SLICED = SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS };

/* --- recomputation --- */

static struct program *recomputing(enum recompute_policy policy, unsigned sliced) {
    struct schedule_config config = {
        .grid = {.stages = 2, .chunks = 1, .replicas = 2, .replicas_each = 1},
        .micro_batches = 2,
        .sum = SUM_REPLICA,
        .buckets = (int[]){3, 2},
        .recompute = policy};
    struct sync_config sync = {.buckets = config.buckets, .sliced = sliced};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("gpipe", &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("zero", program, &sync), STATUS_OK);
    return program;
}

/* The next instruction of a rank behind `at` that is of one of these kinds. */
static int next_of(const struct instr_list *body, int at, enum instr_op a, enum instr_op b) {
    for (at++; at < body->count; at++)
        if (body->items[at].op == a || body->items[at].op == b) break;
    return at;
}

Test(sync_zero_combined, what_is_made_again_reads_gathered_parameters) {
    static const unsigned sets[] = {SLICED_STATE, SLICED_STATE | SLICED_GRADIENTS,
                                    SLICED_STATE | SLICED_PARAMS, ALL_SLICED};
    for (int i = 0; i < 4 * RECOMPUTE_POLICY_COUNT; i++) {
        struct program *program = recomputing((enum recompute_policy)(i / 4), sets[i % 4]);
        cr_expect_eq(program_verify(program, NULL), STATUS_OK, "policy %d, sliced %d", i / 4,
                     i % 4);
        program_free(&program);
    }
}

/* By block a gather serves the backward behind it, too. */
Test(sync_zero_combined, a_block_is_gathered_once_for_both_its_passes) {
    struct program *program = recomputing(RECOMPUTE_ALWAYS_BLOCK, ALL_SLICED);
    const struct instr_list *body = program_list(program, 0, LIST_BODY);
    int count = 0;
    for (int i = 0; i < body->count; i++) {
        const struct instr *again = &body->items[i];
        if (again->op != INSTR_R) continue;
        count++;
        const struct instr *pass = &body->items[next_of(body, i, INSTR_B, INSTR_FREE)];
        cr_assert_eq(pass->op, INSTR_B, "bucket %d is freed in between", again->segment);
        cr_expect_eq(pass->segment, again->segment);
    }
    cr_expect_eq(count, 2 * 3);
    program_free(&program);
}

Test(sync_zero_combined, nor_is_freed_what_r_reads) {
    for (int blocks = 0; blocks < 2; blocks++) {
        struct program *program =
            recomputing(blocks ? RECOMPUTE_ALWAYS_BLOCK : RECOMPUTE_ALWAYS, ALL_SLICED);
        struct instr_list *body = &program_edit(program, 0)->list[LIST_BODY];
        int at = next_of(body, -1, INSTR_R, INSTR_R);
        /* The first R after one that reads another bucket: its gather is left out. */
        int gather = next_of(body, at, INSTR_GATHER, INSTR_GATHER);
        body->items[gather].op = INSTR_FREE;
        body->items[gather].group = 0;
        char log[512] = "";
        log_capture(log, sizeof log);
        enum status status = program_verify(program, NULL);
        log_capture(NULL, 0);
        cr_expect_eq(status, STATUS_USAGE);
        cr_expect(strstr(log, "rule 31") || strstr(log, "rule 22"), "%s", log);
        program_free(&program);
    }
}

/* --- parameters that two stages share --- */

static struct program *sharing(const char *schedule, int micros, unsigned sliced) {
    const struct pipeline_schedule *pipeline = pipeline_find(schedule);
    static const int buckets[] = {3, 3, 3, 3};
    static const bool kept[] = {true, true, true, true};
    int last = 2 * pipeline->chunks - 1;
    struct program_tie tie = {0, 2, last, pipeline->v_shape ? INSTR_ALL : 2};
    struct schedule_config config = {.grid = {.stages = 2,
                                              .chunks = pipeline->chunks,
                                              .replicas = 2,
                                              .replicas_each = 1,
                                              .v_shape = pipeline->v_shape},
                                     .micro_batches = micros,
                                     .sum = SUM_REPLICA,
                                     .buckets = buckets,
                                     .ties = &tie,
                                     .tie_count = 1};
    struct sync_config sync = {.buckets = buckets, .kept = kept, .sliced = sliced};
    struct program *program = NULL;
    cr_assert_eq(schedule_build(schedule, &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("zero", program, &sync), STATUS_OK);
    return program;
}

Test(sync_zero_combined, what_stages_share_is_sliced_with_every_schedule) {
    static const unsigned sets[] = {SLICED_STATE, SLICED_STATE | SLICED_GRADIENTS,
                                    SLICED_STATE | SLICED_PARAMS, ALL_SLICED};
    for (int p = 0; p < pipeline_count(); p++) {
        if (strcmp(pipeline_at(p)->name, "rpc") == 0) continue; /* has one replica */
        if (pipeline_at(p)->older) continue; /* steps overlap: see test_ahead.c */
        for (int i = 0; i < 4 * 3; i++) {
            struct program *program = sharing(pipeline_at(p)->name, 1 + i / 4 * 2, sets[i % 4]);
            cr_expect_eq(program_verify(program, NULL), STATUS_OK,
                         "%s, %d micro-batches, sliced %s", pipeline_at(p)->name, 1 + i / 4 * 2,
                         sliced_name(sets[i % 4]));
            expect_same_text(program);
            program_free(&program);
        }
    }
}

static void expect_unjoined(struct program *program, enum instr_op op, const char *words) {
    struct instr_list *body = &program_edit(program, 0)->list[LIST_BODY];
    int at = next_of(body, -1, op, op);
    memmove(body->items + at, body->items + at + 1,
            (size_t)(--body->count - at) * sizeof *body->items);
    char log[512] = "";
    log_capture(log, sizeof log);
    enum status status = program_verify(program, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE);
    cr_expect(strstr(log, words), "%s", log);
    program_free(&program);
}

Test(sync_zero_combined, what_stages_share_is_joined_before_it_is_scattered) {
    expect_unjoined(sharing("gpipe", 3, ALL_SLICED), INSTR_JOIN, "JOIN comes first");
    expect_unjoined(sharing("gpipe", 3, SLICED_STATE), INSTR_JOIN, "JOIN comes first");
}

/* On one rank: the gradients of a micro-batch's later stage are there when both are added. */
Test(sync_zero_combined, what_a_rank_shares_is_tied_when_both_stages_have_made_it) {
    struct program *program = sharing("zbv", 3, ALL_SLICED);
    struct instr_list *body = &program_edit(program, 0)->list[LIST_BODY];
    int tie = body->count - 1;
    while (body->items[tie].op != INSTR_TIE) tie--;
    cr_assert_eq(body->items[tie].stage, 0);
    int other = 0;
    while (body->items[other].op != INSTR_TIE || body->items[other].stage != 0 ||
           body->items[other].bucket != 2)
        other++;
    struct instr swapped = body->items[tie];
    body->items[tie] = body->items[other];
    body->items[other] = swapped;
    char log[512] = "";
    log_capture(log, sizeof log);
    enum status status = program_verify(program, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE);
    cr_expect(strstr(log, "rule 13") || strstr(log, "rule 30"), "%s", log);
    program_free(&program);
}
