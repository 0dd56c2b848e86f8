/* Which nodes run again before backward. That backward then finds all it needs, test_stages.c and
 * test_slots.c show. */
#include <criterion/criterion.h>

#include "graph/memory.h"
#include "kit.h"

TestSuite(graph_recompute, .init = kit_open_devices, .fini = kit_close_devices);

static int count_again(const struct graph *graph, const struct recompute *recompute, enum op op) {
    int count = 0;
    for (int n = 0; n < graph->node_count; n++)
        count += recompute->again[n] && graph->nodes[n].op == op;
    return count;
}

static int count_ops(const struct graph *graph, enum op op) {
    int count = 0;
    for (int n = 0; n < graph->node_count; n++) count += graph->nodes[n].op == op;
    return count;
}

static struct recompute recompute_whole(const struct graph *graph) {
    struct ranges ranges;
    cr_assert_eq(ranges_new(graph, NULL, 0, &ranges), STATUS_OK);
    struct recompute recompute = graph_recompute_of(&ranges, 0, false);
    ranges_free(&ranges);
    return recompute;
}

Test(graph_recompute, runs_nothing_that_backward_does_not_read) {
    struct graph *graph = kit_model("mlp", 4, true);
    kit_compile(graph, ref, NULL);
    struct ranges ranges;
    int cut = 1;
    cr_assert_eq(ranges_new(graph, &cut, 1, &ranges), STATUS_OK);
    struct recompute first = graph_recompute_of(&ranges, 0, false),
                     last = graph_recompute_of(&ranges, 1, false);
    cr_expect_eq(count_again(graph, &last, OP_TOP_K), 0, "accuracies are counted once");
    for (int n = 0; n < graph->node_count; n++) {
        bool mine = ranges_stage(&ranges, &graph->nodes[n]) == 0;
        cr_expect_not(first.again[n] && (!mine || graph->nodes[n].phase == PHASE_BACKWARD));
        cr_expect_not(last.again[n] && (mine || graph->nodes[n].phase == PHASE_BACKWARD));
    }
    graph_recompute_free(&first);
    graph_recompute_free(&last);
    ranges_free(&ranges);
    graph_free(&graph);
}

Test(graph_recompute, moves_no_running_statistics) {
    struct graph *graph = kit_model("resnet8", 4, true);
    kit_compile(graph, ref, NULL);
    struct recompute recompute = recompute_whole(graph);
    cr_expect_gt(count_ops(graph, OP_BATCH_NORM_TRACK), 0);
    cr_expect_eq(count_again(graph, &recompute, OP_BATCH_NORM_TRACK), 0);
    cr_expect_gt(count_again(graph, &recompute, OP_CONV2D), 0);
    graph_recompute_free(&recompute);
    graph_free(&graph);
}

/* Nor asks other ranks a second time: what they said is held, and own statistics are not needed. */
Test(graph_recompute, uses_the_statistics_of_all_ranks_again) {
    struct graph *graph = kit_sharing_model("resnet8", 4, 3);
    kit_compile(graph, ref, NULL);
    struct recompute recompute = recompute_whole(graph);
    int held = 0, exchanges = 0;
    for (int n = 0; n < graph->forward_count; n++) {
        if (graph->nodes[n].op != OP_STATS_EXCHANGE) continue;
        exchanges++;
        held += recompute.held[graph->nodes[n].out[0]];
    }
    cr_expect_gt(exchanges, 0);
    cr_expect_eq(held, exchanges);
    cr_expect_eq(count_again(graph, &recompute, OP_STATS_EXCHANGE), 0);
    cr_expect_eq(count_again(graph, &recompute, OP_BATCH_NORM_STATS), 0);
    cr_expect_eq(count_again(graph, &recompute, OP_BATCH_NORM_MERGE), exchanges);
    graph_recompute_free(&recompute);
    graph_free(&graph);
}

/* A slot keeps what comes into its blocks, and all slots share what one block makes. */
Test(graph_recompute, blocks_take_the_memory_of_their_inputs_and_of_one_of_them) {
    static const char *const models[] = {"resnet8", "vit-micro"};
    for (int m = 0; m < 2; m++) {
        struct graph *graph = kit_model(models[m], 4, true);
        struct ranges ranges;
        kit_compile(graph, ref, NULL);
        cr_assert_eq(ranges_new(graph, NULL, 0, &ranges), STATUS_OK);
        struct placement_config config = {.shared = true, .life = {.recompute = true}};
        struct placement stage = graph_place(&ranges, 0, &config);
        kit_cut_blocks(&ranges, 0);
        config.life.blocks = true;
        struct placement block = graph_place(&ranges, 0, &config);
        cr_expect_gt(block.slot_bytes, stage.slot_bytes, "%s", models[m]);
        cr_expect_lt(block.shared_bytes, stage.shared_bytes, "%s", models[m]);
        cr_expect_lt(placement_bytes(&block, 1), placement_bytes(&stage, 1), "%s", models[m]);
        placement_free(&block);
        placement_free(&stage);
        ranges_free(&ranges);
        graph_free(&graph);
    }
}
