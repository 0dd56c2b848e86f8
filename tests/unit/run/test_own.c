/* Models, operations, losses and data sets of a program's own: what is refused, and that they train
 * as built-in ones do. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "stretto.h"

enum { PIXELS = 12, CLASSES = 3, HIDDEN = 20 };

/* --- data --- */

static int read_sample(void *context, int split, int64_t index, uint64_t key, void *const out[]) {
    const int64_t *bad = context; /* a sample that cannot be read, one whose label is none */
    float *x = out[0];
    (void)key;
    for (int i = 0; i < PIXELS; i++)
        x[i] = (float)((index * 7 + i * 13 + split) % 17) / 17 + (float)(index % CLASSES);
    *(int32_t *)out[1] = (int32_t)(index % CLASSES);
    *(float *)out[2] = sinf((float)index);
    if (bad && index == bad[1]) *(int32_t *)out[1] = 77;
    return bad && index == bad[0] ? 9 : 0;
}

static const struct stretto_field fields[] = {
    {.name = "x", .dtype = STRETTO_F32, .rank = 1, .dim = {PIXELS}},
    {.name = "kind", .dtype = STRETTO_I32, .label = 1, .limit = CLASSES},
    {.name = "height", .dtype = STRETTO_F32, .label = 1}};

static struct stretto_data data_of(const char *name) {
    return (struct stretto_data){.size = sizeof(struct stretto_data),
                                 .name = name,
                                 .fields = fields,
                                 .field_count = 3,
                                 .train_count = 96,
                                 .test_count = 30,
                                 .classes = CLASSES,
                                 .read = read_sample};
}

static void add_data(const char *name, int64_t *bad) {
    struct stretto_data data = data_of(name);
    data.context = bad;
    cr_assert_eq(stretto_add_data(&data), 0, "%s", stretto_error());
}

Test(run_own, data_that_are_not_whole_are_refused) {
    static const struct stretto_field no_limit = {.name = "kind", .dtype = STRETTO_I32},
                                      no_type = {.name = "kind", .dtype = STRETTO_I64},
                                      no_room = {.name = "kind", .rank = 1};
    struct stretto_data rows[10];
    static const char *const says[] = {"size 0",      "needs a name",  "without colon", "no read",
                                       "0 fields",    "0 training",    "limit 0",       "type 5",
                                       "dimension 0", "digits already"};
    for (int i = 0; i < 10; i++) rows[i] = data_of("ours");
    rows[0].size = 0;
    rows[1].name = NULL;
    rows[2].name = "a:b";
    rows[3].read = NULL;
    rows[4].field_count = 0;
    rows[5].train_count = 0;
    rows[6].fields = &no_limit, rows[6].field_count = 1;
    rows[7].fields = &no_type, rows[7].field_count = 1;
    rows[8].fields = &no_room, rows[8].field_count = 1;
    rows[9].name = "digits";
    for (int i = 0; i < 10; i++) {
        cr_expect_eq(stretto_add_data(&rows[i]), STRETTO_USAGE);
        cr_expect(strstr(stretto_error(), says[i]), "%d: %s", i, stretto_error());
    }
    cr_expect_eq(stretto_add_data(NULL), STRETTO_USAGE);
    add_data("ours", NULL);
    struct stretto_data again = data_of("ours");
    cr_expect_eq(stretto_add_data(&again), 0, "the same row: %s", stretto_error());
    again.train_count++;
    cr_expect_eq(stretto_add_data(&again), STRETTO_USAGE, "a name is taken once");
}

/* --- operations --- */

static void twist(const struct stretto_call *call, const void *const in[], void *const out[]) {
    const float *x = in[0];
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++)
        ((float *)out[0])[i] = x[i] + 0.5f * sinf(x[i]);
}

static void twist_back(const struct stretto_call *call, const void *const in[],
                       const void *const out[], const void *const d_out[], void *const d_in[]) {
    const float *x = in[0], *dy = d_out[0];
    (void)out;
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++)
        ((float *)d_in[0])[i] = dy[i] * (1 + 0.5f * cosf(x[i]));
}

static const struct stretto_op twist_op = {
    .size = sizeof twist_op, .name = "twist", .forward = twist, .backward = twist_back};

static int scalar(struct stretto_call *call, char *why, size_t bytes) {
    call->out[0] = (struct stretto_type){.dtype = STRETTO_F64};
    if (call->in_count == 2) return 0;
    snprintf(why, bytes, "two are compared");
    return 1;
}

static void squares(const struct stretto_call *call, const void *const in[], void *const out[]) {
    const float *x = in[0], *wanted = in[1];
    double sum = 0;
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++)
        sum += (double)(x[i] - wanted[i]) * (x[i] - wanted[i]);
    *(double *)out[0] = sum;
}

static void squares_back(const struct stretto_call *call, const void *const in[],
                         const void *const out[], const void *const d_out[], void *const d_in[]) {
    const float *x = in[0], *wanted = in[1], factor = *(const float *)d_out[0];
    (void)out;
    cr_expect_null(d_in[1], "labels have no gradient");
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++)
        ((float *)d_in[0])[i] = factor * 2 * (x[i] - wanted[i]);
}

static const struct stretto_op squares_op = {.size = sizeof squares_op,
                                             .name = "squares",
                                             .shape = scalar,
                                             .forward = squares,
                                             .backward = squares_back};

/* --- models --- */

static void add_model(const char *name, void (*build)(struct stretto_graph *, void *)) {
    struct stretto_model model = {.size = sizeof model, .name = name, .build = build, .lr = 0.05};
    cr_assert_eq(stretto_add_model(&model), 0, "%s", stretto_error());
}

static void two_ends(struct stretto_graph *graph, void *context) {
    stretto_value kind = stretto_input(graph, "kind"), height = stretto_input(graph, "height");
    stretto_value x = stretto_linear(graph, "fc1", stretto_input(graph, "x"), HIDDEN);
    (void)context;
    x = stretto_apply(graph, "twist1", &twist_op, NULL, 1, &x, NULL);
    x = stretto_linear(graph, "fc2", x, HIDDEN);
    x = stretto_apply(graph, "twist2", &twist_op, NULL, 1, &x, NULL);
    stretto_next_block(graph);
    x = stretto_dropout(graph, "drop", x, 0.1f);
    x = stretto_linear(graph, "fc3", x, HIDDEN);
    x = stretto_relu(graph, "relu3", x);
    stretto_value logits = stretto_linear(graph, "kinds", x, stretto_classes(graph)),
                  guess = stretto_linear(graph, "heights", x, 1);
    stretto_value sum =
        stretto_apply(graph, "squares", &squares_op, NULL, 2, (int[]){guess, height}, NULL);
    stretto_cross_entropy(graph, "loss", logits, kind, 0);
    stretto_loss(graph, "distance", sum, height);
}

static struct stretto_run *open_with(const char *const *words) {
    struct stretto_config config = {.size = sizeof config, .options = words};
    struct stretto_run *run;
    cr_assert_eq(stretto_open(&config, &run), 0, "%s", stretto_error());
    return run;
}

struct answer {
    float weight[HIDDEN * HIDDEN], logits[2 * CLASSES];
    double before, loss; /* of evaluations */
};

static void train(const char *const *words, struct answer *out) {
    float x[2 * PIXELS] = {1, 2, 3};
    struct stretto_run *run = open_with(words);
    struct stretto_step step = {.size = sizeof step};
    struct stretto_eval eval = {.size = sizeof eval};
    int code;
    cr_assert_eq(stretto_evaluate(run, &eval), 0, "%s", stretto_error());
    out->before = eval.loss;
    while ((code = stretto_step(run, &step)) == 0) continue;
    cr_assert_eq(code, STRETTO_END, "%s", stretto_error());
    cr_assert_eq(stretto_evaluate(run, &eval), 0, "%s", stretto_error());
    out->loss = eval.loss;
    cr_assert_eq(stretto_get(run, "fc2.weight", out->weight, sizeof out->weight), 0);
    cr_assert_eq(stretto_output_elements(run), CLASSES);
    cr_assert_eq(
        stretto_forward(run, 2, (const void *[]){x, NULL, NULL}, 3, out->logits, 2 * CLASSES), 0,
        "%s", stretto_error());
    stretto_close(&run);
}

#define OURS                                                                                       \
    "--model", "ours", "--data", "ours", "--threads", "1", "--batch", "48", "--epochs", "2",       \
        "--micro-batches", "4"

/* Two losses, own operations, dropout and recomputation: the bits are those of one device. */
Test(run_own, every_strategy_is_the_same_training, .timeout = 120) {
    static const char *const layouts[][24] = {
        {OURS},
        {OURS, "--device", "ref"},
        {OURS, "-n", "2", "--strategy", "1f1b"},
        {OURS, "-n", "2", "--strategy", "zb-h1"},
        {OURS, "-n", "3", "--strategy", "gpipe", "--recompute", "always"},
    };
    struct answer first, other;
    add_data("ours", NULL);
    add_model("ours", two_ends);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        train(layouts[i], i ? &other : &first);
        cr_expect(i == 0 || fabs(first.loss - other.loss) < 1e-4, "%g, %g", first.loss, other.loss);
        if (i < 2) continue; /* other kernels give other bits */
        cr_expect_eq(memcmp(first.weight, other.weight, sizeof first.weight), 0, "layout %zu", i);
        cr_expect_eq(memcmp(first.logits, other.logits, sizeof first.logits), 0, "layout %zu", i);
    }
    cr_expect_lt(first.loss, first.before);
}

/* --- functions of numbers --- */

static float twist_of(float x, float *slope) {
    *slope = 1 + 0.5f * cosf(x);
    return x + 0.5f * sinf(x);
}

static float square(float x, float wanted, float *slope) {
    *slope = 2 * (x - wanted);
    return (x - wanted) * (x - wanted);
}

static void heights(struct stretto_graph *graph, void *context) {
    bool short_form = context != NULL;
    stretto_value height = stretto_input(graph, "height");
    stretto_value x = stretto_linear(graph, "fc1", stretto_input(graph, "x"), HIDDEN);
    x = short_form ? stretto_map(graph, "twist", x, twist_of)
                   : stretto_apply(graph, "twist", &twist_op, NULL, 1, &x, NULL);
    x = stretto_linear(graph, "fc2", x, 1);
    if (short_form) {
        stretto_map_loss(graph, "loss", x, height, square);
        return;
    }
    stretto_value sum =
        stretto_apply(graph, "squares", &squares_op, NULL, 2, (int[]){x, height}, NULL);
    stretto_loss(graph, "loss", sum, height);
}

Test(run_own, functions_of_numbers_are_operations) {
    static const char *names[] = {"long", "short"};
    float weight[2][HIDDEN * PIXELS];
    add_data("ours", NULL);
    for (int i = 0; i < 2; i++) {
        struct stretto_model model = {.size = sizeof model,
                                      .name = names[i],
                                      .build = heights,
                                      .context = i ? &weight : NULL,
                                      .lr = 0.05};
        const char *words[] = {"--data", "ours", "--threads", "1",      "--steps", "4",
                               "-n",     "2",    "--model",   names[i], NULL};
        struct stretto_step step = {.size = sizeof step};
        cr_assert_eq(stretto_add_model(&model), 0, "%s", stretto_error());
        struct stretto_run *run = open_with(words);
        while (stretto_step(run, &step) == 0) continue;
        cr_assert_eq(stretto_get(run, "fc1.weight", weight[i], sizeof weight[i]), 0, "%s",
                     stretto_error());
        stretto_close(&run);
    }
    cr_expect_eq(memcmp(weight[0], weight[1], sizeof weight[0]), 0);
}

/* A model with its data is all that a run needs: both are added by it, and again by the next one.
 */
Test(run_own, a_run_takes_its_model_along) {
    struct stretto_data data = data_of("ours");
    struct stretto_model model = {
        .size = sizeof model, .name = "ours", .build = heights, .data = &data};
    struct stretto_config config = {
        .size = sizeof config, .model = &model, .words = "--threads 1 --steps 1"};
    struct stretto_run *run;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(stretto_open(&config, &run), 0, "%s", stretto_error());
        cr_expect_eq(stretto_field_elements(run, "x"), PIXELS);
        stretto_close(&run);
    }
    config.words = "--data digits";
    cr_expect_eq(stretto_open(&config, &run), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "data set digits has no such field"), "%s", stretto_error());
    config.words = "--model mlp --data digits --steps 1 --threads 1";
    cr_assert_eq(stretto_open(&config, &run), 0, "later options hold: %s", stretto_error());
    stretto_close(&run);
    model.build = two_ends;
    cr_expect_eq(stretto_open(&config, &run), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "a model ours already"), "%s", stretto_error());
    model.name = "other", data.test_count = 0;
    cr_expect_eq(stretto_open(&config, &run), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "0 test samples"), "%s", stretto_error());
}

/* --- another output than what the loss compares --- */

enum { INNER = 4, MANY = 8 };

/* The loss reads a field that the output does not depend on. */
static void inner(struct stretto_graph *graph, void *context) {
    stretto_value height = stretto_input(graph, "height");
    stretto_value x = stretto_linear(graph, "fc1", stretto_input(graph, "x"), HIDDEN);
    (void)context;
    stretto_value middle = stretto_linear(graph, "middle", stretto_relu(graph, "relu1", x), INNER);
    stretto_output(graph, middle);
    x = stretto_linear(graph, "fc2", stretto_gelu(graph, "gelu", middle), HIDDEN);
    height = stretto_flatten(graph, "column", height);
    x = stretto_add(graph, "sum", x, stretto_linear(graph, "fc3", height, HIDDEN));
    x = stretto_linear(graph, "kinds", stretto_relu(graph, "relu2", x), MANY);
    stretto_cross_entropy(graph, "loss", x, stretto_input(graph, "kind"), 0);
}

#define INSIDE "--model", "inner", "--data", "ours", "--threads", "1", "--steps", "2"

/* Accuracies are of the classes, whatever the output is; and that is f32 with bf16, too. */
Test(run_own, a_value_inside_of_the_model_is_an_output, .timeout = 60) {
    static const char *const layouts[][16] = {
        {INSIDE}, {INSIDE, "-n", "2", "--strategy", "1f1b"}, {INSIDE, "--dtype", "bf16"}};
    float x[2 * PIXELS] = {1, 2, 3}, out[3][2 * INNER];
    add_data("ours", NULL);
    add_model("inner", inner);
    for (int i = 0; i < 3; i++) {
        struct stretto_config config = {.size = sizeof config, .options = layouts[i]};
        struct stretto_run *run;
        struct stretto_step step = {.size = sizeof step};
        struct stretto_eval eval = {.size = sizeof eval};
        int code = stretto_open(&config, &run);
        if (i == 2 && code == STRETTO_USAGE) continue; /* no instructions for it */
        cr_assert_eq(code, 0, "%s", stretto_error());
        while (stretto_step(run, &step) == 0) continue;
        cr_assert_eq(stretto_evaluate(run, &eval), 0, "%s", stretto_error());
        cr_expect(eval.acc5 >= eval.acc1, "acc5 of %d classes: %g", MANY, eval.acc5);
        cr_assert_eq(stretto_output_elements(run), INNER, "layout %d: %s", i, stretto_error());
        cr_assert_eq(stretto_forward(run, 2, (const void *[]){x, NULL, NULL}, 3, out[i], 2 * INNER),
                     0, "%s", stretto_error());
        cr_expect_eq(stretto_forward(run, 1, (const void *[]){NULL, x, x}, 3, out[i], INNER),
                     STRETTO_USAGE);
        stretto_close(&run);
        for (int k = 0; k < 2 * INNER; k++)
            cr_expect_float_eq(out[i][k], out[0][k], i == 2 ? 0.2 : 0, "layout %d: %g, %g", i,
                               (double)out[i][k], (double)out[0][k]);
    }
}

static int command(const char *const *words) {
    int count = 0;
    while (words[count]) count++;
    return stretto_main(count, (char **)(uintptr_t)words);
}

static void read_file(const char *folder, const char *name, struct bytes *out) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cr_assert_eq(file_read(path, SIZE_MAX, out), STATUS_OK);
}

/* The output comes from the stage that makes it, in a pipeline the one with "middle". */
static void expect_predictions_of_pipelines(const char *run) {
    static const char *const stages[] = {"1", "2", "3"};
    struct bytes want = {0}, have = {0};
    for (int i = 0; i < 3; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s.npy", run, stages[i]);
        cr_assert_eq(
            command((const char *[]){"own", "predict", run, "--threads", "1", "--quiet",
                                     "--strategy", i ? "gpipe" : "single", "--spawn", "threads",
                                     "-n", stages[i], "--as", "logits", "--output", path, NULL}),
            0);
        read_file(run, path + strlen(run) + 1, i ? &have : &want);
        if (i == 0) continue;
        cr_expect(have.count == want.count && memcmp(have.data, want.data, have.count) == 0,
                  "%s stages", stages[i]);
        bytes_free(&have);
    }
    bytes_free(&want);
}

/* What is no score of a class is not counted as one: nor an f32 label. */
Test(run_own, commands_know_what_an_output_is, .timeout = 60) {
    struct stretto_model numbers = {.size = sizeof numbers, .name = "numbers", .build = heights};
    static const char *const names[] = {"inner", "numbers"};
    add_data("ours", NULL);
    add_model("inner", inner);
    cr_assert_eq(stretto_add_model(&numbers), 0, "%s", stretto_error());
    for (int i = 0; i < 2; i++) {
        char run[] = "/tmp/stretto-own-XXXXXX";
        cr_assert_not_null(mkdtemp(run));
        cr_assert_eq(command((const char *[]){"own", "train", "--model", names[i], "--data", "ours",
                                              "--threads", "1", "--steps", "1", "--quiet", "--out",
                                              run, NULL}),
                     0);
        cr_expect_eq(
            command((const char *[]){"own", "eval", run, "--threads", "1", "--quiet", NULL}), 0,
            "%s", names[i]);
        if (i == 0) expect_predictions_of_pipelines(run);
        cr_expect_eq(folder_remove(run), STATUS_OK);
    }
}

/* mlp, built by the calls of the header. */
static void like_mlp(struct stretto_graph *graph, void *context) {
    stretto_value x = stretto_flatten(graph, "flatten", stretto_input(graph, "image"));
    (void)context;
    x = stretto_relu(graph, "fc1.relu", stretto_linear(graph, "fc1", x, 128));
    stretto_next_block(graph);
    x = stretto_relu(graph, "fc2.relu", stretto_linear(graph, "fc2", x, 64));
    stretto_next_block(graph);
    x = stretto_linear(graph, "fc3", x, stretto_classes(graph));
    stretto_cross_entropy(graph, "loss", x, stretto_input(graph, "label"), 0);
}

Test(run_own, a_model_like_a_built_in_one_trains_alike) {
    static const char *names[] = {"mlp", "like-mlp"};
    float weight[2][10 * 64];
    add_model("like-mlp", like_mlp);
    for (int i = 0; i < 2; i++) {
        const char *words[] = {"--model",     names[i], "--threads",      "1", "--steps", "4",
                               "--lr",        "0.1",    "--clip",         "0", "--data",  "digits",
                               "--optimizer", "sgd",    "--weight-decay", "0", NULL};
        struct stretto_run *run = open_with(words);
        struct stretto_step step = {.size = sizeof step};
        while (stretto_step(run, &step) == 0) continue;
        cr_assert_eq(stretto_get(run, "fc3.weight", weight[i], sizeof weight[i]), 0);
        stretto_close(&run);
    }
    cr_expect_eq(memcmp(weight[0], weight[1], sizeof weight[0]), 0);
}

/* --- what does not fit --- */

enum misfit {
    NO_FIELD,
    NO_VALUE_THERE,
    NO_RANK,
    NO_LABEL,
    NO_LOSS,
    TWICE,
    LAYER_TWICE,
    BUFFER_TWICE,
    LONG_NAME,
    NO_SUM,
    NO_FORWARD,
    BAD_SHAPE,
    FEW_CLASSES,
    REFUSED,
    NO_INFLUENCE,
    NO_GUESS,
    NO_ORDER,
    NO_SCALE,
    NEGATIVE_DROPOUT,
    TOO_LARGE,
    MISFITS
};

static void build_misfit(struct stretto_graph *graph, void *context) {
    static const struct stretto_op empty = {.size = sizeof empty, .name = "empty"};
    char name[200] = "";
    enum misfit misfit = *(enum misfit *)context;
    stretto_value input = stretto_input(graph, misfit == NO_FIELD ? "y" : "x"),
                  kind = stretto_input(graph, "kind");
    memset(name, 'a', misfit == LONG_NAME ? 150 : 3);
    stretto_value x = stretto_linear(graph, name, input, HIDDEN);
    if (misfit == NO_VALUE_THERE) stretto_relu(graph, "relu", 9999);
    if (misfit == NO_RANK) stretto_conv2d(graph, "conv", x, 8, 3, 1, 1, 0);
    if (misfit == TWICE) x = stretto_linear(graph, name, x, HIDDEN);
    if (misfit == LAYER_TWICE) {
        x = stretto_gelu(graph, "act", x);
        x = stretto_gelu(graph, "act", stretto_linear(graph, "more", x, HIDDEN));
    }
    if (misfit == BUFFER_TWICE) {
        x = stretto_batch_norm(graph, "norm", x);
        x = stretto_add(
            graph, "sum", x,
            stretto_param(graph, "norm.running_mean", 2, (int64_t[]){1, HIDDEN}, STRETTO_ZERO, 0));
    }
    if (misfit == NO_FORWARD) stretto_apply(graph, "empty", &empty, NULL, 1, &x, NULL);
    if (misfit == BAD_SHAPE) stretto_apply(graph, "one", &squares_op, NULL, 1, &x, NULL);
    if (misfit == NO_SUM) stretto_loss(graph, "end", x, kind);
    if (misfit == NO_GUESS) {
        stretto_value height = stretto_input(graph, "height"), in[] = {height, height};
        x = stretto_apply(graph, "squares", &squares_op, NULL, 2, in, NULL);
        stretto_loss(graph, "end", x, height);
        return;
    }
    if (misfit == REFUSED) stretto_refuse(graph, "the model", "not on a Sunday");
    if (misfit == NO_ORDER) stretto_transpose(graph, "turn", x, NULL);
    if (misfit == NO_SCALE)
        stretto_param(graph, "scale", 1, (int64_t[]){3}, STRETTO_UNIFORM, INFINITY);
    if (misfit == NEGATIVE_DROPOUT) stretto_dropout(graph, "drop", x, -0.5f);
    if (misfit == TOO_LARGE) x = stretto_linear(graph, "wide", x, INT64_C(1) << 60);
    if (misfit == NO_INFLUENCE) stretto_linear(graph, "aside", x, 5);
    x = stretto_linear(graph, "kinds", x, misfit == FEW_CLASSES ? 2 : 3);
    if (misfit != NO_LOSS)
        stretto_cross_entropy(graph, "loss", x, misfit == NO_LABEL ? x : kind, 0);
}

Test(run_own, misfits_are_errors_of_opening) {
    static const char *const says[MISFITS] = {
        [NO_FIELD] = "y: data set ours has no such field",
        [NO_VALUE_THERE] = "relu: there is no value 9999",
        [NO_RANK] = "conv: its input has rank 2; 4 at least",
        [NO_LABEL] = "loss: its labels are no input",
        [NO_LOSS] = "misfit: the model has no loss",
        [TWICE] = "aaa.weight: there are two parameters",
        [LAYER_TWICE] = "act: there are two layers",
        [BUFFER_TWICE] = "norm.running_mean: there are two tensors",
        [LONG_NAME] = "1 to 71 characters",
        [NO_SUM] = "end: a loss is the first output of an own operation",
        [NO_FORWARD] = "operation empty has no forward",
        [BAD_SHAPE] = "node one (user): two are compared",
        [FEW_CLASSES] = "loss: 2 classes; kind has 3",
        [REFUSED] = "the model: not on a Sunday",
        [NO_GUESS] = "end: its operation reads nothing that the model makes",
        [NO_ORDER] = "turn: the order of its dimensions is missing",
        [NO_SCALE] = "scale: its initial scale is inf",
        [NEGATIVE_DROPOUT] = "drop: dropout of probability -0.5",
        [TOO_LARGE] = "node wide (linear): input 1 is [1152921504606846976,20]: too large",
        [NO_INFLUENCE] = "aside.weight has no influence on the loss"};
    static enum misfit misfit;
    struct stretto_model model = {
        .size = sizeof model, .name = "misfit", .build = build_misfit, .context = &misfit};
    const char *words[] = {"--model", "misfit", "--data", "ours", NULL};
    struct stretto_config config = {.size = sizeof config, .options = words};
    struct stretto_run *run;
    add_data("ours", NULL);
    cr_assert_eq(stretto_add_model(&model), 0);
    for (int i = 0; i < MISFITS; i++) {
        misfit = (enum misfit)i;
        cr_expect_eq(stretto_open(&config, &run), STRETTO_USAGE);
        cr_expect(strstr(stretto_error(), says[i]), "%d: %s", i, stretto_error());
        cr_expect_null(run);
    }
    model.name = "mlp";
    cr_expect_eq(stretto_add_model(&model), STRETTO_USAGE);
    model.name = "another", model.optimizer = "nothing";
    cr_expect_eq(stretto_add_model(&model), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "no optimizer nothing"), "%s", stretto_error());
    model.optimizer = NULL, model.build = NULL;
    cr_expect_eq(stretto_add_model(&model), STRETTO_USAGE);
    model.build = build_misfit, model.lr = NAN;
    cr_expect_eq(stretto_add_model(&model), STRETTO_USAGE);
}

/* Data that turn out bad end the run on all ranks, with the sample; the run says so from then on.
 */
Test(run_own, bad_samples_end_a_run, .timeout = 60) {
    static int64_t unread[2] = {40, -1}, mislabelled[2] = {-1, 41};
    static const char *const layouts[][24] = {{OURS}, {OURS, "-n", "2", "--strategy", "1f1b"}};
    add_data("ours", NULL);
    add_data("unread", unread);
    add_data("mislabelled", mislabelled);
    add_model("ours", two_ends);
    for (int i = 0; i < 4; i++) {
        const char *words[24];
        memcpy(words, layouts[i / 2], sizeof words);
        words[3] = i % 2 ? "unread" : "mislabelled";
        struct stretto_run *run = open_with(words);
        struct stretto_step step = {.size = sizeof step};
        int code;
        while ((code = stretto_step(run, &step)) == 0) continue;
        cr_expect_eq(code, STRETTO_DATA, "%s", stretto_error());
        cr_expect(strstr(stretto_error(), i % 2 ? "sample 40 of the training split cannot be read"
                                                : "kind of sample 41 of the training split is 77"),
                  "%s", stretto_error());
        cr_expect_eq(stretto_save(run, "/tmp/never"), STRETTO_DATA);
        cr_expect(strstr(stretto_error(), "has failed before"), "%s", stretto_error());
        stretto_close(&run);
    }
}

Test(run_own, forward_checks_what_it_is_given) {
    float x[PIXELS] = {0}, out[CLASSES];
    int32_t kind = 99;
    add_data("ours", NULL);
    add_model("ours", two_ends);
    struct stretto_run *run = open_with((const char *[]){OURS, NULL});
    cr_expect_eq(stretto_forward(run, 1, (const void *[]){x, NULL, NULL}, 3, out, 3), 0);
    cr_expect_eq(stretto_forward(run, 0, (const void *[]){x, NULL, NULL}, 3, out, 3),
                 STRETTO_USAGE);
    cr_expect_eq(stretto_forward(run, 1, (const void *[]){x}, 1, out, 3), STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "1 fields were given, data set ours has 3"), "%s",
              stretto_error());
    cr_expect_eq(stretto_forward(run, 1, (const void *[]){x, NULL, NULL}, 3, out, 4),
                 STRETTO_USAGE);
    cr_expect_eq(stretto_forward(run, 1, NULL, 3, out, 3), STRETTO_USAGE);
    cr_expect_eq(stretto_forward(run, 1, (const void *[]){x, &kind, NULL}, 3, out, 3),
                 STRETTO_USAGE);
    cr_expect(strstr(stretto_error(), "kind of sample 0 is 99; 0 to 2"), "%s", stretto_error());
    cr_expect_eq(stretto_field_elements(run, "x"), PIXELS);
    cr_expect_eq(stretto_field_elements(run, "nothing"), -1);
    stretto_close(&run);
}
