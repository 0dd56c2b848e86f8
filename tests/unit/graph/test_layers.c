/* Layers: the same in every graph of a model, so that a cut means the same in all of them; found by
 * the names users know, and refused with a hint by others. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "graph/layers.h"
#include "graph/needs.h"
#include "kit.h"

TestSuite(graph_layers, .init = kit_open_devices, .fini = kit_close_devices);

/* --- every model --- */

struct variant {
    const char *what;
    int64_t batch;
    bool training;
    float dropout;
    int stats_ranks;
};

static const struct variant variants[] = {{"plain", 2, true, 0, 1},
                                          {"dropout", 2, true, 0.1f, 1},
                                          {"evaluation", 2, false, 0.1f, 1},
                                          {"other size", 5, true, 0.1f, 1},
                                          {"shared statistics", 2, true, 0, 3}};
enum { PLAIN, DROPOUT, EVALUATION, VARIANTS = sizeof variants / sizeof variants[0] };

static struct graph *build(const struct model *model, const struct variant *variant,
                           struct device *device) {
    struct model_config config = {.batch = variant->batch,
                                  .training = variant->training,
                                  .stats_ranks = variant->stats_ranks,
                                  .dropout = variant->dropout};
    struct graph *graph = NULL;
    cr_assert_eq(model_build(model, &config, &graph), STATUS_OK);
    kit_compile(graph, device, NULL);
    return graph;
}

static void expect_same_names(const struct layer_list *a, const struct layer_list *b,
                              const char *model, const char *what) {
    cr_expect_eq(a->count, b->count, "%s, %s: %d layers and %d", model, what, a->count, b->count);
    for (int i = 0; i < a->count && i < b->count; i++)
        cr_expect_str_eq(a->name[i], b->name[i], "%s, %s", model, what);
}

static void expect_list(const struct layer_list *layers, const char *model) {
    cr_expect_gt(layers->count, 3, "%s", model);
    cr_expect_eq(layers->first_unit[0], 0);
    cr_expect_eq(layers->first_unit[layers->count], graph_unit_count(layers->graph));
    for (int i = 0; i < layers->count; i++) {
        cr_expect_lt(layers->first_unit[i], layers->first_unit[i + 1]);
        cr_expect_eq(layers_at(layers, layers->first_unit[i]), i);
        cr_expect_eq(layers_at(layers, layers->first_unit[i + 1] - 1), i);
        for (int k = 0; k < i; k++)
            cr_expect_str_neq(layers->name[i], layers->name[k], "%s: twice", model);
    }
}

Test(graph_layers, are_the_same_in_every_graph_of_a_model) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        struct graph *first = build(&all[m], &variants[0], ref);
        struct layer_list layers = layers_of(first);
        expect_list(&layers, all[m].name);
        for (int v = 1; v < VARIANTS; v++) {
            struct graph *other = build(&all[m], &variants[v], twist);
            struct layer_list others = layers_of(other);
            expect_same_names(&layers, &others, all[m].name, variants[v].what);
            layers_free(&others);
            graph_free(&other);
        }
        layers_free(&layers);
        graph_free(&first);
    }
}

/* The first unit of a layer works, and those behind it are of its name, or do not. */
Test(graph_layers, begin_with_work) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        struct graph *graph = build(&all[m], &variants[DROPOUT], ref);
        struct layer_list layers = layers_of(graph);
        for (int n = 0; n < graph->forward_count; n++) {
            const struct node *node = &graph->nodes[n];
            int layer = layers_at(&layers, node->unit);
            bool first = layer > 0 && node->unit == layers.first_unit[layer];
            unsigned flags = op_def(node->op)->flags;
            bool works = !(flags & (OP_VIEW | OP_SIDE_EFFECT)) && node->op != OP_DROPOUT;
            if (first) cr_expect(works, "%s: %s begins a layer", all[m].name, node->name);
            bool one = layer < layers.count - 1; /* the last has all losses */
            if (works && one) cr_expect_str_eq(layers.name[layer], node->name, "%s", all[m].name);
        }
        layers_free(&layers);
        graph_free(&graph);
    }
}

/* --- cuts from graph to graph --- */

static void expect_same_params(const struct needs *a, const struct needs *b, const char *what) {
    cr_expect_eq(a->param_count, b->param_count, "%s", what);
    for (int i = 0; i < a->param_count && i < b->param_count; i++)
        cr_expect_eq(a->params[i].param, b->params[i].param, "%s", what);
}

/* Evaluation does not count batches. */
static void expect_buffers_within(const struct needs *eval, const struct needs *train,
                                  const char *what) {
    for (int i = 0, k = 0; i < eval->buffer_count; i++) {
        while (k < train->buffer_count && train->buffers[k] < eval->buffers[i]) k++;
        cr_expect(k < train->buffer_count && train->buffers[k] == eval->buffers[i],
                  "%s: buffer %d is read elsewhere", what, eval->buffers[i]);
    }
}

static int find_crossing(const struct ranges *ranges, const struct crossing *crossing,
                         const struct value *value) {
    for (int i = 0; i < crossing->count; i++)
        if (strcmp(ranges->graph->values[crossing->values[i]].name, value->name) == 0) return i;
    return -1;
}

/* Returns how many cross in both. */
static int expect_same_shapes(const struct ranges *a, const struct ranges *b, const char *what) {
    struct crossing one = ranges_crossing(a, 0, PHASE_FORWARD),
                    other = ranges_crossing(b, 0, PHASE_FORWARD);
    int both = 0;
    for (int i = 0; i < one.count; i++) {
        const struct value *value = &a->graph->values[one.values[i]];
        int k = find_crossing(b, &other, value);
        if (k < 0) continue;
        both++;
        cr_expect(shape_equal(&value->type.shape, &b->graph->values[other.values[k]].type.shape),
                  "%s: %s", what, value->name);
    }
    if (one.count != other.count) both = -1;
    free(one.values);
    free(other.values);
    return both;
}

static void expect_translation(const struct layer_list *train, const struct layer_list *eval,
                               int layer, bool same_crossing, const char *model) {
    char what[160];
    snprintf(what, sizeof what, "%s cut before %s", model, train->name[layer]);
    int at = train->first_unit[layer], there;
    cr_assert_eq(layers_translate(train, &at, 1, eval, &there), STATUS_OK);
    struct ranges a, b;
    cr_assert_eq(ranges_new(train->graph, &at, 1, &a), STATUS_OK);
    cr_assert_eq(ranges_new(eval->graph, &there, 1, &b), STATUS_OK);
    for (int s = 0; s < 2; s++) {
        struct needs trained = needs_of(&a, s), evaluated = needs_of(&b, s);
        expect_same_params(&trained, &evaluated, what);
        expect_buffers_within(&evaluated, &trained, what);
        cr_expect_eq(trained.loss_count, evaluated.loss_count, "%s", what);
        needs_free(&trained);
        needs_free(&evaluated);
    }
    int both = expect_same_shapes(&a, &b, what);
    if (same_crossing) cr_expect_gt(both, 0, "%s: other tensors cross", what);
    ranges_free(&a);
    ranges_free(&b);
}

/* Every model and every cut: parameters and statistics in the same chunk, and the same tensors over
 * the cut (with dropout they have other names). */
Test(graph_layers, a_cut_means_the_same_in_training_and_evaluation) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        struct graph *eval = build(&all[m], &variants[EVALUATION], ref);
        struct layer_list to = layers_of(eval);
        for (int v = PLAIN; v <= DROPOUT; v++) {
            struct graph *train = build(&all[m], &variants[v], ref);
            struct layer_list from = layers_of(train);
            for (int layer = 1; layer < from.count; layer++)
                expect_translation(&from, &to, layer, v == PLAIN, all[m].name);
            layers_free(&from);
            graph_free(&train);
        }
        layers_free(&to);
        graph_free(&eval);
    }
}

/* x -> fc -> dropout -> relu -> head: without its dropout, relu is part of fc. */
static struct graph *fused_without_dropout(bool training) {
    struct graph *graph = graph_new(2, training);
    int x = graph_input(graph, "x", DTYPE_F32, SHAPE(2, 4));
    int label = graph_input(graph, "label", DTYPE_I32, SHAPE(2));
    x = graph_linear(graph, "fc", x, kit_weight(graph, "fc.weight", SHAPE(4, 4)), NO_VALUE);
    x = graph_dropout(graph, "drop", x, 0.5f);
    x = graph_relu(graph, "relu", x);
    x = graph_linear(graph, "head", x, kit_weight(graph, "head.weight", SHAPE(3, 4)), NO_VALUE);
    graph_cross_entropy(graph, "loss", x, label, 0, true);
    kit_compile(graph, ref, NULL);
    return graph;
}

Test(graph_layers, a_chunk_that_evaluation_would_leave_empty_is_refused) {
    struct graph *train = fused_without_dropout(true), *eval = fused_without_dropout(false);
    struct layer_list from = layers_of(train), to = layers_of(eval);
    const char *const both[] = {"relu", "head"};
    int cuts[2], there[2] = {-1, -1};
    cr_assert_eq(layers_cut(&from, both, 2, cuts), STATUS_OK);
    cr_expect_eq(layers_translate(&from, cuts, 1, &to, there), STATUS_OK);
    cr_expect_eq(there[0], to.first_unit[1], "head is the first behind the cut");
    char said[512] = "";
    log_capture(said, sizeof said);
    cr_expect_eq(layers_translate(&from, cuts, 2, &to, there), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "head") && strstr(said, "empty"), "%s", said);
    cr_expect_eq(there[1], -1);
    layers_free(&from);
    layers_free(&to);
    graph_free(&train);
    graph_free(&eval);
}

/* --- names --- */

struct named {
    const char *model, *name, *layer; /* layer: NULL is an error, which says `said` */
    const char *said;
};

static const struct named names[] = {
    {"resnet8", "conv1", "conv1", NULL},
    {"resnet8", "layer2", "layer2.0.conv1", NULL},
    {"resnet8", "layer2.0", "layer2.0.conv1", NULL},
    {"resnet8", "layer2.0.bn1", "layer2.0.bn1", NULL},
    {"resnet8", "layer2.0.bn1.bias", "layer2.0.bn1", NULL},
    {"resnet8", "fc", "fc", NULL},
    {"resnet8", "layer20", NULL, "did you mean layer2"},
    {"resnet8", "layr2", NULL, "did you mean layer2"},
    {"resnet8", "relu", NULL, "part of layer bn1"},
    {"resnet8", "flatten", NULL, "part of layer avgpool"},
    {"resnet8", "conv2", NULL, "layer1.0.conv2 or layer2.0.conv2"},
    {"resnet8", "", NULL, "no such layer"},
    {"resnet8", "nothing-like-that", NULL, "its first is conv1, its last loss"},
    {"bert-tiny", "encoder.layer.1", "bert.encoder.layer.1.attention.self.query", NULL},
    {"bert-tiny", "bert.encoder.layer.1", "bert.encoder.layer.1.attention.self.query", NULL},
    {"bert-tiny", "cls", "cls.predictions.masked", NULL},
    {"bert-tiny", "cls.predictions.bias", "cls.predictions.decoder", NULL},
    {"bert-tiny", "encoder.layer.2", NULL, "its first is bert.emb"},
    {"vit-micro", "blocks.3", "blocks.3.norm1", NULL},
    {"vit-micro", "norm", "norm", NULL},
    {"vit-micro", "blocks.1.mlp.drop1", NULL, "part of layer blocks.1.mlp.fc1"},
    {"mlp", "flatten", NULL, "part of layer fc1"},
    {"mlp", "fc2.weight", "fc2", NULL},
};

Test(graph_layers, are_found_by_name) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct graph *graph = kit_model(names[i].model, 2, true);
        kit_compile(graph, ref, NULL);
        struct layer_list layers = layers_of(graph);
        char said[512] = "";
        int layer = -1;
        log_capture(said, sizeof said);
        enum status status = layers_find(&layers, names[i].name, &layer);
        log_capture(NULL, 0);
        cr_expect_eq(status, names[i].layer ? STATUS_OK : STATUS_USAGE, "%s: %s", names[i].name,
                     said);
        if (names[i].layer) {
            cr_assert_geq(layer, 0);
            cr_expect_str_eq(layers.name[layer], names[i].layer);
        } else {
            cr_expect(strstr(said, names[i].said), "%s: %s", names[i].name, said);
        }
        layers_free(&layers);
        graph_free(&graph);
    }
}

/* What is printed for --cut leads back to the same layer. */
Test(graph_layers, brief_names_are_understood) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        struct graph *graph = build(&all[m], &variants[DROPOUT], ref);
        struct layer_list layers = layers_of(graph);
        for (int i = 0; i < layers.count; i++) {
            char text[160];
            int found = -1;
            snprintf(text, sizeof text, "%.*s", layers_brief_first(&layers, i), layers.name[i]);
            cr_expect_eq(layers_find(&layers, text, &found), STATUS_OK);
            cr_expect_eq(found, i, "%s: %s is not %s", all[m].name, text, layers.name[i]);
            int length = layers_brief_last(&layers, i);
            cr_expect(i + 1 == layers.count ||
                      strncmp(layers.name[i + 1], layers.name[i], (size_t)length) != 0 ||
                      (layers.name[i + 1][length] && layers.name[i + 1][length] != '.') ||
                      !layers.name[i][length]);
        }
        layers_free(&layers);
        graph_free(&graph);
    }
}

Test(graph_layers, cuts_are_named_in_order_and_once) {
    static const struct {
        const char *names[2], *said;
    } cases[] = {{{"layer2", "layer3"}, NULL},
                 {{"layer3", "layer2"}, "stands before layer layer3.0.conv1"},
                 {{"layer2", "layer2.0.conv1"}, "both are layer layer2.0.conv1"},
                 {{"conv1", "layer2"}, "the model begins with layer conv1"},
                 {{"layer2", "layer9"}, "no such layer"}};
    struct graph *graph = kit_model("resnet8", 2, true);
    kit_compile(graph, ref, NULL);
    struct layer_list layers = layers_of(graph);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char said[512] = "";
        int cuts[2] = {-1, -1};
        log_capture(said, sizeof said);
        enum status status = layers_cut(&layers, cases[i].names, 2, cuts);
        log_capture(NULL, 0);
        cr_expect_eq(status, cases[i].said ? STATUS_USAGE : STATUS_OK);
        cr_expect(cases[i].said ? strstr(said, cases[i].said) && cuts[0] == -1
                                : cuts[0] > 0 && cuts[0] < cuts[1],
                  "%s", said);
    }
    layers_free(&layers);
    graph_free(&graph);
}
