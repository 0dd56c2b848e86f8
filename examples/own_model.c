/* A model, an operation, a loss and a data set of one's own, trained on any ranks by any strategy.
 *     cc examples/own_model.c $(pkg-config --cflags --libs stretto) -lm -o own_model
 *     ./own_model -n 2 --strategy 1f1b --micro-batches 4 */
#include <math.h>
#include <stdio.h>
#include <stretto.h>

/* The data: points of the plane and the height sin(3 x) y above them, by number. */
static int read_point(void *context, int split, int64_t index, uint64_t key, void *const out[]) {
    float *point = out[0], *height = out[1];
    point[0] = (float)fmod((double)(2 * index + split) * 0.7548776662, 2) - 1;
    point[1] = (float)fmod((double)(2 * index + split) * 0.5698402910, 2) - 1;
    *height = sinf(3 * point[0]) * point[1];
    return (void)context, (void)key, 0;
}

/* The operation, swish, and the loss, squared distances: their values and slopes. */
static float swish(float x, float *slope) {
    float gate = 1 / (1 + expf(-x));
    *slope = gate + x * gate * (1 - gate);
    return x * gate;
}
static float square(float x, float wanted, float *slope) {
    *slope = 2 * (x - wanted);
    return (x - wanted) * (x - wanted);
}

static void build(struct stretto_graph *graph, void *context) {
    stretto_value x = stretto_linear(graph, "fc1", stretto_input(graph, "point"), 64);
    x = stretto_linear(graph, "fc2", stretto_map(graph, "swish1", x, swish), 64);
    x = stretto_linear(graph, "fc3", stretto_map(graph, "swish2", x, swish), 1);
    stretto_map_loss(graph, "loss", x, stretto_input(graph, "height"), square);
    (void)context;
}

static const struct stretto_field fields[] = {{.name = "point", .rank = 1, .dim = {2}},
                                              {.name = "height", .label = 1}};
static const struct stretto_data data = {
    sizeof data, "heights", fields, 2, .train_count = 2048, .test_count = 256, .read = read_point};
static const struct stretto_model model = {sizeof model,        "surface",  build,
                                           .optimizer = "adam", .lr = 0.01, .data = &data};

int main(int argc, char **argv) {
    struct stretto_config config = {
        .size = sizeof config, .options = (const char **)argv + 1, .model = &model};
    struct stretto_step step = {.size = sizeof step};
    struct stretto_run *run;
    float height, point[] = {0.5f, 0.5f};
    int code = stretto_open(&config, &run);
    while (code == 0 && (code = stretto_step(run, &step)) == 0)
        if (step.step % 64 == 0) printf("step %3d  loss %.5f\n", (int)step.step, step.loss);
    if (code == STRETTO_END)
        code = stretto_forward(run, 1, (const void *[]){point, NULL}, 2, &height, 1);
    if (code == 0) printf("at (0.5, 0.5): %.3f, should be %.3f\n", height, sin(1.5) / 2);
    if (code != 0) fprintf(stderr, "own_model: %s\n", stretto_error());
    stretto_close(&run);
    return (void)argc, code;
}
