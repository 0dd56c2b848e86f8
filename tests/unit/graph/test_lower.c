/* Kernels and layouts on the whole graph, with a backend whose kernels want other layouts each
 * time: reorders where two do not meet and nowhere else, parameters and their gradients in one
 * layout, and the bits of ref whatever lies in between. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "kit.h"

static const char *const models[] = {"mlp", "lenet", "resnet8", "vit-micro", "bert-tiny"};
enum { MODELS = sizeof models / sizeof models[0] };

TestSuite(graph_lower, .init = kit_open_devices, .fini = kit_close_devices);

/* Every kernel gets what it wants; every value is where it says. */
static void expect_layouts_meet(const struct graph *graph) {
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (!node->kernel) {
            cr_expect(op_def(node->op)->flags & OP_VIEW, "%s has no kernel", node->name);
            cr_expect(graph->values[node->in[0]].layout->plain, "%s views a layout", node->name);
            cr_expect_eq(graph->values[node->out[0]].root, graph->values[node->in[0]].root);
            continue;
        }
        for (int i = 0; i < node->in_count; i++)
            cr_expect_eq(graph->values[node->in[i]].layout, node->kernel->in[i],
                         "input %d of %s is %s", i, node->name,
                         graph->values[node->in[i]].layout->text);
        for (int i = 0; i < node->out_count; i++)
            cr_expect_eq(graph->values[node->out[i]].layout, node->kernel->out[i]);
    }
}

static bool in_weight_half(const struct node *node) {
    return node->phase == PHASE_BACKWARD && node->half == OP_HALF_W;
}

/* May a stage that holds this unit read a reorder of another unit, behind a cut between them? */
static bool may_serve(const struct graph *graph, const struct node *reorder, int unit) {
    const struct value *root = &graph->values[graph->values[reorder->in[0]].root];
    return reorder->phase == PHASE_FORWARD && reorder->unit < unit && root->kind == VALUE_LOCAL;
}

/* One per value and layout within a unit, but where the first is made in W, too late for I; one for
 * all units where forward makes it of a local value. */
static int expect_no_double_reorders(const struct graph *graph) {
    int reorders = 0;
    for (int a = 0; a < graph->node_count; a++) {
        const struct node *first = &graph->nodes[a];
        if (first->op != OP_REORDER) continue;
        reorders++;
        for (int b = a + 1; b < graph->node_count; b++) {
            const struct node *second = &graph->nodes[b];
            if (second->op != OP_REORDER || second->in[0] != first->in[0]) continue;
            bool same = graph->values[second->out[0]].layout == graph->values[first->out[0]].layout;
            bool late = in_weight_half(first) && !in_weight_half(second);
            bool apart = first->unit != second->unit && !may_serve(graph, first, second->unit);
            bool gradient =
                graph->values[first->out[0]].use >= 0 || graph->values[second->out[0]].use >= 0;
            cr_expect(!same || late || apart || gradient, "%s is reordered twice", first->name);
        }
    }
    return reorders;
}

static void expect_gradients_like_parameters(const struct graph *graph) {
    for (int u = 0; u < graph->use_count; u++) {
        const struct value *gradient = &graph->values[graph->uses[u].gradient];
        const struct param *param = &graph->params[graph->uses[u].param];
        cr_expect_eq(gradient->use, u);
        cr_expect_eq(gradient->layout, graph->values[param->value].layout,
                     "the gradient of %s is %s, the parameter %s", param->name,
                     gradient->layout->text, graph->values[param->value].layout->text);
    }
}

static int count_twisted_params(const struct graph *graph) {
    int count = 0;
    for (int p = 0; p < graph->param_count; p++)
        count += !graph->values[graph->params[p].value].layout->plain;
    return count;
}

Test(graph_lower, reorders_stand_where_layouts_do_not_meet) {
    for (int m = 0; m < MODELS; m++) {
        for (int training = 0; training < 2; training++) {
            struct graph *graph = kit_model(models[m], 2, training);
            kit_compile(graph, twist, NULL);
            expect_layouts_meet(graph);
            cr_expect_gt(expect_no_double_reorders(graph), 0);
            expect_gradients_like_parameters(graph);
            cr_expect_gt(count_twisted_params(graph), 0);
            graph_free(&graph);
        }
    }
}

static bool reads(const struct graph *graph, const struct node *node, int root) {
    for (int i = 0; i < node->in_count; i++)
        if (graph->values[node->in[i]].root == root) return true;
    return false;
}

/* A view of a reordered gradient goes on to the unit before like any gradient. */
static bool is_viewed(const struct graph *graph, const struct node *reorder) {
    const struct node *next = reorder + 1;
    if (next == graph->nodes + graph->node_count) return false;
    return op_def(next->op)->flags & OP_VIEW && next->unit == reorder->unit &&
           next->in[0] == reorder->out[0] && next->half == OP_HALF_I &&
           graph->values[next->out[0]].use < 0;
}

/* Wherever the cut between two units lies, no stage waits for a reorder that another one makes in
 * backward, and none is sent what it has itself. */
Test(graph_lower, reorders_serve_other_units_only_as_forward_goes) {
    int served = 0;
    for (int m = 0; m < MODELS; m++) {
        struct graph *graph = kit_model(models[m], 2, true);
        kit_compile(graph, twist, NULL);
        for (int a = 0; a < graph->node_count; a++) {
            const struct node *reorder = &graph->nodes[a];
            if (reorder->op != OP_REORDER || is_viewed(graph, reorder)) continue;
            for (int b = a + 1; b < graph->node_count; b++) {
                const struct node *reader = &graph->nodes[b];
                if (reader->unit == reorder->unit || !reads(graph, reader, reorder->out[0]))
                    continue;
                served++;
                cr_expect(may_serve(graph, reorder, reader->unit),
                          "%s: the reorder of %s in unit %d is read by %s in unit %d", models[m],
                          reorder->name, reorder->unit, reader->name, reader->unit);
            }
        }
        graph_free(&graph);
    }
    cr_expect_gt(served, 0, "no reorder is read by another unit");
}

Test(graph_lower, where_layouts_meet_there_is_no_reorder) {
    for (int m = 0; m < MODELS; m++) {
        struct graph *graph = kit_model(models[m], 2, false);
        kit_compile(graph, ref, NULL);
        cr_expect_eq(expect_no_double_reorders(graph), 0, "%s", models[m]);
        expect_layouts_meet(graph);
        graph_free(&graph);
    }
}

/* Every graph of a run shares one set of parameters, in the layouts the first one chose. */
Test(graph_lower, parameter_layouts_of_an_earlier_graph_are_kept) {
    for (int m = 0; m < MODELS; m++) {
        struct graph *first = kit_model(models[m], 2, true);
        kit_compile(first, twist, NULL);
        const struct layout *layouts[256];
        cr_assert_lt(first->param_count, 256);
        for (int p = 0; p < first->param_count; p++)
            layouts[p] = first->values[first->params[p].value].layout;
        for (int training = 0; training < 2; training++) {
            struct graph *later = kit_model(models[m], 3, training);
            kit_compile(later, twist, layouts);
            cr_assert_eq(later->param_count, first->param_count);
            for (int p = 0; p < later->param_count; p++)
                cr_expect_eq(later->values[later->params[p].value].layout, layouts[p]);
            expect_layouts_meet(later);
            expect_gradients_like_parameters(later);
            graph_free(&later);
        }
        graph_free(&first);
    }
}

static struct kit_result run_on(struct device *device, const char *model, bool training,
                                enum kit_order order) {
    struct graph *graph = kit_model(model, 2, training);
    kit_compile(graph, device, NULL);
    struct kit_result result = kit_run(graph, NULL, order, NULL);
    graph_free(&graph);
    return result;
}

Test(graph_lower, reorders_do_not_change_the_bits) {
    for (int m = 0; m < MODELS; m++) {
        for (int training = 0; training < 2; training++) {
            struct kit_result plain = run_on(ref, models[m], training, KIT_TOGETHER);
            struct kit_result other = run_on(twist, models[m], training, KIT_TOGETHER);
            cr_assert_eq(plain.bytes, other.bytes);
            cr_expect_arr_eq(plain.data, other.data, plain.bytes, "%s", models[m]);
            cr_expect(plain.loss > 0 && plain.loss < 1e6);
            kit_result_free(&plain);
            kit_result_free(&other);
        }
    }
}

/* All of I before all of W, among alternating layouts: no reorder may come too late. */
Test(graph_lower, halves_run_apart_give_the_same_bits) {
    for (int m = 0; m < MODELS; m++) {
        struct kit_result together = run_on(twist, models[m], true, KIT_TOGETHER);
        struct kit_result split = run_on(twist, models[m], true, KIT_SPLIT);
        cr_assert_eq(together.bytes, split.bytes);
        cr_expect_arr_eq(together.data, split.data, together.bytes, "%s", models[m]);
        kit_result_free(&together);
        kit_result_free(&split);
    }
}

/* A device that cannot run an operation says which. */
static bool no_pooling(struct device *device, const struct op_call *call) {
    (void)device;
    return call->op != OP_MAX_POOL;
}

Test(graph_lower, an_operation_the_device_cannot_run_is_named) {
    struct backend table = *ref->backend;
    struct device *cripple;
    char said[512] = "";
    cr_assert_eq(device_open("ref", 0, 1, &cripple), STATUS_OK);
    table.supports = no_pooling;
    cripple->backend = &table;
    struct graph *graph = kit_model("lenet", 2, true);
    graph_fuse(graph);
    cr_assert_eq(graph_gradient(graph), STATUS_OK);
    log_capture(said, sizeof said);
    cr_expect_eq(graph_lower(graph, cripple, NULL), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "max_pool"), "%s", said);
    graph_free(&graph);
    device_close(&cripple);
}
