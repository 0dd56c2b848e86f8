/* Partitions of every model: nothing lost, nothing empty, the least largest chunk by each measure,
 * and the words for what cannot be cut. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../graph/flops.h"
#include "../graph/kit.h"
#include "base/log.h"
#include "graph/memory.h"
#include "plan/partition.h"
#include "plan/state_layout.h"

TestSuite(plan_partition, .init = kit_open_devices, .fini = kit_close_devices);

static struct graph *compiled(const char *model) {
    struct graph *graph = kit_model(model, 2, true);
    kit_compile(graph, ref, NULL);
    return graph;
}

static struct partition cut(const struct graph *graph, const struct partition_config *config) {
    struct partition partition;
    cr_assert_eq(partition_new(graph, config, &partition), STATUS_OK);
    return partition;
}

/* --- every model, every measure --- */

static void expect_whole(const struct partition *partition, const char *what) {
    const struct graph *graph = partition->graph;
    double flops[PHASE_COUNT] = {0};
    int64_t elements = 0;
    int unit = 0;
    for (int c = 0; c < partition->count; c++) {
        const struct partition_chunk *chunk = &partition->chunks[c];
        cr_expect_eq(chunk->first_unit, unit, "%s", what);
        cr_expect_gt(chunk->end_unit, chunk->first_unit, "%s", what);
        cr_expect_gt(chunk->layer_count, 0, "%s", what);
        if (c) cr_expect_eq(partition->cuts[c - 1], unit);
        unit = chunk->end_unit;
        elements += chunk->param_elements;
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            flops[phase] += chunk->flops[phase];
            cr_expect_eq(chunk->crossing[phase].count > 0, c < partition->count - 1, "%s", what);
        }
    }
    cr_expect_eq(unit, graph_unit_count(graph), "%s", what);
    cr_expect_eq(elements, graph_param_elements(graph), "%s", what);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        cr_expect_float_eq(flops[phase], graph_flops(graph, (enum phase)phase), 1e-6 * flops[phase],
                           "%s", what);
}

Test(plan_partition, no_layer_is_dropped_and_no_chunk_empty) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        struct model_config model = {.batch = 2, .training = true, .dropout = 0.1f};
        struct graph *graph = NULL;
        cr_assert_eq(model_build(&all[m], &model, &graph), STATUS_OK);
        kit_compile(graph, ref, NULL);
        struct layer_list layers = layers_of(graph);
        double *ns = MEM_ARRAY(double, graph->node_count);
        for (int n = 0; n < graph->node_count; n++) ns[n] = 1 + n % 7;
        for (int b = 0; b < BALANCE_COUNT; b++) {
            for (int chunks = 1; chunks <= layers.count; chunks += chunks < 9 ? 1 : 37) {
                struct partition_config config = {
                    .chunks = chunks, .balance = (enum balance)b, .node_ns = ns, .states = 2};
                struct partition partition = cut(graph, &config);
                expect_whole(&partition, all[m].name);
                partition_free(&partition);
            }
        }
        free(ns);
        layers_free(&layers);
        graph_free(&graph);
    }
}

/* --- measures --- */

/* The weight of units [first, end) the slow way. */
static double slow_weight(const struct graph *graph, const struct partition_config *config,
                          int first, int end) {
    bool *kept = MEM_ARRAY(bool, graph->value_count), *read = MEM_ARRAY(bool, graph->value_count),
         *earlier = MEM_ARRAY(bool, graph->value_count);
    double flops = 0, ns = 0, params = 0, memory = 0;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        bool here = node->unit >= first && node->unit < end;
        struct op_call call = graph_call(graph, node);
        if (here) flops += op_cost(&call).flops;
        if (here && config->node_ns) ns += config->node_ns[n];
        for (int i = 0; i < node->in_count; i++) {
            int root = graph->values[node->in[i]].root, maker = graph->values[root].producer;
            if (here) read[root] = true;
            if (node->unit < first) earlier[root] = true;
            if (here && n >= graph->forward_count && maker >= 0 && maker < graph->forward_count)
                kept[root] = true;
        }
    }
    for (int v = 0; v < graph->value_count; v++) {
        const struct value *value = &graph->values[v];
        if (kept[v]) memory += (double)value->layout->bytes;
        if (value->kind != VALUE_PARAM || !read[v]) continue;
        if (!earlier[v]) params += (double)tensor_type_bytes(&value->type);
        memory += 4.0 * (double)state_param_span(graph, value->index) *
                  (1 + config->grads + config->states);
    }
    free(kept);
    free(read);
    free(earlier);
    const double all[] = {[BALANCE_TIME] = ns,
                          [BALANCE_FLOPS] = flops,
                          [BALANCE_PARAMS] = params,
                          [BALANCE_MEMORY] = memory};
    return all[config->balance];
}

/* All pairs of cuts: none has a smaller largest chunk. */
static void expect_least(const struct graph *graph, const struct partition_config *config,
                         const char *model) {
    struct layer_list layers = layers_of(graph);
    struct partition partition = cut(graph, config);
    double largest = 0;
    for (int c = 0; c < 3; c++) {
        const struct partition_chunk *chunk = &partition.chunks[c];
        cr_expect_eq(chunk->weight, slow_weight(graph, config, chunk->first_unit, chunk->end_unit),
                     "%s by %s: chunk %d", model, balance_name(config->balance), c);
        if (chunk->weight > largest) largest = chunk->weight;
    }
    for (int a = 1; a < layers.count; a++) {
        for (int b = a + 1; b < layers.count; b++) {
            int unit[] = {0, layers.first_unit[a], layers.first_unit[b], graph_unit_count(graph)};
            double most = 0;
            for (int c = 0; c < 3; c++) {
                double weight = slow_weight(graph, config, unit[c], unit[c + 1]);
                if (weight > most) most = weight;
            }
            cr_expect_geq(most, largest, "%s by %s is better cut at %s and %s", model,
                          balance_name(config->balance), layers.name[a], layers.name[b]);
        }
    }
    partition_free(&partition);
    layers_free(&layers);
}

Test(plan_partition, the_largest_chunk_is_the_least_possible) {
    static const char *const models[] = {"mlp", "lenet", "resnet8", "bert-tiny"};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct graph *graph = compiled(models[m]);
        double *ns = MEM_ARRAY(double, graph->node_count);
        for (int n = 0; n < graph->node_count; n++) ns[n] = 100 + n * 17 % 31;
        for (int b = 0; b < BALANCE_COUNT; b++)
            expect_least(graph,
                         &(struct partition_config){.chunks = 3,
                                                    .balance = (enum balance)b,
                                                    .node_ns = ns,
                                                    .grads = 1,
                                                    .states = 2},
                         models[m]);
        free(ns);
        graph_free(&graph);
    }
}

/* A pipeline's first chunk keeps most micro-batches. */
Test(plan_partition, memory_counts_every_slot) {
    struct graph *graph = compiled("vit-micro");
    struct partition_config config = {.chunks = 3, .balance = BALANCE_MEMORY, .grads = 1};
    struct partition one = cut(graph, &config);
    config.slots = (int[]){30, 20, 10};
    struct partition many = cut(graph, &config);
    cr_expect_lt(many.cuts[0], one.cuts[0]);
    cr_expect_gt(many.chunks[0].weight, 30.0 * (double)many.chunks[0].kept_bytes);
    partition_free(&one);
    partition_free(&many);
    graph_free(&graph);
}

/* What a chunk is said to keep is what its memory plan keeps, but for what only crosses. */
Test(plan_partition, kept_bytes_are_those_of_the_memory_plan) {
    static const char *const models[] = {"mlp", "lenet", "resnet8", "vit-micro", "bert-tiny"};
    static const struct placement_config shared = {.shared = true, .gradients_outside = true};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct graph *graph = compiled(models[m]);
        struct partition partition =
            cut(graph, &(struct partition_config){.chunks = 3, .balance = BALANCE_FLOPS});
        struct ranges ranges;
        cr_assert_eq(ranges_new(graph, partition.cuts, 2, &ranges), STATUS_OK);
        for (int c = 0; c < 3; c++) {
            struct placement plan = graph_place(&ranges, c, &shared);
            size_t kept = partition.chunks[c].kept_bytes, room = 64 * 64;
            for (int phase = 0; phase < PHASE_COUNT; phase++) {
                room += partition.chunks[c].crossing[phase].bytes;
                if (c) room += partition.chunks[c - 1].crossing[phase].bytes;
            }
            cr_expect_leq(kept, plan.slot_bytes, "%s chunk %d", models[m], c);
            cr_expect_leq(plan.slot_bytes, kept + room, "%s chunk %d", models[m], c);
            placement_free(&plan);
        }
        ranges_free(&ranges);
        partition_free(&partition);
        graph_free(&graph);
    }
}

/* --- cuts by name --- */

Test(plan_partition, is_cut_by_name) {
    static const char *const names[] = {"layer2", "layer3.0.bn1"};
    struct graph *graph = compiled("resnet8");
    /* times are not needed where nothing is balanced */
    struct partition_config config = {
        .chunks = 3, .balance = BALANCE_TIME, .cut = names, .cut_count = 2};
    struct partition partition = cut(graph, &config);
    expect_whole(&partition, "resnet8");
    cr_expect(partition.named);
    cr_expect_str_eq(partition.chunks[0].last_layer, "layer1.0.bn2");
    cr_expect_str_eq(partition.chunks[1].first_layer, "layer2.0.conv1");
    cr_expect_str_eq(partition.chunks[2].first_layer, "layer3.0.bn1");
    partition_free(&partition);
    graph_free(&graph);
}

Test(plan_partition, translates_to_evaluation) {
    struct graph *graph = compiled("bert-tiny"), *eval = kit_model("bert-tiny", 3, false);
    kit_compile(eval, ref, NULL);
    struct partition partition =
        cut(graph, &(struct partition_config){.chunks = 4, .balance = BALANCE_FLOPS});
    struct layer_list layers = layers_of(eval);
    int cuts[3];
    cr_assert_eq(partition_translate(&partition, eval, cuts), STATUS_OK);
    for (int c = 0; c < 3; c++)
        cr_expect_str_eq(layers.name[layers_at(&layers, cuts[c])],
                         partition.chunks[c + 1].first_layer);
    cr_expect_neq(cuts[2], partition.cuts[2], "dropout has units of its own in training");
    layers_free(&layers);
    partition_free(&partition);
    graph_free(&eval);
    graph_free(&graph);
}

/* --- what is refused --- */

Test(plan_partition, refusals_say_what_to_do) {
    static const char *const names[] = {"fc2", "fc3"}, *const wrong[] = {"fc2", "fc9"};
    static const struct {
        struct partition_config config;
        const char *said, *hint;
    } cases[] = {
        {{.chunks = 5, .balance = BALANCE_FLOPS}, "5 stages of a model with 4 layers", "--stages"},
        {{.chunks = 2, .balance = BALANCE_TIME}, "--balance time", "--profile"},
        {{.chunks = 4, .cut = names, .cut_count = 2, .balance = BALANCE_FLOPS},
         "--cut names 2 layers, which makes 3 stages; the run has 4",
         "every stage but the first"},
        {{.chunks = 3, .cut = wrong, .cut_count = 2, .balance = BALANCE_FLOPS},
         "no such layer",
         "did you mean fc"}};
    struct graph *graph = compiled("mlp");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char said[512] = "";
        struct partition partition = {.count = 77};
        log_capture(said, sizeof said);
        cr_expect_eq(partition_new(graph, &cases[i].config, &partition), STATUS_USAGE);
        log_capture(NULL, 0);
        cr_expect(strstr(said, cases[i].said) && strstr(said, cases[i].hint), "%s", said);
        cr_expect_eq(partition.count, 77, "written on failure");
    }
    graph_free(&graph);
}

/* --- the table --- */

static void expect_table(const struct partition *partition, const char *expected) {
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    partition_print(partition, NULL, stream);
    fclose(stream);
    cr_expect_str_eq(text, expected, "%s", text);
    free(text);
}

Test(plan_partition, is_printed_as_a_table) {
    struct graph *graph = compiled("mlp");
    struct partition partition =
        cut(graph, &(struct partition_config){.chunks = 3, .balance = BALANCE_PARAMS});
    expect_table(
        &partition,
        "  stage  from  to    params  Mflop  % params     kept  sent on     back\n"
        "      0  fc1   fc1    18560  0.079      67.6  1.0 KiB  1.0 KiB  1.0 KiB\n"
        "      1  fc2   fc3     8906  0.038      32.4  2.0 KiB     80 B     80 B\n"
        "      2  loss  loss       0  0.000       0.0     96 B        -        -\n"
        "  balance: the largest stage has 67.6% of all params, 2.03 times an even share\n");
    partition_free(&partition);
    graph_free(&graph);
}

/* With who runs each stage; of a long pipeline its ends. */
Test(plan_partition, the_table_says_where_stages_run) {
    struct graph *graph = compiled("resnet18-cifar");
    struct partition partition =
        cut(graph, &(struct partition_config){.chunks = 24, .balance = BALANCE_FLOPS});
    struct partition_place places[24];
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    for (int c = 0; c < 24; c++) places[c] = (struct partition_place){100 + c, 500 - c};
    partition_print(&partition, places, stream);
    fclose(stream);
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++) lines++;
    cr_expect_eq(lines, 1 + 20 + 1 + 2, "%s", text);
    for (int c = 0; c < 24; c++) {
        char want[64];
        snprintf(want, sizeof want, "\n  %5d   %d", c, 100 + c);
        cr_expect_eq(strstr(text, want) != NULL, c < 17 || c >= 22, "%s: %s", want, text);
    }
    cr_expect(strstr(text, "slots") && strstr(text, " 478 ") && !strstr(text, " 480 "), "%s", text);
    cr_expect(strstr(text, "\n    ..."), "%s", text);
    free(text);
    partition_free(&partition);
    graph_free(&graph);
}

Test(plan_partition, the_table_names_tied_parameters) {
    static const char *const names[] = {"encoder.layer.1"};
    struct graph *graph = compiled("bert-tiny");
    struct partition partition =
        cut(graph, &(struct partition_config){
                       .chunks = 2, .balance = BALANCE_FLOPS, .cut = names, .cut_count = 1});
    expect_table(
        &partition,
        "  stage  from                  params  Mflop  % flops     kept  sent on     back\n"
        "      0  bert                  269440  6.616     48.9  137 KiB  8.0 KiB  8.0 KiB\n"
        "      1  bert.encoder.layer.1  231850  6.899     51.1  144 KiB        -        -\n"
        "  cut by name: the largest stage has 51.1% of all flops, 1.02 times an even "
        "share\n"
        "  tied: bert.embeddings.word_embeddings.weight is in stages 0, 1\n");
    partition_free(&partition);
    graph_free(&graph);
}
