/* Sync policy preduce: what it inserts, that the verifier proves it for every schedule, and what it
 * refuses of a program whose groups are chosen while ranks run. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

#include "base/log.h"
#include "base/mem.h"
#include "program/pipeline.h"
#include "program/schedule.h"
#include "sync/sync.h"

static struct program *build(const char *schedule, int stages, int replicas, int micros,
                             bool by_stage, int segments) {
    const struct pipeline_schedule *pipeline = pipeline_find(schedule);
    int buckets[4 * GRID_MAX_CHUNKS];
    struct program *program = NULL;
    struct schedule_config config = {.grid = {.stages = stages,
                                              .chunks = pipeline ? pipeline->chunks : 1,
                                              .replicas = replicas,
                                              .replicas_each = 1,
                                              .v_shape = pipeline && pipeline->v_shape},
                                     .micro_batches = micros,
                                     .buckets = buckets};
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++) buckets[i] = segments;
    struct sync_config sync = {.buckets = buckets, .by_stage = by_stage};
    cr_assert_eq(schedule_build(schedule, &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("preduce", program, &sync), STATUS_OK);
    return program;
}

static char *text_of(const struct program *program) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    program_print(program, out);
    fclose(out);
    return text;
}

Test(sync_preduce, a_step_asks_behind_backward_and_averages_behind_its_update) {
    struct program *program = build("single", 1, 2, 1, false, 2);
    char *text = text_of(program);
    cr_expect(strstr(text, "groups world chosen\n"), "%s", text);
    cr_expect(strstr(text, "rank 1 body\n"
                           "#1 r1 COUNT\n"
                           "#2 r1 LOAD s0 m0 a0\n"
                           "#3 r1 F s0 m0 a0\n"
                           "#4 r1 B s0 m0 a0 g0 new\n"
                           "#5 r1 GROUP q1\n"
                           "#6 r1 TIE s0 g0\n"
                           "#7 r1 REPORT\n"
                           "#8 r1 NORM g0\n"
                           "#9 r1 STEP g0\n"
                           "#10 r1 AVERAGE s0 b0 g0 q1\n"
                           "#11 r1 AVERAGE s0 b1 g0 q1\n"
                           "rank 1 drain\n"
                           "#12 r1 STATS_MEAN g0 q0\n"),
              "%s", text);
    free(text);
    program_free(&program);
}

Test(sync_preduce, a_step_of_many_segments_asks_before_the_last) {
    struct program *program = build("single", 1, 2, 1, false, 8);
    char *text = text_of(program);
    cr_expect(strstr(text, "#10 r1 B s0 e6 m0 a0 g0 new\n"
                           "#11 r1 GROUP q1\n"
                           "#12 r1 B s0 e7 m0 a0 g0 new\n"
                           "#13 r1 TIE s0 g0\n"),
              "%s", text);
    cr_expect_eq(program_verify(program, NULL), STATUS_OK);
    free(text);
    program_free(&program);
}

static bool stand_in_order(const char *text, const char *first, const char *second,
                           const char *third, const char *fourth) {
    const char *all[] = {first, second, third, fourth};
    for (int i = 0; i < 4 && text; i++) text = strstr(text, all[i]);
    return text;
}

/* What goes to the stages before has left when the group is asked for. */
Test(sync_preduce, gradients_go_upstream_first) {
    struct program *program = build("1f1b", 2, 2, 2, true, 8);
    char *text = text_of(program);
    cr_expect(strstr(text, "groups world replicas pipeline chosen-by-stage pipeline\n"), "%s",
              text);
    cr_expect(stand_in_order(text, "rank 1 body\n", "SEND_B s1 m0", "GROUP q3\n", "REPORT q4\n"),
              "%s", text);
    free(text);
    program_free(&program);
}

Test(sync_preduce, every_schedule_is_proven) {
    for (int i = 0; i < pipeline_count(); i++) {
        const struct pipeline_schedule *pipeline = pipeline_at(i);
        if (pipeline->older || pipeline->driven) continue;
        for (int replicas = 2; replicas < 4; replicas++)
            for (int by_stage = 0; by_stage < 2; by_stage++) {
                if (by_stage && pipeline->chunks > 1) continue;
                struct program *program =
                    build(pipeline->name, 2, replicas, 4, by_stage, by_stage ? 8 : 2);
                cr_expect_eq(program_verify(program, NULL), STATUS_OK, "%s", pipeline->name);
                expect_same_text(program);
                program_free(&program);
            }
    }
}

Test(sync_preduce, one_replica_is_left_alone) {
    struct program *program = build("single", 1, 1, 2, false, 2);
    cr_expect_eq(program_chosen(program), -1);
    cr_expect_eq(program_verify(program, NULL), STATUS_OK);
    program_free(&program);
}

/* The text of both ranks with an edit in each must be refused, by this rule. */
static void refused(const char *schedule, int stages, const char *from, const char *to,
                    const char *says) {
    struct program *program = build(schedule, stages, 2, 1, false, 2), *edited = NULL;
    char *text = text_of(program), log[1024] = "";
    cr_expect(strstr(text, from), "no %s in %s", from, text);
    for (char *at = strstr(text, from); at; at = strstr(at, from)) {
        char *next = mem_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
        at = next + (at - text) + strlen(to);
        free(text);
        text = next;
    }
    log_capture(log, sizeof log);
    enum status status = program_parse("text", text, strlen(text), &edited);
    if (status == STATUS_OK) status = program_verify(edited, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE, "taken: \"%s\" for \"%s\"", to, from);
    cr_expect(strstr(log, says), "not \"%s\" but %s", says, log);
    free(text);
    program_free(&program);
    program_free(&edited);
}

Test(sync_preduce, a_question_without_its_averages_is_refused) {
    refused("single", 1, "AVERAGE s0 b1 g0 q1\n", "AVERAGE s0 b0 g0 q1\n",
            "rule 39 at #11 r0 AVERAGE s0 b0 g0 q1: bucket 0 was averaged already");
    refused("single", 1, "TIE s0 g0\n", "GROUP q1\n", "rule 39 at #6 r0 GROUP q1: a second GROUP");
    refused("single", 1, "GROUP q1", "GROUP q0", "rule 39");
    refused("single", 1, " q1\nrank", " q0\nrank", "rule 39");
    refused("single", 1, "COUNT\n", "COUNT q0\n", "rule 39");
    refused("single", 1, "REPORT\n", "REPORT q0\n", "rule 39");
    refused("1f1b", 2, "REPORT q4\n", "REPORT\n", "rule 39");
    refused("single", 1, "groups world chosen", "groups world replicas", "rule");
    refused("single", 1, "groups world chosen", "groups world chosen chosen",
            "rule 39 in the header: a second group is chosen");
    refused("single", 1, "sum replica", "sum replica every 5", "rule");
}

/* Bell numbers of replicas; of each stage, where each has its own. */
Test(sync_preduce, every_choice_of_few_ranks_is_walked) {
    static const struct {
        int stages, replicas;
        bool by_stage;
        int choices;
    } cases[] = {{1, 2, false, 2}, {1, 3, false, 5}, {1, 4, false, 15},
                 {2, 2, false, 2}, {2, 2, true, 4},  {1, 5, false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct program_proof proof;
        struct program *program = build(cases[i].stages > 1 ? "1f1b" : "single", cases[i].stages,
                                        cases[i].replicas, 2, cases[i].by_stage, 2);
        cr_assert_eq(program_prove(program, NULL, &proof), STATUS_OK);
        cr_expect_eq(proof.choices, cases[i].choices, "%zu: %d", i, proof.choices);
        program_free(&program);
    }
}
