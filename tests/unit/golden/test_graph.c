/* Each small model against PyTorch in float64, node by node: the graph is run with memory of its
 * own for every value, so what is tested is models, gradient rules, kernels, layouts and
 * optimizers, without planner, loader and executor. */
#include <criterion/criterion.h>
#include <string.h>

#include "check.h"
#include "golden.h"
#include "optim/optim.h"
#include "run_graph.h"

struct trial {
    const struct golden_case *gold;
    struct golden_check check;
    struct run_graph run;
    int64_t *offset; /* of each parameter in the flat arrays, and the end */
    float *weights, *gradients, *state[OPTIM_MAX_STATES];
};

static int64_t elements(const struct graph *graph, int value) {
    return shape_count(&graph->values[value].type.shape);
}

static void check_gradients(struct trial *trial) {
    const struct graph *graph = trial->run.graph;
    for (int i = 0; i < graph->param_count; i++)
        golden_check_gradient(&trial->check, graph->params[i].name,
                              trial->gradients + trial->offset[i],
                              trial->offset[i + 1] - trial->offset[i]);
}

static void check_buffers(struct trial *trial) {
    const struct graph *graph = trial->run.graph;
    for (int i = 0; i < graph->buffer_count; i++) {
        const struct buffer *buffer = &graph->buffers[i];
        int64_t count = elements(graph, buffer->value), steps = 0;
        float *values = MEM_ARRAY(float, count);
        bool counter = graph->values[buffer->value].type.dtype == DTYPE_I64;
        run_graph_get(&trial->run, buffer->value, counter ? (void *)&steps : (void *)values);
        if (counter) values[0] = (float)steps;
        golden_check_buffer(&trial->check, buffer->name, values, count);
        free(values);
    }
}

static double label_count(const int32_t *labels, int64_t count) {
    double kept = 0;
    for (int64_t i = 0; i < count; i++) kept += labels[i] != LABEL_IGNORE;
    return kept;
}

/* The seeds of backward are the reciprocals of the label counts. */
static void fill_inputs(struct trial *trial, int step, double *counts) {
    const struct graph *graph = trial->run.graph;
    for (int i = 0; i < graph->input_count; i++) {
        int value = graph->inputs[i];
        if (!golden_is_sample(graph, value)) continue;
        void *plain = mem_new(tensor_type_bytes(&graph->values[value].type));
        golden_fill(graph, value, trial->check.seeds[step], step, plain);
        run_graph_set(&trial->run, value, plain);
        for (int k = 0; k < graph->loss_count; k++)
            if (strcmp(graph->losses[k].label, graph->values[value].name) == 0)
                counts[k] = label_count(plain, elements(graph, value));
        free(plain);
    }
    for (int k = 0; k < graph->loss_count; k++)
        run_graph_set(&trial->run, graph->losses[k].seed, &(float){(float)(1 / counts[k])});
}

static void set_weights(struct trial *trial) {
    const struct graph *graph = trial->run.graph;
    for (int i = 0; i < graph->param_count; i++)
        run_graph_set(&trial->run, graph->params[i].value, trial->weights + trial->offset[i]);
}

static void set_buffers(struct trial *trial) {
    const struct graph *graph = trial->run.graph;
    for (int i = 0; i < graph->buffer_count; i++) {
        const struct buffer *buffer = &graph->buffers[i];
        int64_t count = elements(graph, buffer->value);
        float *values = MEM_ARRAY(float, count + 1); /* room for an i64 counter of 0 */
        for (int64_t k = 0; k < count; k++) values[k] = buffer->start;
        run_graph_set(&trial->run, buffer->value, values);
        free(values);
    }
}

static void update(struct trial *trial, int step) {
    struct optim_config config = golden_optim();
    struct optim_step now = {
        .config = &config, .step = step, .lr = (float)config.lr, .gradient_scale = 1};
    struct optim_span span = {.count = trial->offset[trial->run.graph->param_count]};
    const struct optim_rule *rule = optim_find(model_find(trial->gold->model)->optimizer);
    struct device *device = trial->run.device;
    int32_t bad = 0;
    struct optim_update update = {.rule = rule,
                                  .step = &now,
                                  .spans = &span,
                                  .span_count = 1,
                                  .param = {DTYPE_F32, trial->weights, span.count},
                                  .gradient = {DTYPE_F32, trial->gradients, span.count}};
    for (int i = 0; i < rule->state_count; i++)
        update.state[i] = (struct elements){DTYPE_F32, trial->state[i], span.count};
    cr_assert_eq(device->backend->array_update(device, &update, &bad, NULL), STATUS_OK);
    cr_assert_eq(bad, 0);
    set_weights(trial);
}

static void one_step(struct trial *trial, int step) {
    const struct graph *graph = trial->run.graph;
    double counts[GRAPH_MAX_LOSSES] = {0};
    fill_inputs(trial, step, counts);
    run_graph_run(&trial->run);
    for (int i = 0; i < graph->loss_count; i++) {
        double sum;
        run_graph_get(&trial->run, graph->losses[i].sum, &sum);
        golden_check_term(&trial->check, step, i, sum / counts[i]);
    }
    for (int i = 0; i < graph->param_count; i++)
        run_graph_gradient(&trial->run, i, trial->gradients + trial->offset[i]);
    if (step == 0) check_gradients(trial);
    if (step == 0) check_buffers(trial);
    update(trial, step);
}

static void start(struct trial *trial) {
    const struct graph *graph = trial->run.graph;
    trial->offset = MEM_ARRAY(int64_t, graph->param_count + 1);
    for (int i = 0; i < graph->param_count; i++)
        trial->offset[i + 1] = trial->offset[i] + elements(graph, graph->params[i].value);
    int64_t total = trial->offset[graph->param_count];
    trial->weights = MEM_ARRAY(float, total);
    trial->gradients = MEM_ARRAY(float, total);
    for (int i = 0; i < OPTIM_MAX_STATES; i++) trial->state[i] = MEM_ARRAY(float, total);
    for (int i = 0; i < graph->param_count; i++)
        model_init_param(graph, i, GOLDEN_WEIGHT_SEED, trial->weights + trial->offset[i]);
    golden_check_weights(&trial->check, trial->weights, total);
    set_weights(trial);
    set_buffers(trial);
}

static void finish(struct trial *trial) {
    golden_check_close(&trial->check);
    run_graph_close(&trial->run);
    free(trial->offset);
    free(trial->weights);
    free(trial->gradients);
    for (int i = 0; i < OPTIM_MAX_STATES; i++) free(trial->state[i]);
}

static void golden(const char *model, const char *backend, int steps) {
    struct trial trial = {.gold = golden_find(model)};
    struct graph *graph;
    golden_check_open(model, &trial.check);
    cr_assert_eq(golden_build(trial.gold, &graph), STATUS_OK);
    cr_assert_eq(run_graph_open(graph, backend, &trial.run), STATUS_OK);
    start(&trial);
    for (int step = 0; step < steps; step++) one_step(&trial, step);
    finish(&trial);
}

#define GOLDEN(test, model, batch, channels, side, classes, patch, tokens, predictions, ref_steps) \
    Test(golden_ref, test) {                                                                       \
        golden(model, "ref", ref_steps);                                                           \
    }                                                                                              \
    Test(golden_cpu, test) {                                                                       \
        golden(model, "cpu", GOLDEN_STEPS);                                                        \
    }
#define LOGITS(...)
#include "golden.def"
#undef LOGITS
