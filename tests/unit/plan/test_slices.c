/* Buckets that passes touch one after the other, and what each replica owns of them. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "../graph/kit.h"
#include "base/mem.h"
#include "plan/slices.h"

TestSuite(plan_slices, .init = kit_open_devices, .fini = kit_close_devices);

static struct bucket_source source_of(const struct graph *graph, int *params, int kept,
                                      int64_t most) {
    for (int p = 0; p < graph->param_count; p++) params[p] = p;
    return (struct bucket_source){.graph = graph,
                                  .params = params,
                                  .count = graph->param_count,
                                  .kept = kept,
                                  .apart = true,
                                  .most = most};
}

static int bucket_of(const struct bucket_list *list, int position) {
    int b = 0;
    while (position < list->items[b].first ||
           position >= list->items[b].first + list->items[b].count)
        b++;
    return b;
}

/* Every node touches parameters of its segment's bucket, or of the kept one. */
static void expect_apart(const struct graph *graph, const struct bucket_list *list,
                         const struct ranges *ranges, int kept) {
    for (int b = 0; b < list->count; b++) {
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            int segment = phase == PHASE_FORWARD ? list->count - 1 - b : b;
            struct node_range nodes = ranges_find(ranges, 0, segment, (enum phase)phase);
            for (int n = nodes.begin; n < nodes.end; n++) {
                const struct node *node = &graph->nodes[n];
                for (int i = 0; i < node->in_count; i++) {
                    const struct value *root = &graph->values[graph->values[node->in[i]].root];
                    if (root->kind != VALUE_PARAM || root->index < kept) continue;
                    cr_expect_eq(bucket_of(list, root->index), b, "%s", node->name);
                }
                for (int i = 0; i < node->out_count; i++) {
                    int use = graph->values[node->out[i]].use;
                    if (use < 0 || graph->uses[use].param < kept) continue;
                    cr_expect_eq(bucket_of(list, graph->uses[use].param), b, "%s", node->name);
                }
            }
        }
    }
}

static void check_model(const char *model, int kept, int64_t most) {
    struct graph *graph = kit_model(model, 2, true);
    kit_compile(graph, twist, NULL);
    int *params = MEM_ARRAY(int, graph->param_count);
    struct bucket_source source = source_of(graph, params, kept, most);
    struct bucket_list list = buckets_of(&source);
    struct ranges ranges;
    cr_assert_eq(ranges_new(graph, NULL, 0, &ranges), STATUS_OK);
    buckets_cut(&list, &source, &ranges, 0);
    int64_t elements = 0;
    for (int b = 0; b < list.count; b++) elements += list.items[b].elements;
    cr_expect_eq(elements, state_param_elements(graph, NULL, graph->param_count));
    if (kept) cr_expect_eq(list.items[list.count - 1].count, kept, "%s", model);
    expect_apart(graph, &list, &ranges, kept);
    free(list.items);
    free(params);
    ranges_free(&ranges);
    graph_free(&graph);
}

Test(plan_slices, segments_touch_their_own_bucket_alone) {
    static const char *const models[] = {"mlp", "resnet8", "vit-micro", "bert-tiny"};
    for (int m = 0; m < 4; m++)
        for (int kept = 0; kept < 3; kept += 2)
            for (int64_t most = 1024; most <= 65536; most *= 8) check_model(models[m], kept, most);
}

/* --- slices and windows --- */

enum { BUCKETS = 5, MEMBERS = 3 };

static void make_list(struct bucket_list *list) {
    int64_t begin = 0;
    list->items = MEM_ARRAY(struct bucket, BUCKETS);
    list->count = BUCKETS;
    for (int b = BUCKETS - 1; b >= 0; b--) {
        list->items[b] = (struct bucket){.first = BUCKETS - 1 - b,
                                         .count = 1,
                                         .begin = begin,
                                         .elements = (b + 2) * (int64_t)NORM_BLOCK};
        begin += list->items[b].elements;
    }
}

Test(plan_slices, each_element_is_owned_once) {
    struct bucket_list list;
    struct rank_program program = {.chunks = 1, .chunk[0] = {.slots = 1, .buckets = BUCKETS}};
    make_list(&list);
    int64_t total = list.items[0].begin + list.items[0].elements;
    char *owners = MEM_ARRAY(char, total);
    for (int m = 0; m < MEMBERS; m++) {
        struct slices slices;
        slices_plan(&list, &program, MEMBERS, m, BUCKETS, &slices);
        cr_expect_eq(slices.gradients.elements, 0);
        for (int i = 0; i < slices.owned_count; i++) {
            struct slice slice = slices.owned[i];
            cr_expect_eq(slice.begin % NORM_BLOCK, 0);
            cr_expect(i == 0 || slice.begin >= slices.owned[i - 1].begin);
            for (int64_t x = 0; x < slice.count; x++) owners[slice.begin + x]++;
        }
        slices_free(&slices);
    }
    for (int64_t x = 0; x < total; x++) cr_assert_eq(owners[x], 1);
    free(owners);
    free(list.items);
}

/* Buckets in different places do not overlap, and each place is as large as the largest that lies
 * there; the kept one is behind. */
Test(plan_slices, windows_hold_their_buckets) {
    struct bucket_list list;
    struct rank_program program = {
        .chunks = 1,
        .chunk[0] = {.slots = 1, .buckets = BUCKETS, .windows = 2, .gathered = 3, .kept = 1}};
    struct slices slices;
    make_list(&list);
    slices_plan(&list, &program, MEMBERS, 0, BUCKETS, &slices);
    const struct state_window *windows[] = {&slices.gradients, &slices.params};
    for (int w = 0; w < 2; w++) {
        int places = w ? 3 : 2;
        int64_t largest[4] = {0}, begin = 0;
        for (int b = 0; b < BUCKETS; b++) {
            int64_t *of = &largest[b == BUCKETS - 1 ? places : b % places];
            if (list.items[b].elements > *of) *of = list.items[b].elements;
        }
        for (int place = 0; place <= places; begin += largest[place++]) {
            for (int b = 0; b < BUCKETS; b++) {
                if ((b == BUCKETS - 1 ? places : b % places) != place) continue;
                const struct bucket *bucket = &list.items[b];
                cr_expect_eq(windows[w]->shift[bucket->first] + bucket->begin, begin, "bucket %d",
                             b);
            }
        }
        cr_expect_eq(windows[w]->elements, begin);
    }
    slices_free(&slices);
    free(list.items);
}

/* What makes weight gradients reads no parameter: W needs none gathered. */
Test(plan_slices, the_weight_half_reads_no_parameters) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        struct model_config config = {.batch = 2, .training = true, .dropout = 0.1f};
        struct graph *graph = NULL;
        cr_assert_eq(model_build(&all[m], &config, &graph), STATUS_OK);
        kit_compile(graph, twist, NULL);
        for (int n = graph->forward_count; n < graph->node_count; n++) {
            const struct node *node = &graph->nodes[n];
            for (int i = 0; node->half == OP_HALF_W && i < node->in_count; i++) {
                const struct value *root = &graph->values[graph->values[node->in[i]].root];
                cr_expect_neq(root->kind, VALUE_PARAM, "%s: %s", all[m].name, node->name);
            }
        }
        graph_free(&graph);
    }
}
