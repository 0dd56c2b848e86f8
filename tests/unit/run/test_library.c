/* The runs of the public library, as a program that links it would use them. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "run/library.h"
#include "stretto.h"

enum { WEIGHTS = 10 * 64, WORDS = 32 };

#define MLP                                                                                        \
    "--model", "mlp", "--device", "ref", "--threads", "1", "--batch", "500", "--epochs", "1",      \
        "--lr", "0.1"

static int try_open(const char *const *words, struct stretto_run **out) {
    struct stretto_config config = {.size = sizeof config, .options = words};
    return stretto_open(&config, out);
}

static struct stretto_run *open_with(const char *const *words) {
    struct stretto_run *run;
    cr_assert_eq(try_open(words, &run), 0, "%s", stretto_error());
    return run;
}

static struct stretto_run *open_mlp(void) {
    return open_with((const char *[]){MLP, NULL});
}

static void step_to_end(struct stretto_run *run) {
    struct stretto_step step = {.size = sizeof step};
    int code, count = 0;
    while ((code = stretto_step(run, &step)) == 0) cr_expect_eq(step.step, count++);
    cr_expect_eq(code, STRETTO_END, "%s", stretto_error());
    cr_expect_eq(count, 3);
    cr_expect_eq(stretto_step(run, &step), STRETTO_END, "a step after the last one");
}

static void get(struct stretto_run *run, const char *name, void *values, size_t bytes) {
    cr_assert_eq(stretto_get(run, name, values, bytes), 0, "%s", stretto_error());
}

Test(run_library, plans_steps_and_evaluates) {
    struct stretto_run *run = open_mlp();
    struct stretto_plan plan = {.size = sizeof plan};
    struct stretto_eval before = {.size = sizeof before}, after = {.size = sizeof after};
    cr_assert_eq(stretto_plan(run, &plan), 0);
    cr_expect_eq(plan.steps, 3);
    cr_expect_eq(plan.batch, 500);
    cr_expect_eq(plan.ranks, 1);
    cr_expect_gt(plan.predicted_peak_bytes, 100000);
    cr_assert_eq(stretto_evaluate(run, &before), 0);
    step_to_end(run);
    cr_assert_eq(stretto_evaluate(run, &after), 0);
    cr_expect_eq(after.samples, 297);
    cr_expect_lt(after.loss, before.loss);
    stretto_close(&run);
    cr_expect_null(run);
    stretto_close(&run);
}

/* Weights go out by file and come back; parameters are read and written by name. */
Test(run_library, weights_by_file_and_by_name) {
    char path[] = "/tmp/stretto-library-XXXXXX";
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
    float trained[WEIGHTS], loaded[WEIGHTS];
    struct stretto_run *run = open_mlp();
    step_to_end(run);
    get(run, "fc3.weight", trained, sizeof trained);
    cr_assert_eq(stretto_save(run, path), 0, "%s", stretto_error());
    stretto_close(&run);
    run = open_mlp();
    get(run, "fc3.weight", loaded, sizeof loaded);
    cr_expect_neq(memcmp(trained, loaded, sizeof trained), 0, "a new run has new weights");
    cr_assert_eq(stretto_load(run, path), 0, "%s", stretto_error());
    get(run, "fc3.weight", loaded, sizeof loaded);
    cr_expect_eq(memcmp(trained, loaded, sizeof trained), 0);
    memset(trained, 0, sizeof trained);
    cr_assert_eq(stretto_set(run, "fc3.weight", trained, sizeof trained), 0);
    get(run, "fc3.weight", loaded, sizeof loaded);
    cr_expect_eq(memcmp(trained, loaded, sizeof trained), 0);
    cr_expect_eq(stretto_load(run, "/nowhere/x.safetensors"), STRETTO_DATA);
    cr_expect(strstr(stretto_error(), "/nowhere/x.safetensors"), "%s", stretto_error());
    struct stretto_eval eval = {.size = sizeof eval};
    cr_expect_eq(stretto_evaluate(run, &eval), 0, "a file that is not there costs nothing else");
    stretto_close(&run);
    unlink(path);
}

Test(run_library, lists_what_a_model_has) {
    static const char *const names[] = {"fc1.weight", "fc1.bias",   "fc2.weight",
                                        "fc2.bias",   "fc3.weight", "fc3.bias"};
    struct stretto_run *run = open_mlp();
    struct stretto_tensor tensor = {.size = sizeof tensor};
    int count = 0;
    for (; stretto_tensor_at(run, count, &tensor) == 0; count++)
        cr_expect_str_eq(tensor.name, names[count]);
    cr_expect_eq(count, 6);
    cr_expect_eq(stretto_tensor_at(run, count, &tensor), STRETTO_END);
    cr_expect_eq(stretto_tensor_find(run, "fc3.weight", &tensor), 0);
    cr_expect(tensor.rank == 2 && tensor.dim[0] == 10 && tensor.dim[1] == 64 && tensor.trained);
    cr_expect_eq(tensor.dtype, STRETTO_F32);
    stretto_close(&run);
    run = open_with((const char *[]){"--model", "resnet8", "--steps", "1", NULL});
    cr_expect_eq(stretto_tensor_find(run, "bn1.running_var", &tensor), 0, "%s", stretto_error());
    cr_expect_not(tensor.trained);
    stretto_close(&run);
}

Test(run_library, refuses_with_the_commands_codes) {
    static const struct {
        const char *words[6];
        int code;
        const char *part;
    } rows[] = {
        {{"--model", "nothing"}, 2, "--model: 'nothing' is not allowed"},
        {{"--data", "mnist:/nowhere"}, 3, "/nowhere"},
        {{"--memory-limit", "1K"}, 5, "would need"},
        {{"--resume", "--out", "/nowhere"}, 2, "stretto_resume"},
        {{"--help"}, 2, "stretto train --help"},
        {{"--nodes", "2", "--node-rank", "0", "--init=tcp://127.0.0.1:1"},
         2,
         "--nodes asks for other processes"},
    };
    char said[1024];
    log_capture(said, sizeof said);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stretto_run *run = NULL;
        cr_expect_eq(try_open(rows[i].words, &run), rows[i].code);
        cr_expect(strstr(stretto_error(), rows[i].part), "%s", stretto_error());
        cr_expect_null(run);
    }
    struct stretto_run *run = NULL;
    static const char *const no_options[] = {NULL};
    for (int i = 0; i < 2; i++) {
        struct stretto_config config = {
            .size = sizeof config, .options = no_options, .forward_batch = i ? -1 : INT64_MAX};
        cr_expect_eq(stretto_open(&config, &run), STRETTO_USAGE);
        cr_expect(strstr(stretto_error(), "forward batch"), "%s", stretto_error());
        cr_expect_null(run);
    }
    static const char *const two_threads[] = {"--threads", "2", NULL};
    setenv("OMP_STACKSIZE", "16k", 1);
    cr_expect_eq(try_open(two_threads, &run), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "OMP_STACKSIZE=16k"), "%s", stretto_error());
    setenv("OMP_STACKSIZE", " 2 M ", 1);
    cr_expect_eq(try_open(two_threads, &run), 0, "%s", stretto_error());
    stretto_close(&run);
    unsetenv("OMP_STACKSIZE");
    run = open_mlp();
    float value[1] = {0}, nan[10] = {NAN};
    cr_expect_eq(stretto_get(run, "fc9.weight", value, sizeof value), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "no parameter \"fc9.weight\""), "%s", stretto_error());
    cr_expect_eq(stretto_set(run, "fc3.weight", value, sizeof value), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "640 elements, 2560 bytes; 4 bytes"), "%s", stretto_error());
    cr_expect_eq(stretto_set(run, "fc3.bias", nan, sizeof nan), STRETTO_USAGE);
    cr_expect_eq(stretto_get(run, NULL, value, sizeof value), STRETTO_USAGE);
    cr_expect_eq(stretto_get(run, "fc3.bias", NULL, sizeof nan), STRETTO_USAGE);
    cr_expect_eq(stretto_set_lr(run, INFINITY), STRETTO_USAGE);
    cr_expect_eq(stretto_save(run, NULL), STRETTO_USAGE);
    cr_expect_eq(stretto_save(run, "/nowhere/x"), STRETTO_DATA);
    struct stretto_step step = {0};
    cr_expect_eq(stretto_step(run, &step), STRETTO_USAGE, "its size is not set");
    cr_expect(strstr(stretto_error(), "stretto_step"), "%s", stretto_error());
    step_to_end(run);
    stretto_close(&run);
    log_capture(NULL, 0);
    cr_expect_str_eq(said, "", "nothing is for standard error");
}

Test(run_library, a_call_is_a_step_of_all_replicas) {
    static const char *const words[] = {"-n", "2", "--strategy", "preduce", NULL};
    struct stretto_run *run = NULL;
    cr_expect_eq(try_open(words, &run), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "replicas are at steps of their own"), "%s", stretto_error());
    cr_expect_null(run);
}

Test(run_library, a_closed_run_is_refused) {
    struct stretto_run *run = open_mlp();
    struct stretto_step step = {.size = sizeof step};
    float value;
    stretto_close(&run);
    cr_expect_eq(stretto_step(run, &step), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "closed"), "%s", stretto_error());
    cr_expect_eq(stretto_get(run, "fc1.bias", &value, 4), STRETTO_USAGE);
    cr_expect_eq(stretto_output_elements(run), -1);
    cr_expect_eq(stretto_save(run, "x"), STRETTO_USAGE);
}

Test(run_library, headers_of_another_version_are_refused) {
    const char *words[] = {MLP, NULL};
    struct stretto_config config = {.size = sizeof config, .options = words};
    struct stretto_run *run;
    cr_expect_eq(stretto_open_version(STRETTO_VERSION + 10000, &config, &run), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "header of version 1."), "%s", stretto_error());
    cr_expect_eq(stretto_open_version(STRETTO_VERSION + 1, &config, &run), STRETTO_USAGE);
    /* A caller that knows less: of the configuration its first two members, of a step three. */
    config.size = offsetof(struct stretto_config, log);
    config.log = (void *)1;
    cr_assert_eq(stretto_open_version(STRETTO_VERSION, &config, &run), 0, "%s", stretto_error());
    struct stretto_step step = {.size = offsetof(struct stretto_step, loss), .loss = -7};
    cr_expect_eq(stretto_step(run, &step), 0);
    cr_expect_eq(step.loss, -7, "what it does not know is left alone");
    stretto_close(&run);
    config.size = 0;
    cr_expect_eq(stretto_open(&config, &run), STRETTO_USAGE);
    cr_expect_null(run);
}

Test(run_library, the_rate_is_the_callers) {
    struct stretto_run *run = open_mlp();
    struct stretto_step step = {.size = sizeof step};
    float before[10], after[10];
    get(run, "fc3.bias", before, sizeof before);
    cr_assert_eq(stretto_set_lr(run, 0), 0);
    cr_assert_eq(stretto_step(run, &step), 0);
    cr_expect_eq(step.lr, 0);
    get(run, "fc3.bias", after, sizeof after);
    cr_expect_eq(memcmp(before, after, sizeof before), 0);
    cr_assert_eq(stretto_set_lr(run, -1), 0);
    cr_assert_eq(stretto_step(run, &step), 0);
    cr_expect_gt(step.lr, 0);
    get(run, "fc3.bias", after, sizeof after);
    cr_expect_neq(memcmp(before, after, sizeof before), 0);
    stretto_close(&run);
}

/* --- several ranks --- */

#define RANKS                                                                                      \
    "--model", "mlp", "--threads", "1", "--batch", "480", "--epochs", "1", "--device", "ref"

static const char *const layouts[][WORDS] = {
    {RANKS, "--deal", "1x2"},
    {RANKS, "--strategy", "1f1b", "-n", "2", "--micro-batches", "2"},
    {RANKS, "--strategy", "zbv", "-n", "2", "--micro-batches", "2"},
};
static const char *const replicas[][WORDS] = {
    {RANKS, "--deal", "2x1"},
    {RANKS, "-n", "2"},
    {RANKS, "--strategy", "zero3", "-n", "2"},
    {RANKS, "--strategy", "dp", "-n", "2"},
};

/* The parameters after training, and the logits of some points. */
struct answer {
    float weight[WEIGHTS], bias[128], logits[3 * 10];
};

static void train(const char *const *words, struct answer *out) {
    float image[3][64];
    for (int i = 0; i < 3 * 64; i++) image[i / 64][i % 64] = (float)(i % 7) / 7;
    struct stretto_run *run = open_with(words);
    struct stretto_step step = {.size = sizeof step};
    while (stretto_step(run, &step) == 0) continue;
    get(run, "fc3.weight", out->weight, sizeof out->weight);
    get(run, "fc1.bias", out->bias, sizeof out->bias);
    cr_assert_eq(stretto_output_elements(run), 10);
    cr_assert_eq(stretto_forward(run, 3, (const void *[]){image, NULL}, 2, out->logits, 3 * 10), 0,
                 "%s", stretto_error());
    stretto_close(&run);
}

Test(run_library, every_strategy_is_the_same_training, .timeout = 120) {
    struct answer first, other;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        train(layouts[i], i ? &other : &first);
        if (i) cr_expect_eq(memcmp(&first, &other, sizeof first), 0, "layout %zu differs", i);
    }
    for (size_t i = 0; i < sizeof replicas / sizeof replicas[0]; i++) {
        train(replicas[i], i ? &other : &first);
        if (i) cr_expect_eq(memcmp(&first, &other, sizeof first), 0, "replicas %zu differ", i);
    }
}

/* What the output depends on must be given: its memory would hold what was there before. */
Test(run_library, a_field_that_the_output_needs_is_no_null) {
    static float image[64], logits[10];
    static int32_t label;
    struct stretto_run *run = open_mlp();
    cr_expect_eq(stretto_forward(run, 1, (const void *[]){NULL, &label}, 2, logits, 10),
                 STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "field 0, \"image\" of data set digits, is NULL"), "%s",
              stretto_error());
    cr_expect_eq(stretto_forward(run, 1, (const void *[]){image, NULL}, 2, logits, 10), 0, "%s",
                 stretto_error());
    stretto_close(&run);
}

static int64_t predicted(struct stretto_run *run) {
    struct stretto_plan plan = {.size = sizeof plan};
    cr_assert_eq(stretto_plan(run, &plan), 0, "%s", stretto_error());
    return plan.predicted_peak_bytes;
}

/* A run that only uses a model takes less memory and gives the same bits. */
Test(run_library, forward_only_has_nothing_to_train, .timeout = 120) {
    const char *const *const kinds[] = {layouts[0], layouts[1], replicas[1], replicas[2]};
    static float image[2 * 64], want[2 * 10], have[2 * 10];
    char path[] = "/tmp/stretto-library-XXXXXX";
    close(mkstemp(path));
    for (int i = 0; i < 2 * 64; i++) image[i] = (float)(i % 11) / 11;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct stretto_config config = {
            .size = sizeof config, .options = kinds[i], .forward_only = 1};
        struct stretto_run *run = open_with(kinds[i]);
        struct stretto_step step = {.size = sizeof step};
        struct stretto_eval first = {.size = sizeof first}, second = {.size = sizeof second};
        const void *field[] = {image, NULL};
        int64_t bytes = predicted(run);
        cr_assert_eq(stretto_step(run, &step), 0, "%s", stretto_error());
        cr_assert_eq(stretto_evaluate(run, &first), 0, "%s", stretto_error());
        cr_assert_eq(stretto_forward(run, 2, field, 2, want, 20), 0, "%s", stretto_error());
        cr_assert_eq(stretto_save(run, path), 0, "%s", stretto_error());
        stretto_close(&run);
        run = open_with(kinds[i]);
        cr_assert_eq(stretto_load(run, path), 0, "%zu: %s", i, stretto_error());
        cr_assert_eq(stretto_forward(run, 2, field, 2, have, 20), 0, "%zu: %s", i, stretto_error());
        cr_expect_eq(memcmp(want, have, sizeof want), 0, "%zu: training", i);
        stretto_close(&run);
        cr_assert_eq(stretto_open(&config, &run), 0, "%zu: %s", i, stretto_error());
        cr_expect_lt(predicted(run), bytes);
        cr_assert_eq(stretto_load(run, path), 0, "%zu: %s", i, stretto_error());
        cr_assert_eq(stretto_evaluate(run, &second), 0, "%zu: %s", i, stretto_error());
        cr_assert_eq(stretto_forward(run, 2, field, 2, have, 20), 0, "%zu: %s", i, stretto_error());
        cr_expect_eq(first.loss, second.loss, "%zu: %.17g, %.17g", i, first.loss, second.loss);
        cr_expect_eq(memcmp(want, have, sizeof want), 0, "%zu", i);
        cr_expect_eq(stretto_step(run, &step), STRETTO_USAGE);
        cr_expect(strstr(stretto_error(), "forward_only"), "%s", stretto_error());
        cr_expect_eq(stretto_checkpoint(run, "/nowhere"), STRETTO_USAGE);
        cr_expect_eq(stretto_resume(run, "/nowhere"), STRETTO_USAGE);
        cr_assert_eq(stretto_save(run, path), 0, "%zu: %s", i, stretto_error());
        stretto_close(&run);
    }
    unlink(path);
}

/* Options of both kinds; the later of two holds. */
Test(run_library, options_in_one_text) {
    const char *words[] = {MLP, NULL};
    struct stretto_config config = {
        .size = sizeof config, .options = words, .words = "  --batch 300\t--epochs  2 "};
    struct stretto_plan plan = {.size = sizeof plan};
    struct stretto_run *run;
    cr_assert_eq(stretto_open(&config, &run), 0, "%s", stretto_error());
    cr_assert_eq(stretto_plan(run, &plan), 0);
    cr_expect(plan.batch == 300 && plan.steps == 10);
    stretto_close(&run);
    config.options = NULL, config.words = "--model nothing";
    cr_expect_eq(stretto_open(&config, &run), STRETTO_USAGE);
}

/* A run that goes on from a checkpoint, on another number of ranks, ends where one does that never
 * stopped. */
Test(run_library, checkpoints_go_on, .timeout = 120) {
    char folder[] = "/tmp/stretto-library-XXXXXX";
    cr_assert(mkdtemp(folder));
    float whole[WEIGHTS], parts[WEIGHTS];
    struct stretto_step step = {.size = sizeof step};
    struct stretto_run *run = open_with(layouts[0]);
    cr_expect_eq(stretto_resume(run, folder), STRETTO_END, "there is none yet");
    cr_assert_eq(stretto_step(run, &step), 0);
    cr_assert_eq(stretto_checkpoint(run, folder), 0, "%s", stretto_error());
    cr_assert_eq(stretto_checkpoint(run, folder), 0, "once more at the same step");
    char other[64];
    snprintf(other, sizeof other, "%s/other", folder);
    cr_assert_eq(stretto_checkpoint(run, other), 0, "the same step elsewhere");
    while (stretto_step(run, &step) == 0) continue;
    get(run, "fc3.weight", whole, sizeof whole);
    stretto_close(&run);
    run = open_with(layouts[1]);
    cr_assert_eq(stretto_resume(run, other), 0, "%s", stretto_error());
    cr_assert_eq(stretto_resume(run, folder), 0, "%s", stretto_error());
    cr_assert_eq(stretto_step(run, &step), 0);
    cr_expect_eq(step.step, 1);
    while (stretto_step(run, &step) == 0) continue;
    get(run, "fc3.weight", parts, sizeof parts);
    cr_expect_eq(memcmp(whole, parts, sizeof whole), 0);
    stretto_close(&run);
    run = open_with((const char *[]){RANKS, "--seed", "5", NULL});
    cr_expect_eq(stretto_resume(run, folder), STRETTO_USAGE,
                 "a checkpoint of another seed is accepted");
    cr_expect(strstr(stretto_error(), "seed"), "%s", stretto_error());
    stretto_close(&run);
    pid_t child = fork();
    if (child == 0) execlp("rm", "rm", "-r", folder, NULL), _exit(1);
    cr_expect_eq(waitpid(child, NULL, 0), child);
}

/* Whichever ranks hold a tensor: values come and go, by name and by file. */
Test(run_library, values_are_set_on_the_ranks_that_hold_them, .timeout = 120) {
    const char *const *const kinds[] = {layouts[1], layouts[2], replicas[2], replicas[3]};
    static float image[64], first[10], then[10], weight[WEIGHTS], have[WEIGHTS];
    const void *field[] = {image, NULL};
    char path[] = "/tmp/stretto-library-XXXXXX";
    close(mkstemp(path));
    for (int i = 0; i < WEIGHTS; i++) weight[i] = (float)(i % 5) / 5;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct stretto_run *run = open_with(kinds[i]);
        cr_assert_eq(stretto_save(run, path), 0, "%zu: %s", i, stretto_error());
        cr_assert_eq(stretto_forward(run, 1, field, 2, first, 10), 0, "%s", stretto_error());
        cr_assert_eq(stretto_set(run, "fc3.weight", weight, sizeof weight), 0, "%s",
                     stretto_error());
        get(run, "fc3.weight", have, sizeof have);
        cr_expect_eq(memcmp(weight, have, sizeof have), 0, "%zu", i);
        cr_assert_eq(stretto_forward(run, 1, field, 2, then, 10), 0, "%s", stretto_error());
        cr_expect_neq(memcmp(first, then, sizeof then), 0, "%zu: the model uses it", i);
        cr_assert_eq(stretto_load(run, path), 0, "%zu: %s", i, stretto_error());
        cr_assert_eq(stretto_forward(run, 1, field, 2, then, 10), 0, "%s", stretto_error());
        cr_expect_eq(memcmp(first, then, sizeof then), 0, "%zu: as it was", i);
        stretto_close(&run);
    }
    unlink(path);
}

/* A head of zeros has the loss log 10: passes of steps that overlap read no version from before. */
Test(run_library, values_that_are_set_have_no_older_versions) {
    static const float zero[WEIGHTS];
    char path[] = "/tmp/stretto-library-XXXXXX";
    close(mkstemp(path));
    struct stretto_step step = {.size = sizeof step};
    struct stretto_run *run =
        open_with((const char *[]){MLP, "--epochs", "2", "--strategy", "pipedream-2bw", "--stages",
                                   "2", "--micro-batches", "2", NULL});
    cr_assert_eq(stretto_step(run, &step), 0, "%s", stretto_error());
    cr_assert_eq(stretto_set(run, "fc3.weight", zero, sizeof zero), 0, "%s", stretto_error());
    cr_assert_eq(stretto_set(run, "fc3.bias", zero, 10 * sizeof zero[0]), 0);
    cr_assert_eq(stretto_save(run, path), 0, "%s", stretto_error());
    cr_assert_eq(stretto_step(run, &step), 0, "%s", stretto_error());
    cr_expect_float_eq(step.loss, log(10), 1e-6, "set: %.17g", step.loss);
    cr_expect(step.grad_norm > 0, "of all stages: %.17g", step.grad_norm);
    cr_assert_eq(stretto_step(run, &step), 0, "%s", stretto_error());
    cr_assert_eq(stretto_load(run, path), 0, "%s", stretto_error());
    cr_assert_eq(stretto_step(run, &step), 0, "%s", stretto_error());
    cr_expect_float_eq(step.loss, log(10), 1e-6, "loaded: %.17g", step.loss);
    stretto_close(&run);
    unlink(path);
}

/* What a run may be asked for later is in its prediction; what it is not, is not. */
Test(run_library, memory_is_for_what_is_asked) {
    static const char *const words[] = {"--model",  "mlp", "--threads", "1",
                                        "--device", "ref", NULL};
    int64_t bytes[3];
    for (int i = 0; i < 3; i++) {
        struct stretto_config config = {.size = sizeof config,
                                        .options = words,
                                        .forward_only = 1,
                                        .forward_batch = i == 0   ? 0
                                                         : i == 1 ? 64
                                                                  : 1};
        struct stretto_eval eval = {.size = sizeof eval};
        struct stretto_run *run;
        cr_assert_eq(stretto_open(&config, &run), 0, "%s", stretto_error());
        bytes[i] = library_planned(run)->plan->memory.activations;
        cr_assert_eq(stretto_evaluate(run, &eval), 0, "%s", stretto_error());
        cr_expect_eq(eval.samples, 297);
        stretto_close(&run);
    }
    cr_expect_eq(bytes[0], bytes[1], "%lld, %lld", (long long)bytes[0], (long long)bytes[1]);
    static const char *const more[] = {"--batch 4", "--batch 4 --eval-batch 1"};
    int64_t of_training[2];
    for (int i = 0; i < 2; i++) {
        struct stretto_config config = {.size = sizeof config, .options = words, .words = more[i]};
        struct stretto_eval eval = {.size = sizeof eval};
        struct stretto_run *run;
        cr_assert_eq(stretto_open(&config, &run), 0, "%s", stretto_error());
        of_training[i] = library_planned(run)->plan->memory.activations;
        cr_assert_eq(stretto_evaluate(run, &eval), 0, "%s", stretto_error());
        cr_expect_eq(eval.samples, 297);
        stretto_close(&run);
    }
    cr_expect_lt(of_training[1] * 4, of_training[0], "%lld, %lld", (long long)of_training[1],
                 (long long)of_training[0]);
    cr_expect_lt(bytes[2] * 32, bytes[0], "%lld, %lld", (long long)bytes[2], (long long)bytes[0]);
    struct stretto_run *run = open_with(words);
    const struct plan *plan = library_planned(run)->plan;
    cr_expect_geq(plan->memory.staging, 3 * 64 * 128 * sizeof(float), "the file's largest tensor");
    stretto_close(&run);
}

/* A device or a pipe is no place for a file: it would be gone. */
Test(run_library, a_file_takes_no_place_of_a_pipe) {
    char folder[] = "/tmp/stretto-library-XXXXXX", pipe[64];
    struct stat info;
    cr_assert(mkdtemp(folder));
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    struct stretto_run *run = open_mlp();
    cr_expect_eq(stretto_save(run, pipe), STRETTO_DATA);
    cr_expect(strstr(stretto_error(), "not a regular file"), "%s", stretto_error());
    cr_expect(stat(pipe, &info) == 0 && S_ISFIFO(info.st_mode));
    step_to_end(run);
    stretto_close(&run);
    unlink(pipe);
    rmdir(folder);
}

/* --- several runs --- */

static void *train_one(void *argument) {
    train(replicas[1], argument);
    return NULL;
}

Test(run_library, runs_at_once_and_one_after_another, .timeout = 120) {
    struct answer alone, beside[2];
    pthread_t thread[2];
    train(replicas[1], &alone);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, train_one, &beside[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) cr_expect_eq(memcmp(&alone, &beside[i], sizeof alone), 0);
}

struct shared {
    struct stretto_run *run;
    int steps;
};

static void *step_some(void *argument) {
    struct shared *shared = argument;
    struct stretto_step step = {.size = sizeof step};
    while (stretto_step(shared->run, &step) == 0) shared->steps++;
    return NULL;
}

/* Threads that use one run take turns; each has its own last error. */
Test(run_library, one_run_of_several_threads, .timeout = 60) {
    struct shared first = {.run = open_mlp()}, second = first;
    struct stretto_tensor tensor = {.size = sizeof tensor};
    pthread_t thread;
    cr_expect_eq(stretto_tensor_find(first.run, "nothing", &tensor), STRETTO_USAGE);
    cr_assert_eq(pthread_create(&thread, NULL, step_some, &second), 0);
    step_some(&first);
    pthread_join(thread, NULL);
    cr_expect_eq(first.steps + second.steps, 3);
    cr_expect(strstr(stretto_error(), "nothing"), "%s", stretto_error());
    stretto_close(&first.run);
}

/* A child of fork has none of the threads that a run of its parent computes on. */
Test(run_library, a_child_of_fork_opens_its_own, .timeout = 60) {
#ifdef __SANITIZE_THREAD__
    cr_skip("the thread sanitizer ends with threads of a forked child");
#endif
    struct stretto_run *run = open_mlp();
    struct stretto_step step = {.size = sizeof step};
    int how;
    pid_t child = fork();
    if (child == 0) {
        bool refused = stretto_step(run, &step) == STRETTO_USAGE && strstr(stretto_error(), "fork");
        stretto_close(&run);
        struct stretto_run *own = open_mlp();
        bool steps = stretto_step(own, &step) == 0;
        stretto_close(&own);
        _exit(refused && !run && steps ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &how, 0), child);
    cr_expect_eq(how, 0, "the child ended with %x", (unsigned)how);
    step_to_end(run);
    stretto_close(&run);
}

static void take_log(void *context, int level, const char *text) {
    char *said = context;
    if (level == STRETTO_LOG_NOTE || level == STRETTO_LOG_WARNING) strncat(said, text, 500);
}

Test(run_library, messages_are_for_who_asks) {
    char said[2048] = "", errors[256];
    const char *words[] = {MLP, NULL};
    struct stretto_config config = {
        .size = sizeof config, .options = words, .log = take_log, .log_context = said};
    struct stretto_run *run;
    char path[] = "/tmp/stretto-library-XXXXXX";
    close(mkstemp(path));
    log_capture(errors, sizeof errors);
    cr_assert_eq(stretto_open(&config, &run), 0);
    cr_assert_eq(stretto_save(run, path), 0);
    cr_assert_eq(stretto_load(run, path), 0);
    cr_expect(strstr(said, "6 tensors"), "%s", said);
    stretto_close(&run);
    log_capture(NULL, 0);
    cr_expect_str_eq(errors, "");
    unlink(path);
}
