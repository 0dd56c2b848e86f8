/* Ranges by stage, segment and phase: they cover the node list, a graph whose order breaks them is
 * not cut, and what crosses a cut is all a stage needs and no more. test_stages.c runs stages with
 * nothing but that. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "kit.h"

static const char *const models[] = {"resnet8", "vit-micro", "bert-tiny", "lenet"};
enum { MODELS = sizeof models / sizeof models[0] };

TestSuite(graph_range, .init = kit_open_devices, .fini = kit_close_devices);

static struct ranges cut(const struct graph *graph, const int *cuts, int count) {
    struct ranges ranges;
    cr_assert_eq(ranges_new(graph, cuts, count, &ranges), STATUS_OK);
    return ranges;
}

static void expect_cover(const struct ranges *ranges, const char *name) {
    const struct graph *graph = ranges->graph;
    int *stage_of = MEM_ARRAY(int, graph->node_count), covered = 0;
    for (int n = 0; n < graph->node_count; n++) stage_of[n] = -1;
    for (int s = 0; s < ranges->stage_count; s++) {
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            struct node_range nodes = ranges_find(ranges, s, SEGMENT_ALL, (enum phase)phase);
            cr_expect(phase == PHASE_BACKWARD || nodes.begin < nodes.end, "%s: stage %d is empty",
                      name, s);
            for (int n = nodes.begin; n < nodes.end; n++, covered++) {
                cr_expect_eq(stage_of[n], -1, "%s: node %d is in two stages", name, n);
                stage_of[n] = s;
                cr_expect_eq(graph->nodes[n].phase, (enum phase)phase);
                cr_expect_eq(ranges_stage(ranges, &graph->nodes[n]), s);
            }
        }
    }
    cr_expect_eq(covered, graph->node_count, "%s: %d of %d nodes", name, covered,
                 graph->node_count);
    /* The backward of a unit stands in the stage of its forward. */
    for (int f = 0; f < graph->forward_count; f++)
        for (int b = graph->forward_count; b < graph->node_count; b++)
            if (graph->nodes[f].unit == graph->nodes[b].unit)
                cr_expect_eq(stage_of[f], stage_of[b], "%s: unit %d", name, graph->nodes[f].unit);
    free(stage_of);
}

Test(graph_range, stages_cover_every_model_at_every_cut) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        for (int training = 0; training < 2; training++) {
            struct model_config config = {.batch = 2, .training = training, .dropout = 0.1f};
            struct graph *graph = NULL;
            cr_assert_eq(model_build(&all[m], &config, &graph), STATUS_OK);
            kit_compile(graph, ref, NULL);
            int units = graph_unit_count(graph), step = units > 60 ? units / 12 : 1;
            for (int at = 1; at < units; at += step) {
                for (int count = 1; count <= 3 && at + count <= units; count++) {
                    int cuts[3];
                    for (int i = 0; i < count; i++) cuts[i] = at + i * (units - at) / count;
                    struct ranges ranges = cut(graph, cuts, count);
                    expect_cover(&ranges, all[m].name);
                    ranges_free(&ranges);
                }
            }
            graph_free(&graph);
        }
    }
}

/* Units are the forward nodes that fusion left, whatever reorders lowering put between them; from
 * the first loss on they are one. */
Test(graph_range, units_are_fused_forward_nodes) {
    for (int m = 0; m < MODELS; m++) {
        struct graph *plain = kit_model(models[m], 2, true);
        graph_fuse(plain);
        int loss = plain->values[plain->losses[0].sum].producer;
        for (int n = 0; n < plain->node_count; n++)
            cr_expect_eq(plain->nodes[n].unit, n < loss ? n : loss);
        struct graph *graph = kit_model(models[m], 2, true);
        kit_compile(graph, twist, NULL);
        cr_expect_eq(graph_unit_count(graph), loss + 1);
        for (int n = 0; n < graph->node_count; n++) {
            const struct node *node = &graph->nodes[n];
            if (node->op != OP_REORDER && node->unit < loss)
                cr_expect_str_eq(node->name, plain->nodes[node->unit].name);
        }
        graph_free(&graph);
        graph_free(&plain);
    }
}

Test(graph_range, a_stage_that_would_be_empty_is_refused) {
    struct graph *graph = kit_model("lenet", 2, true);
    kit_compile(graph, ref, NULL);
    int units = graph_unit_count(graph);
    const int bad[][2] = {{0, 3}, {3, 3}, {3, 2}, {3, units}, {-1, 3}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char said[512] = "";
        struct ranges ranges;
        log_capture(said, sizeof said);
        cr_expect_eq(ranges_new(graph, bad[i], 2, &ranges), STATUS_USAGE);
        log_capture(NULL, 0);
        cr_expect(strstr(said, "empty"), "%s", said);
    }
    graph_free(&graph);
}

/* --- what a graph must not do --- */

/* Does cutting it end the process as a bug? */
static bool is_not_cut(const struct graph *graph, int at) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct ranges ranges;
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        _exit(ranges_new(graph, &at, 1, &ranges) == STATUS_OK ? 0 : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == status_exit_code(STATUS_BUG);
}

/* The forward node of a unit, without its reorders. */
static int node_of_unit(const struct graph *graph, int unit) {
    int n = 0;
    while (graph->nodes[n].unit != unit || graph->nodes[n].op == OP_REORDER) n++;
    return n;
}

Test(graph_range, a_graph_out_of_order_is_not_cut) {
    struct graph *graph = kit_model("lenet", 2, true);
    kit_compile(graph, ref, NULL);
    cr_expect_not(is_not_cut(graph, 3));
    for (int n = 1; n < graph->node_count; n++) {
        struct node *node = &graph->nodes[n];
        int unit = node->unit;
        if (n == graph->forward_count || node[-1].unit == unit) continue;
        node->unit = node[-1].unit + (node->phase == PHASE_FORWARD ? -1 : 1);
        cr_expect(is_not_cut(graph, 3), "node %d, %s", n, node->name);
        node->unit = unit;
    }
    graph_free(&graph);
}

/* Forward of an earlier stage reading a later one's, weight halves waiting for one another. */
Test(graph_range, a_graph_that_flows_against_its_stages_is_not_cut) {
    struct graph *graph = kit_model("mlp", 2, true);
    kit_compile(graph, ref, NULL);
    struct node *last = &graph->nodes[graph->node_count - 1]; /* backward of stage 0 */
    int at = last->unit + 1, units = graph_unit_count(graph), in = last->in[0];
    cr_expect_not(is_not_cut(graph, at));
    last->in[0] = graph->nodes[node_of_unit(graph, units - 2)].out[0];
    cr_expect(is_not_cut(graph, at), "backward of stage 0 reads what stage 1 made in forward");
    last->in[0] = graph->uses[graph->use_count - 1].gradient;
    cr_assert_eq(graph->nodes[graph->values[last->in[0]].producer].half, OP_HALF_W);
    cr_expect(is_not_cut(graph, at), "backward of stage 0 reads what W of stage 1 makes");
    last->in[0] = in;
    graph_free(&graph);
}

/* --- segments --- */

Test(graph_range, segments_cut_a_phase_of_a_stage) {
    struct graph *graph = kit_model("resnet8", 2, true);
    kit_compile(graph, ref, NULL);
    struct ranges ranges = cut(graph, (int[]){5, 12}, 2);
    for (int s = 0; s < 3; s++) {
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            enum phase p = (enum phase)phase;
            struct node_range all = ranges_find(&ranges, s, SEGMENT_ALL, p),
                              whole = ranges_find(&ranges, s, 0, p);
            cr_expect(whole.begin == all.begin && whole.end == all.end);
            int ends[] = {all.begin, all.begin + 2, all.begin + 2, all.end};
            ranges_cut_segments(&ranges, s, p, ends, 4);
            int at = all.begin;
            for (int e = 0; e < 4; e++) {
                struct node_range segment = ranges_find(&ranges, s, e, p);
                cr_expect_eq(segment.begin, at, "stage %d segment %d", s, e);
                cr_expect_eq(segment.end, ends[e]);
                at = segment.end;
            }
            whole = ranges_find(&ranges, s, SEGMENT_ALL, p);
            cr_expect(whole.begin == all.begin && whole.end == all.end && at == all.end);
        }
    }
    ranges_free(&ranges);
    graph_free(&graph);
}

/* --- crossing --- */

enum { FC, GELU, MIDDLE, RESIDUAL, HEAD, LOSS };

/* FC -> GELU -> MIDDLE -> RESIDUAL (which reads FC again) -> HEAD -> LOSS, a unit each. */
static struct graph *residual_chain(int out[LOSS]) {
    struct graph *graph = graph_new(4, true);
    int x = graph_input(graph, "x", DTYPE_F32, SHAPE(4, 6));
    int label = graph_input(graph, "label", DTYPE_I32, SHAPE(4));
    out[FC] = graph_linear(graph, "fc", x, kit_weight(graph, "w0", SHAPE(6, 6)), NO_VALUE);
    out[GELU] = graph_gelu(graph, "gelu", out[FC], false);
    out[MIDDLE] =
        graph_linear(graph, "middle", out[GELU], kit_weight(graph, "w1", SHAPE(6, 6)), NO_VALUE);
    out[RESIDUAL] = graph_add(graph, "residual", out[MIDDLE], out[FC]);
    out[HEAD] =
        graph_linear(graph, "head", out[RESIDUAL], kit_weight(graph, "w2", SHAPE(5, 6)), NO_VALUE);
    graph_cross_entropy(graph, "loss", out[HEAD], label, 0, false);
    kit_compile(graph, ref, NULL);
    cr_assert_eq(graph_unit_count(graph), 6);
    return graph;
}

static bool crosses(const struct ranges *ranges, int at, enum phase phase, int count,
                    const int *values) {
    struct crossing crossing = ranges_crossing(ranges, at, phase);
    bool same = crossing.count == count;
    size_t bytes = 0;
    for (int i = 0; same && i < count; i++) {
        same = crossing.values[i] == values[i];
        bytes += ranges->graph->values[values[i]].layout->bytes;
    }
    same &= crossing.bytes == bytes;
    free(crossing.values);
    return same;
}

/* The last of a unit's backward nodes that belongs to the input half. */
static int input_gradient(const struct graph *graph, int unit) {
    int value = NO_VALUE;
    for (int n = graph->forward_count; n < graph->node_count; n++)
        if (graph->nodes[n].unit == unit && graph->nodes[n].half == OP_HALF_I)
            value = graph->nodes[n].out[0];
    return value;
}

Test(graph_range, a_residual_crosses_beside_the_chain) {
    int out[LOSS];
    struct graph *graph = residual_chain(out);
    int d_residual = input_gradient(graph, HEAD), d_gelu = input_gradient(graph, MIDDLE),
        d_fc = input_gradient(graph, GELU), d_head = input_gradient(graph, LOSS);
    const struct {
        int at, forward_count, forward[2], backward_count, backward[2];
    } cases[] = {
        {GELU, 1, {out[FC]}, 1, {d_fc}}, /* the sum of both ways back */
        {MIDDLE, 2, {out[FC], out[GELU]}, 2, {d_residual, d_gelu}},
        {RESIDUAL, 2, {out[FC], out[MIDDLE]}, 1, {d_residual}}, /* one gradient serves both */
        {HEAD, 1, {out[RESIDUAL]}, 1, {d_residual}},
        {LOSS, 1, {out[HEAD]}, 1, {d_head}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ranges ranges = cut(graph, &cases[i].at, 1);
        cr_expect(crosses(&ranges, 0, PHASE_FORWARD, cases[i].forward_count, cases[i].forward),
                  "forward at unit %d", cases[i].at);
        cr_expect(crosses(&ranges, 0, PHASE_BACKWARD, cases[i].backward_count, cases[i].backward),
                  "backward at unit %d", cases[i].at);
        ranges_free(&ranges);
    }
    graph_free(&graph);
}

/* The stage in the middle holds MIDDLE alone, and still carries what goes from GELU's stage to
 * RESIDUAL's and back. */
Test(graph_range, what_passes_through_a_stage_crosses_both_its_cuts) {
    int out[LOSS];
    struct graph *graph = residual_chain(out);
    struct ranges ranges = cut(graph, (int[]){MIDDLE, RESIDUAL}, 2);
    int d_residual = input_gradient(graph, HEAD), d_gelu = input_gradient(graph, MIDDLE);
    cr_expect(crosses(&ranges, 0, PHASE_FORWARD, 2, (int[]){out[FC], out[GELU]}));
    cr_expect(crosses(&ranges, 1, PHASE_FORWARD, 2, (int[]){out[FC], out[MIDDLE]}));
    cr_expect(crosses(&ranges, 1, PHASE_BACKWARD, 1, (int[]){d_residual}));
    cr_expect(crosses(&ranges, 0, PHASE_BACKWARD, 2, (int[]){d_residual, d_gelu}));
    ranges_free(&ranges);
    graph_free(&graph);
}

/* A reorder that forward makes early may have no reader in a later stage but its backward. */
Test(graph_range, what_only_backward_reads_later_crosses_in_forward) {
    int out[LOSS];
    struct graph *graph = residual_chain(out);
    for (int n = graph->forward_count; n < graph->node_count; n++) {
        struct node *node = &graph->nodes[n];
        if (node->unit == HEAD && node->in[0] == out[RESIDUAL]) node->in[0] = out[GELU];
    }
    struct ranges ranges = cut(graph, (int[]){RESIDUAL}, 1);
    cr_expect(crosses(&ranges, 0, PHASE_FORWARD, 3, (int[]){out[FC], out[GELU], out[MIDDLE]}));
    ranges_free(&ranges);
    graph_free(&graph);
}

/* Which values a stage has: those its nodes made or were sent. Counts what is missing when
 * `left_out` does not cross `left_cut` in its phase. */
static int missing_without(const struct ranges *ranges, int left_cut, enum phase left_phase,
                           int left_out) {
    const struct graph *graph = ranges->graph;
    int stages = ranges->stage_count, missing = 0;
    bool *has = MEM_ARRAY(bool, stages * graph->value_count);
#define HAS(stage, value) has[(stage)*graph->value_count + graph->values[value].root]
    for (int turn = 0; turn < 2 * stages; turn++) {
        enum phase phase = turn < stages ? PHASE_FORWARD : PHASE_BACKWARD;
        int stage = phase == PHASE_FORWARD ? turn : 2 * stages - 1 - turn;
        int next = phase == PHASE_FORWARD ? stage + 1 : stage - 1,
            at = phase == PHASE_FORWARD ? stage : next;
        struct node_range nodes = ranges_find(ranges, stage, SEGMENT_ALL, phase);
        for (int n = nodes.begin; n < nodes.end; n++) {
            const struct node *node = &graph->nodes[n];
            for (int i = 0; i < node->in_count; i++)
                missing += graph->values[graph->values[node->in[i]].root].kind == VALUE_LOCAL &&
                           !HAS(stage, node->in[i]);
            for (int i = 0; i < node->out_count; i++) HAS(stage, node->out[i]) = true;
        }
        if (next < 0 || next >= stages) continue;
        struct crossing crossing = ranges_crossing(ranges, at, phase);
        for (int i = 0; i < crossing.count; i++) {
            int value = crossing.values[i];
            if (at == left_cut && phase == left_phase && value == left_out) continue;
            if (HAS(stage, value))
                HAS(next, value) = true;
            else
                missing++;
        }
        free(crossing.values);
    }
#undef HAS
    free(has);
    return missing;
}

static int expect_enough_and_no_more(const struct ranges *ranges, const char *name) {
    int most = 0;
    cr_expect_eq(missing_without(ranges, -1, PHASE_FORWARD, NO_VALUE), 0, "%s", name);
    for (int at = 0; at < ranges->stage_count - 1; at++) {
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            struct crossing crossing = ranges_crossing(ranges, at, (enum phase)phase);
            for (int i = 0; i < crossing.count; i++)
                cr_expect_gt(missing_without(ranges, at, (enum phase)phase, crossing.values[i]), 0,
                             "%s: %s crosses cut %d for nothing", name,
                             ranges->graph->values[crossing.values[i]].name, at);
            if (crossing.count > most) most = crossing.count;
            free(crossing.values);
        }
    }
    return most;
}

/* One cut everywhere, two and four at strides. */
static int expect_crossings(const struct graph *graph, const char *name) {
    int units = graph_unit_count(graph), most = 0;
    for (int count = 1; count <= 4; count *= 2) {
        for (int at = 1; at + count - 1 < units; at += count) {
            int cuts[4];
            for (int i = 0; i < count; i++) cuts[i] = at + i * ((units - at) / count);
            struct ranges ranges = cut(graph, cuts, count);
            int crossing = expect_enough_and_no_more(&ranges, name);
            if (crossing > most) most = crossing;
            ranges_free(&ranges);
        }
    }
    return most;
}

Test(graph_range, what_crosses_is_enough_and_no_more) {
    struct device *devices[] = {ref, twist};
    for (int m = 0; m < MODELS; m++) {
        for (int d = 0; d < 2; d++) {
            struct graph *graph = kit_model(models[m], 2, true);
            kit_compile(graph, devices[d], NULL);
            int most = expect_crossings(graph, models[m]);
            cr_expect(m >= 3 || most > 1, "%s: nothing crosses beside the chain", models[m]);
            graph_free(&graph);
        }
    }
}
