/* A model, an operation, a loss and a data set of one's own, trained by 1f1b on two ranks.
 *
 *     cc examples/own_model.c $(pkg-config --cflags --libs stretto) -lm -o own_model
 *     ./own_model
 *     ./own_model explain --model surface --data heights -n 4 --strategy zero3
 */
#include <math.h>
#include <stdio.h>
#include <stretto.h>

/* The data: points of the plane and the height sin(3 x) y above them, by number. */
static int read_point(void *context, int split, int64_t index, uint64_t key, void *const out[]) {
    double i = (double)(2 * index + split);
    float *point = out[0], *height = out[1];
    (void)context, (void)key;
    point[0] = (float)(fmod(i * 0.7548776662, 2) - 1);
    point[1] = (float)(fmod(i * 0.5698402910, 2) - 1);
    height[0] = sinf(3 * point[0]) * point[1];
    return 0;
}

/* The operation: swish, and its slope. */
static float swish(float x) {
    return x / (1 + expf(-x));
}
static float swish_slope(float x) {
    return (1 + swish(x) * expf(-x)) / (1 + expf(-x));
}

/* The loss: squared distances. */
static float square(float x, float wanted) {
    return (x - wanted) * (x - wanted);
}
static float square_slope(float x, float wanted) {
    return 2 * (x - wanted);
}

static void build(struct stretto_graph *graph, void *context) {
    stretto_value x = stretto_input(graph, "point");
    (void)context;
    x = stretto_map(graph, "swish1", stretto_linear(graph, "fc1", x, 64), swish, swish_slope);
    x = stretto_map(graph, "swish2", stretto_linear(graph, "fc2", x, 64), swish, swish_slope);
    x = stretto_linear(graph, "fc3", x, 1);
    stretto_map_loss(graph, "loss", x, stretto_input(graph, "height"), square, square_slope);
}

static const struct stretto_field fields[] = {
    {.name = "point", .rank = 1, .dim = {2}},
    {.name = "height", .rank = 1, .dim = {1}, .label = 1}};
static const struct stretto_data data = {
    sizeof data, "heights", fields, 2, .train_count = 2048, .test_count = 256, .read = read_point};
static const struct stretto_model model = {sizeof model, "surface", build, .optimizer = "adam",
                                           .lr = 0.01};
static const struct stretto_config config = {
    sizeof config, .words = "--model surface --data heights --strategy 1f1b -n 2 "
                            "--micro-batches 4 --epochs 10"};

int main(int argc, char **argv) {
    struct stretto_run *run = NULL;
    struct stretto_step step = {.size = sizeof step};
    float point[] = {0.5f, 0.5f}, height;
    int code = stretto_add_data(&data);
    if (code == 0) code = stretto_add_model(&model);
    if (code == 0 && argc > 1) return stretto_main(argc, argv); /* the command, with these rows */
    if (code == 0) code = stretto_open(&config, &run);
    while (code == 0 && (code = stretto_step(run, &step)) == 0)
        if (step.step % 64 == 0) printf("step %3lld  loss %.5f\n", (long long)step.step, step.loss);
    if (code == STRETTO_END)
        code = stretto_forward(run, 1, (const void *[]){point, NULL}, 2, &height, 1);
    if (code == 0) printf("at (0.5, 0.5): %.3f, should be %.3f\n", height, sin(1.5) / 2);
    if (code != 0) fprintf(stderr, "own_model: %s\n", stretto_error());
    stretto_close(&run);
    return code;
}
