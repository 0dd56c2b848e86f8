/* Parameters that several stages use: who holds them, their buckets, and what is refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../graph/kit.h"
#include "base/log.h"
#include "graph/build.h"
#include "plan/holdings.h"
#include "plan/state_layout.h"

TestSuite(plan_ties, .init = kit_open_devices, .fini = kit_close_devices);

/* A chain of layers, a letter each: those with the same letter share a weight. Each is a unit, with
 * a bias of its own in the same one. */
struct chain {
    struct graph *graph;
    struct ranges ranges;
};

static struct chain chain_new(const char *letters, const int *cuts, int count) {
    struct chain chain = {.graph = graph_new(4, true)};
    struct graph *graph = chain.graph;
    int x = graph_input(graph, "features", DTYPE_F32, SHAPE(4, 6));
    int label = graph_input(graph, "label", DTYPE_I32, SHAPE(4));
    char name[16];
    for (int i = 0; letters[i]; i++) {
        snprintf(name, sizeof name, "%c", letters[i]);
        bool known = memchr(letters, letters[i], (size_t)i);
        int w = known ? graph_param_find(graph, name) : kit_weight(graph, name, SHAPE(6, 6));
        snprintf(name, sizeof name, "bias%d", i);
        int bias = kit_weight(graph, name, SHAPE(6));
        snprintf(name, sizeof name, "layer%d", i);
        x = graph_linear(graph, name, x, w, bias);
    }
    graph_cross_entropy(graph, "loss", x, label, 0, false);
    cr_assert_eq(graph->status, STATUS_OK);
    kit_compile(graph, ref, NULL);
    cr_assert_eq(ranges_new(graph, cuts, count, &chain.ranges), STATUS_OK);
    return chain;
}

static void chain_free(struct chain *chain) {
    ranges_free(&chain->ranges);
    graph_free(&chain->graph);
}

static const struct grid line = {.stages = 3, .chunks = 1, .replicas = 1, .replicas_each = 1},
                         alone = {.stages = 1, .chunks = 3, .replicas = 1, .replicas_each = 1};
static const int thirds[] = {1, 2};

static int param_of(const struct graph *graph, const char *name) {
    for (int p = 0; p < graph->param_count; p++)
        if (strcmp(graph->params[p].name, name) == 0) return p;
    cr_assert_fail("no parameter %s", name);
    return -1;
}

Test(plan_ties, two_ranks_hold_it_and_one_answers) {
    struct chain chain = chain_new("aba", thirds, 2);
    struct ties ties;
    cr_assert_eq(ties_of(&chain.ranges, &line, SUM_REPLICA, &ties), STATUS_OK);
    struct stage_buckets buckets = holdings_count_buckets(&chain.ranges, &line, &ties, NULL);
    cr_expect_eq(ties.count, 1);
    cr_expect(ties.item[0].stage == 0 && ties.item[0].other == 2 && tie_is_apart(&ties.item[0]));
    cr_expect(buckets.count[0] == 2 && buckets.count[1] == 1 && buckets.count[2] == 2);
    int a = param_of(chain.graph, "a"), first = chain.graph->params[a].first_use;
    for (int p = 0; p < 3; p++) {
        struct holdings holdings = holdings_of(&chain.ranges, &line, &ties, p, NULL);
        cr_expect_eq(holdings.param_count, 2);
        cr_expect_eq(holdings.chunk_shared[0], p != 1);
        cr_expect_eq(holdings.copies[a], p == 2);
        cr_expect(holdings.uses[first] == (p == 0) && holdings.uses[first + 1] == (p == 2));
        if (p != 1) cr_expect_eq(holdings.params[1], a, "what is shared is last");
        holdings_free(&holdings);
    }
    stage_buckets_free(&buckets);
    ties_free(&ties);
    chain_free(&chain);
}

/* Its bucket is of these parameters alone, and its gradient is there when its own nodes are done:
 * the first stage's use, made at the end of all backward, is not waited for. */
Test(plan_ties, the_bucket_is_whole_with_the_stage) {
    struct chain chain = chain_new("abca", thirds, 2);
    struct ties ties;
    cr_assert_eq(ties_of(&chain.ranges, &line, SUM_REPLICA, &ties), STATUS_OK);
    for (int s = 0; s < 3; s += 2) {
        struct holdings holdings = holdings_of(&chain.ranges, &line, &ties, s, NULL);
        struct bucket_source source = holdings_source(&holdings, &chain.ranges, 0, s);
        struct bucket_list list = buckets_of(&source);
        int shared = buckets_shared(&list);
        cr_assert_geq(shared, 0);
        cr_expect_eq(list.items[shared].count, 1);
        cr_expect_eq(list.items[shared].first, holdings.param_count - 1);
        buckets_cut(&list, &source, &chain.ranges, s);
        struct node_range nodes = ranges_find(&chain.ranges, s, SEGMENT_ALL, PHASE_BACKWARD);
        for (int b = 0; b < list.count; b++) {
            struct node_range part = ranges_find(&chain.ranges, s, b, PHASE_BACKWARD);
            cr_expect(part.begin >= nodes.begin && part.end <= nodes.end);
            if (s == 2 && b == shared) cr_expect(part.end > part.begin && part.end < nodes.end);
        }
        free(list.items);
        holdings_free(&holdings);
    }
    ties_free(&ties);
    chain_free(&chain);
}

Test(plan_ties, one_rank_holds_it_once) {
    struct chain chain = chain_new("aba", thirds, 2);
    struct ties ties;
    cr_assert_eq(ties_of(&chain.ranges, &alone, SUM_REPLICA, &ties), STATUS_OK);
    cr_expect(ties.count == 1 && !tie_is_apart(&ties.item[0]));
    struct holdings holdings = holdings_of(&chain.ranges, &alone, &ties, 0, NULL);
    int a = param_of(chain.graph, "a"), first = chain.graph->params[a].first_use;
    cr_expect_eq(holdings.param_count, 5);
    cr_expect(!holdings.copies[a] && holdings.uses[first] && holdings.uses[first + 1]);
    cr_expect(holdings.chunk_shared[0] == 1 && holdings.chunk_shared[2] == 0);
    holdings_free(&holdings);
    ties_free(&ties);
    chain_free(&chain);
}

/* Squares of a copy are the other rank's to add; it is updated all the same. */
Test(plan_ties, a_copy_is_owned_and_not_counted) {
    struct chain chain = chain_new("aba", thirds, 2);
    struct ties ties;
    cr_assert_eq(ties_of(&chain.ranges, &line, SUM_REPLICA, &ties), STATUS_OK);
    for (int p = 0; p < 3; p += 2) {
        struct holdings holdings = holdings_of(&chain.ranges, &line, &ties, p, NULL);
        struct state_layout *layout =
            state_layout_new(&(struct state_config){.graph = chain.graph,
                                                    .optimizer = optim_find("adamw"),
                                                    .params = holdings.params,
                                                    .param_count = holdings.param_count,
                                                    .copies = holdings.copies,
                                                    .uses = holdings.uses,
                                                    .grads = 1});
        const struct state_item *a = &layout->params[param_of(chain.graph, "a")];
        cr_expect_eq(layout->owned[0].count, layout->param_elements);
        cr_expect_eq(layout->gradient_elements, layout->param_elements, "one use a rank");
        int64_t counted = 0;
        for (int i = 0; i < layout->counted_count; i++) counted += layout->counted[i].count;
        cr_expect_eq(counted, layout->param_elements - (p ? a->count : 0));
        cr_expect(state_holds(a) && state_answers(a) == (p == 0));
        state_layout_free(&layout);
        holdings_free(&holdings);
    }
    ties_free(&ties);
    chain_free(&chain);
}

/* --- refusals --- */

static void expect_refused(const char *letters, const int *cuts, int count, const struct grid *grid,
                           enum sum_order sum, const char *why) {
    struct chain chain = chain_new(letters, cuts, count);
    struct ties ties = {0};
    char log[512] = "";
    log_capture(log, sizeof log);
    enum status status = ties_of(&chain.ranges, grid, sum, &ties);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE, "%s", letters);
    cr_expect(strstr(log, why), "%s: %s", letters, log);
    ties_free(&ties);
    chain_free(&chain);
}

Test(plan_ties, what_cannot_be_added_in_order) {
    const struct grid four = {.stages = 4, .chunks = 1, .replicas = 1, .replicas_each = 1};
    static const int quarters[] = {1, 2, 3}, first_two[] = {1, 2};
    expect_refused("aaa", thirds, 2, &line, SUM_REPLICA, "a is used in stages 0, 1 and 2");
    expect_refused("abaa", first_two, 2, &line, SUM_REPLICA, "used 2 times in stage 2");
    expect_refused("abab", quarters, 3, &four, SUM_REPLICA, "one pair of ranks can");
    expect_refused("aba", thirds, 2, &line, SUM_TREE, "--sum replica");
    expect_refused("aba", thirds, 2, &alone, SUM_REPLICAS_FIRST, "--sum replica");
}

/* A program of another model, or one that was changed. */
Test(plan_ties, a_program_has_the_ties_of_the_model) {
    struct chain chain = chain_new("aba", thirds, 2);
    struct ties ties;
    cr_assert_eq(ties_of(&chain.ranges, &line, SUM_REPLICA, &ties), STATUS_OK);
    struct program *program = program_new(&line, 1, SUM_REPLICA);
    char log[512] = "";
    log_capture(log, sizeof log);
    cr_expect_eq(ties_check(&ties, program, "p"), STATUS_USAGE);
    cr_expect(strstr(log, "p: stages 0 and 2 share parameters in this model"), "%s", log);
    cr_assert_null(program_declare_tie(program, &ties.item[0]));
    cr_expect_eq(ties_check(&ties, program, "p"), STATUS_OK);
    program->tie[0].bucket++;
    cr_expect_eq(ties_check(&ties, program, "p"), STATUS_USAGE);
    struct ties none = {0};
    cr_expect_eq(ties_check(&none, program, "p"), STATUS_USAGE);
    log_capture(NULL, 0);
    program_free(&program);
    ties_free(&ties);
    chain_free(&chain);
}
