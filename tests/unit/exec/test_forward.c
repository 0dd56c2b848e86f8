/* A forward program: the bits of an evaluation in training, the outputs of each batch in order, and
 * memory for nothing else. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kit.h"

#define BN "--model resnet8 --data digits --threads 1 --steps 3 --batch 48 --micro-batch-size 16 "
#define GPT                                                                                        \
    "--model gpt2-nano --data synthetic:kind=text,count=16,test_count=70,vocab=64 --seq 8 "        \
    "--threads 1 --steps 2 --batch 4 "

/* The same options, of a command that uses what they trained. */
static struct kit_run *open_forward(const char *line) {
    struct kit_run *run = MEM_NEW(struct kit_run);
    kit_options(line, &run->options);
    run->options.command = COMMAND_EVAL;
    cr_assert_eq(kit_plan(&run->options, 0, 1, NULL, &run->planned), STATUS_OK);
    run->state = train_fresh();
    cr_assert_eq(kit_engine(run->planned.plan, &run->state, NULL, &run->engine), STATUS_OK);
    return run;
}

struct seen {
    int64_t samples, right, rounds;
};

static enum status look(void *context, const struct engine_output *output) {
    struct seen *seen = context;
    for (int64_t i = 0; i < output->samples; i++) {
        cr_assert_eq(output->sample_id[i], seen->samples++);
        for (int64_t r = 0; r < output->rows; r++) {
            const float *scores = output->scores + (i * output->rows + r) * output->classes;
            int64_t best = 0;
            for (int64_t c = 1; c < output->classes; c++)
                if (scores[c] > scores[best]) best = c;
            seen->right += best == output->labels[i * output->rows + r];
        }
    }
    return STATUS_OK;
}

static enum status count_rounds(void *context, int64_t samples) {
    struct seen *seen = context;
    cr_expect_eq(samples, ++seen->rounds * 64);
    return STATUS_OK;
}

static void check_memory(const struct plan *forward, const struct plan *training) {
    cr_expect_eq(forward->memory.gradients, 0);
    cr_expect_eq(forward->memory.state, 0);
    cr_expect_gt(training->memory.gradients, 0);
    cr_expect_eq(forward->memory.params, training->memory.params);
    cr_expect_lt(forward->memory.loader, training->memory.loader);
    for (int l = 0; l < LIST_COUNT; l++)
        cr_expect_eq(program_list(forward->program, 0, (enum list_name)l)->count > 0,
                     l == LIST_EVAL || l == LIST_EVAL_END, "list %s", list_names[l]);
}

static void check_line(const char *line, int64_t samples, int64_t labels) {
    char *folder = kit_folder(), *path = mem_format("%s/model.safetensors", folder);
    struct kit_run *trained = kit_open("%s", line), *forward = open_forward(line);
    struct eval_result want, have;
    kit_steps(trained, -1);
    cr_assert_eq(engine_evaluate(trained->engine, &want), STATUS_OK);
    cr_assert_eq(checkpoint_write_model(trained->engine, path, NULL), STATUS_OK);
    cr_assert_eq(checkpoint_load_model(forward->engine, path), STATUS_OK);
    cr_assert_eq(engine_start(forward->engine), STATUS_OK);
    struct seen seen = {0};
    struct engine_sink sink = {.context = &seen, .output = look, .round = count_rounds};
    cr_assert_eq(engine_forward(forward->engine, &sink, &have), STATUS_OK);
    cr_expect_eq(have.loss, want.loss);
    cr_expect_eq(have.acc1, want.acc1);
    cr_expect_eq(have.acc5, want.acc5);
    cr_expect_eq(have.term[0], have.loss);
    cr_expect_eq(seen.samples, samples);
    cr_expect_eq((double)seen.right / (double)labels, have.acc1);
    cr_expect_eq(seen.rounds, (samples - 1) / 64);
    check_memory(forward->planned.plan, trained->planned.plan);
    kit_close(&trained);
    kit_close(&forward);
    folder_remove(folder);
    free(path);
    free(folder);
}

Test(exec_forward, gives_the_bits_of_an_evaluation_and_its_outputs) {
    check_line(BN, 297, 297);
}

Test(exec_forward, words_have_a_row_of_scores_for_each_position) {
    check_line(GPT, 70, 70 * 8);
}

/* What a model lacks in the file is no initial value: it would be used as if it had been trained.
 */
Test(exec_forward, a_model_is_loaded_whole_or_not_at_all) {
    char *folder = kit_folder(), *path = mem_format("%s/model.safetensors", folder),
         said[1024] = "";
    struct kit_run *small = kit_open("--model resnet8 --threads 1 --steps 1"),
                   *large = open_forward("--model resnet20 --threads 1 --steps 1");
    cr_assert_eq(checkpoint_write_model(small->engine, path, NULL), STATUS_OK);
    uint64_t before, after;
    cr_assert_eq(engine_param_hash(large->engine, &before), STATUS_OK);
    log_capture(said, sizeof said);
    cr_expect_eq(checkpoint_load_model(large->engine, path), STATUS_DATA);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "not this model") && strstr(said, "missing"), "%s", said);
    cr_assert_eq(engine_param_hash(large->engine, &after), STATUS_OK);
    cr_expect_eq(before, after);
    kit_close(&small);
    kit_close(&large);
    folder_remove(folder);
    free(path);
    free(folder);
}
