/* The backward part: sums where a value is read twice, one gradient per use of a parameter, bytes
 * of its own for each, halves that can run apart; held against differences. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "kit.h"

TestSuite(graph_gradient, .init = kit_open_devices, .fini = kit_close_devices);

static int features(struct graph *graph) {
    return graph_input(graph, "x", DTYPE_F32, SHAPE(graph->batch, 6));
}

static void finish(struct graph *graph, int logits) {
    int label = graph_input(graph, "label2", DTYPE_I32, SHAPE(graph->batch));
    graph_cross_entropy(graph, "loss", logits, label, 0, false);
    cr_assert_eq(graph->status, STATUS_OK);
}

/* The summed gradient of a parameter's element over all its uses. */
static float gradient_at(const struct graph *graph, const struct kit_result *result, int param,
                         int64_t at) {
    size_t offset = 0;
    float sum = 0, part;
    for (int i = 0; i < graph->loss_count; i++)
        offset += graph->losses[i].top_k == NO_VALUE ? 8 : 32;
    for (int u = 0; u < graph->use_count; u++) {
        const struct value *value = &graph->values[graph->uses[u].gradient];
        if (graph->uses[u].param == param) {
            memcpy(&part, result->data + offset + (size_t)at * sizeof part, sizeof part);
            sum += part;
        }
        offset += tensor_type_bytes(&value->type);
    }
    return sum;
}

static double loss_with(const struct graph *graph, int param, int64_t at, float by) {
    struct kit_result result =
        kit_run(graph, NULL, KIT_TOGETHER, &(struct kit_nudge){param, at, by});
    double loss = result.loss;
    kit_result_free(&result);
    return loss * 0.25; /* the seed of kit_run */
}

/* Every parameter at three places. */
static void expect_differences(struct graph *graph) {
    struct kit_result result = kit_run(graph, NULL, KIT_TOGETHER, NULL);
    const float step = 1.0f / 64;
    for (int p = 0; p < graph->param_count; p++) {
        int64_t count = shape_count(&graph->values[graph->params[p].value].type.shape);
        for (int k = 0; k < 3; k++) {
            int64_t at = k * (count - 1) / 2;
            double want =
                (loss_with(graph, p, at, step) - loss_with(graph, p, at, -step)) / (2 * step);
            float got = gradient_at(graph, &result, p, at);
            cr_expect_float_eq(got, want, 2e-3 * (1 + fabs(want)), "%s[%d]: %g, differences say %g",
                               graph->params[p].name, (int)at, got, want);
        }
    }
    kit_result_free(&result);
}

static int count_nodes(const struct graph *graph, enum op op, enum phase phase) {
    int count = 0;
    for (int i = 0; i < graph->node_count; i++)
        count += graph->nodes[i].op == op && graph->nodes[i].phase == phase;
    return count;
}

/* x -> w -> y, read by relu and tanh and by the sum of both: three gradients, two sums. */
Test(graph_gradient, a_value_read_several_times_gets_the_sum) {
    struct graph *graph = graph_new(4, true);
    int y =
        graph_linear(graph, "fc", features(graph), kit_weight(graph, "w", SHAPE(5, 6)), NO_VALUE);
    int both = graph_add(graph, "both", graph_relu(graph, "relu", y), graph_tanh(graph, "tanh", y));
    finish(graph, graph_add(graph, "again", both, y));
    kit_compile(graph, ref, NULL);
    cr_expect_eq(count_nodes(graph, OP_ADD, PHASE_BACKWARD), 2);
    expect_differences(graph);
    graph_free(&graph);
}

Test(graph_gradient, a_value_added_to_itself) {
    struct graph *graph = graph_new(4, true);
    int y =
        graph_linear(graph, "fc", features(graph), kit_weight(graph, "w", SHAPE(5, 6)), NO_VALUE);
    finish(graph, graph_add(graph, "twice", y, y));
    kit_compile(graph, ref, NULL);
    expect_differences(graph);
    graph_free(&graph);
}

Test(graph_gradient, tied_parameters_have_a_gradient_for_each_use) {
    struct graph *graph = graph_new(4, true);
    int w = kit_weight(graph, "tied", SHAPE(6, 6)), v = kit_weight(graph, "once", SHAPE(6, 6));
    int x = graph_linear(graph, "first", features(graph), w, NO_VALUE);
    x = graph_tanh(graph, "tanh", x);
    x = graph_linear(graph, "between", x, v, NO_VALUE);
    x = graph_linear(graph, "second", x, graph_param_find(graph, "tied"), NO_VALUE);
    finish(graph, x);
    kit_compile(graph, ref, NULL);
    cr_assert_eq(graph->use_count, 3);
    cr_expect_eq(graph->params[0].use_count, 2);
    cr_expect_eq(graph->params[1].use_count, 1);
    cr_expect_eq(graph->params[0].first_use, 0);
    cr_expect_eq(graph->params[1].first_use, 2);
    /* Graph order: the gradient of the first layer's use is first, though it is made last. */
    const struct value *first = &graph->values[graph->uses[0].gradient];
    const struct value *second = &graph->values[graph->uses[1].gradient];
    cr_expect_str_eq(graph->nodes[first->producer].name, "first");
    cr_expect_str_eq(graph->nodes[second->producer].name, "second");
    cr_expect_gt(first->producer, second->producer);
    expect_differences(graph);
    graph_free(&graph);
}

Test(graph_gradient, a_parameter_without_influence_is_refused) {
    char said[512] = "";
    struct graph *graph = graph_new(4, true);
    int x =
        graph_linear(graph, "fc", features(graph), kit_weight(graph, "w", SHAPE(5, 6)), NO_VALUE);
    graph_linear(graph, "aside", x, kit_weight(graph, "idle.weight", SHAPE(5, 5)), NO_VALUE);
    finish(graph, x);
    log_capture(said, sizeof said);
    cr_expect_eq(graph_gradient(graph), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "idle.weight"), "%s", said);
    graph_free(&graph);
}

/* The executor points a use's gradient straight at its accumulator, so no two uses may share one,
 * and nobody else may read it. */
static void expect_own_gradients(const struct graph *graph, const char *name) {
    for (int u = 0; u < graph->use_count; u++) {
        int gradient = graph->uses[u].gradient;
        cr_expect_eq(graph->values[gradient].use, u, "%s: use %d shares its gradient", name, u);
        cr_expect_eq(graph->values[gradient].root, gradient, "%s: use %d is a view", name, u);
        for (int n = 0; n < graph->node_count; n++)
            for (int i = 0; i < graph->nodes[n].in_count; i++)
                cr_expect_neq(graph->values[graph->nodes[n].in[i]].root, gradient,
                              "%s: the gradient of %s is read by %s", name,
                              graph->params[graph->uses[u].param].name, graph->nodes[n].name);
    }
}

/* A parameter added to a value, before an activation and without: one gradient serves both. */
Test(graph_gradient, a_parameter_that_shares_its_gradient_gets_a_copy) {
    for (int activated = 0; activated < 2; activated++) {
        struct graph *graph = graph_new(4, true);
        int y = graph_linear(graph, "fc", features(graph), kit_weight(graph, "w", SHAPE(5, 6)),
                             NO_VALUE);
        int p = kit_weight(graph, "p", SHAPE(4, 5));
        int x = graph_add(graph, "shift", p, y);
        if (activated) x = graph_relu(graph, "relu", x);
        x = graph_add(graph, "twice", p, p);
        if (activated) x = graph_relu(graph, "relu2", x);
        finish(graph, graph_add(graph, "all", x, graph_add(graph, "rest", p, y)));
        kit_compile(graph, ref, NULL);
        expect_own_gradients(graph, "shared");
        expect_differences(graph);
        graph_free(&graph);
    }
}

/* What I reads, I (or forward) must have made. */
static void expect_halves_apart(const struct graph *graph, const char *name) {
    for (int n = graph->forward_count; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        for (int i = 0; node->half == OP_HALF_I && i < node->in_count; i++) {
            int producer = graph->values[node->in[i]].producer;
            cr_expect(producer < graph->forward_count || graph->nodes[producer].half == OP_HALF_I,
                      "%s: %s (%s) of I reads what %s (%s) of W makes", name, node->name,
                      op_def(node->op)->name, graph->nodes[producer].name,
                      op_def(graph->nodes[producer].op)->name);
        }
    }
}

/* A local value broadcast over the batch: its gradient, a sum over the batch, is needed by I. */
Test(graph_gradient, what_input_gradients_need_belongs_to_the_input_half) {
    struct graph *graph = graph_new(4, true);
    int p = kit_weight(graph, "p", SHAPE(1, 5));
    int wide = graph_tanh(graph, "tanh", p);
    int y =
        graph_linear(graph, "fc", features(graph), kit_weight(graph, "w", SHAPE(5, 6)), NO_VALUE);
    finish(graph, graph_add(graph, "shift", y, wide));
    kit_compile(graph, ref, NULL);
    expect_halves_apart(graph, "broadcast");
    struct kit_result together = kit_run(graph, NULL, KIT_TOGETHER, NULL);
    struct kit_result split = kit_run(graph, NULL, KIT_SPLIT, NULL);
    cr_expect_arr_eq(together.data, split.data, together.bytes);
    expect_differences(graph);
    kit_result_free(&together);
    kit_result_free(&split);
    graph_free(&graph);
}

Test(graph_gradient, every_model_keeps_the_rules) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        struct model_config config = {.batch = 2, .training = true, .dropout = 0.1f};
        struct graph *graph = NULL;
        cr_assert_eq(model_build(&all[m], &config, &graph), STATUS_OK);
        graph_fuse(graph);
        cr_assert_eq(graph_gradient(graph), STATUS_OK);
        expect_own_gradients(graph, all[m].name);
        expect_halves_apart(graph, all[m].name);
        for (int n = 0; n < graph->node_count; n++)
            for (int i = 0; i < graph->nodes[n].in_count; i++)
                cr_expect_lt(graph->values[graph->nodes[n].in[i]].producer, n,
                             "%s: node %d reads what is not made yet", all[m].name, n);
        graph_free(&graph);
    }
}
