/* Whether bf16 pays for a model, by the measured speed of products and of convolutions. */
#include <criterion/criterion.h>
#include <math.h>

#include "model/model.h"
#include "run/narrow_gain.h"

static double gain_of(const char *name, const struct narrow_gain *gain) {
    struct model_config shape = {.batch = 2,
                                 .training = true,
                                 .classes = 10,
                                 .channels = 1,
                                 .height = 8,
                                 .width = 8,
                                 .dropout = -1};
    struct graph *graph = NULL;
    cr_assert_eq(model_build(model_find(name), &shape, &graph), STATUS_OK);
    graph_fuse(graph);
    cr_assert_eq(graph_gradient(graph), STATUS_OK);
    double all = narrow_gain_of(graph, gain);
    graph_free(&graph);
    return all;
}

Test(run_narrow_gain, is_that_of_what_the_model_computes) {
    struct narrow_gain gain = {.product = 2, .convolution = 0.5};
    cr_expect(fabs(gain_of("mlp", &gain) - 2) < 1e-9);
    double resnet = gain_of("resnet8", &gain); /* but for its last layer */
    cr_expect(resnet > 0.5 && resnet < 0.6, "%g", resnet);
}
