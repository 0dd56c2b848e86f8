/* Programs whose steps overlap: what a body looks like, that it fills and drains the pipeline, and
 * what the verifier refuses of versions. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit.h"
#include "program/ahead.h"
#include "program/pipeline.h"
#include "program/schedule.h"
#include "sync/sync.h"

struct shape {
    const char *schedule;
    int stages, replicas, micros;
    bool vertical_sync;
};

static enum status build(const struct shape *of, struct program **out) {
    struct schedule_config config = {
        .grid = {.stages = of->stages, .chunks = 1, .replicas = of->replicas, .replicas_each = 1},
        .micro_batches = of->micros,
        .vertical_sync = of->vertical_sync};
    int buckets[8] = {1, 2, 1, 3, 1, 2, 1, 1};
    TRY(schedule_build(of->schedule, &config, out));
    return sync_insert("allreduce", *out, &(struct sync_config){.buckets = buckets});
}

static struct program *built(const struct shape *of) {
    struct program *program = NULL;
    cr_assert_eq(build(of, &program), STATUS_OK);
    return program;
}

/* --- bodies --- */

static void expect_body(const struct program *program, int rank, const char *want) {
    const struct instr_list *body = program_list(program, rank, LIST_BODY);
    char have[512] = "", line[INSTR_TEXT_BYTES];
    for (int i = 0; i < body->count; i++) {
        const struct instr *instr = &body->items[i];
        if (!instr_runs_nodes(instr) && instr->op != INSTR_STEP) continue;
        const char *shown = strchr(strchr(instr_text(instr, rank, line), ' ') + 1, ' ') + 1;
        size_t used = strlen(have);
        snprintf(have + used, sizeof have - used, "%s%s", used ? ", " : "", shown);
    }
    cr_expect_str_eq(have, want, "rank %d: %s", rank, have);
}

Test(program_ahead, pipedream_is_ahead_by_the_stages_behind) {
    struct program *program = built(&(struct shape){"pipedream", 3, 1, 1, false});
    cr_expect_eq(program->ahead, 2);
    expect_body(program, 0, "F s0 m2 a2 v2, B s0 m0 a0 v2 g0 new, STEP g0");
    expect_body(program, 1, "F s1 m1 a1 v1, B s1 m0 a0 v1 g0 new, STEP g0");
    expect_body(program, 2, "F s2 m0 a0, B s2 m0 a0 g0 new, STEP g0");
    program_free(&program);
}

Test(program_ahead, vertical_sync_keeps_as_many_versions_everywhere) {
    struct program *program = built(&(struct shape){"pipedream", 3, 1, 1, true});
    expect_body(program, 0, "F s0 m2 a2 v2, B s0 m0 a0 v2 g0 new, STEP g0");
    expect_body(program, 2, "F s2 m0 a0 v2, B s2 m0 a0 v2 g0 new, STEP g0");
    for (int r = 0; r < 3; r++) cr_expect_eq(program_of(program, r)->chunk[0].older, 2);
    program_free(&program);
}

Test(program_ahead, two_versions_are_enough_for_2bw) {
    struct program *program = built(&(struct shape){"pipedream-2bw", 2, 1, 2, false});
    cr_expect_eq(program->ahead, 1);
    expect_body(program, 0,
                "F s0 m1 a1 v1, B s0 m0 a0 v1 g0 new, F s0 m2 a0 v1, B s0 m1 a1 v1 g0, STEP g0");
    expect_body(program, 1,
                "F s1 m0 a0 v1, B s1 m0 a0 v1 g0 new, F s1 m1 a0 v1, B s1 m1 a0 v1 g0, STEP g0");
    program_free(&program);
    char log[512] = "";
    log_capture(log, sizeof log);
    cr_expect_eq(build(&(struct shape){"pipedream-2bw", 3, 1, 1, false}, &program), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "at least as many micro-batches as stages"), "%s", log);
}

/* A micro-batch is run once, in whichever body it is, and stays in one slot until its backward. */
Test(program_ahead, bodies_run_each_micro_batch_of_the_steps_asked_for) {
    enum { STEPS = 5, MOST = 64 };
    for (int s = 2; s <= 5; s++) {
        struct shape of = {s % 2 ? "pipedream-2bw" : "pipedream", s, 1, s % 2 ? s + 1 : 1, false};
        struct program *program = built(&of);
        const struct instr_list *body = program_list(program, 0, LIST_BODY);
        const struct chunk_sizes *sizes = program_of(program, 0)->chunk;
        int slot[MOST], forwards[MOST] = {0}, backwards[MOST] = {0}, updates = 0, first = 3;
        for (int t = first - program->ahead; t < first + STEPS; t++)
            for (int i = 0; i < body->count; i++) {
                const struct instr *instr = &body->items[i];
                if (!ahead_runs(program, instr, t, first, first + STEPS)) continue;
                int number = (int)(ahead_step(program, instr, t) - first) * of.micros +
                             ahead_micro(program, instr);
                updates += instr->op == INSTR_STEP;
                if (instr->op == INSTR_F) slot[number] = ahead_slot(program, sizes, instr, t);
                if (instr->op == INSTR_F) forwards[number]++;
                if (instr->op == INSTR_B) backwards[number]++;
                if (instr->op == INSTR_B)
                    cr_expect_eq(ahead_slot(program, sizes, instr, t), slot[number]);
            }
        for (int n = 0; n < MOST; n++)
            cr_expect(forwards[n] == (n < STEPS * of.micros) && backwards[n] == forwards[n],
                      "%s S%d: micro-batch %d", of.schedule, s, n);
        cr_expect_eq(updates, STEPS);
        program_free(&program);
    }
}

Test(program_ahead, every_shape_is_proved_and_read_back) {
    for (int i = 0; i < 8 * 3 * 3; i++) {
        struct shape of = {i % 3 ? "pipedream" : "pipedream-2bw", 1 + i / 9, 1 + i / 3 % 3, 1,
                           i % 3 == 2};
        if (i % 3 == 0) of.micros = of.stages + i % 2;
        struct program *program = built(&of), *again = NULL;
        cr_expect_eq(program_verify(program, NULL), STATUS_OK, "%s S%d", of.schedule, of.stages);
        char *text = program_text(program);
        cr_assert_eq(program_parse("text", text, strlen(text), &again), STATUS_OK, "%s", text);
        cr_expect_eq(program_hash(again), program_hash(program));
        free(text);
        program_free(&again);
        program_free(&program);
    }
}

/* --- rules --- */

static void refused(const struct shape *of, const char *from, const char *to, const char *says) {
    struct program *program = built(of), *edited = NULL;
    char *text = program_text(program), *at = strstr(text, from), log[1024] = "";
    cr_assert_not_null(at, "no \"%s\" in\n%s", from, text);
    char *other = mem_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    cr_assert_eq(program_parse("text", other, strlen(other), &edited), STATUS_OK);
    log_capture(log, sizeof log);
    cr_expect_eq(program_verify(edited, NULL), STATUS_USAGE, "taken: %s", to);
    log_capture(NULL, 0);
    cr_expect(strstr(log, says), "not \"%s\" but %s", says, log);
    free(other);
    free(text);
    program_free(&edited);
    program_free(&program);
}

Test(program_ahead, versions_are_those_declared) {
    const struct shape three = {"pipedream", 3, 1, 1, false};
    static const struct {
        const char *from, *to, *says;
    } edits[] = {
        {"F s0 m2 a2 v2", "F s0 m2 a2 v1", "rule 34 at #1 r0 F s0 m2 a2 v1: it reads v1"},
        {"B s0 m0 a0 v2", "B s0 m0 a0 v1", "rule 34 at #4 r0 B s0 m0 a0 v1"},
        {"B s0 m0 a0 v2", "B s0 m0 a0", "rule 34 at #4 r0 B s0 m0 a0 g0 new: it reads v0"},
        {"F s0 m2 a2 v2", "F s0 m2 a2 v3", "rule 1 at #1 r0 F s0 m2 a2 v3: version 3 of 3"},
        {"buckets 1 older 2", "buckets 1 older 3", "rule 34 at #1 r0 F"},
        {"#1 r0 F s0 m2 a2 v2", "#30 r0 STEP g0\n#1 r0 F s0 m2 a2 v2", "rule 13 at #30"},
        {"ahead 2", "ahead 1", "rule 1 at #0 r0 LOAD s0 m2 a2: micro-batch 2 of 2"},
        {"#6 r0 REPORT\n", "#6 r0 REPORT q0\n", "rule 33 at #6 r0 REPORT q0"},
        {"#7 r0 NORM g0\n", "#7 r0 NORM g0 q2\n", "rule 33 at #7 r0 NORM g0 q2"},
        {"#0 r2 COUNT\n", "#0 r2 COUNT q1\n", "rule 33 at #0 r2 COUNT q1"},
        {"LOAD s2 m0 a0", "LOAD s2 m1 a0", "rule 1 at #1 r2 LOAD s2 m1 a0: micro-batch 1 of 1"},
        {"RECV_B s0 m0 a0", "RECV_B s0 m0 a1", "rule 7 at #3 r0 RECV_B s0 m0 a1"},
        {"slots 3", "slots 2", "rule 1 at #0 r0 LOAD s0 m2 a2: slot 2 of 2"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++)
        refused(&three, edits[i].from, edits[i].to, edits[i].says);
}

/* A stage that is ahead and keeps no older version would read one that is to come. */
Test(program_ahead, a_version_is_made_before_it_is_read) {
    struct program *program = built(&(struct shape){"pipedream", 2, 1, 1, false});
    struct rank_program *first = program_edit(program, 0);
    char log[1024] = "";
    first->chunk[0].older = 0;
    for (int i = 0; i < first->list[LIST_BODY].count; i++) {
        struct instr *instr = &first->list[LIST_BODY].items[i];
        if (strchr(instr_row(instr)->operands, 'v')) instr->version = INSTR_ALL;
    }
    log_capture(log, sizeof log);
    cr_expect_eq(program_verify(program, NULL), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "rule 34 at #1 r0 F s0 m1 a1: the version of update 1 is not made yet"),
              "%s", log);
    program_free(&program);
}

Test(program_ahead, what_cannot_overlap_is_refused_in_the_header) {
    const struct shape two = {"pipedream", 2, 1, 1, false};
    refused(&two, "ahead 1", "ahead 1 sliced o", "rule 33 in the header: where steps overlap");
    refused(&two, "ahead 1", "ahead 2", "rule 33 in the header: forwards run ahead");
    const struct shape three = {"pipedream-2bw", 3, 1, 3, false};
    refused(&three, "ahead 1", "ahead 2",
            "rule 33 in the header: no forward is as many steps ahead");
}
