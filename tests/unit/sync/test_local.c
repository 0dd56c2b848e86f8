/* Sync policy local: what it inserts, that the verifier proves it for every schedule, and what it
 * refuses of a program whose replicas train apart. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

#include "base/log.h"
#include "base/mem.h"
#include "program/pipeline.h"
#include "program/schedule.h"
#include "sync/sync.h"

static struct program *build(const char *schedule, int stages, int replicas, int micros) {
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
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++) buckets[i] = 2;
    cr_assert_eq(schedule_build(schedule, &config, &program), STATUS_OK);
    cr_assert_eq(
        sync_insert("local", program, &(struct sync_config){.buckets = buckets, .every = 5}),
        STATUS_OK);
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

Test(sync_local, a_step_of_so_many_averages) {
    struct program *program = build("single", 1, 2, 1);
    char *text = text_of(program);
    cr_expect(strstr(text, "sum replica every 5 "), "%s", text);
    cr_expect(strstr(text, "rank 1 body\n"
                           "#1 r1 COUNT\n"
                           "#2 r1 LOAD s0 m0 a0\n"
                           "#3 r1 F s0 m0 a0\n"
                           "#4 r1 B s0 m0 a0 g0 new\n"
                           "#5 r1 TIE s0 g0\n"
                           "#6 r1 REPORT q0\n"
                           "#7 r1 NORM g0\n"
                           "#8 r1 STEP g0\n"
                           "rank 1 last\n"),
              "%s", text);
    cr_expect(strstr(text, "STEP g0\n"
                           "#17 r1 DELTA g0\n"
                           "#18 r1 REDUCE s0 b0 g0 q0\n"
                           "#19 r1 REDUCE s0 b1 g0 q0\n"
                           "#20 r1 OUTER g0\n"
                           "rank 1 drain\n"
                           "#21 r1 STATS_MEAN g0 q0\n"
                           "#22 r1 TAKE g0\n"
                           "#23 r1 REDUCE s0 b0 g0 q0\n"
                           "#24 r1 REDUCE s0 b1 g0 q0\n"
                           "#25 r1 MEAN g0\n"
                           "rank 1 eval-start\n"),
              "%s", text);
    cr_expect(strstr(text,
                     "MEAN g0\n#41 r1 OPEN q0\n#42 r1 WRITE\n#43 r1 COMMIT q0\n#44 r1 OWN g0\n"
                     "#45 r1 STATS_OWN\n"),
              "%s", text);
    free(text);
    program_free(&program);
}

Test(sync_local, every_schedule_is_proven) {
    for (int i = 0; i < pipeline_count(); i++) {
        const struct pipeline_schedule *pipeline = pipeline_at(i);
        if (pipeline->older || pipeline->driven) continue;
        for (int replicas = 2; replicas < 4; replicas++) {
            struct program *program = build(pipeline->name, 2, replicas, 4);
            cr_expect_eq(program_verify(program, NULL), STATUS_OK, "%s", pipeline->name);
            expect_same_text(program);
            program_free(&program);
        }
    }
}

Test(sync_local, one_replica_is_left_alone) {
    struct program *program = build("single", 1, 1, 2);
    cr_expect_eq(program->every, 0);
    cr_expect_eq(program_verify(program, NULL), STATUS_OK);
    program_free(&program);
}

/* The text of both ranks with an edit in each must be refused, by this rule. */
static void refused(const char *from, const char *to, const char *says) {
    struct program *program = build("single", 1, 2, 1), *edited = NULL;
    char *text = text_of(program), log[1024] = "";
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

/* As text of rank r, without its id. */
static void refused_line(const char *from, const char *to, const char *says) {
    struct program *program = build("single", 1, 2, 1), *edited = NULL;
    char *text = text_of(program), log[1024] = "", *out = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&out, &bytes);
    bool found = false;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        const char *body = *line == '#' ? strchr(strchr(line, ' ') + 1, ' ') + 1 : NULL;
        bool is = body && strcmp(body, from) == 0;
        found |= is;
        if (!is)
            fprintf(stream, "%s\n", line);
        else if (*to)
            fprintf(stream, "%.*s%s\n", (int)(body - line), line, to);
    }
    fclose(stream);
    cr_expect(found, "no %s", from);
    log_capture(log, sizeof log);
    enum status status = program_parse("text", out, strlen(out), &edited);
    if (status == STATUS_OK) status = program_verify(edited, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE, "taken: \"%s\" for \"%s\"", to, from);
    cr_expect(strstr(log, says), "%s: not \"%s\" but %s", from, says, log);
    free(text);
    free(out);
    program_free(&program);
    program_free(&edited);
}

Test(sync_local, what_averages_nothing_is_refused) {
    refused_line("COUNT", "COUNT q0", "rule 36 at #9 r0 COUNT q0: replicas train apart");
    refused_line("OUTER g0", "", "ends without OUTER");
    refused_line("DELTA g0", "", "rule 36 at #18 r0 REDUCE s0 b0 g0 q0: replicas train apart");
    refused_line("TAKE g0", "", "rule 36");
    refused_line("MEAN g0", "", "rule 37");
    refused_line("STATS_MEAN g0 q0", "", "rule 37");
    refused_line("OWN g0", "", "rule 37");
    refused_line("STATS_OWN", "", "rule 37");
    refused_line("REDUCE s0 b1 g0 q0", "", "was not summed over the replicas");
    refused_line("REDUCE s0 b1 g0 q0", "REDUCE s0 b0 g0 q0",
                 "was summed over the replicas already");
    refused_line("STATS_MEAN g0 q0", "STATS_ALL q0", "rule 3");
}

Test(sync_local, an_average_stands_behind_the_update_of_its_step) {
    refused("STEP g0\n#17 r0 DELTA g0\n", "DELTA g0\n#17 r0 STEP g0\n",
            "rule 36 at #16 r0 DELTA g0: the step's update stands before it");
    refused("STEP g0\nrank 0 last\n", "STEP g0\n#50 r0 DELTA g0\nrank 0 last\n",
            "rule 36 at #50 r0 DELTA g0: only each 5-th step averages");
    refused("OUTER g0\nrank 0 drain\n", "OUTER g0\n#50 r0 OUTER g0\nrank 0 drain\n",
            "a second OUTER");
    refused("#36 r0 STATS_MEAN g0 q0\n#37 r0 TAKE g0",
            "#50 r0 OPEN q0\n#36 r0 STATS_MEAN g0 q0\n#37 r0 TAKE g0",
            "rule 37 at #36 r0 STATS_MEAN g0 q0: the mean is made before the checkpoint is opened");
    /* The mean stands in for the parameters, which lie in the buffer that statistics go through. */
    refused("MEAN g0\nrank 0 eval\n", "MEAN g0\n#50 r0 STATS_MEAN g0 q0\nrank 0 eval\n", "rule 3");
    refused("TIE s0 g0\n#6 r0 REPORT", "TIE s0 g0\n#50 r0 REDUCE s0 b0 g0 q0\n#6 r0 REPORT",
            "rule 36 at #50 r0 REDUCE s0 b0 g0 q0: replicas train apart: no gradient of bucket 0");
}

Test(sync_local, the_header_says_that_replicas_train_apart) {
    refused(" every 5", "", "rule 3");
    refused(" every 5", " every 5 sliced o", "rule 36 in the header");
}
