/* Fusion: each pattern merges where the value in between has one reader, and never else; and what
 * is merged computes the same. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "kit.h"

enum first { CONV, LINEAR, NORM, ADD };
enum second { RELU, TANH, GELU, SILU, SUM };

static int make_first(struct graph *graph, enum first first) {
    int x = graph_input(graph, "x", DTYPE_F32, SHAPE(2, 3, 4, 4));
    int c = first == LINEAR ? NO_VALUE : kit_weight(graph, "c", SHAPE(3, 3, 3, 3));
    switch (first) {
    case CONV: return graph_conv2d(graph, "first", x, c, NO_VALUE, 1, 1, 1);
    case LINEAR:
        return graph_linear(graph, "first", x, kit_weight(graph, "w", SHAPE(4, 4)), NO_VALUE);
    case ADD:
        return graph_add(graph, "first", x, graph_conv2d(graph, "c", x, c, NO_VALUE, 1, 1, 1));
    case NORM: break;
    }
    return graph_batch_norm(
        graph, "first", graph_conv2d(graph, "c", x, c, NO_VALUE, 1, 1, 1),
        kit_weight(graph, "scale", SHAPE(3)), kit_weight(graph, "shift", SHAPE(3)),
        graph_buffer(graph, "running_mean", DTYPE_F32, SHAPE(3), 0),
        graph_buffer(graph, "running_var", DTYPE_F32, SHAPE(3), 1),
        graph_buffer(graph, "batches", DTYPE_I64, SHAPE_SCALAR, 0), 1e-5f, 0.1f);
}

static int make_second(struct graph *graph, enum second second, const char *name, int x) {
    if (second == RELU) return graph_relu(graph, name, x);
    if (second == SUM) return graph_add(graph, name, graph->inputs[0], x);
    if (second == SILU) return graph_op(graph, name, OP_SILU, NULL, 1, &x);
    return second == TANH ? graph_tanh(graph, name, x) : graph_gelu(graph, name, x, false);
}

/* `readers` of the value in between; the rest reads them all. */
static struct graph *build(bool training, enum first first, enum second second, int readers) {
    struct graph *graph = graph_new(2, training);
    int between = make_first(graph, first);
    int y = make_second(graph, second, "second", between);
    if (readers > 1) y = graph_add(graph, "other", y, between);
    y = graph_reshape(graph, "flatten", y, SHAPE(2, 48));
    int label = graph_input(graph, "label", DTYPE_I32, SHAPE(2));
    graph_cross_entropy(graph, "loss", y, label, 0.1f, true);
    cr_assert_eq(graph->status, STATUS_OK);
    return graph;
}

static const struct node *find(const struct graph *graph, const char *name) {
    for (int i = 0; i < graph->node_count; i++)
        if (strcmp(graph->nodes[i].name, name) == 0) return &graph->nodes[i];
    return NULL;
}

static void expect_order(const struct graph *graph) {
    for (int n = 0; n < graph->node_count; n++) {
        for (int i = 0; i < graph->nodes[n].in_count; i++)
            cr_expect_lt(graph->values[graph->nodes[n].in[i]].producer, n);
        for (int i = 0; i < graph->nodes[n].out_count; i++)
            cr_expect_eq(graph->values[graph->nodes[n].out[i]].producer, n);
    }
}

/* Loss and gradients of the graph with and without fusion, both on ref. */
static void expect_same(enum first first, enum second second) {
    struct device *device;
    cr_assert_eq(device_open("ref", 0, 1, &device), STATUS_OK);
    struct kit_result result[2];
    for (int fused = 0; fused < 2; fused++) {
        struct graph *graph = build(true, first, second, 1);
        if (fused) graph_fuse(graph);
        cr_assert_eq(graph_gradient(graph), STATUS_OK);
        cr_assert_eq(graph_lower(graph, device, NULL), STATUS_OK);
        result[fused] = kit_run(graph, NULL, KIT_TOGETHER, NULL);
        graph_free(&graph);
    }
    cr_expect_float_eq(result[0].loss, result[1].loss, 1e-5);
    cr_assert_eq(result[0].bytes, result[1].bytes);
    /* Behind the loss and the three counts come gradients, up to the buffers. */
    size_t end = result[0].bytes - (first == NORM ? 32 : 0);
    for (size_t at = 32; at < end; at += 4) {
        float a, b;
        memcpy(&a, result[0].data + at, 4);
        memcpy(&b, result[1].data + at, 4);
        cr_expect_float_eq(a, b, 1e-5 * (1 + fabs(b)));
    }
    kit_result_free(&result[0]);
    kit_result_free(&result[1]);
    device_close(&device);
}

static void check_pair(bool training, enum first first, enum second second, bool merges) {
    for (int readers = 1; readers <= 2; readers++) {
        struct graph *graph = build(training, first, second, readers);
        int before = graph->node_count;
        graph_fuse(graph);
        bool merged = find(graph, "second") == NULL;
        cr_expect_eq(merged, merges && readers == 1, "%d then %d with %d readers: %s", first,
                     second, readers, merged ? "merged" : "kept");
        cr_expect_eq(graph->node_count, before - merged - 1); /* the loss always merges */
        cr_expect_eq(graph->forward_count, graph->node_count);
        static const enum activation activations[] = {[RELU] = ACTIVATION_RELU,
                                                      [TANH] = ACTIVATION_TANH,
                                                      [GELU] = ACTIVATION_GELU,
                                                      [SILU] = ACTIVATION_SILU,
                                                      [SUM] = ACTIVATION_NONE};
        enum activation want = merged ? activations[second] : ACTIVATION_NONE;
        cr_expect_eq(find(graph, "first")->attrs.activation, want);
        expect_order(graph);
        graph_free(&graph);
    }
}

Test(graph_fuse, pairs_merge_where_they_may) {
    static const bool merges[4][5] = {[CONV] = {true, true, false, false, false},
                                      [LINEAR] = {true, true, true, true, false},
                                      [NORM] = {true, false, false, false, true},
                                      [ADD] = {true, false, false, false, false}};
    for (int first = CONV; first <= ADD; first++) {
        for (int second = RELU; second <= SUM; second++) {
            check_pair(true, (enum first)first, (enum second)second, merges[first][second]);
            check_pair(false, (enum first)first, (enum second)second, merges[first][second]);
            expect_same((enum first)first, (enum second)second);
        }
    }
}

/* Backward reads what gelu and silu were applied to; evaluation does not. In bf16 and f16 that is
 * rounded first. */
Test(graph_fuse, gelu_and_silu_keep_their_input_in_training) {
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (int training = 0; training < 2; training++)
        for (int i = 0; i < 6; i++) {
            struct graph *graph = build(training, LINEAR, i % 2 ? SILU : GELU, 1);
            bool narrow = i > 1;
            graph->dtype = types[i / 2];
            graph_fuse(graph);
            cr_expect_eq(find(graph, "second") != NULL, narrow);
            cr_expect_eq(find(graph, "first")->out_count, training && !narrow ? 2 : 1);
            expect_order(graph);
            graph_free(&graph);
        }
}

Test(graph_fuse, an_activation_merges_once) {
    struct graph *graph = build(true, CONV, RELU, 1);
    graph_free(&graph);
    graph = graph_new(2, true);
    int y = graph_relu(graph, "one", make_first(graph, CONV));
    y = graph_relu(graph, "two", y);
    graph_fuse(graph);
    cr_expect_null(find(graph, "one"));
    cr_expect_not_null(find(graph, "two"));
    expect_order(graph);
    graph_free(&graph);
}

/* A residual block whose shortcut is a batch norm too, made behind the first one: the sum and its
 * relu go to the one that stands last. A second sum is not taken, nor one over the batch. */
Test(graph_fuse, a_batch_norm_takes_one_sum_of_its_shape) {
    for (int training = 0; training < 2; training++) {
        struct graph *graph = graph_new(2, training);
        int a = make_first(graph, NORM), x = graph->inputs[0];
        int b = graph_batch_norm(graph, "shortcut", x, kit_weight(graph, "scale2", SHAPE(3)),
                                 kit_weight(graph, "shift2", SHAPE(3)),
                                 graph_buffer(graph, "running_mean2", DTYPE_F32, SHAPE(3), 0),
                                 graph_buffer(graph, "running_var2", DTYPE_F32, SHAPE(3), 1),
                                 graph_buffer(graph, "batches2", DTYPE_I64, SHAPE_SCALAR, 0), 1e-5f,
                                 0.1f);
        int y = graph_add(graph, "again", graph_add(graph, "sum", a, b), x);
        int spread = kit_weight(graph, "spread", SHAPE(1, 3, 4, 4));
        graph_add(graph, "rows", graph_relu(graph, "relu", y), spread);
        graph_fuse(graph);
        cr_assert_eq(graph->status, STATUS_OK);
        expect_order(graph);
        cr_expect_null(find(graph, "sum"));
        cr_expect_eq(find(graph, "first")->in_count, training ? 3 : 5);
        cr_expect_eq(find(graph, "shortcut")->in_count, training ? 4 : 6);
        cr_expect_eq(find(graph, "again")->attrs.activation, ACTIVATION_RELU);
        cr_expect_not_null(find(graph, "rows"));
        graph_free(&graph);
    }
}

Test(graph_fuse, the_loss_becomes_one_operation) {
    struct graph *graph = build(true, CONV, RELU, 1);
    graph_fuse(graph);
    const struct node *loss = find(graph, "loss");
    cr_expect_eq(loss->op, OP_CROSS_ENTROPY);
    cr_expect_float_eq(loss->attrs.loss.smoothing, 0.1f, 0);
    cr_expect_eq(graph->losses[0].sum, loss->out[0]);
    graph_free(&graph);
}

/* Labels made between the two: the fused node would read them before they are there. */
Test(graph_fuse, nothing_merges_past_what_it_reads) {
    struct graph *graph = graph_new(2, true);
    int logits = graph_linear(graph, "fc", graph_input(graph, "x", DTYPE_F32, SHAPE(2, 4)),
                              kit_weight(graph, "w", SHAPE(5, 4)), NO_VALUE);
    int logp = graph_op(graph, "logp", OP_LOG_SOFTMAX, NULL, 1, &logits);
    int label = graph_input(graph, "label", DTYPE_I32, SHAPE(2, 1));
    label = graph_reshape(graph, "label2", label, SHAPE(2));
    graph_op(graph, "nll", OP_NLL, NULL, 2, (int[]){logp, label});
    cr_assert_eq(graph->status, STATUS_OK);
    graph_fuse(graph);
    expect_order(graph);
    graph_free(&graph);
}

/* Whatever stands between two losses is with them: no cut parts them. */
Test(graph_fuse, losses_are_one_unit) {
    struct graph *graph = graph_new(2, true);
    int x = graph_input(graph, "x", DTYPE_F32, SHAPE(2, 4));
    int label = graph_input(graph, "label", DTYPE_I32, SHAPE(2));
    int first = graph_linear(graph, "first", x, kit_weight(graph, "a", SHAPE(3, 4)), NO_VALUE);
    graph_cross_entropy(graph, "one", first, label, 0, true);
    int second = graph_linear(graph, "second", x, kit_weight(graph, "b", SHAPE(5, 4)), NO_VALUE);
    graph_cross_entropy(graph, "two", second, label, 0, false);
    graph_fuse(graph);
    cr_assert_eq(graph->forward_count, 5);
    cr_assert_str_eq(graph->nodes[0].name, "first");
    cr_expect_eq(graph->nodes[0].unit, 0);
    for (int n = 1; n < graph->forward_count; n++)
        cr_expect_eq(graph->nodes[n].unit, 1, "%s", graph->nodes[n].name);
    graph_free(&graph);
}
