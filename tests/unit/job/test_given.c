/* A program that is given in place of the schedule's own, and the one of an epoch's short last step
 * that is built to go with it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../exec/kit.h"
#include "job/job.h"

static struct bytes text_of(const struct program *program) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    program_print(program, stream);
    fclose(stream);
    return (struct bytes){.data = (unsigned char *)text, .count = bytes};
}

Test(job_given, the_short_last_step_has_its_credits) {
    struct options options;
    struct job job;
    struct rank_info info = {.ranks = 2, .local_ranks = 2};
    kit_options("--model mlp --device ref --threads 1 --strategy 1f1b --stages 2 --micro-batches 2 "
                "--batch 16 --data synthetic:size=8,count=24,test_count=8",
                &options);
    cr_assert_eq(job_open(&options, &info, &job), STATUS_OK);
    cr_assert(job.plan->last_program);
    struct bytes text = text_of(job.plan->program);
    char *credits = strstr((char *)text.data, "credits 2");
    cr_assert(credits);
    credits[strlen("credits ")] = '1';
    struct plan *plan = NULL;
    cr_assert_eq(
        plan_new(&job.plan->config, &(struct plan_given){.name = "given", .program = &text}, &plan),
        STATUS_OK);
    cr_expect_eq(plan->program->credits, 1);
    cr_expect_eq(plan->last_program->credits, 1);
    plan_free(&plan);
    free(text.data);
    job_close(&job);
    options_free(&options);
}
