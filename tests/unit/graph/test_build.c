/* Building graphs: a misfit names its node and both shapes, is said once, and ends the building
 * without a crash. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "flops.h"
#include "kit.h"

static char said[1024];

static struct graph *begin(void) {
    said[0] = 0;
    log_capture(said, sizeof said);
    return graph_new(4, true);
}

static void expect_misfit(struct graph *graph, const char *node, const char *part) {
    log_capture(NULL, 0);
    cr_expect_eq(graph->status, STATUS_USAGE);
    cr_expect(strstr(said, node) && strstr(said, part), "\"%s\" and \"%s\" are not in: %s", node,
              part, said);
    int lines = 0;
    for (const char *c = said; *c; c++) lines += *c == '\n';
    cr_expect_leq(lines, 3);
    cr_expect_null(strstr(strstr(said, "error:") + 1, "error:"), "said more than once: %s", said);
    graph_free(&graph);
}

static int image(struct graph *graph) {
    return graph_input(graph, "image", DTYPE_F32, SHAPE(4, 3, 8, 8));
}

Test(graph_build, a_convolution_that_does_not_fit) {
    struct graph *graph = begin();
    int x = graph_conv2d(graph, "stem.conv1", image(graph),
                         kit_weight(graph, "w", SHAPE(16, 5, 3, 3)), NO_VALUE, 1, 1, 1);
    cr_expect_eq(x, NO_VALUE);
    /* Later lines of a model do nothing. */
    x = graph_relu(graph, "relu", x);
    cr_expect_eq(x, NO_VALUE);
    cr_expect_eq(graph_output(graph, x, 1), NO_VALUE);
    cr_expect_eq(graph_shape(graph, x).rank, 0);
    graph_cross_entropy(graph, "loss", x, image(graph), 0, true);
    cr_expect_eq(graph->loss_count, 0);
    expect_misfit(graph, "node stem.conv1 (conv2d)", "5");
}

Test(graph_build, sums_of_different_shapes) {
    struct graph *graph = begin();
    int a = graph_input(graph, "a", DTYPE_F32, SHAPE(4, 3));
    int b = graph_input(graph, "b", DTYPE_F32, SHAPE(4, 2));
    cr_expect_eq(graph_add(graph, "layer1.0.add", a, b), NO_VALUE);
    expect_misfit(graph, "layer1.0.add", "[4,2]");
}

Test(graph_build, a_reshape_that_loses_elements) {
    struct graph *graph = begin();
    cr_expect_eq(graph_reshape(graph, "flatten", image(graph), SHAPE(4, 100)), NO_VALUE);
    expect_misfit(graph, "flatten", "100");
}

Test(graph_build, a_parameter_that_was_never_made) {
    struct graph *graph = begin();
    cr_expect_eq(graph_param_find(graph, "embeddings.word"), NO_VALUE);
    expect_misfit(graph, "embeddings.word", "");
}

Test(graph_build, the_first_of_two_misfits_is_said) {
    struct graph *graph = begin();
    int a = image(graph), b = graph_input(graph, "b", DTYPE_F32, SHAPE(2, 2));
    graph_add(graph, "first", a, b);
    graph_add(graph, "second", a, b);
    graph_misfit(graph, "third", "never said");
    cr_expect_null(strstr(said, "second"));
    cr_expect_null(strstr(said, "third"));
    expect_misfit(graph, "first", "");
}

Test(graph_build, models_say_what_does_not_fit) {
    static const struct {
        const char *model;
        int64_t size, patch;
    } cases[] = {{"vit-tiny", 30, 4}, {"lenet", 6, 0}, {"vit-micro", 10, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_config config = {.batch = 2,
                                      .training = true,
                                      .height = cases[i].size,
                                      .width = cases[i].size,
                                      .patch = cases[i].patch};
        struct graph *graph = NULL;
        said[0] = 0;
        log_capture(said, sizeof said);
        cr_expect_eq(model_build(model_find(cases[i].model), &config, &graph), STATUS_USAGE);
        log_capture(NULL, 0);
        cr_expect_null(graph);
        char *begin = mem_format("error: %s: image", cases[i].model);
        cr_expect(strstr(said, begin), "%s: %s", cases[i].model, said);
        free(begin);
    }
}

Test(graph_build, costs_and_shapes_are_known_at_once) {
    struct graph *graph = graph_new(4, true);
    int x = graph_conv2d(graph, "conv", image(graph), kit_weight(graph, "w", SHAPE(16, 3, 3, 3)),
                         NO_VALUE, 2, 1, 1);
    struct shape shape = graph_shape(graph, x);
    cr_expect(shape_equal(&shape, &SHAPE(4, 16, 4, 4)));
    cr_expect_float_eq(graph_flops(graph, PHASE_FORWARD), 2.0 * 4 * 16 * 16 * 27, 1);
    cr_expect_eq(graph_param_elements(graph), 16 * 27);
    graph_free(&graph);
}
