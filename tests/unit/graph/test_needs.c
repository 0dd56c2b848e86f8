/* What a stage needs: every parameter, buffer, field and loss is where its readers are, tied
 * parameters in several stages, and labels only where the loss is. That it is enough is shown by
 * test_stages.c, which gives stages nothing else. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "graph/needs.h"
#include "kit.h"

TestSuite(graph_needs, .init = kit_open_devices, .fini = kit_close_devices);

static struct ranges cut_before(const struct graph *graph, const char *const *nodes, int count) {
    int cuts[4];
    struct ranges ranges;
    for (int i = 0; i < count; i++) {
        int n = 0;
        while (strcmp(graph->nodes[n].name, nodes[i]) != 0) n++;
        cuts[i] = graph->nodes[n].unit;
    }
    cr_assert_eq(ranges_new(graph, cuts, count, &ranges), STATUS_OK);
    return ranges;
}

/* "word_embeddings pooler": names of what is needed, by one function. */
static void expect_names(const struct graph *graph, const int *list, int count,
                         const char *(*name)(const struct graph *graph, int index),
                         const char *expected, const char *what) {
    char text[512] = "";
    for (int i = 0, used = 0; i < count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", i ? " " : "",
                         name(graph, list[i]));
    cr_expect_str_eq(text, expected, "%s", what);
}

static const char *input_name(const struct graph *graph, int index) {
    return graph->values[graph->inputs[index]].name;
}

static const char *loss_name(const struct graph *graph, int index) {
    return graph->losses[index].name;
}

static const char *buffer_name(const struct graph *graph, int index) {
    return graph->buffers[index].name;
}

static const struct param_need *find(const struct needs *needs, const struct graph *graph,
                                     const char *name) {
    for (int i = 0; i < needs->param_count; i++)
        if (strcmp(graph->params[needs->params[i].param].name, name) == 0) return &needs->params[i];
    return NULL;
}

/* BERT: three stages, the decoder's weight is the embedding's; each stage reads other fields. */
Test(graph_needs, a_tied_parameter_is_in_both_stages) {
    static const char *const cuts[] = {"bert.encoder.layer.1.attention.self.query",
                                       "bert.pooler.first"};
    static const char words[] = "bert.embeddings.word_embeddings.weight";
    static const char *const inputs[] = {
        "input_ids segment_ids sample_key input_mask", "sample_key input_mask",
        "masked_positions masked_labels next_sentence seed.masked_words seed.next_sentence"};
    static const char *const losses[] = {"", "", "masked_words next_sentence"};
    struct graph *graph = kit_model("bert-tiny", 2, true);
    kit_compile(graph, twist, NULL);
    struct ranges ranges = cut_before(graph, cuts, 2);
    for (int s = 0; s < 3; s++) {
        struct needs needs = needs_of(&ranges, s);
        expect_names(graph, needs.inputs, needs.input_count, input_name, inputs[s], "inputs");
        expect_names(graph, needs.losses, needs.loss_count, loss_name, losses[s], "losses");
        const struct param_need *tied = find(&needs, graph, words);
        cr_expect_eq(tied != NULL, s != 1);
        if (tied) {
            const struct param *param = &graph->params[tied->param];
            cr_expect_eq(tied->use_count, 1);
            cr_expect_eq(tied->first_use, param->first_use + (s == 2));
            cr_expect(needs_value(&needs, graph, param->value));
        }
        needs_free(&needs);
    }
    ranges_free(&ranges);
    graph_free(&graph);
}

Test(graph_needs, buffers_and_labels_are_where_they_are_read) {
    static const char *const cuts[] = {"bn1", "layer3.0.conv1"};
    struct graph *graph = kit_model("resnet8", 2, true);
    kit_compile(graph, twist, NULL);
    struct ranges ranges = cut_before(graph, cuts, 2);
    struct needs first = needs_of(&ranges, 0), second = needs_of(&ranges, 1),
                 last = needs_of(&ranges, 2);
    cr_expect_eq(first.buffer_count, 0);
    cr_expect_eq(first.param_count, 1);
    cr_expect_eq(first.loss_count + second.loss_count, 0);
    expect_names(graph, first.inputs, first.input_count, input_name, "image", "first");
    expect_names(graph, second.inputs, second.input_count, input_name, "", "second");
    expect_names(graph, last.inputs, last.input_count, input_name, "sample_key label seed.loss",
                 "last");
    expect_names(graph, second.buffers, 3, buffer_name,
                 "bn1.running_mean bn1.running_var bn1.num_batches_tracked", "second");
    cr_expect_eq(second.buffer_count + last.buffer_count, graph->buffer_count);
    cr_expect_not(needs_value(&second, graph, graph_input_find(graph, "image")));
    needs_free(&first);
    needs_free(&second);
    needs_free(&last);
    ranges_free(&ranges);
    graph_free(&graph);
}

/* A view of an input: the stage that reads through it needs the input. */
Test(graph_needs, views_count_for_what_they_show) {
    struct graph *graph = kit_model("mlp", 2, true);
    kit_compile(graph, ref, NULL);
    struct ranges ranges = cut_before(graph, (const char *const[]){"fc1"}, 1);
    struct needs needs = needs_of(&ranges, 1);
    cr_expect(needs_value(&needs, graph, graph_input_find(graph, "image")));
    needs_free(&needs);
    ranges_free(&ranges);
    graph_free(&graph);
}

/* Every model at every cut: each use of a parameter is in one stage, nothing is left over. */
Test(graph_needs, stages_share_out_everything) {
    int count;
    const struct model *all = model_all(&count);
    for (int m = 0; m < count; m++) {
        struct model_config config = {.batch = 2, .training = true, .dropout = 0.1f};
        struct graph *graph = NULL;
        cr_assert_eq(model_build(&all[m], &config, &graph), STATUS_OK);
        kit_compile(graph, ref, NULL);
        for (int at = 1; at < graph_unit_count(graph); at++) {
            struct ranges ranges;
            cr_assert_eq(ranges_new(graph, &at, 1, &ranges), STATUS_OK);
            int uses = 0, found = 0, losses = 0, inputs = 0;
            bool *seen = MEM_ARRAY(bool, graph->param_count + 1);
            for (int s = 0; s < 2; s++) {
                struct needs needs = needs_of(&ranges, s);
                for (int p = 0; p < needs.param_count; p++) {
                    uses += needs.params[p].use_count;
                    found += !seen[needs.params[p].param];
                    seen[needs.params[p].param] = true;
                    cr_expect_gt(needs.params[p].use_count, 0);
                }
                losses += needs.loss_count;
                inputs += needs.input_count;
                needs_free(&needs);
            }
            cr_expect_eq(uses, graph->use_count, "%s at %d", all[m].name, at);
            cr_expect_eq(found, graph->param_count, "%s at %d", all[m].name, at);
            free(seen);
            cr_expect_eq(losses, graph->loss_count);
            cr_expect_geq(inputs, graph->input_count);
            ranges_free(&ranges);
        }
        graph_free(&graph);
    }
}
