/* Networks of which ten steps would be chaos (make_golden.py): what they say of one batch,
 * untrained, in evaluation, against PyTorch in float64. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "golden.h"
#include "run_graph.h"

static void set_start(struct run_graph *run) {
    const struct graph *graph = run->graph;
    for (int i = 0; i < graph->param_count; i++) {
        int value = graph->params[i].value;
        float *plain = mem_new(tensor_type_bytes(&graph->values[value].type));
        model_init_param(graph, i, GOLDEN_WEIGHT_SEED, plain);
        run_graph_set(run, value, plain);
        free(plain);
    }
    for (int i = 0; i < graph->buffer_count; i++) {
        const struct buffer *buffer = &graph->buffers[i];
        int64_t count = shape_count(&graph->values[buffer->value].type.shape);
        float *plain = MEM_ARRAY(float, count + 1); /* room for an i64 counter of 0 */
        for (int64_t k = 0; k < count; k++) plain[k] = buffer->start;
        run_graph_set(run, buffer->value, plain);
        free(plain);
    }
    for (int i = 0; i < graph->input_count; i++) {
        int value = graph->inputs[i];
        void *plain = mem_new(tensor_type_bytes(&graph->values[value].type));
        golden_fill(graph, value, 1, 0, plain);
        run_graph_set(run, value, plain);
        free(plain);
    }
}

static void check(const char *model, const float *have, int64_t rows, int64_t columns) {
    json_error_t error;
    json_t *all = json_load_file("tests/golden/logits.json", JSON_REJECT_DUPLICATES, &error);
    cr_assert(all, "%s", error.text);
    const json_t *want = json_object_get(all, model);
    double most = 0, worst = 0;
    cr_assert_eq((int64_t)json_array_size(want), rows, "%s", model);
    for (int64_t i = 0; i < rows * columns; i++) {
        const json_t *row = json_array_get(want, (size_t)(i / columns));
        double value = json_number_value(json_array_get(row, (size_t)(i % columns)));
        most = fmax(most, fabs(value));
        worst = fmax(worst, fabs((double)have[i] - value));
    }
    cr_expect_leq(worst, 1e-4 * most, "%s: %g from PyTorch's, of up to %g", model, worst, most);
    json_decref(all);
}

static void logits(const char *model) {
    const struct golden_case *gold = golden_find(model);
    struct model_config config = golden_config(gold);
    struct graph *graph;
    struct run_graph run;
    config.training = false;
    cr_assert_eq(model_build(model_find(model), &config, &graph), STATUS_OK);
    cr_assert_eq(run_graph_open(graph, "cpu", &run), STATUS_OK);
    set_start(&run);
    run_graph_run(&run);
    int value = graph->nodes[graph->values[graph->losses[0].sum].producer].in[0];
    float *plain = mem_new(tensor_type_bytes(&graph->values[value].type));
    run_graph_get(&run, value, plain);
    check(model, plain, gold->batch, gold->classes);
    free(plain);
    run_graph_close(&run);
}

Test(golden_logits, of_each_network) {
#define GOLDEN(...)
#define LOGITS(model, ...) logits(model);
#include "golden.def"
#undef GOLDEN
#undef LOGITS
}
