/* bf16 on the whole graph: what is narrow, what stays f32, where it is rounded; and that cuts do
 * not change a bit of it. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "op/precision.h"

static const char *const models[] = {"mlp", "lenet", "resnet8", "vit-micro", "bert-tiny"};
enum { MODELS = sizeof models / sizeof models[0] };

TestSuite(graph_narrow, .init = kit_open_devices, .fini = kit_close_devices);

static struct graph *compiled(const char *name, enum dtype dtype) {
    struct graph *graph = kit_model(name, 2, true);
    graph_fuse(graph);
    cr_assert_eq(graph_gradient(graph), STATUS_OK);
    graph_narrow(graph, dtype);
    cr_assert_eq(graph_lower(graph, ref, NULL), STATUS_OK);
    return graph;
}

/* Does a sum of forward read this norm of rows? */
static bool in_stream(const struct graph *graph, const struct node *norm) {
    for (int n = 0; n < graph->forward_count && norm->op == OP_LAYER_NORM; n++)
        if (graph->nodes[n].op == OP_ADD &&
            (graph->nodes[n].in[0] == norm->out[0] || graph->nodes[n].in[1] == norm->out[0]))
            return true;
    return false;
}

/* BERT has its norms in the stream, with the sums before them; vision transformers have them beside
 * it. */
Test(graph_narrow, a_stream_through_norms_is_f32) {
    static const struct {
        const char *model;
        int norms; /* of the stream: not that before dropout, nor the last one, nor the head's */
    } rows[] = {{"bert-tiny", 3}, {"vit-micro", 0}, {"resnet8", 0}};
    for (size_t m = 0; m < sizeof rows / sizeof rows[0]; m++) {
        struct graph *graph = compiled(rows[m].model, DTYPE_BF16);
        int found = 0;
        for (int n = 0; n < graph->forward_count; n++) {
            const struct node *node = &graph->nodes[n];
            if (node->op != OP_LAYER_NORM || !in_stream(graph, node)) continue;
            const struct value *x = &graph->values[node->in[0]];
            cr_expect_eq(x->type.dtype, DTYPE_F32, "%s: what %s reads", rows[m].model, node->name);
            cr_expect_eq(graph->values[node->out[0]].type.dtype, DTYPE_F32, "%s: %s", rows[m].model,
                         node->name);
            found++;
        }
        cr_expect_eq(found, rows[m].norms, "%s: %d", rows[m].model, found);
        graph_free(&graph);
    }
}

Test(graph_narrow, products_read_bf16_and_parameters_are_f32) {
    for (int m = 0; m < MODELS; m++) {
        struct graph *graph = compiled(models[m], DTYPE_BF16);
        int products = 0;
        for (int p = 0; p < graph->param_count; p++)
            cr_expect_eq(graph->values[graph->params[p].value].type.dtype, DTYPE_F32);
        for (int u = 0; u < graph->use_count; u++)
            cr_expect_eq(graph->values[graph->uses[u].gradient].type.dtype, DTYPE_F32,
                         "%s: the gradient of %s is narrow", models[m],
                         graph->params[graph->uses[u].param].name);
        for (int n = 0; n < graph->node_count; n++) {
            const struct node *node = &graph->nodes[n];
            struct op_call call = graph_call(graph, node);
            for (int i = 0; i < node->in_count; i++) {
                bool real = call.in[i].dtype == DTYPE_F32 || call.in[i].dtype == DTYPE_BF16;
                if (!real || !op_narrow_in(node->op, i)) continue;
                products++;
                cr_expect_eq(call.in[i].dtype, DTYPE_BF16, "%s: input %d of %s is f32", models[m],
                             i, node->name);
            }
            if (op_exact_in(node->op))
                cr_expect_eq(call.in[0].dtype, DTYPE_F32, "%s: %s reads bf16", models[m],
                             op_def(node->op)->name);
            if (node->op == OP_BATCH_NORM || node->op == OP_LAYER_NORM)
                cr_expect(call.out[0].dtype == (in_stream(graph, node) ? DTYPE_F32 : DTYPE_BF16) &&
                          call.out[1].dtype == DTYPE_F32 && call.out[2].dtype == DTYPE_F32);
        }
        cr_expect_gt(products, 4);
        graph_free(&graph);
    }
}

static size_t crossing_bytes(const struct graph *graph, int unit, enum phase phase) {
    struct ranges ranges;
    cr_assert_eq(ranges_new(graph, &unit, 1, &ranges), STATUS_OK);
    struct crossing crossing = ranges_crossing(&ranges, 0, phase);
    free(crossing.values);
    ranges_free(&ranges);
    return crossing.bytes;
}

/* But for logits, which are f32, the statistics of a batch norm behind a cut, and the stream of
 * BERT. */
Test(graph_narrow, stages_send_half_the_bytes) {
    for (int m = 0; m < MODELS; m++) {
        struct graph *wide = compiled(models[m], DTYPE_F32),
                     *narrow = compiled(models[m], DTYPE_BF16);
        int units = graph_unit_count(wide);
        cr_assert_eq(units, graph_unit_count(narrow));
        for (int unit = 2; unit < units / 2; unit++)
            for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD; phase++) {
                size_t a = crossing_bytes(wide, unit, (enum phase)phase),
                       b = crossing_bytes(narrow, unit, (enum phase)phase);
                bool stream = strcmp(models[m], "bert-tiny") == 0 && phase == PHASE_FORWARD;
                cr_expect(2 * b >= a && 100 * b <= (stream ? 100 : 51) * a,
                          "%s, unit %d: %zu and %zu bytes", models[m], unit, a, b);
            }
        graph_free(&wide);
        graph_free(&narrow);
    }
}

/* Kept from forward to backward, every micro-batch in flight would have a copy of the weights. */
Test(graph_narrow, rounded_weights_live_in_one_phase) {
    for (int m = 0; m < MODELS; m++) {
        struct graph *graph = compiled(models[m], DTYPE_BF16);
        int rounded = 0;
        for (int n = 0; n < graph->node_count; n++) {
            const struct node *node = &graph->nodes[n];
            for (int i = 0; i < node->in_count; i++) {
                int maker = graph->values[graph->values[node->in[i]].root].producer;
                if (maker < 0 || graph->nodes[maker].op != OP_REORDER) continue;
                int from = graph->values[graph->nodes[maker].in[0]].root;
                if (graph->values[from].kind != VALUE_PARAM) continue;
                rounded++;
                cr_expect_eq(graph->nodes[maker].phase, node->phase, "%s of %s", node->name,
                             models[m]);
            }
        }
        cr_expect_gt(rounded, 2);
        graph_free(&graph);
    }
}

Test(graph_narrow, the_loss_is_near_that_of_f32) {
    for (int m = 0; m < MODELS; m++) {
        struct graph *wide = compiled(models[m], DTYPE_F32),
                     *narrow = compiled(models[m], DTYPE_BF16);
        struct kit_result a = kit_run(wide, NULL, KIT_TOGETHER, NULL),
                          b = kit_run(narrow, NULL, KIT_TOGETHER, NULL);
        cr_expect(a.loss != b.loss && fabs(a.loss - b.loss) < 0.02 * fabs(a.loss),
                  "%s: %g with f32, %g with bf16", models[m], a.loss, b.loss);
        free(a.data);
        free(b.data);
        graph_free(&wide);
        graph_free(&narrow);
    }
}

Test(graph_narrow, stages_have_the_bits_of_the_whole) {
    for (int m = 0; m < MODELS; m++) {
        struct graph *graph = compiled(models[m], DTYPE_BF16);
        struct kit_result whole = kit_run(graph, NULL, KIT_TOGETHER, NULL);
        int units = graph_unit_count(graph);
        for (int at = 1; at < units; at += units / 5 + 1) {
            struct ranges ranges;
            struct placement_config config = {0};
            cr_assert_eq(ranges_new(graph, &at, 1, &ranges), STATUS_OK);
            struct kit_result parts = kit_run_stages(&ranges, &config, KIT_TOGETHER);
            cr_expect(parts.bytes == whole.bytes &&
                          memcmp(parts.data, whole.data, whole.bytes) == 0,
                      "%s, cut before unit %d", models[m], at);
            free(parts.data);
            ranges_free(&ranges);
        }
        free(whole.data);
        graph_free(&graph);
    }
}
