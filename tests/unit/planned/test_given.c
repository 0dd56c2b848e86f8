/* A program that is given in place of the schedule's own, and the short last step of an epoch: that
 * of the program, or one that is built to go with it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../exec/kit.h"
#include "base/log.h"
#include "base/mem.h"
#include "plan/plan_auto.h"
#include "planned/planned.h"

/* Steps of 16 samples, of which the last has 8. */
#define RUN                                                                                        \
    "--model mlp --device ref --threads 1 --strategy 1f1b --stages 2 --micro-batches 2 "           \
    "--batch 16 --data synthetic:size=8,test_count=8,count="

struct run {
    struct options options;
    struct planned_run planned;
};

static void open_run(struct run *run, const char *count) {
    struct rank_info info = {.ranks = 2, .local_ranks = 2};
    char *line = mem_format(RUN "%s", count);
    kit_options(line, &run->options);
    cr_assert_eq(planned_open(&run->options, &info, &run->planned), STATUS_OK);
    free(line);
}

static void close_run(struct run *run) {
    planned_close(&run->planned);
    options_free(&run->options);
}

/* The text of the run's program with something else in the place of `from`. */
static struct bytes edited(const struct run *run, const char *from, const char *to) {
    struct bytes text = plan_text(run->planned.plan);
    const char *at = strstr((const char *)text.data, from);
    cr_assert_not_null(at, "no \"%s\" in\n%s", from, (const char *)text.data);
    int before = (int)(at - (const char *)text.data);
    char *now = mem_format("%.*s%s%s", before, (const char *)text.data, to, at + strlen(from));
    bytes_free(&text);
    return (struct bytes){.data = (uint8_t *)now, .count = strlen(now)};
}

/* Cuts the sections "rank N last" out of a text. */
static void drop_last(struct bytes *text) {
    char *at = (char *)text->data, *begin;
    while ((begin = strstr(at, " last\n"))) {
        while (begin[-1] != '\n') begin--;
        char *end = strstr(begin, "\nrank") + 1;
        memmove(begin, end, strlen(end) + 1);
        at = begin;
    }
    text->count = strlen((char *)text->data);
}

static enum status plan_with(const struct run *run, const struct bytes *text, struct plan **out,
                             char log[512]) {
    memset(log, 0, 512);
    log_capture(log, 512);
    enum status status = plan_new(&run->planned.plan->config,
                                  &(struct plan_given){.name = "given", .program = text}, out);
    log_capture(NULL, 0);
    return status;
}

Test(planned_given, the_short_last_step_is_built_where_it_is_left_out) {
    struct run run;
    open_run(&run, "24");
    struct bytes text = edited(&run, "credits 2", "credits 1");
    drop_last(&text);
    cr_assert_null(strstr((char *)text.data, " last\n"));
    struct plan *plan = NULL;
    char log[512];
    cr_assert_eq(plan_with(&run, &text, &plan, log), STATUS_OK, "%s", log);
    cr_expect_eq(plan->program->credits, 1);
    plan->program->credits = 2;
    cr_expect_eq(program_hash(plan->program), program_hash(run.planned.plan->program));
    plan_free(&plan);
    bytes_free(&text);
    close_run(&run);
}

/* The update of a given program may clip where the run has no --clip: so does its last step. */
Test(planned_given, the_short_last_step_clips_as_the_body_does) {
    struct run run;
    open_run(&run, "24");
    struct bytes text = plan_text(run.planned.plan), clips = {0};
    drop_last(&text);
    char *now = NULL, *line, *state = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&now, &bytes);
    for (line = strtok_r((char *)text.data, "\n", &state); line;
         line = strtok_r(NULL, "\n", &state))
        fprintf(stream, "%s%s\n", line, strstr(line, " STEP ") ? " clip" : "");
    fclose(stream);
    clips = (struct bytes){.data = (uint8_t *)now, .count = bytes};
    struct plan *plan = NULL;
    char log[512];
    cr_assert_eq(plan_with(&run, &clips, &plan, log), STATUS_OK, "%s", log);
    const struct instr_list *last = program_list(plan->program, 0, LIST_LAST);
    cr_assert_gt(last->count, 0);
    cr_expect_eq(last->items[last->count - 1].op, INSTR_STEP);
    cr_expect(last->items[last->count - 1].flags & INSTR_CLIP);
    plan_free(&plan);
    bytes_free(&clips);
    bytes_free(&text);
    close_run(&run);
}

Test(planned_given, the_short_last_step_of_the_program_is_used) {
    struct run run;
    open_run(&run, "24");
    /* Its ids are nobody's but the text's. */
    struct bytes text = edited(&run, "rank 0 last\n#", "rank 0 last\n#1000");
    struct plan *plan = NULL;
    char log[512];
    cr_assert_eq(plan_with(&run, &text, &plan, log), STATUS_OK, "%s", log);
    cr_expect_geq(program_list(plan->program, 0, LIST_LAST)->items[0].id, 1000);
    plan_free(&plan);
    close_run(&run);
    open_run(&run,
             "17"); /* one sample is left for the last step, and the second micro-batch empty */
    cr_expect_eq(plan_with(&run, &text, &plan, log), STATUS_USAGE);
    cr_expect(strstr(log, "program refused by rule 6 at #"), "%s", log);
    bytes_free(&text);
    close_run(&run);
}

Test(planned_given, a_short_last_step_that_the_run_has_not_is_left_out) {
    struct run run;
    open_run(&run, "24");
    struct bytes text = plan_text(run.planned.plan);
    close_run(&run);
    open_run(&run, "32");
    struct plan *plan = NULL;
    char log[512];
    cr_assert_eq(plan_with(&run, &text, &plan, log), STATUS_OK, "%s", log);
    cr_expect_not(program_has_last(plan->program));
    cr_expect_eq(program_hash(plan->program), program_hash(run.planned.plan->program));
    plan_free(&plan);
    bytes_free(&text);
    close_run(&run);
}
