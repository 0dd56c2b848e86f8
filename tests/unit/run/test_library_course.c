/* The plan of a run changes on its way, also where a program runs its steps one by one. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stretto.h"

static struct stretto_run *open_with(const char *const *words) {
    struct stretto_config config = {.size = sizeof config, .options = words};
    struct stretto_run *run;
    cr_assert_eq(stretto_open(&config, &run), 0, "%s", stretto_error());
    return run;
}

static void get(struct stretto_run *run, const char *name, void *values, size_t bytes) {
    cr_assert_eq(stretto_get(run, name, values, bytes), 0, "%s", stretto_error());
}

#define VIT                                                                                        \
    "--model", "vit-micro", "--data", "synthetic:size=8,channels=3,count=40,test_count=4",         \
        "--batch", "8", "--freeze-every", "2", "--threads", "1", "--epochs", "2", "--freeze"

/* Steps one by one follow the course of the run, and so does a checkpoint of it: forwards into a
 * later part, and back into an earlier one. */
static void follow_course(const char *const *words, float *whole) {
    char folder[] = "/tmp/stretto-library-XXXXXX";
    static float parts[640], early[640];
    struct stretto_step step = {.size = sizeof step};
    cr_assert(mkdtemp(folder));
    struct stretto_run *run = open_with(words);
    for (int s = 0; s < 3; s++) cr_assert_eq(stretto_step(run, &step), 0, "%s", stretto_error());
    cr_assert_eq(stretto_checkpoint(run, folder), 0, "%s", stretto_error());
    get(run, "head.weight", early, sizeof early);
    while (stretto_step(run, &step) == 0) continue;
    cr_expect_eq(step.step, 9);
    get(run, "head.weight", whole, 640 * sizeof *whole);
    cr_assert_eq(stretto_resume(run, folder), 0, "back into the part before: %s", stretto_error());
    get(run, "head.weight", parts, sizeof parts);
    cr_expect_eq(memcmp(early, parts, sizeof early), 0);
    while (stretto_step(run, &step) == 0) continue;
    get(run, "head.weight", parts, sizeof parts);
    cr_expect_eq(memcmp(whole, parts, 640 * sizeof *whole), 0);
    stretto_close(&run);
    run = open_with(words);
    cr_assert_eq(stretto_resume(run, folder), 0, "%s", stretto_error());
    while (stretto_step(run, &step) == 0) continue;
    get(run, "head.weight", parts, sizeof parts);
    cr_expect_eq(memcmp(whole, parts, 640 * sizeof *whole), 0);
    stretto_close(&run);
    pid_t child = fork();
    if (child == 0) execlp("rm", "rm", "-r", folder, NULL), _exit(1);
    cr_expect_eq(waitpid(child, NULL, 0), child);
}

Test(run_library_course, the_plan_changes_between_steps, .timeout = 120) {
    static const char *const words[] = {VIT, "0,2,4", NULL};
    static float whole[640];
    follow_course(words, whole);
}

/* Norms are those of the period again after a step back. */
Test(run_library_course, norms_decide_between_steps, .timeout = 120) {
    static const char *const words[] = {VIT, "norm", NULL};
    static float whole[640];
    follow_course(words, whole);
}

/* Ranks that are threads of the program: a pipeline of two becomes two replicas. */
Test(run_library_course, a_pipeline_becomes_replicas_between_steps, .timeout = 240) {
    static const char *const pipe[] = {VIT,
                                       "0,2,4",
                                       "--strategy",
                                       "gpipe",
                                       "--stages",
                                       "2",
                                       "-n",
                                       "2",
                                       "--spawn",
                                       "threads",
                                       "--micro-batches",
                                       "2",
                                       "--auto-pipe",
                                       "params",
                                       "--auto-dp",
                                       "--sum",
                                       "tree",
                                       NULL};
    static const char *const one[] = {VIT, "0,2,4", "--deal", "1x2", "--sum", "tree", NULL};
    static float whole[640], alone[640];
    follow_course(pipe, whole);
    follow_course(one, alone);
    cr_expect_eq(memcmp(whole, alone, sizeof whole), 0);
}
