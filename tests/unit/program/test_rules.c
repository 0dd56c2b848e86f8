/* The rules of the verifier, one by one: a right program, and edits of its text that break one rule
 * each. A refusal names the rule, the instruction and what it disagrees with. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit.h"
#include "program/schedule.h"

/* Two stages x two replicas, 1f1b on two micro-batches. */
static struct program *pipelines(bool shares) {
    struct schedule_config config = {
        .grid = {.stages = 2, .chunks = 1, .replicas = 2, .replicas_each = 1},
        .micro_batches = 2,
        .shares = shares};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("1f1b", &config, &program), STATUS_OK);
    return program;
}

static enum status verify(const struct program *program, const int64_t *samples, char log[1024]) {
    memset(log, 0, 1024);
    log_capture(log, 1024);
    enum status status = program_verify(program, samples);
    log_capture(NULL, 0);
    return status;
}

static char *replaced(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    cr_assert_not_null(at, "no \"%s\" in\n%s", from, text);
    return mem_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

/* A program written by hand, whose texts leave out what runs between steps. */
static struct program *read_text(const char *text) {
    struct program *program = NULL;
    cr_assert_eq(program_parse("text", text, strlen(text), &program), STATUS_OK);
    for (int r = 0; r < program->ranks; r++)
        program_add_between(&(struct schedule_config){0}, program, r, program_edit(program, r));
    return program;
}

static void refused(const char *text, const int64_t *samples, const char *says) {
    struct program *program = read_text(text);
    char log[1024];
    cr_expect_eq(verify(program, samples, log), STATUS_USAGE, "taken:\n%s", text);
    cr_expect(strstr(log, says), "not \"%s\" but %s", says, log);
    program_free(&program);
}

static const char pair[] = "stretto program 5\n"
                           "ranks 2 stages 2 replicas 1 micro-batches 2 sum replica credits 2\n"
                           "groups world replicas pipeline\n"
                           "rank 0 slots 2 grads 1 buckets 1\n"
                           "rank 0 body\n"
                           "#0 r0 LOAD s0 m0 a0\n"
                           "#1 r0 F s0 m0 a0\n"
                           "#2 r0 SEND_F s0 m0 a0 p1\n"
                           "#3 r0 LOAD s0 m1 a1\n"
                           "#4 r0 F s0 m1 a1\n"
                           "#5 r0 SEND_F s0 m1 a1 p1\n"
                           "#6 r0 RECV_B s0 m0 a0 p1\n"
                           "#7 r0 I s0 m0 a0\n"
                           "#8 r0 RECV_B s0 m1 a1 p1\n"
                           "#9 r0 I s0 m1 a1\n"
                           "#10 r0 W s0 m0 a0 g0 new\n"
                           "#11 r0 W s0 m1 a1 g0\n"
                           "#12 r0 TIE s0 g0\n"
                           "#13 r0 REPORT q0\n"
                           "#14 r0 NORM g0 q2\n"
                           "#15 r0 STEP g0\n"
                           "rank 1 slots 1 grads 1 buckets 1\n"
                           "rank 1 body\n"
                           "#0 r1 COUNT q1\n"
                           "#1 r1 LOAD s1 m0 a0\n"
                           "#2 r1 RECV_F s1 m0 a0 p0\n"
                           "#3 r1 F s1 m0 a0\n"
                           "#4 r1 B s1 m0 a0 g0 new\n"
                           "#5 r1 SEND_B s1 m0 a0 p0\n"
                           "#6 r1 LOAD s1 m1 a0\n"
                           "#7 r1 RECV_F s1 m1 a0 p0\n"
                           "#8 r1 F s1 m1 a0\n"
                           "#9 r1 B s1 m1 a0 g0\n"
                           "#10 r1 SEND_B s1 m1 a0 p0\n"
                           "#11 r1 TIE s1 g0\n"
                           "#12 r1 REPORT q0\n"
                           "#13 r1 NORM g0 q2\n"
                           "#14 r1 STEP g0\n";

static const struct {
    const char *from, *to, *says;
} edits[] = {
    {"#1 r0 F s0 m0 a0\n", "#1 r0 F s0 m0 a2\n", "rule 1 at #1 r0 F s0 m0 a2: slot 2 of 2"},
    {"#1 r0 F s0 m0 a0\n", "#1 r0 F s0 m0 a0 new\n", "rule 2 at #1 r0 F"},
    {"#1 r0 F s0 m0 a0\n", "#1 r0 F s0 m0 a0\n#30 r0 BCAST q1\n", "rule 3 at #30 r0 BCAST"},
    {"#1 r0 F s0 m0 a0\n", "#1 r0 F s1 m0 a0\n", "rule 4 at #1 r0 F s1"},
    {"#3 r0 LOAD s0 m1 a1\n", "#3 r0 LOAD s0 m0 a1\n",
     "rule 6 at #3 r0 LOAD s0 m0 a1: micro-batch 0 was loaded before\n"
     "  against #0 r0 LOAD s0 m0 a0"},
    {"#3 r0 LOAD s0 m1 a1\n", "#3 r0 LOAD s0 m1 a0\n", "against #2 r0 SEND_F s0 m0 a0 p1"},
    {"#8 r1 F s1 m1 a0\n", "", "rule 8 at #9 r1 B s1 m1 a0 g0"},
    {"#1 r0 F s0 m0 a0\n", "#1 r0 F s0 m0 a0 pure\n", "rule 9 at #1"},
    {"#1 r0 F s0 m0 a0\n#2 r0 SEND_F s0 m0 a0 p1\n#3 r0 LOAD s0 m1 a1\n#4 r0 F s0 m1 a1\n",
     "#3 r0 LOAD s0 m1 a1\n#4 r0 F s0 m1 a1\n#1 r0 F s0 m0 a0\n#2 r0 SEND_F s0 m0 a0 p1\n",
     "against #4 r0 F s0 m1 a1"},
    {"#0 r1 COUNT q1\n", "", "rule 11 at #4 r1 B"},
    {"#11 r0 W s0 m1 a1 g0\n", "#11 r0 W s0 m1 a1 g0 new\n",
     "rule 12 at #11 r0 W s0 m1 a1 g0 new: gradient buffer 0 still holds gradients\n"
     "  against #10 r0 W s0 m0 a0 g0 new"},
    {"#12 r0 TIE s0 g0\n", "", "rule 13 at #14 r0 NORM g0 q2"},
    {"#12 r0 TIE s0 g0\n", "#12 r0 TIE s0 g0\n#30 r0 REDUCE s0 b0 g0 q1\n", "rule 14 at #30"},
    {"#10 r0 W s0 m0 a0 g0 new\n#11 r0 W s0 m1 a1 g0\n",
     "#11 r0 W s0 m1 a1 g0 new\n#10 r0 W s0 m0 a0 g0\n", "rule 16 at #15 r0 STEP g0"},
    {"#13 r0 REPORT q0\n", "#13 r0 REPORT q0\n#30 r0 REPORT q0\n", "against #13 r0 REPORT q0"},
    {"#14 r0 NORM g0 q2\n", "", "rule 18 at #15 r0 STEP g0"},
    {"#15 r0 STEP g0\n", "#15 r0 STEP g0\n#30 r0 STEP g0\n", "rule 19 at #30"},
    {"#2 r0 SEND_F s0 m0 a0 p1\n", "#2 r0 SEND_F s0 m0 a0 p0\n", "rule 20 at #2"},
    {"#13 r1 NORM g0 q2\n", "#30 r1 MEET q2\n#13 r1 NORM g0 q2\n", "rule 22 at "},
    {"#15 r0 STEP g0\n", "", "rule 19 at #14 r0 NORM g0 q2: the body of rank 0 ends without STEP"},
    {"#15 r0 STEP g0\n", "#15 r0 STEP g0 clip\n",
     "rule 19 at #15 r0 STEP g0 clip: one clips, the other does not\n  against #14 r1 STEP g0"},
};

Test(program_rules, each_is_named_by_its_number) {
    struct program *program = read_text(pair);
    char log[1024];
    cr_assert_eq(verify(program, NULL, log), STATUS_OK, "%s", log);
    program_free(&program);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        char *text = replaced(pair, edits[i].from, edits[i].to);
        refused(text, NULL, edits[i].says);
        free(text);
    }
}

static char *with_meetings(const char *text) {
    char *first = replaced(text, "#0 r0 LOAD", "#30 r0 MEET q2\n#0 r0 LOAD"),
         *both = replaced(first, "#0 r1 COUNT", "#30 r1 MEET q2\n#0 r1 COUNT");
    free(first);
    return both;
}

static void taken(const char *text) {
    struct program *program = read_text(text);
    char log[1024];
    cr_expect_eq(verify(program, NULL, log), STATUS_OK, "%s", log);
    program_free(&program);
}

/* Without clipping NORM is under way when the next step begins, where the header says that it
 * lasts: what the first step may do, the second may not. */
Test(program_rules, a_step_begins_with_what_the_one_before_it_left) {
    char *within = with_meetings(pair), *text = replaced(within, " credits 2", " lasting n");
    taken(within); /* nothing lasts: the end of the body awaits it */
    refused(text, NULL, "rule 22 at #30 r0 MEET q2: an exchange of group 2 is under way");
    refused(text, NULL, "against #14 r0 NORM g0 q2");
    char *first = replaced(text, "#15 r0 STEP g0\n", "#15 r0 STEP g0 clip\n"),
         *both = replaced(first, "#14 r1 STEP g0\n", "#14 r1 STEP g0 clip\n");
    taken(both);
    free(within);
    free(text);
    free(first);
    free(both);
}

/* The receiver gives back the oldest message of a channel: another one cannot be used first. */
Test(program_rules, messages_are_used_in_the_order_they_come) {
    char *text = replaced(pair, "#7 r0 I s0 m0 a0\n#8 r0 RECV_B s0 m1 a1 p1\n#9 r0 I s0 m1 a1\n",
                          "#8 r0 RECV_B s0 m1 a1 p1\n#9 r0 I s0 m1 a1\n#7 r0 I s0 m0 a0\n");
    refused(text, NULL, "rule 21 at #8 r0 RECV_B s0 m1 a1 p1");
    refused(text, NULL, "against #6 r0 RECV_B s0 m0 a0 p1");
    free(text);
}

Test(program_rules, a_cyclic_wait_is_printed) {
    char *text = replaced(pair, "#4 r0 F s0 m1 a1\n", "#4 r0 F s0 m1 a1\n#30 r0 MEET q2\n");
    char *late = replaced(text, "#10 r1 SEND_B s1 m1 a0 p0\n",
                          "#10 r1 SEND_B s1 m1 a0 p0\n#30 r1 MEET q2\n");
    refused(late, NULL,
            "rule 23: rank 0 waits at #30 r0 MEET q2 for rank 1, which waits at #7 r1 RECV_F s1 m1 "
            "a0 p0 for rank 0\n");
    free(text);
    free(late);
}

Test(program_rules, who_ends_is_waited_for_in_vain) {
    char *text = replaced(pair, "#12 r1 REPORT q0\n#13 r1 NORM g0 q2\n#14 r1 STEP g0\n", "");
    refused(text, NULL, "the body of rank 1 ends without STEP");
    free(text);
    text = replaced(pair, "credits 2", "credits 1");
    struct program *program = read_text(text);
    char log[1024];
    cr_expect_eq(verify(program, NULL, log), STATUS_OK, "%s", log);
    program->credits = 0;
    cr_expect_eq(verify(program, NULL, log), STATUS_USAGE);
    cr_expect(strstr(log, "rule 23: rank "), "%s", log);
    program_free(&program);
    free(text);
}

/* Whether uses are added per micro-batch or per replica gives other bits. */
Test(program_rules, where_uses_are_added_is_part_of_the_order) {
    static const char body[] = "stretto program 5\n"
                               "ranks 1 stages 1 replicas 1 micro-batches 2 sum tree\n"
                               "groups world\n"
                               "rank 0 slots 1 grads 2 buckets 1\n"
                               "rank 0 body\n"
                               "#0 r0 COUNT q0\n#1 r0 LOAD s0 m0 a0\n#2 r0 F s0 m0 a0\n"
                               "#3 r0 B s0 m0 a0 g0 new\n#4 r0 TIE s0 g0\n#5 r0 LOAD s0 m1 a0\n"
                               "#6 r0 F s0 m1 a0\n#7 r0 B s0 m1 a0 g1 new\n#8 r0 TIE s0 g1\n"
                               "#9 r0 SUM s0 g0 h1\n#10 r0 REPORT q0\n#11 r0 NORM g0\n"
                               "#12 r0 STEP g0\n";
    struct program *program = read_text(body);
    char log[1024];
    cr_expect_eq(verify(program, NULL, log), STATUS_OK, "%s", log);
    program_free(&program);
    char *text = replaced(body, "sum tree", "sum replica");
    refused(text, NULL, "rule 16 at #12 r0 STEP g0");
    free(text);
}

/* A reduction adds all replicas by the tree, one without samples as the neutral element: where an
 * empty one is not the last, that is not the tree over the others. */
Test(program_rules, empty_replicas_keep_their_place_in_the_tree) {
    const int64_t first[] = {1, 0, 1, 1, 1}, last[] = {1, 1, 1, 1, 0};
    char log[1024];
    for (int i = 0; i < 2; i++) {
        const int64_t *samples = i ? last : first;
        struct schedule_config config = {
            .grid = grid_flat(5, 5), .micro_batches = 1, .samples = samples};
        struct program *program = NULL, *short_step = NULL;
        cr_assert_eq(schedule_build("single", &config, &short_step), STATUS_OK);
        config.samples = NULL;
        cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
        program = program_with_last(program, short_step);
        cr_expect_eq(verify(program, samples, log), STATUS_USAGE);
        cr_expect_eq(strstr(log, "rule 16") != NULL, i == 0, "%s", log);
        program_free(&program);
    }
}

/* Whoever uses the memory of a slot awaits the message that is under way there. */
Test(program_rules, an_instruction_with_a_slot_awaits_it) {
    for (int op = 0; op < INSTR_COUNT_; op++) {
        const struct instr_row *row = &instr_rows[op];
        cr_expect(!strchr(row->operands, 'a') || strchr(row->reads, 'a') ||
                      strchr(row->writes, 'a'),
                  "%s", row->name);
    }
}

Test(program_rules, replicas_begin_with_a_broadcast_over_themselves) {
    char log[1024];
    struct program *program = pipelines(false);
    cr_expect_eq(verify(program, NULL, log), STATUS_USAGE);
    cr_expect(strstr(log, "rule 5 at the empty list start of rank 0: the list start has no BCAST"),
              "%s", log);
    for (int q = 0; q < 3; q++) { /* world, replicas, pipeline */
        for (int k = 0; k < program->kind_count; k++) {
            struct rank_program *kind = &program->kinds[k];
            if (q == 0) program_add(kind, LIST_START, INSTR_BCAST);
            kind->list[LIST_START].items[0].group = (int16_t)q;
        }
        cr_expect_eq(verify(program, NULL, log), STATUS_USAGE);
        cr_expect_eq(strstr(log, "rule 5 at") != NULL, q != 1, "%s", log);
    }
    program_free(&program);
}

/* COUNT and REPORT name their group as others do: any that is declared and has the right members.
 * Without one they are of the rank alone, which is enough where there is no other. */
Test(program_rules, counts_and_reports_name_their_group) {
    static const struct {
        int ranks;
        const char *groups, *count, *report, *says; /* NULL: taken */
    } cases[] = {
        {1, "world", " q0", " q0", NULL},
        {1, "world", "", "", NULL},
        {2, "world replicas", " q1", " q0", NULL},
        {2, "world replicas world", " q2", " q2", NULL},
        {2, "world replicas pipeline", " q2", " q0", "rule 11 at #0 r0 COUNT q2: labels"},
        {2, "world replicas", "", " q0", "rule 11 at #0 r0 COUNT: labels"},
        {2, "world replicas pipeline", " q1", " q2", "rule 17 at #6 r1 REPORT q2: all ranks"},
        {2, "world replicas", " q1", "", "rule 17 at #6 r1 REPORT: all ranks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = NULL, log[1024];
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        fprintf(out,
                "stretto program 5\n"
                "ranks %d stages 1 replicas %d micro-batches 1 sum replica lasting np\ngroups %s\n",
                cases[i].ranks, cases[i].ranks, cases[i].groups);
        for (int r = 0; r < cases[i].ranks; r++) {
            fprintf(out, "rank %d slots 1 grads 1 buckets 1\n", r);
            if (cases[i].ranks > 1)
                fprintf(
                    out,
                    "rank %d start\n#90 r%d BCAST q1\nrank %d eval-start\n#91 r%d STATS_ALL q1\n"
                    "rank %d eval-end\n#92 r%d STATS_OWN\n",
                    r, r, r, r, r, r);
            fprintf(out,
                    "rank %d body\n#0 r%d COUNT%s\n#1 r%d LOAD s0 m0 a0\n#2 r%d F s0 m0 a0\n"
                    "#3 r%d B s0 m0 a0 g0 new\n#4 r%d TIE s0 g0\n",
                    r, r, cases[i].count, r, r, r, r);
            if (cases[i].ranks > 1) fprintf(out, "#5 r%d REDUCE s0 b0 g0 q1\n", r);
            fprintf(out, "#6 r%d REPORT%s\n#7 r%d NORM g0\n#8 r%d STEP g0\n", r, cases[i].report, r,
                    r);
        }
        fclose(out);
        if (cases[i].says) {
            refused(text, NULL, cases[i].says);
        } else {
            struct program *program = read_text(text);
            cr_expect_eq(verify(program, NULL, log), STATUS_OK, "%s\n%s", log, text);
            program_free(&program);
        }
        free(text);
    }
}

/* One replica's micro-batches are whole leaves of replicas-first, as on one device. */
Test(program_rules, pipelines_add_whole_leaves_in_replicas_first) {
    char log[1024];
    struct schedule_config config = {
        .grid = {.stages = 2, .chunks = 1, .replicas = 1, .replicas_each = 1},
        .micro_batches = 3,
        .sum = SUM_REPLICAS_FIRST};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("1f1b", &config, &program), STATUS_OK);
    cr_expect_eq(verify(program, NULL, log), STATUS_OK, "%s", log);
    program_free(&program);
}

/* 1f1b keeps S - s micro-batches on stage s, gpipe all of them. */
Test(program_rules, a_proof_says_how_much_was_proven) {
    struct schedule_config config = {
        .grid = {.stages = 3, .chunks = 1, .replicas = 1, .replicas_each = 1}, .micro_batches = 5};
    static const struct {
        const char *schedule;
        int slots;
    } peaks[] = {{"mp", 1}, {"1f1b", 3}, {"gpipe", 5}};
    for (int i = 0; i < 3; i++) {
        struct program *program = NULL;
        struct program_proof proof;
        cr_assert_eq(schedule_build(peaks[i].schedule, &config, &program), STATUS_OK);
        cr_assert_eq(program_prove(program, NULL, &proof), STATUS_OK);
        cr_expect_eq(proof.body.peak_slots, peaks[i].slots, "%s: %d", peaks[i].schedule,
                     proof.body.peak_slots);
        cr_expect_eq(proof.body.peak_rank, 0);
        cr_expect_eq(proof.ranks, 3);
        cr_expect_eq(proof.walked, 3);
        int64_t instructions = 0;
        for (int r = 0; r < 3; r++) instructions += program_list(program, r, LIST_BODY)->count;
        cr_expect_eq(proof.body.instructions, instructions);
        cr_expect_eq(proof.last.instructions, 0);
        program_free(&program);
    }
}

/* A micro-batch that all ranks forget is missed by each stage's own gradient. */
Test(program_rules, a_micro_batch_that_nobody_runs_is_missed) {
    char log[1024];
    struct program *program = NULL;
    struct schedule_config config = {
        .grid = {.stages = 3, .chunks = 1, .replicas = 1, .replicas_each = 1}, .micro_batches = 3};
    cr_assert_eq(schedule_build("gpipe", &config, &program), STATUS_OK);
    for (int r = 0; r < 3; r++) {
        struct instr_list *body = &program->kinds[program->kind_of[r]].list[LIST_BODY];
        int kept = 0;
        for (int i = 0; i < body->count; i++)
            if (body->items[i].micro != 1) body->items[kept++] = body->items[i];
        body->count = kept;
    }
    cr_expect_eq(verify(program, NULL, log), STATUS_USAGE);
    cr_expect(strstr(log, "rule 15 at "), "%s", log);
    cr_expect(strstr(log, "the gradient of micro-batch 1 is in buffer 0 0 times"), "%s", log);
    program_free(&program);
}

/* A forward program of two stages, each with its text as schedules make it. */
static char *forward_text(void) {
    struct schedule_config config = {
        .grid = {.stages = 2, .chunks = 1, .replicas = 1, .replicas_each = 1}};
    struct program *program = NULL;
    cr_assert_eq(schedule_build(SCHEDULE_FORWARD, &config, &program), STATUS_OK);
    cr_assert_eq(program_verify(program, NULL), STATUS_OK);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    program_print(program, out);
    fclose(out);
    struct program *again = NULL;
    cr_assert_eq(program_parse("text", text, bytes, &again), STATUS_OK);
    cr_expect_eq(program_hash(again), program_hash(program));
    program_free(&again);
    program_free(&program);
    return text;
}

Test(program_rules, forward_programs_hand_out_each_round_once) {
    static const char *const edits[][3] = {
        {"#3 r1 OUTPUT s1 m0 a0\n", "", "rule 32"},
        {"#3 r1 OUTPUT s1 m0 a0\n", "#3 r1 OUTPUT s1 m0 a0\n#9 r1 OUTPUT s1 m0 a0\n", "rule 32"},
        {"#2 r1 F s1 m0 a0\n#3 r1 OUTPUT s1 m0 a0\n", "#3 r1 OUTPUT s1 m0 a0\n#2 r1 F s1 m0 a0\n",
         "rule 32"},
        {"#2 r0 SEND_F s0 m0 a0 p1\n", "#2 r0 SEND_F s0 m0 a0 p1\n#9 r0 OUTPUT s0 m0 a0\n",
         "the output is of stage"},
        {"rank 0 body\n", "rank 0 body\n#9 r0 REPORT q0\n", "rule 32"},
        {"rank 0 save\n", "rank 0 save\n#9 r0 OPEN q0\n", "rule 32"},
        {"micro-batches 0", "micro-batches 1", "rule 32"},
        {"grads 0", "grads 1", "rule 32"}};
    char *text = forward_text();
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        char *edited = replaced(text, edits[i][0], edits[i][1]), log[1024];
        struct program *program = NULL;
        cr_assert_eq(program_parse("text", edited, strlen(edited), &program), STATUS_OK);
        cr_expect_eq(verify(program, NULL, log), STATUS_USAGE, "%zu is taken", i);
        cr_expect(strstr(log, edits[i][2]), "%zu: %s", i, log);
        program_free(&program);
        free(edited);
    }
    free(text);
}

/* Whoever runs bodies, as the simulator does, runs a round in their place. */
Test(program_rules, the_round_of_a_forward_program_is_a_body) {
    struct schedule_config config = {
        .grid = {.stages = 2, .chunks = 1, .replicas = 2, .replicas_each = 1}};
    struct program *program = NULL;
    cr_assert_eq(schedule_build(SCHEDULE_FORWARD, &config, &program), STATUS_OK);
    struct program *round = program_round(program);
    for (int r = 0; r < program->ranks; r++) {
        const struct instr_list *from = program_list(program, r, LIST_EVAL),
                                *body = program_list(round, r, LIST_BODY);
        cr_assert_eq(body->count, from->count);
        cr_expect_arr_eq(body->items, from->items, (size_t)from->count * sizeof *from->items);
        cr_expect_eq(program_list(round, r, LIST_EVAL)->count, 0);
    }
    program_free(&round);
    program_free(&program);
}
