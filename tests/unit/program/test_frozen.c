/* Frozen stages: the programs that schedules make of them, and the rule that keeps gradients out.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "program/pipeline.h"
#include "program/schedule.h"
#include "sync/sync.h"

static struct program *build(const char *schedule, struct grid grid, int micros, int frozen) {
    struct schedule_config config = {.grid = grid, .micro_batches = micros, .frozen = frozen};
    struct program *program = NULL;
    cr_assert_eq(schedule_build(schedule, &config, &program), STATUS_OK);
    return program;
}

static char *text_of(const struct program *program) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    program_print(program, out);
    fclose(out);
    return text;
}

static void replace(char **text, const char *from, const char *to) {
    const char *at = strstr(*text, from);
    cr_assert_not_null(at, "no \"%s\" in\n%s", from, *text);
    char *now = mem_format("%.*s%s%s", (int)(at - *text), *text, to, at + strlen(from));
    free(*text);
    *text = now;
}

static void expect(const char *text, const char *says) {
    struct program *program = NULL;
    char log[1024] = "";
    log_capture(log, sizeof log);
    enum status status = program_parse("text", text, strlen(text), &program);
    if (status == STATUS_OK) status = program_verify(program, NULL);
    log_capture(NULL, 0);
    if (!says) cr_expect_eq(status, STATUS_OK, "%s\n%s", log, text);
    if (says) cr_expect_neq(status, STATUS_OK, "taken:\n%s", text);
    if (says) cr_expect(strstr(log, says), "not \"%s\" but %s", says, log);
    program_free(&program);
}

static const struct grid three = {.stages = 3, .chunks = 1, .replicas = 1, .replicas_each = 1};

static int count(const struct program *program, int rank, enum instr_op op) {
    const struct instr_list *body = program_list(program, rank, LIST_BODY);
    int found = 0;
    for (int i = 0; i < body->count; i++) found += body->items[i].op == op;
    return found;
}

/* docs/program.md shows this program. */
Test(program_frozen, the_documentation_shows_it) {
    struct program *program = build("gpipe", three, 2, 2);
    struct bytes page;
    cr_assert_eq(file_read("docs/program.md", 1 << 20, &page), STATUS_OK);
    char *text = mem_format("%.*s", (int)page.count, (const char *)page.data),
         *section = strstr(text, "### Frozen stages");
    cr_assert_not_null(section);
    for (int r = 0; r < 3; r++) {
        const struct instr_list *body = program_list(program, r, LIST_BODY);
        for (int i = 0; i < body->count; i++) {
            char line[INSTR_TEXT_BYTES];
            instr_text(&body->items[i], r, line);
            cr_expect_not_null(strstr(section, line), "%s", line);
        }
    }
    free(text);
    bytes_free(&page);
    program_free(&program);
}

Test(program_frozen, every_schedule_leaves_out_what_gradients_need) {
    static const enum instr_op none[] = {INSTR_B,      INSTR_I,    INSTR_W,   INSTR_R,
                                         INSTR_SEND_B, INSTR_STEP, INSTR_TIE, INSTR_RECV_B};
    for (int s = 0; s < pipeline_count(); s++) {
        const struct pipeline_schedule *schedule = pipeline_at(s);
        if (schedule->older || schedule->chunks > 1) continue;
        struct grid grid = three;
        grid.drivers = schedule->driven;
        struct program *program = build(schedule->name, grid, 4, 1);
        int first = grid.drivers;
        cr_expect_eq(program_verify(program, NULL), STATUS_OK, "%s", schedule->name);
        cr_expect_eq(program_of(program, first)->grads, 0);
        cr_expect_eq(program_of(program, first)->chunk[0].buckets, 0);
        cr_expect_eq(program_of(program, first)->chunk[0].slots, 1, "%s", schedule->name);
        cr_expect_eq(count(program, first, INSTR_F), 4);
        for (size_t i = 0; i < sizeof none / sizeof *none; i++)
            cr_expect_eq(count(program, first, none[i]), 0, "%s: %s", schedule->name,
                         instr_rows[none[i]].name);
        cr_expect_eq(count(program, first + 1, INSTR_SEND_B), 0, "%s", schedule->name);
        cr_expect_eq(count(program, first + 2, INSTR_SEND_B), 4, "%s", schedule->name);
        program_free(&program);
    }
}

/* Of a V the rank with the first stage has the last one, too: it trains. */
Test(program_frozen, a_rank_may_have_both) {
    struct grid grid = {
        .stages = 2, .chunks = 2, .replicas = 1, .replicas_each = 1, .v_shape = true};
    struct program *program = build("zbv", grid, 4, 2);
    cr_expect_eq(program_verify(program, NULL), STATUS_OK);
    for (int r = 0; r < 2; r++) {
        cr_expect_eq(program_of(program, r)->grads, 1);
        cr_expect_eq(program_of(program, r)->chunk[0].buckets, 0);
        cr_expect_eq(program_of(program, r)->chunk[1].buckets, 1);
        cr_expect_eq(count(program, r, INSTR_STEP), 1);
        cr_expect_eq(count(program, r, INSTR_F), 8);
        cr_expect_eq(count(program, r, INSTR_B) + count(program, r, INSTR_W), 4);
    }
    program_free(&program);
}

/* Replicas of frozen stages begin alike, and sum nothing. */
Test(program_frozen, replicas_sum_what_is_trained) {
    static const unsigned sliced[] = {0, SLICED_STATE, SLICED_STATE | SLICED_GRADIENTS};
    static const int buckets[] = {0, 2};
    struct grid grid = {.stages = 2, .chunks = 1, .replicas = 2, .replicas_each = 1};
    for (int i = 0; i < 3; i++) {
        struct program *program = build("1f1b", grid, 2, 1);
        struct sync_config config = {.buckets = buckets, .sliced = sliced[i]};
        cr_assert_eq(sync_insert(sliced[i] ? "zero" : "allreduce", program, &config), STATUS_OK);
        cr_expect_eq(program_verify(program, NULL), STATUS_OK);
        cr_expect_eq(program_list(program, 0, LIST_START)->count, 1, "BCAST");
        cr_expect_eq(program_of(program, 0)->grads, 0);
        cr_expect_eq(count(program, 0, INSTR_REDUCE) + count(program, 0, INSTR_SCATTER) +
                         count(program, 0, INSTR_GATHER),
                     0);
        cr_expect_gt(count(program, 1, INSTR_REDUCE) + count(program, 1, INSTR_SCATTER), 1);
        char *text = text_of(program);
        expect(text, NULL);
        free(text);
        program_free(&program);
    }
}

static const struct {
    const char *from, *to, *says;
} edits[] = {
    {" frozen 1", " frozen 3", "expected fewer frozen stages than there are, found \"3\""},
    {" frozen 1", " frozen 2", "rule 38 in the header: stage 1 is frozen, and has buckets"},
    {"slots 1 grads 0 buckets 0", "slots 1 grads 0 buckets 1",
     "rule 38 in the header: stage 0 is frozen, and has buckets"},
    {"slots 1 grads 0 buckets 0", "slots 1 grads 1 buckets 0",
     "rule 38 in the header: rank 0 has frozen stages alone, and 1 gradient buffers"},
    {"slots 2 grads 1 buckets 1", "slots 2 grads 1 buckets 0",
     "rule 38 in the header: stage 1 is not frozen, and has none"},
    {"#6 r0 REPORT", "#30 r0 B s0 m0 a0 g0 new\n#6 r0 REPORT", "rule 1 at #30"},
    {"#6 r0 REPORT", "#30 r0 I s0 m0 a0\n#6 r0 REPORT",
     "rule 38 at #30 r0 I s0 m0 a0: stage 0 is frozen, and has no gradients"},
    {"#6 r0 REPORT", "#30 r0 RECV_B s0 m0 a0 p1\n#6 r0 REPORT", "rule 38 at #30 r0 RECV_B"},
    {"#1 r0 F s0 m0 a0\n", "#1 r0 F s0 m0 a0 light\n",
     "rule 38 at #1 r0 F s0 m0 a0 light: stage 0 is frozen: nothing of it is made again"},
    {"r1 B s1 m0 a0 g0 new\n", "r1 B s1 m0 a0 g0 new\n#30 r1 SEND_B s1 m0 a0 p0\n",
     "rule 38 at #30 r1 SEND_B s1 m0 a0 p0: stage 0 is frozen, and takes no gradients"},
    {"#3 r0 LOAD s0 m1 a0\n", "", "rule 7 at #4 r0 F s0 m1 a0"},
    {"#5 r0 SEND_F s0 m1 a0 p1\n", "", "rule "},
};

static void refused(const struct program *program, const char *says) {
    char log[1024] = "";
    log_capture(log, sizeof log);
    enum status status = program_verify(program, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE);
    cr_expect(strstr(log, says), "not \"%s\" but %s", says, log);
}

/* What frozen stages do not go with. */
Test(program_frozen, the_header_says_what_cannot_be) {
    struct program *program = build("gpipe", three, 2, 1);
    program->sliced = SLICED_STATE | SLICED_PARAMS;
    refused(program, "rule 38 in the header: stage 0 is frozen where parameters are sliced");
    program->sliced = 0;
    program->tie[program->tie_count++] = (struct program_tie){0, 0, 2, 0};
    refused(program, "rule 38 in the header: stage 0 is frozen, and shares gradients");
    program_free(&program);
    struct grid two = three;
    two.stages = 2;
    program = build("pipedream", two, 1, 0);
    program->frozen = 1;
    refused(program, "rule 38 in the header: stage 0 is frozen where steps overlap");
    program_free(&program);
}

Test(program_frozen, the_rule_is_named) {
    struct program *program = build("gpipe", three, 2, 1);
    char *right = text_of(program);
    expect(right, NULL);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        char *text = mem_text(right);
        replace(&text, edits[i].from, edits[i].to);
        expect(text, edits[i].says);
        free(text);
    }
    free(right);
    program_free(&program);
}
