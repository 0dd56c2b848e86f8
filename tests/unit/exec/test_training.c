/* Training steps: the same bits again, for each way of spreading a batch over micro-batches and
 * replicas, and with backward as one pass or two. Logic is tested on ref with the smallest model;
 * batch norm and shared weights on cpu. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../program/between.h"
#include "base/log.h"
#include "exec/state.h"
#include "kit.h"

#define MLP "--model mlp --data digits --device ref --threads 1 "
#define BN "--model resnet8 --data digits --device cpu --threads 1 "
#define BERT                                                                                       \
    "--model bert-tiny --data synthetic:count=40,test_count=8,seq=16,predictions=3,vocab=100 "     \
    "--device cpu --threads 1 "

static uint64_t hash_of(const char *line) {
    struct kit_run *run = kit_open("%s", line);
    kit_steps(run, -1);
    uint64_t hash = kit_hash(run);
    kit_close(&run);
    return hash;
}

Test(exec_training, the_same_seed_gives_the_same_bits) {
    static const char *const lines[] = {MLP "--steps 26 --dropout 0.2 --batch 64",
                                        BN "--steps 3 --batch 16 --deal 1x2",
                                        BERT "--steps 6 --batch 8 --micro-batches 2"};
    for (int i = 0; i < 3; i++) {
        uint64_t first = hash_of(lines[i]);
        cr_expect_eq(first, hash_of(lines[i]), "%s", lines[i]);
        char other[512];
        snprintf(other, sizeof other, "%s --seed 1", lines[i]);
        cr_expect_neq(first, hash_of(other), "%s", other);
    }
}

Test(exec_training, training_learns) {
    struct kit_run *run = kit_open(MLP "--steps 100 --lr 0.1");
    double first = kit_steps(run, 1).loss, last = kit_steps(run, -1).loss;
    cr_expect_float_eq(first, log(10), 0.2);
    cr_expect_lt(last, 0.4 * first);
    kit_close(&run);
}

/* Each micro-batch's loss and gradient are parts of the batch's: the first step has the same loss
 * however it is cut, and the same parameters after it but for roundings. */
Test(exec_training, micro_batches_add_up_to_the_batch) {
    struct kit_run *whole = kit_open(MLP "--steps 24");
    static const char *const cuts[] = {"--micro-batches 2", "--micro-batches 64", "--deal 4x4",
                                       "--deal 8x1 --sum tree", "--deal 2x4 --sum replicas-first"};
    struct step_result want = kit_steps(whole, 1);
    kit_steps(whole, -1); /* with the short last step of 28 */
    for (int i = 0; i < 5; i++) {
        struct kit_run *cut = kit_open(MLP "--steps 24 %s", cuts[i]);
        struct step_result got = kit_steps(cut, 1);
        cr_expect_float_eq(got.loss, want.loss, 1e-6, "%s", cuts[i]);
        cr_expect_float_eq(got.acc1, want.acc1, 1e-12);
        cr_expect_float_eq(got.grad_norm, want.grad_norm, 1e-5);
        cr_expect_eq(got.samples, want.samples);
        kit_steps(cut, -1);
        cr_expect_lt(kit_distance(whole, cut), 1e-5, "%s", cuts[i]);
        kit_close(&cut);
    }
    kit_close(&whole);
}

Test(exec_training, deals_of_one_total_agree) {
    struct kit_run *a = kit_open(MLP "--steps 30 --deal 1x4");
    struct kit_run *b = kit_open(MLP "--steps 30 --deal 2x2");
    kit_steps(a, -1);
    kit_steps(b, -1);
    cr_expect_lt(kit_distance(a, b), 1e-5);
    kit_close(&a);
    kit_close(&b);
}

/* The tree over all micro-batches does not know of replicas. */
Test(exec_training, sum_tree_has_the_same_bits_for_every_deal) {
    static const char *const models[] = {MLP "--steps 26 --dropout 0.1 --batch 32",
                                         BERT "--steps 6 --batch 8"};
    for (int m = 0; m < 2; m++) {
        char line[512];
        uint64_t hash[3];
        static const char *const deals[] = {"4x1", "2x2", "1x4"};
        for (int d = 0; d < 3; d++) {
            snprintf(line, sizeof line, "%s --sum tree --deal %s", models[m], deals[d]);
            hash[d] = hash_of(line);
        }
        cr_expect(hash[0] == hash[1] && hash[1] == hash[2], "%s", models[m]);
    }
}

/* --- programs by hand --- */

/* Without its list last, which the plan then builds. */
static char *own_program(const char *line) {
    struct kit_run *run = kit_open("%s", line);
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    program_set_last(run->planned.plan->program, NULL);
    program_print(run->planned.plan->program, stream);
    fclose(stream);
    kit_close(&run);
    return text;
}

static uint64_t hash_with_program(const char *line, const char *text) {
    char path[] = "/tmp/stretto-program-XXXXXX", longer[768];
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    snprintf(longer, sizeof longer, "%s --program %s", line, path);
    uint64_t hash = hash_of(longer);
    unlink(path);
    return hash;
}

/* Each line through `edit`, which prints what stands in its place. */
static char *edited(const char *text, void (*edit)(FILE *out, const char *line)) {
    char *copy = mem_text(text), *state = NULL, *result = NULL;
    size_t bytes;
    FILE *out = open_memstream(&result, &bytes);
    for (char *line = strtok_r(copy, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
        edit(out, line);
    fclose(out);
    free(copy);
    return result;
}

static void halve(FILE *out, const char *line) {
    int id, stage, micro, slot, grad, end = 0;
    if (sscanf(line, "#%d r0 B s%d m%d a%d g%d%n", &id, &stage, &micro, &slot, &grad, &end) < 5) {
        fprintf(out, "%s\n", line);
        return;
    }
    fprintf(out, "#%d r0 I s%d m%d a%d\n", id, stage, micro, slot);
    fprintf(out, "#%d r0 W s%d m%d a%d g%d%s\n", id, stage, micro, slot, grad, line + end);
}

static const char *const split_lines[] = {
    MLP "--steps 5 --deal 2x2", MLP "--steps 25 --dropout 0.1",
    BN "--steps 3 --batch 16 --deal 2x2", BERT "--steps 5 --batch 8 --deal 1x2"};

Test(exec_training, backward_in_two_halves_has_the_same_bits) {
    for (int i = 0; i < 4; i++) {
        char *text = own_program(split_lines[i]), *halves = edited(text, halve);
        cr_expect(strstr(halves, " I s0") && strstr(halves, " W s0") && !strstr(halves, " B s0"));
        cr_expect_eq(hash_of(split_lines[i]), hash_with_program(split_lines[i], halves), "%s",
                     split_lines[i]);
        free(text);
        free(halves);
    }
}

/* As a pipeline would: all forwards, all input halves, then all weight halves, a slot for each. */
static char *spread_program(int micro_batches) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    int id = 0;
    fprintf(out,
            "stretto program 5\nranks 1 stages 1 replicas 1 micro-batches %d sum replica\n"
            "groups world\nrank 0 slots %d grads 1 buckets 1\n" BETWEEN("0") "rank 0 body\n",
            micro_batches, micro_batches);
    fprintf(out, "#%d r0 COUNT q0\n", id++);
    for (int m = 0; m < micro_batches; m++)
        fprintf(out, "#%d r0 LOAD s0 m%d a%d\n#%d r0 F s0 m%d a%d\n", 2 * m + 1, m, m, 2 * m + 2, m,
                m);
    id += 2 * micro_batches;
    for (int m = micro_batches - 1; m >= 0; m--) fprintf(out, "#%d r0 I s0 m%d a%d\n", id++, m, m);
    for (int m = 0; m < micro_batches; m++)
        fprintf(out, "#%d r0 W s0 m%d a%d g0%s\n", id++, m, m, m ? "" : " new");
    fprintf(out, "#%d r0 TIE s0 g0\n#%d r0 REPORT q0\n#%d r0 NORM g0\n#%d r0 STEP g0 clip\n", id,
            id + 1, id + 2, id + 3);
    fclose(out);
    return text;
}

Test(exec_training, several_micro_batches_under_way_have_the_same_bits) {
    static const char *const lines[] = {MLP "--steps 25 --micro-batches 4 --dropout 0.1",
                                        BN "--steps 3 --batch 16 --micro-batches 4",
                                        BERT "--steps 5 --batch 8 --micro-batches 4"};
    char *text = spread_program(4);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(hash_of(lines[i]), hash_with_program(lines[i], text), "%s", lines[i]);
    free(text);
}

static void double_harmless(FILE *out, const char *line) {
    bool twice = strstr(line, " COUNT") || strstr(line, " NORM");
    fprintf(out, "%s\n%s%s", line, twice ? line : "", twice ? "\n" : "");
}

/* The verifier takes a second COUNT and a second NORM: this is why it may. */
Test(exec_training, counting_twice_changes_nothing) {
    const char *line = MLP "--steps 5 --deal 2x2 --clip 0.1";
    char *text = own_program(line), *twice = edited(text, double_harmless);
    cr_expect_eq(hash_of(line), hash_with_program(line, twice));
    free(text);
    free(twice);
}

/* Counts, reports and evaluates by itself. */
static void name_no_group(FILE *out, const char *line) {
    const char *group = strstr(line, " COUNT q0") || strstr(line, " REPORT q0")
                            ? strstr(line, " q0")
                            : line + strlen(line);
    fprintf(out, "%.*s\n", (int)(group - line), line);
}

Test(exec_training, one_rank_needs_no_group_to_count_and_report) {
    const char *line = MLP "--steps 25 --deal 2x2 --clip 0.1 --eval-every 1";
    char *text = own_program(line), *alone = edited(text, name_no_group);
    cr_expect(strstr(alone, " COUNT\n") && strstr(alone, " REPORT\n"), "%s", alone);
    cr_expect_eq(hash_of(line), hash_with_program(line, alone));
    free(text);
    free(alone);
}

Test(exec_training, a_program_for_another_deal_is_refused) {
    char *text = own_program(MLP "--deal 2x2"), said[512] = "";
    struct kit_run *run = kit_open(MLP "--deal 1x4");
    struct plan *plan = NULL;
    struct bytes bytes = {(unsigned char *)text, strlen(text)};
    log_capture(said, sizeof said);
    cr_expect_eq(plan_new(&run->planned.plan->config,
                          &(struct plan_given){.name = "p.txt", .program = &bytes}, &plan),
                 STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "p.txt") && strstr(said, "replicas 2, this run 1"), "%s", said);
    kit_close(&run);
    run = kit_open(MLP "--deal 2x2 --sum tree");
    log_capture(said, sizeof said);
    cr_expect_eq(plan_new(&run->planned.plan->config,
                          &(struct plan_given){.name = "p.txt", .program = &bytes}, &plan),
                 STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "--sum replica"), "%s", said);
    kit_close(&run);
    free(text);
}

/* --- gradients by hand --- */

struct by_hand {
    struct engine *engine;
    int checked;
    int64_t samples;
};

static void layer(const struct store *store, int param, const float *x, bool relu, float *y) {
    const struct shape *shape = &store->layout->params[param].type.shape;
    int64_t rows = shape->dim[0], columns = shape->dim[1];
    int params = state_array(store->layout, ARRAY_PARAM, 0);
    float *weight = MEM_ARRAY(float, rows *columns), *bias = MEM_ARRAY(float, rows);
    cr_assert_eq(store_get(store, params, param, weight), STATUS_OK);
    cr_assert_eq(store_get(store, params, param + 1, bias), STATUS_OK);
    for (int64_t r = 0; r < rows; r++) {
        double sum = bias[r];
        for (int64_t c = 0; c < columns; c++) sum += (double)weight[r * columns + c] * x[c];
        y[r] = relu && sum < 0 ? 0 : (float)sum;
    }
    free(weight);
    free(bias);
}

/* The perceptron's gradient of the last bias: the mean over the step's samples of p - onehot. */
static void expected_bias_gradient(const struct engine *engine, double out[10], int64_t *samples) {
    const struct store *store = engine->store;
    int image = dataset_field(engine->plan->config.dataset, "image");
    int label = dataset_field(engine->plan->config.dataset, "label");
    memset(out, 0, 10 * sizeof out[0]);
    *samples = 0;
    for (int m = 0; m < engine->step->batch->micro_count; m++) {
        const struct micro_batch *micro = &engine->step->batch->micro[m];
        for (int64_t s = 0; s < micro->samples; s++, ++*samples) {
            float a[128], b[64], c[10];
            layer(store, 0, (const float *)micro->field[image] + s * 64, true, a);
            layer(store, 2, a, true, b);
            layer(store, 4, b, false, c);
            double total = 0;
            for (int k = 0; k < 10; k++) total += exp(c[k]);
            for (int k = 0; k < 10; k++) out[k] += exp(c[k]) / total;
            out[((const int32_t *)micro->field[label])[s]] -= 1;
        }
    }
    for (int k = 0; k < 10; k++) out[k] /= (double)*samples;
}

static void check_bias(void *context, const struct instr *instr, int64_t step, int64_t begin,
                       int64_t end) {
    struct by_hand *hand = context;
    (void)step, (void)begin, (void)end;
    if (instr->op != INSTR_NORM) return;
    double want[10];
    expected_bias_gradient(hand->engine, want, &hand->samples);
    const struct store *store = hand->engine->store;
    float got[10];
    int gradients = state_array(store->layout, ARRAY_GRAD, instr->grad);
    cr_assert_eq(store_get(store, gradients, 5, got), STATUS_OK);
    for (int k = 0; k < 10; k++)
        cr_expect_float_eq(got[k], want[k], 1e-6, "%d samples, class %d: %g, by hand %g",
                           (int)hand->samples, k, got[k], want[k]);
    hand->checked++;
}

/* Every step is normalised by its own count, the short last one too; micro-batches without samples
 * are skipped. */
Test(exec_training, the_short_last_step_has_the_gradient_of_its_samples) {
    static const char *const deals[] = {"1x1", "1x4", "4x1", "2x8"};
    for (int d = 0; d < 4; d++) {
        struct by_hand hand = {0};
        struct engine_observer observer = {.context = &hand, .instr = check_bias};
        struct kit_run *run = kit_open_watched(
            &observer,
            "--model mlp --data synthetic:count=38,test_count=4,size=8,channels=1,classes=10 "
            "--device ref --threads 1 --batch 16 --epochs 2 --deal %s",
            deals[d]);
        hand.engine = run->engine;
        cr_assert_eq(run->planned.plan->config.steps_per_epoch, 3);
        for (int step = 0; step < 6; step++) {
            struct step_result result = kit_steps(run, 1);
            int64_t want = step % 3 < 2 ? 16 : (strcmp(deals[d], "4x1") ? 6 : 8); /* padded to R */
            cr_expect_eq(result.samples, want, "%s", deals[d]);
            cr_expect_eq(hand.samples, want);
            cr_expect_eq(result.step, step);
            cr_expect_eq(result.epoch, step / 3);
            cr_expect_eq(result.step_in_epoch, step % 3);
        }
        cr_expect_eq(hand.checked, 6);
        kit_close(&run);
    }
}

/* The norm of what lies between the parameters of two runs. */
static double moved(const struct kit_run *from, const struct kit_run *to) {
    const struct state_layout *layout = engine_store(from->engine)->layout;
    double squares = 0;
    for (int p = 0; p < layout->param_count; p++) {
        int64_t count;
        float *a = kit_param(from, layout->params[p].name, &count),
              *b = kit_param(to, layout->params[p].name, &count);
        for (int64_t i = 0; i < count; i++) squares += pow((double)b[i] - a[i], 2);
        free(a);
        free(b);
    }
    return sqrt(squares);
}

Test(exec_training, clipping_scales_to_the_limit) {
    const char *common = MLP "--steps 3 --momentum 0 --weight-decay 0 --warmup 0 --lr-policy const "
                             "--lr 0.5";
    struct kit_run *start = kit_open("%s", common), *free_run = kit_open("%s", common);
    struct kit_run *clipped = kit_open("%s --clip 0.01", common);
    struct kit_run *loose = kit_open("%s --clip 1000", common);
    struct step_result a = kit_steps(free_run, 1), b = kit_steps(clipped, 1);
    kit_steps(loose, 1);
    cr_expect_eq(a.grad_norm, b.grad_norm, "the norm is told before clipping");
    cr_expect_gt(a.grad_norm, 0.01);
    cr_expect_float_eq(moved(start, clipped), 0.5 * 0.01, 1e-5);
    cr_expect_eq(kit_hash(loose), kit_hash(free_run));
    kit_close(&start);
    kit_close(&free_run);
    kit_close(&clipped);
    kit_close(&loose);
}

/* --- running statistics --- */

struct tracked {
    struct engine *engine;
    uint64_t hash;
    int moved[8], seen;
};

static void watch_buffers(void *context, const struct instr *instr, int64_t step, int64_t begin,
                          int64_t end) {
    struct tracked *tracked = context;
    (void)step, (void)begin, (void)end;
    if (instr->op != INSTR_F) return;
    uint64_t now;
    cr_assert_eq(store_buffer_hash(tracked->engine->store, &now), STATUS_OK);
    tracked->moved[instr->micro] += now != tracked->hash;
    tracked->hash = now;
    tracked->seen++;
}

Test(exec_training, running_statistics_are_replica_0s) {
    struct tracked tracked = {0};
    struct engine_observer observer = {.context = &tracked, .instr = watch_buffers};
    struct kit_run *run = kit_open_watched(&observer, BN "--steps 2 --batch 16 --deal 2x2");
    const struct store *store = engine_store(run->engine);
    tracked.engine = run->engine;
    cr_assert_eq(store_buffer_hash(store, &tracked.hash), STATUS_OK);
    kit_steps(run, -1);
    cr_expect_eq(tracked.seen, 8);
    cr_expect(tracked.moved[0] == 2 && tracked.moved[1] == 2 && tracked.moved[2] == 0 &&
              tracked.moved[3] == 0);
    int counters = 0;
    int buffers = state_array(store->layout, ARRAY_BUFFER, 0);
    for (int b = 0; b < store->layout->buffer_count; b++) {
        const char *name = store->layout->buffers[b].name;
        if (!strstr(name, "num_batches_tracked")) continue;
        int64_t count;
        cr_assert_eq(store_get(store, buffers, b, &count), STATUS_OK);
        cr_expect_eq(count, 4, "%s: %d", name, (int)count);
        counters++;
    }
    cr_expect_gt(counters, 5);
    kit_close(&run);
}

/* --- evaluation --- */

Test(exec_training, evaluation_counts_each_sample_once) {
    struct eval_result first = {0};
    static const char *const batches[] = {"--batch 64", "--batch 297", "--batch 100",
                                          "--batch 1000", "--batch 64 --deal 2x2"};
    for (int i = 0; i < 5; i++) {
        struct kit_run *run = kit_open(MLP "--steps 1 --lr 0 --weight-decay 0 %s", batches[i]);
        struct eval_result before, after, again;
        cr_assert_eq(engine_evaluate(run->engine, &before), STATUS_OK);
        kit_steps(run, -1); /* learning rate 0: evaluation and training do not disturb each other */
        cr_assert_eq(engine_evaluate(run->engine, &after), STATUS_OK);
        cr_assert_eq(engine_evaluate(run->engine, &again), STATUS_OK);
        cr_expect_eq(before.samples, 297);
        cr_expect_eq(after.loss, before.loss);
        cr_expect_eq(again.loss, before.loss);
        cr_expect_float_eq(before.acc1 * 297, round(before.acc1 * 297), 1e-9);
        if (i == 0) first = before;
        cr_expect_float_eq(before.loss, first.loss, 1e-6, "%s", batches[i]);
        cr_expect_eq(before.acc1, first.acc1);
        cr_expect_eq(before.acc5, first.acc5);
        kit_close(&run);
    }
}

/* With batch norm: evaluating must leave the running statistics alone. */
Test(exec_training, evaluation_changes_nothing) {
    struct kit_run *run = kit_open(BN "--steps 1 --batch 16");
    struct eval_result eval;
    kit_steps(run, -1);
    uint64_t hash = kit_hash(run);
    cr_assert_eq(engine_evaluate(run->engine, &eval), STATUS_OK);
    cr_expect_eq(hash, kit_hash(run));
    cr_expect_eq(eval.samples, 297);
    kit_close(&run);
}

/* --- what is told of posted operations --- */

struct told {
    int64_t counted_ns, load_ns; /* when COUNT of this step was done, and LOAD began */
    int early, steps;            /* steps in which that was before LOAD; all */
};

static void note_posted(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                        int64_t end_ns) {
    struct told *told = context;
    (void)step;
    cr_expect(begin_ns > 0 && begin_ns <= end_ns, "%s", instr_row(instr)->name);
    if (instr->op == INSTR_COUNT) told->counted_ns = end_ns;
}

static void note_load(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                      int64_t end_ns) {
    struct told *told = context;
    (void)step, (void)end_ns;
    if (instr->op == INSTR_LOAD) told->load_ns = begin_ns;
    if (instr->op != INSTR_STEP) return;
    told->steps++;
    told->early += told->counted_ns <= told->load_ns;
}

/* With one rank COUNT is done when it is posted. LOAD comes next; B is the first to await it. */
Test(exec_training, an_operation_ends_when_it_is_done_not_when_it_is_awaited) {
    struct told told = {0};
    struct engine_observer observer = {.context = &told, .instr = note_load, .posted = note_posted};
    struct kit_run *run = kit_open_watched(&observer, MLP "--steps 3");
    kit_steps(run, -1);
    cr_expect(told.steps == 3 && told.early == 3, "%d of %d", told.early, told.steps);
    kit_close(&run);
}

/* Where the schedule makes the short last step of an epoch, groups mean the same in it. */
Test(exec_training, groups_of_a_given_program_are_those_of_the_last_step) {
    const char *line = MLP "--steps 25";
    char *text = own_program(line), *at = strstr(text, "groups world\n"), said[512] = "";
    cr_assert_not_null(at);
    char *other = mem_format("%.*sgroups pipeline world\n%s", (int)(at - text), text,
                             at + strlen("groups world\n"));
    for (char *q = strstr(other, "rank 0 body"); (q = strstr(q, " q0")); q++) q[2] = '1';
    struct kit_run *run = kit_open("%s", line);
    struct plan *plan = NULL;
    struct bytes bytes = {(unsigned char *)other, strlen(other)};
    log_capture(said, sizeof said);
    cr_expect_eq(plan_new(&run->planned.plan->config,
                          &(struct plan_given){.name = "p.txt", .program = &bytes}, &plan),
                 STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "\"pipeline world\"") && strstr(said, "short last step"), "%s", said);
    kit_close(&run);
    free(other);
    free(text);
}

/* --- drain --- */

static void count_broadcasts(void *context, const struct instr *instr, int64_t step, int64_t begin,
                             int64_t end) {
    (void)step, (void)begin, (void)end;
    *(int *)context += instr->op == INSTR_BCAST;
}

/* No schedule has anything to drain yet: here a program is given something that can be seen. */
Test(exec_training, drain_is_run) {
    int seen = 0;
    struct engine_observer observer = {.context = &seen, .instr = count_broadcasts};
    struct kit_run *run = kit_open_watched(&observer, MLP "--steps 2");
    struct rank_program *own = program_edit(run->planned.plan->program, 0);
    program_add(own, LIST_DRAIN, INSTR_BCAST);
    uint64_t before = kit_hash(run);
    cr_assert_eq(engine_drain(run->engine), STATUS_OK);
    cr_expect_eq(seen, 1);
    cr_expect_eq(kit_hash(run), before, "a broadcast to oneself changes nothing");
    kit_close(&run);
}
