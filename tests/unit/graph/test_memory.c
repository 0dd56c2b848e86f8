/* The memory plan: lifetimes are found again here, the slow way, and no two values alive at once
 * may overlap except where an operation is allowed to write over its dying input. The last test
 * is the strongest: a run through the placement has the bits of one where nothing shares memory. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kit.h"

TestSuite(graph_memory, .init = kit_open_devices, .fini = kit_close_devices);

/* When each value's bytes are written first and read last, in the order the passes run. */
struct span {
    int first, last, maker;
};

static void live(struct span *span, int time, int maker) {
    if (span->first < 0) span->first = time, span->maker = maker;
    if (time > span->last) span->last = time;
}

static struct span *find_lives(const struct graph *graph, bool split, int *end) {
    struct span *lives = MEM_ARRAY(struct span, graph->value_count);
    for (int i = 0; i < graph->value_count; i++) lives[i] = (struct span){-1, -1, -1};
    int time = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int n = 0; n < graph->node_count; n++) {
            const struct node *node = &graph->nodes[n];
            bool late = split && node->phase == PHASE_BACKWARD && node->half == OP_HALF_W;
            if (late != (pass == 1)) continue;
            for (int i = 0; i < node->in_count; i++) {
                int root = graph->values[node->in[i]].root;
                if (graph->values[root].kind != VALUE_LOCAL) continue;
                cr_expect_geq(lives[root].first, 0, "%s reads what is not made", node->name);
                live(&lives[root], time, -1);
            }
            for (int i = 0; i < node->out_count; i++)
                if (graph->values[graph->values[node->out[i]].root].kind == VALUE_LOCAL)
                    live(&lives[graph->values[node->out[i]].root], time, n);
            time++;
        }
    }
    for (int i = 0; i < graph->loss_count; i++) {
        lives[graph->losses[i].sum].last = time;
        if (graph->losses[i].top_k != NO_VALUE) lives[graph->losses[i].top_k].last = time;
    }
    for (int u = 0; split && u < graph->use_count; u++) {
        int value = graph->uses[u].gradient;
        if (graph->nodes[graph->values[value].producer].half == OP_HALF_I) lives[value].last = time;
    }
    *end = time;
    return lives;
}

/* May `later` lie where `earlier` lies, though both are touched by the node that makes it? */
static bool may_write_over(const struct graph *graph, const struct span *lives, int earlier,
                           int later) {
    const struct node *node = &graph->nodes[lives[later].maker];
    if (lives[earlier].last != lives[later].first) return false;
    if (!(op_def(node->op)->flags & OP_IN_PLACE) || node->out[0] != later) return false;
    for (int i = 1; i < node->in_count; i++)
        if (graph->values[node->in[i]].root == earlier) return false;
    return graph->values[node->in[0]].root == earlier &&
           graph->values[earlier].layout == graph->values[later].layout;
}

static size_t padded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static int shared; /* pairs that lie over one another legally */

static void check_pair(const struct graph *graph, const struct placement *plan,
                       const struct span *lives, int a, int b) {
    bool apart_in_time = lives[a].last < lives[b].first || lives[b].last < lives[a].first;
    size_t a_end = plan->offset[a] + graph->values[a].layout->bytes;
    size_t b_end = plan->offset[b] + graph->values[b].layout->bytes;
    bool apart_in_space = a_end <= plan->offset[b] || b_end <= plan->offset[a];
    if (apart_in_time || apart_in_space) return;
    int earlier = lives[a].first <= lives[b].first ? a : b, later = earlier == a ? b : a;
    bool legal = may_write_over(graph, lives, earlier, later) && plan->offset[a] == plan->offset[b];
    shared += legal;
    cr_expect(legal, "values %d and %d (%s, %s) overlap at times %d-%d and %d-%d", a, b,
              graph->values[a].name, graph->values[b].name, lives[a].first, lives[a].last,
              lives[b].first, lives[b].last);
}

/* Most bytes in use at one time, counting what lies at one place once. */
static size_t most_live(const struct graph *graph, const struct placement *plan,
                        const struct span *lives, int end) {
    size_t most = 0;
    int *alive = MEM_ARRAY(int, graph->value_count);
    for (int time = 0; time < end; time++) {
        size_t sum = 0;
        int count = 0;
        for (int i = 0; i < graph->value_count; i++) {
            if (plan->offset[i] == PLACED_ELSEWHERE || graph->values[i].root != i) continue;
            if (lives[i].first > time || lives[i].last < time) continue;
            bool counted = false; /* with one that is written over here */
            for (int k = 0; k < count && !counted; k++)
                counted = plan->offset[alive[k]] == plan->offset[i];
            alive[count++] = i;
            if (!counted) sum += padded(graph->values[i].layout->bytes);
        }
        if (sum > most) most = sum;
    }
    free(alive);
    return most;
}

/* Returns the most bytes in use at one time. */
static size_t check_order(const struct graph *graph, struct placement plan,
                          const struct placement_config *config, bool split, const char *name) {
    int end;
    struct span *lives = find_lives(graph, split, &end);
    for (int i = 0; i < graph->value_count; i++) {
        const struct value *value = &graph->values[i], *root = &graph->values[value->root];
        bool outside = config->gradients_outside && root->use >= 0;
        bool here = root->kind == VALUE_LOCAL && !outside && lives[value->root].first >= 0;
        cr_expect_eq(plan.offset[i] != PLACED_ELSEWHERE, here, "%s: value %d (%s)", name, i,
                     value->name);
        cr_expect_eq(plan.offset[i], plan.offset[value->root], "a view lies elsewhere");
        if (!here) continue;
        cr_expect_eq(plan.offset[i] % 64, 0);
        cr_expect_leq(plan.offset[i] + root->layout->bytes, plan.slot_bytes);
        if (value->root != i) continue;
        for (int k = 0; k < i; k++)
            if (graph->values[k].root == k && plan.offset[k] != PLACED_ELSEWHERE)
                check_pair(graph, &plan, lives, i, k);
    }
    size_t most = most_live(graph, &plan, lives, end);
    free(lives);
    return most;
}

/* `slack`: how much more than the bytes alive at once the arena may take; a tenth more where blocks
 * must keep apart in two orders. */
static void check_plan(const struct graph *graph, const struct placement_config *config,
                       const char *name, double slack) {
    struct placement plan = kit_identity(graph, config);
    size_t most = check_order(graph, plan, config, config->life.split, name);
    size_t other = config->life.mixed ? check_order(graph, plan, config, false, name) : 0;
    cr_expect_eq(most > other ? most : other, plan.live_bytes, "%s", name);
    cr_expect_leq(plan.live_bytes, plan.slot_bytes);
    if (config->life.mixed) slack += 0.1;
    cr_expect_leq((double)plan.slot_bytes, (1 + slack) * (double)plan.live_bytes,
                  "%s: %zu bytes for %zu alive at once (split %d outside %d)", name,
                  plan.slot_bytes, plan.live_bytes, config->life.split, config->gradients_outside);
    placement_free(&plan);
}

static const struct placement_config configs[] = {{.gradients_outside = false},
                                                  {.gradients_outside = true},
                                                  {.life = {.split = true}},
                                                  {.life = {.split = true, .mixed = true}}};
enum { CONFIGS = sizeof configs / sizeof configs[0] };

static void check_model(const struct model *model, struct device *device, double slack) {
    for (int training = 0; training < 2; training++) {
        struct model_config config = {.batch = 16, .training = training, .dropout = 0.1f};
        struct graph *graph = NULL;
        cr_assert_eq(model_build(model, &config, &graph), STATUS_OK);
        kit_compile(graph, device, NULL);
        for (int c = 0; c < CONFIGS; c++) check_plan(graph, &configs[c], model->name, slack);
        graph_free(&graph);
    }
}

Test(graph_memory, no_two_values_alive_at_once_overlap) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) check_model(&all[m], ref, 0.05);
    cr_expect_gt(shared, 0, "nothing is done in place");
}

Test(graph_memory, nor_with_other_layouts) {
    static const char *const models[] = {"mlp", "lenet", "resnet8", "vit-micro", "bert-tiny"};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++)
        check_model(model_find(models[m]), twist, 0.2);
}

/* x + x, and a value read again later: neither may be written over. */
Test(graph_memory, in_place_only_where_nobody_else_looks) {
    struct graph *graph = graph_new(2, false);
    int w = graph_param(graph, "w", SHAPE(4, 4), PARAM_WEIGHT, INIT_ZERO, 0);
    int x = graph_linear(graph, "fc", graph_input(graph, "x", DTYPE_F32, SHAPE(2, 4)), w, NO_VALUE);
    int twice = graph_add(graph, "twice", x, x);
    int gelu = graph_gelu(graph, "gelu", twice, false);
    int later = graph_add(graph, "later", gelu, twice);
    int last = graph_gelu(graph, "last", later, false);
    cr_assert_eq(graph_lower(graph, ref, NULL), STATUS_OK);
    struct placement plan = kit_identity(graph, &configs[0]);
    cr_expect_neq(plan.offset[twice], plan.offset[x], "both operands are the same value");
    cr_expect_neq(plan.offset[gelu], plan.offset[twice], "it is read again");
    cr_expect_eq(plan.offset[later], plan.offset[gelu], "the first operand dies here");
    cr_expect_eq(plan.offset[last], plan.offset[later], "the operand dies here");
    placement_free(&plan);
    graph_free(&graph);
}

/* `w` is the last to read x when all of I runs before all of W, `i` when backward runs op by op:
 * with both orders neither may write over it. */
Test(graph_memory, in_place_only_where_the_operand_dies_in_every_order) {
    struct graph *graph = graph_new(2, true);
    int weight = graph_param(graph, "weight", SHAPE(4, 4), PARAM_WEIGHT, INIT_ZERO, 0);
    int x = graph_linear(graph, "fc", graph_input(graph, "in", DTYPE_F32, SHAPE(2, 4)), weight,
                         NO_VALUE);
    int w = graph_gelu(graph, "w", x, false), i = graph_gelu(graph, "i", x, false);
    cr_assert_eq(graph_lower(graph, ref, NULL), STATUS_OK);
    for (int n = 1; n < 3; n++) {
        graph->nodes[n].phase = PHASE_BACKWARD;
        graph->nodes[n].half = n == 1 ? OP_HALF_W : OP_HALF_I;
        graph->nodes[n].unit = 0;
    }
    graph->forward_count = 1;
    const int taker[CONFIGS] = {i, i, w, NO_VALUE};
    for (int c = 0; c < CONFIGS; c++) {
        struct placement plan = kit_identity(graph, &configs[c]);
        cr_expect_eq(plan.offset[w] == plan.offset[x], taker[c] == w, "config %d", c);
        cr_expect_eq(plan.offset[i] == plan.offset[x], taker[c] == i, "config %d", c);
        placement_free(&plan);
    }
    graph_free(&graph);
}

Test(graph_memory, the_peak_is_explained) {
    struct graph *graph = kit_model("resnet8", 4, true);
    kit_compile(graph, ref, NULL);
    struct placement plan = kit_identity(graph, &configs[0]);
    char line[256], *text = NULL;
    size_t bytes;
    placement_largest(&plan, line, sizeof line);
    cr_expect(strchr(line, '[') && strlen(line) < sizeof line - 1, "%s", line);
    FILE *stream = open_memstream(&text, &bytes);
    placement_print(&plan, stream, 5);
    graph_print(graph, stream);
    fclose(stream);
    cr_expect(strstr(text, "alive at the peak") && strstr(text, "layer1.0.conv1"), "%s", text);
    free(text);
    placement_free(&plan);
    graph_free(&graph);
}

Test(graph_memory, a_run_through_the_placement_has_the_same_bits) {
    static const char *const models[] = {"mlp", "lenet", "resnet8", "vit-micro", "bert-tiny"};
    struct device *devices[] = {ref, twist};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (int k = 0; k < 4; k++) {
            struct graph *graph = kit_model(models[m], 2, k % 2);
            kit_compile(graph, devices[k / 2], NULL);
            struct kit_result own = kit_run(graph, NULL, KIT_TOGETHER, NULL);
            for (int c = 0; c < CONFIGS; c++) {
                struct placement plan = kit_identity(graph, &configs[c]);
                for (int order = KIT_TOGETHER; order <= KIT_SPLIT; order++) {
                    if ((order == KIT_SPLIT) != configs[c].life.split && !configs[c].life.mixed)
                        continue;
                    struct kit_result placed = kit_run(graph, &plan, (enum kit_order)order, NULL);
                    cr_assert_eq(own.bytes, placed.bytes);
                    cr_expect_arr_eq(own.data, placed.data, own.bytes, "%s device %d config %d",
                                     models[m], k / 2, c);
                    kit_result_free(&placed);
                }
                placement_free(&plan);
            }
            kit_result_free(&own);
            graph_free(&graph);
        }
    }
}

/* Each input that a node reads has bytes of its own from the start to its last reader; without the
 * flag none has. */
Test(graph_memory, inputs_may_have_a_place) {
    static const char *const models[] = {"lenet", "bert-tiny"};
    for (int m = 0; m < 2; m++) {
        struct graph *graph = kit_model(models[m], 4, true);
        kit_compile(graph, ref, NULL);
        struct placement_config config = {.life = {.inputs = true}}, without = {0};
        struct placement placement = kit_identity(graph, &config),
                         other = kit_identity(graph, &without);
        const struct life_order *order = &placement.life.order[0];
        for (int i = 0; i < graph->input_count; i++) {
            int input = graph->inputs[i];
            size_t begin = placement.offset[input],
                   end = begin + graph->values[input].layout->bytes;
            cr_expect_eq(other.offset[input], PLACED_ELSEWHERE);
            cr_assert_neq(begin, PLACED_ELSEWHERE, "%s", graph->values[input].name);
            cr_expect_eq(order->first[input], 0);
            for (int v = 0; v < graph->value_count; v++) {
                if (v == input || graph->values[v].root != v) continue;
                if (placement.offset[v] == PLACED_ELSEWHERE) continue;
                bool meets = order->first[v] <= order->last[input];
                bool apart = placement.offset[v] >= end ||
                             placement.offset[v] + graph->values[v].layout->bytes <= begin;
                cr_expect(!meets || apart, "%s and %s", graph->values[v].name,
                          graph->values[input].name);
            }
        }
        placement_free(&placement);
        placement_free(&other);
        graph_free(&graph);
    }
}
