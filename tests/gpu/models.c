/* gpu-models [--backend NAME] [--seed N] [--only MODEL] [--types f32,...]: whole models, forward
 * and backward, on a device against the CPU, in TAP.
 *
 * Both run the same graph node by node, from the same weights, samples and dropout keys. Compared
 * are the losses, and in f32 the gradients of all parameters together: the norm of the difference
 * over the norm. In other types a deep network with batch norm carries the rounding of
 * one layer into all others, so their gradients are printed (tests/gpu/check_torch.py holds them
 * against PyTorch's), and the losses have a limit that only a mistake passes. Each line tells the
 * time of a pass on the device. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/golden/golden.h"
#include "../unit/golden/run_graph.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "tap.h"

struct row {
    struct golden_case shape;
    float dropout;
    double close; /* f32 gradients; of deep networks with batch norm, PyTorch's f32 is as far from
                     its f64 */
};

static const struct row rows[] = {
    {{"mlp", 8, 1, 8, 10, 0, 0, 0, 0}, 0, 1e-4},
    {{"lenet", 8, 1, 28, 10, 0, 0, 0, 0}, 0, 1e-4},
    {{"resnet8", 8, 1, 8, 10, 0, 0, 0, 0}, 0, 1e-4},
    {{"resnet20", 16, 3, 32, 10, 0, 0, 0, 0}, 0, 5e-2},
    {{"pyramidnet", 4, 3, 32, 10, 0, 0, 0, 0}, 0, 5e-2},
    {{"resnet18-cifar", 16, 3, 32, 10, 0, 0, 0, 0}, 0, 5e-2},
    {{"resnet50", 8, 3, 96, 1000, 0, 0, 0, 0}, 0, 5e-2},
    {{"vit-micro", 8, 1, 8, 10, 0, 0, 0, 0}, 0, 1e-4},
    {{"vit-tiny", 8, 3, 32, 10, 4, 0, 0, 0}, 0, 1e-4},
    {{"vit-base", 2, 3, 224, 1000, 16, 0, 0, 0}, 0, 1e-4},
    {{"bert-tiny", 4, 0, 0, 0, 0, 64, 10, 0}, 0.1f, 1e-4},
    {{"bert-base", 2, 0, 0, 0, 0, 128, 20, 0}, 0.1f, 1e-4},
    {{"gpt2-nano", 4, 0, 0, 0, 0, 64, 0, 0}, 0.1f, 1e-4},
    {{"gpt2", 1, 0, 0, 0, 0, 256, 0, 0}, 0.1f, 1e-4},
};

static const struct {
    const char *name;
    enum dtype dtype;
    bool tf32;
    double loss_limit;
} precisions[] = {{"f32", DTYPE_F32, false, 1e-4},
                  {"tf32", DTYPE_F32, true, 1e-2},
                  {"bf16", DTYPE_BF16, false, 3e-2},
                  {"f16", DTYPE_F16, false, 1e-2}};

static enum status build(const struct row *row, enum dtype dtype, struct graph **out) {
    struct model_config config = golden_config(&row->shape);
    config.dropout = row->dropout;
    TRY(model_build(model_find(row->shape.model), &config, out));
    (*out)->dtype = dtype;
    return STATUS_OK;
}

static void set_input(struct run_graph *run, int value, uint64_t seed, double *counts) {
    const struct graph *graph = run->graph;
    const struct value *input = &graph->values[value];
    int64_t count = shape_count(&input->type.shape);
    void *plain = mem_new(tensor_type_bytes(&input->type));
    if (input->type.dtype == DTYPE_I64)
        for (int64_t i = 0; i < count; i++) ((uint64_t *)plain)[i] = rng_key(seed, (uint64_t)i);
    else
        golden_fill(graph, value, seed, 0, plain);
    run_graph_set(run, value, plain);
    for (int k = 0; k < graph->loss_count; k++)
        for (int64_t i = 0; strcmp(graph->losses[k].label, input->name) == 0 && i < count; i++)
            counts[k] += ((int32_t *)plain)[i] != LABEL_IGNORE;
    free(plain);
}

static void set_tensors(struct run_graph *run, uint64_t seed) {
    const struct graph *graph = run->graph;
    for (int i = 0; i < graph->param_count; i++) {
        float *plain =
            MEM_ARRAY(float, shape_count(&graph->values[graph->params[i].value].type.shape));
        model_init_param(graph, i, seed, plain);
        run_graph_set(run, graph->params[i].value, plain);
        free(plain);
    }
    for (int i = 0; i < graph->buffer_count; i++) {
        int64_t count = shape_count(&graph->values[graph->buffers[i].value].type.shape);
        float *plain = MEM_ARRAY(float, count + 1); /* room for a counter */
        for (int64_t k = 0; k < count; k++) plain[k] = graph->buffers[i].start;
        run_graph_set(run, graph->buffers[i].value, plain);
        free(plain);
    }
}

static void fill(struct run_graph *run, uint64_t seed) {
    const struct graph *graph = run->graph;
    double counts[GRAPH_MAX_LOSSES] = {0};
    set_tensors(run, seed);
    for (int i = 0; i < graph->input_count; i++)
        if (golden_is_sample(graph, graph->inputs[i]))
            set_input(run, graph->inputs[i], seed, counts);
    for (int k = 0; k < graph->loss_count; k++)
        run_graph_set(run, graph->losses[k].seed, &(float){(float)(1 / counts[k])});
}

/* All losses and gradients of one run. */
struct result {
    double losses[GRAPH_MAX_LOSSES];
    float *gradients;
    int64_t count;
};

static void collect(struct run_graph *run, struct result *out) {
    const struct graph *graph = run->graph;
    int64_t at = 0;
    out->count = graph_param_elements(graph);
    out->gradients = MEM_ARRAY(float, out->count);
    for (int k = 0; k < graph->loss_count; k++)
        run_graph_get(run, graph->losses[k].sum, &out->losses[k]);
    for (int i = 0; i < graph->param_count; i++) {
        run_graph_gradient(run, i, out->gradients + at);
        at += shape_count(&graph->values[graph->params[i].value].type.shape);
    }
}

static double away(const struct result *want, const struct result *have) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < want->count; i++) {
        double d = (double)have->gradients[i] - want->gradients[i];
        difference += d * d;
        norm += (double)want->gradients[i] * want->gradients[i];
    }
    return sqrt(difference / norm);
}

static double loss_away(const struct result *want, const struct result *have, int losses) {
    double worst = 0;
    for (int k = 0; k < losses; k++)
        worst = fmax(worst, fabs(have->losses[k] / want->losses[k] - 1));
    return worst;
}

/* ms of a pass, best of a few. */
static double time_of(struct run_graph *run) {
    double best = INFINITY;
    for (int i = 0; i < 10; i++) {
        int64_t begin = clock_ns();
        run_graph_again(run);
        best = fmin(best, (double)(clock_ns() - begin) / 1e6);
    }
    return best;
}

static enum status compute(const struct row *row, struct device *device, enum dtype dtype,
                           uint64_t seed, struct result *out, double *ms, int *losses) {
    struct graph *graph;
    struct run_graph run;
    TRY(build(row, dtype, &graph));
    TRY(run_graph_open_on(graph, device, &run));
    fill(&run, seed);
    run_graph_run(&run);
    collect(&run, out);
    *losses = run.graph->loss_count;
    if (ms) *ms = time_of(&run);
    run_graph_close(&run);
    return STATUS_OK;
}

static void judge(const struct row *row, int p, struct device *device, uint64_t seed,
                  const struct result *want) {
    struct result have = {0};
    double ms = 0;
    int losses = 0;
    device->tf32 = precisions[p].tf32;
    enum status status = compute(row, device, precisions[p].dtype, seed, &have, &ms, &losses);
    double error = status == STATUS_OK ? away(want, &have) : INFINITY;
    double loss = status == STATUS_OK ? loss_away(want, &have, losses) : INFINITY;
    tap((p > 0 || error <= row->close) && loss <= precisions[p].loss_limit,
        "%s, %s: gradients %.2g, losses %.2g of the CPU's; a pass of %lld samples %.2f ms",
        precisions[p].name, row->shape.model, error, loss, (long long)row->shape.batch, ms);
    free(have.gradients);
}

int main(int argc, char **argv) {
    struct tap_options options = tap_begin(argc, argv);
    struct device *device = NULL, *cpu = NULL;
    int losses;
    if (!tap_open(&options, &device)) return 0;
    CHECK(device_open("cpu", 0, omp_get_num_procs(), &cpu) == STATUS_OK, "no cpu");
    cpu->conv = CONV_DIRECT; /* Winograd's method costs digits */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct result want = {0};
        if (options.only && !strstr(rows[i].shape.model, options.only)) continue;
        CHECK(compute(&rows[i], cpu, DTYPE_F32, options.seed, &want, NULL, &losses) == STATUS_OK,
              "cpu");
        for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++)
            if (tap_asks(&options, precisions[p].name))
                judge(&rows[i], (int)p, device, options.seed, &want);
        free(want.gradients);
    }
    device_close(&device);
    device_close(&cpu);
    return tap_end();
}
