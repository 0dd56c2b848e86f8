/* Job scripts: what they hold, and that words stay words in a shell. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "launch/sbatch.h"

static char *script(const char *const *given, enum status *status) {
    struct options options;
    char *text = NULL;
    size_t length;
    options_init(COMMAND_LAUNCH, &options);
    for (int i = 0; given[i]; i += 2) {
        enum option_id id;
        cr_assert(option_find(given[i], &id));
        cr_assert_eq(option_set(&options, id, given[i + 1], given[i], OPTION_FROM_COMMAND_LINE),
                     STATUS_OK);
    }
    FILE *out = open_memstream(&text, &length);
    *status = sbatch_write(&options, "/opt/stretto", 64, out);
    fclose(out);
    options_free(&options);
    return text;
}

Test(launch_sbatch, says_what_was_given) {
    static const char *const given[] = {"model", "lenet",     "nodes", "2",          "local-ranks",
                                        "4",     "threads",   "3",     "time-limit", "1h",
                                        "data",  "mnist:a b", NULL};
    static const char *const holds[] = {"#!/bin/bash\n",
                                        "--job-name=stretto-lenet\n",
                                        "--nodes=2\n",
                                        "--ntasks-per-node=4\n",
                                        "--cpus-per-task=3\n",
                                        "--time=65\n",
                                        "srun --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" ",
                                        "/opt/stretto train \\\n",
                                        "    --data 'mnist:a b' \\\n",
                                        "    --threads 3 \\\n",
                                        "--out \"runs/$SLURM_JOB_NAME-$SLURM_JOB_ID\"",
                                        "SLURM_RESTART_COUNT"};
    enum status status;
    char *text = script(given, &status);
    cr_assert_eq(status, STATUS_OK);
    for (size_t i = 0; i < sizeof holds / sizeof holds[0]; i++)
        cr_expect(strstr(text, holds[i]), "%s not in\n%s", holds[i], text);
    cr_expect(!strstr(text, "--local-ranks") && !strstr(text, "    --nodes"));
    free(text);
}

/* Started again before the run wrote its options down: --resume needs the model's name. A run that
 * the script itself resumes has its own. */
Test(launch_sbatch, names_the_model_of_a_new_run) {
    static const char *const fresh[] = {"nodes", "2", NULL}, *const resumed[] = {"resume", "on",
                                                                                 NULL};
    enum status status;
    char *text = script(fresh, &status);
    cr_expect(strstr(text, "    --model resnet8 \\\n"), "no model in\n%s", text);
    free(text);
    text = script(resumed, &status);
    cr_expect(!strstr(text, "--model"), "a model in\n%s", text);
    free(text);
}

/* Slurm would give a task one core. */
Test(launch_sbatch, asks_for_cores) {
    static const struct {
        const char *ranks, *line;
    } cases[] = {{"1", "\n#SBATCH --cpus-per-task=64\n"},
                 {"8", "\n#SBATCH --cpus-per-task=8\n"},
                 {"6", "\n#SBATCH --cpus-per-task=10\n"},
                 {"100", "\n#SBATCH --cpus-per-task=1\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const given[] = {"local-ranks", cases[i].ranks, NULL};
        enum status status;
        char *text = script(given, &status);
        cr_expect(status == STATUS_OK && strstr(text, cases[i].line), "%s", text);
        cr_expect(!strstr(text, "--threads"), "%s", text);
        free(text);
    }
}

Test(launch_sbatch, what_srun_says_is_refused) {
    static const char *const names[] = {"rank", "world-size", "node-rank", "hostfile",
                                        "nodes-file"};
    for (int i = 0; i < 5; i++) {
        const char *const given[] = {names[i], "1", NULL};
        char message[512];
        enum status status;
        log_capture(message, sizeof message);
        char *text = script(given, &status);
        log_capture(NULL, 0);
        cr_expect_eq(status, STATUS_USAGE);
        cr_expect(strstr(message, names[i]), "%s", message);
        cr_expect_str_eq(text, "");
        free(text);
    }
}

Test(launch_sbatch, quotes) {
    static const struct {
        const char *word, *quoted;
    } cases[] = {{"plain-1.2/x:y=z", "plain-1.2/x:y=z"},
                 {"", "''"},
                 {"a b", "'a b'"},
                 {"it's", "'it'\\''s'"},
                 {"$(touch x)", "'$(touch x)'"},
                 {"a\nb", "$'a\\x0ab'"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *quoted = sbatch_quote(cases[i].word);
        cr_expect_str_eq(quoted, cases[i].quoted);
        free(quoted);
    }
}
