/* step "OPTIONS" INPUTS OUT: what a model computes from given weights and samples, for
 * check_models.py.
 *
 * The options are those of `stretto train`, with --weights. INPUTS has the samples of one batch by
 * the names of the model's inputs. OUT gets, for training and evaluation, the logits of each loss
 * ("train.logits.0", "eval.logits.0") and the losses ("train.loss.0"), and the gradient of every
 * parameter ("grad.NAME"). Weights go the way of a run: loaded into the store of an executor, and
 * read out of it; the graph then runs node by node, on the device of the options or, where a fourth
 * and a fifth argument name one and a type (f32, tf32, bf16, f16), there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../options_line.h"
#include "../unit/golden/run_graph.h"
#include "base/log.h"
#include "exec/checkpoint.h"
#include "exec/engine.h"
#include "plan/resolve.h"
#include "tensor/safetensors.h"

struct planned_run {
    struct options options;
    const struct model *model;
    struct dataset *dataset;
    struct plan *plan;
    struct train_state state;
    struct engine *engine;
    struct safetensors *inputs;
    struct device *device; /* that the graph runs on; NULL: the plan's */
    enum dtype dtype;
};

/* Items own their names and data. */
struct list {
    struct tensor_item *items;
    size_t count, capacity;
};

static void *add(struct list *list, char *name, enum dtype dtype, struct shape shape) {
    struct tensor_type type = {dtype, shape};
    list->items = mem_grow(list->items, &list->capacity, list->count + 1, sizeof *list->items);
    void *data = mem_new(tensor_type_bytes(&type));
    list->items[list->count++] = (struct tensor_item){name, dtype, shape, data};
    return data;
}

static enum status open_job(const char *line, const char *inputs, struct planned_run *planned) {
    struct resolve_place place = {.rank = 0, .ranks = 1, .threads = 1};
    struct run_config config;
    TRY(options_of_line(COMMAND_TRAIN, line, &planned->options));
    planned->model = model_find(planned->options.model);
    TRY(resolve_data(&planned->options, planned->model, &planned->dataset));
    TRY(resolve_run(&planned->options, planned->model, planned->dataset, &place, &config));
    TRY(plan_new(&config, NULL, &planned->plan));
    planned->state = train_fresh();
    TRY(engine_open(&(struct engine_config){.plan = planned->plan, .state = &planned->state},
                    &planned->engine));
    TRY(checkpoint_load_weights(planned->engine, planned->options.weights));
    return safetensors_open(inputs, &planned->inputs);
}

/* Parameters and buffers out of the store. */
static enum status set_tensors(const struct planned_run *planned, struct run_graph *run,
                               bool params) {
    const struct store *store = engine_store(planned->engine);
    const struct graph *graph = run->graph;
    int array = state_array(store->layout, params ? ARRAY_PARAM : ARRAY_BUFFER, 0);
    for (int i = 0; i < (params ? graph->param_count : graph->buffer_count); i++) {
        int value = params ? graph->params[i].value : graph->buffers[i].value;
        void *plain = mem_new(tensor_type_bytes(&graph->values[value].type));
        TRY(store_get(store, array, i, plain));
        run_graph_set(run, value, plain);
        free(plain);
    }
    return STATUS_OK;
}

static double labels_in(const int32_t *labels, int64_t count) {
    double kept = 0;
    for (int64_t i = 0; i < count; i++) kept += labels[i] != LABEL_IGNORE;
    return kept;
}

/* A sample input out of the file, and the counts of the losses whose labels it is. */
static enum status set_input(const struct planned_run *planned, struct run_graph *run, int value,
                             double *counts) {
    const struct graph *graph = run->graph;
    const struct value *input = &graph->values[value];
    size_t at, bytes = tensor_type_bytes(&input->type);
    for (int k = 0; k < graph->loss_count; k++)
        if (graph->losses[k].seed == value) return STATUS_OK;
    if (!safetensors_find(planned->inputs, input->name, &at))
        return fail(STATUS_DATA, "no input %s", input->name);
    void *plain = mem_new(bytes);
    TRY(safetensors_read(planned->inputs, at, plain, bytes));
    run_graph_set(run, value, plain);
    for (int k = 0; k < graph->loss_count; k++)
        if (strcmp(graph->losses[k].label, input->name) == 0)
            counts[k] = labels_in(plain, shape_count(&input->type.shape));
    free(plain);
    return STATUS_OK;
}

static void get_losses(struct run_graph *run, const double *counts, const char *phase,
                       struct list *out) {
    const struct graph *graph = run->graph;
    for (int k = 0; k < graph->loss_count; k++) {
        const struct node *node = &graph->nodes[graph->values[graph->losses[k].sum].producer];
        int logits = node->in[0];
        struct shape shape = graph->values[logits].type.shape;
        run_graph_get(run, logits,
                      add(out, mem_format("%s.logits.%d", phase, k), DTYPE_F32, shape));
        double *loss = add(out, mem_format("%s.loss.%d", phase, k), DTYPE_F64, SHAPE_SCALAR);
        run_graph_get(run, graph->losses[k].sum, loss);
        *loss /= counts[k];
    }
}

static void get_gradients(struct run_graph *run, struct list *out) {
    const struct graph *graph = run->graph;
    for (int i = 0; i < graph->param_count; i++) {
        const struct param *param = &graph->params[i];
        run_graph_gradient(run, i,
                           add(out, mem_format("grad.%s", param->name), DTYPE_F32,
                               graph->values[param->value].type.shape));
    }
}

static enum status run_phase(const struct planned_run *planned, bool training, struct list *out) {
    struct model_config shape = planned->plan->config.shape;
    struct graph *graph;
    struct run_graph run;
    double counts[GRAPH_MAX_LOSSES] = {0};
    shape.batch = planned->plan->config.batch;
    shape.training = training;
    TRY(model_build(planned->model, &shape, &graph));
    graph->dtype = planned->dtype;
    TRY(run_graph_open_on(graph, planned->device ? planned->device : planned->plan->device, &run));
    TRY(set_tensors(planned, &run, true));
    TRY(set_tensors(planned, &run, false));
    for (int i = 0; i < graph->input_count; i++)
        TRY(set_input(planned, &run, graph->inputs[i], counts));
    for (int k = 0; k < graph->loss_count && training; k++)
        run_graph_set(&run, graph->losses[k].seed, &(float){(float)(1 / counts[k])});
    run_graph_run(&run);
    get_losses(&run, counts, training ? "train" : "eval", out);
    if (training) get_gradients(&run, out);
    run_graph_close(&run);
    return STATUS_OK;
}

static enum status open_device(const char *name, const char *type, struct planned_run *planned) {
    bool bf16 = strcmp(type, "bf16") == 0, f16 = strcmp(type, "f16") == 0;
    planned->dtype = bf16 ? DTYPE_BF16 : f16 ? DTYPE_F16 : DTYPE_F32;
    TRY(device_open(name, 0, 1, &planned->device));
    planned->device->tf32 = strcmp(type, "tf32") == 0;
    return planned->device->backend->takes(planned->device, planned->dtype);
}

int main(int argc, char **argv) {
    struct planned_run planned = {0};
    struct list list = {0};
    if (argc != 4 && argc != 6)
        return status_exit_code(
            fail(STATUS_USAGE, "usage: step \"OPTIONS\" INPUTS OUT [DEVICE TYPE]"));
    enum status status = open_job(argv[1], argv[2], &planned);
    if (status == STATUS_OK && argc == 6) status = open_device(argv[4], argv[5], &planned);
    if (status == STATUS_OK) status = run_phase(&planned, false, &list);
    if (status == STATUS_OK) status = run_phase(&planned, true, &list);
    struct safetensors_content content = {.items = list.items, .item_count = list.count};
    if (status == STATUS_OK) status = safetensors_write(argv[3], &content, NULL);
    for (size_t i = 0; i < list.count; i++) {
        free((void *)list.items[i].name);
        free((void *)list.items[i].data);
    }
    free(list.items);
    safetensors_close(&planned.inputs);
    device_close(&planned.device);
    engine_close(&planned.engine);
    plan_free(&planned.plan);
    dataset_free(&planned.dataset);
    options_free(&planned.options);
    return status_exit_code(status);
}
