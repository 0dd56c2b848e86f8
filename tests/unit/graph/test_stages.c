/* Any cut works: the stages of a graph, each in an arena of its own, with the parameters and fields
 * that it needs, what crosses its cuts and nothing else, give the losses, gradients and statistics
 * of the whole graph to the bit. Between passes every byte that nothing lives in becomes NaN, as
 * if other micro-batches had run there. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "graph/layers.h"
#include "kit.h"

TestSuite(graph_stages, .init = kit_open_devices, .fini = kit_close_devices);

static const char *const models[] = {"mlp", "lenet", "resnet8", "vit-micro", "bert-tiny"};
enum { MODELS = sizeof models / sizeof models[0] };

/* How a stage runs and lies in memory. */
struct way {
    const char *what;
    struct placement_config config;
    enum kit_order order;
};

static const struct way ways[] = {
    {"joint", {.shared = false}, KIT_TOGETHER},
    {"shared", {.shared = true}, KIT_TOGETHER},
    {"outside", {.shared = true, .gradients_outside = true}, KIT_TOGETHER},
    {"split", {.shared = true, .life = {.split = true}}, KIT_SPLIT},
    {"split joint", {.life = {.split = true}}, KIT_SPLIT},
    {"mixed, split", {.shared = true, .life = {.split = true, .mixed = true}}, KIT_SPLIT},
    {"mixed, together", {.shared = true, .life = {.split = true, .mixed = true}}, KIT_TOGETHER},
    {"again", {.shared = true, .life = {.recompute = true}}, KIT_AGAIN},
    {"again joint", {.gradients_outside = true, .life = {.recompute = true}}, KIT_AGAIN},
    {"again, split", {.shared = true, .life = {.recompute = true, .split = true}}, KIT_AGAIN_SPLIT},
    {"some, kept", {.shared = true, .life = {.recompute = true, .some_kept = true}}, KIT_TOGETHER},
    {"some, again",
     {.shared = true, .life = {.recompute = true, .some_kept = true, .split = true, .mixed = true}},
     KIT_AGAIN},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

struct subject {
    const char *name;
    struct graph *graph;
    struct kit_result whole;
};

/* Takes the graph over. */
static struct subject subject_of(const char *name, struct graph *graph, struct device *device) {
    struct subject subject = {.name = name, .graph = graph};
    kit_compile(graph, device, NULL);
    subject.whole = kit_run(graph, NULL, KIT_TOGETHER, NULL);
    cr_assert_gt(subject.whole.loss, 0);
    return subject;
}

static struct subject subject_new(const char *model, struct device *device) {
    return subject_of(model, kit_model(model, 2, true), device);
}

static void subject_free(struct subject *subject) {
    kit_result_free(&subject->whole);
    graph_free(&subject->graph);
}

static void expect_same(const struct subject *subject, const int *cuts, int count,
                        const struct way *way) {
    struct ranges ranges;
    cr_assert_eq(ranges_new(subject->graph, cuts, count, &ranges), STATUS_OK);
    struct kit_result staged =
        kit_run_stages(&ranges, way ? &way->config : NULL, way ? way->order : KIT_TOGETHER);
    cr_assert_eq(subject->whole.bytes, staged.bytes);
    cr_expect(memcmp(subject->whole.data, staged.data, staged.bytes) == 0,
              "%s on %s, %s: %d stages, the first cut at unit %d", subject->name,
              subject->graph->device->backend->name, way ? way->what : "memory of their own",
              count + 1, cuts[0]);
    kit_result_free(&staged);
    ranges_free(&ranges);
}

/* Two stages at every unit: the ways take turns. */
static void check_every_cut(const struct subject *subject) {
    int units = graph_unit_count(subject->graph);
    for (int at = 1; at < units; at++) expect_same(subject, &at, 1, &ways[at % WAYS]);
}

/* Three and four stages, cut at layers as partitions are: every way at several places. */
static void check_many_stages(const struct subject *subject) {
    struct layer_list layers = layers_of(subject->graph);
    for (int w = 0; w < WAYS; w++) {
        for (int stages = 3; stages <= 4 && stages <= layers.count; stages++) {
            int room = layers.count - stages, cuts[3];
            for (int i = 0; i < stages - 1; i++) {
                int spread = room * (i + 1) / stages + (room > 0 ? w * 3 % (room / stages + 1) : 0);
                cuts[i] = layers.first_unit[i + 1 + spread];
            }
            expect_same(subject, cuts, stages - 1, &ways[w]);
        }
    }
    layers_free(&layers);
}

static void check_all(struct device *device, void (*check)(const struct subject *subject)) {
    for (int m = 0; m < MODELS; m++) {
        struct subject subject = subject_new(models[m], device);
        check(&subject);
        subject_free(&subject);
    }
}

Test(graph_stages, at_any_unit_give_the_bits_of_the_whole_graph) {
    check_all(twist, check_every_cut);
}

Test(graph_stages, in_every_form_of_memory_give_the_same_bits) {
    check_all(ref, check_many_stages);
    check_all(twist, check_many_stages);
}

/* The kernels and layouts that runs have. */
Test(graph_stages, on_the_processor_give_the_same_bits) {
    struct device *cpu;
    cr_assert_eq(device_open("cpu", 0, 1, &cpu), STATUS_OK);
    check_all(cpu, check_every_cut);
    check_all(cpu, check_many_stages);
    device_close(&cpu);
}

/* Every layer a stage of its own. */
Test(graph_stages, as_many_as_there_are_layers) {
    for (int m = 0; m < MODELS; m++) {
        struct subject subject = subject_new(models[m], twist);
        struct layer_list layers = layers_of(subject.graph);
        expect_same(&subject, layers.first_unit + 1, layers.count - 1, NULL);
        expect_same(&subject, layers.first_unit + 1, layers.count - 1, &ways[1]);
        expect_same(&subject, layers.first_unit + 1, layers.count - 1, &ways[3]);
        layers_free(&layers);
        subject_free(&subject);
    }
}

/* Batch norm over several ranks is five units: cuts lie inside it too. */
Test(graph_stages, cut_inside_a_batch_norm_of_several_ranks) {
    struct subject sharing = subject_of("resnet8", kit_sharing_model("resnet8", 2, 3), twist);
    check_every_cut(&sharing);
    check_many_stages(&sharing);
    subject_free(&sharing);
}

/* Evaluation runs through the same stages as training: its cuts are translated. */
static void check_evaluation(const char *model, struct device *device) {
    struct graph *train = kit_model(model, 2, true);
    kit_compile(train, device, NULL);
    struct subject eval = subject_of(model, kit_model(model, 3, false), device);
    struct layer_list from = layers_of(train), to = layers_of(eval.graph);
    for (int layer = 1; layer + 1 < from.count; layer += 2) {
        int cuts[2];
        cr_assert_eq(layers_translate(&from, &from.first_unit[layer], 2, &to, cuts), STATUS_OK);
        expect_same(&eval, cuts, 2, &ways[layer / 2 % 2]);
    }
    layers_free(&from);
    layers_free(&to);
    subject_free(&eval);
    graph_free(&train);
}

Test(graph_stages, of_training_serve_evaluation) {
    for (int m = 0; m < MODELS; m++) check_evaluation(models[m], twist);
}
