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

/* The operation: swish, x / (1 + exp(-x)). */
static void swish(const struct stretto_call *call, const void *const in[], void *const out[]) {
    const float *x = in[0];
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++)
        ((float *)out[0])[i] = x[i] / (1 + expf(-x[i]));
}

static void swish_back(const struct stretto_call *call, const void *const in[],
                       const void *const out[], const void *const d_out[], void *const d_in[]) {
    const float *x = in[0], *dy = d_out[0];
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++) {
        float s = 1 / (1 + expf(-x[i]));
        ((float *)d_in[0])[i] = dy[i] * (s + x[i] * s * (1 - s));
    }
    (void)out;
}

/* The loss: squared distances, summed over the samples. */
static int scalar(struct stretto_call *call, char *why, size_t bytes) {
    call->out[0] = (struct stretto_type){.dtype = STRETTO_F64};
    return (void)why, (void)bytes, 0;
}

static void squares(const struct stretto_call *call, const void *const in[], void *const out[]) {
    const float *x = in[0], *wanted = in[1];
    double sum = 0;
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++)
        sum += (x[i] - wanted[i]) * (x[i] - wanted[i]);
    *(double *)out[0] = sum;
}

static void squares_back(const struct stretto_call *call, const void *const in[],
                         const void *const out[], const void *const d_out[], void *const d_in[]) {
    const float *x = in[0], *wanted = in[1], *factor = d_out[0];
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++)
        ((float *)d_in[0])[i] = *factor * 2 * (x[i] - wanted[i]);
    (void)out;
}

#define OP .size = sizeof(struct stretto_op), .backward_reads = STRETTO_READS_IN
static const struct stretto_op swish_op = {OP, .name = "swish", .forward = swish,
                                           .backward = swish_back},
                               squares_op = {OP, .name = "squares", .shape = scalar,
                                             .forward = squares, .backward = squares_back};

static void build(struct stretto_graph *graph, void *context) {
    stretto_value x = stretto_input(graph, "point"), height = stretto_input(graph, "height");
    (void)context;
    x = stretto_linear(graph, "fc1", x, 64);
    x = stretto_apply(graph, "swish1", &swish_op, NULL, 1, &x, NULL);
    x = stretto_linear(graph, "fc2", x, 64);
    x = stretto_apply(graph, "swish2", &swish_op, NULL, 1, &x, NULL);
    x = stretto_linear(graph, "fc3", x, 1);
    x = stretto_apply(graph, "squares", &squares_op, NULL, 2, (int[]){x, height}, NULL);
    stretto_loss(graph, "loss", x, height);
}

int main(int argc, char **argv) {
    static const struct stretto_field fields[] = {
        {.name = "point", .dtype = STRETTO_F32, .rank = 1, .dim = {2}},
        {.name = "height", .dtype = STRETTO_F32, .rank = 1, .dim = {1}, .label = 1}};
    const struct stretto_data data = {.size = sizeof data,
                                      .name = "heights",
                                      .fields = fields,
                                      .field_count = 2,
                                      .train_count = 2048,
                                      .test_count = 256,
                                      .classes = 1,
                                      .read = read_point};
    const struct stretto_model model = {
        .size = sizeof model, .name = "surface", .build = build, .optimizer = "adam", .lr = 0.01};
    const char *options[] = {"--model",  "surface", "--data", "heights",         "--strategy",
                             "1f1b",     "-n",      "2",      "--micro-batches", "4",
                             "--epochs", "10",      NULL};
    struct stretto_config config = {.size = sizeof config, .options = options};
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
