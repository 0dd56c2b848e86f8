/* ops: where the time of a training step goes, operation by operation.
 *
 * Builds the training graph of a model, lowers it onto a device, runs the whole step several times
 * in order (so that caches are as they will be) and prints, for each kind of node, how often it
 * occurs, the best and median time, how fast that is, as a part of the measured peak too, and how
 * fast oneDNN alone does the same shapes (weights and images in the layouts it likes best).
 *
 * The floor of a step is what no order of the same work goes below: convolutions and linear layers
 * each by the faster of our kernel and oneDNN alone, attention's products at the best rate of
 * these, one read and one write of every other operation's tensors at the rate of a copy, and one
 * pass of the optimizer over the parameters at that rate.
 *
 *     build/bench-ops [device [threads [batch [repeats [model[:size]...]]]]]
 *
 * By default: cpu 1 64 7 resnet18-cifar vit-tiny. The size is the side of images (32; from 224 on
 * there are 1000 classes, as in ImageNet) or the tokens of a row (128). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/copy.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/model.h"
#include "ops_floor.h"

struct bench {
    struct device *device;
    struct graph *graph;
    void **data;   /* per value */
    double **time; /* ns, [node][repeat] */
    void *scratch;
    int repeats;
    double peak, copy_rate; /* FLOP and bytes a ns */
};

/* Over the parameters: AdamW reads four tensors and writes three, SGD with momentum one less of
 * each. */
enum { ADAMW_PASSES = 7, SGD_PASSES = 5 };

/* Nodes that do the same work, added up. */
struct group {
    const char *op, *kernel;
    char text[2 * SHAPE_TEXT_BYTES];
    int count;
    double best_ns, median_ns, flops, bytes, onednn_ns, alone_ns;
};

static void fill_input(const struct bench *bench, int id, float *f32) {
    const struct value *value = &bench->graph->values[id];
    int64_t count = shape_count(&value->type.shape);
    int64_t *i64 = (int64_t *)f32;
    int32_t *i32 = (int32_t *)f32;
    for (int64_t i = 0; i < count; i++) {
        if (value->type.dtype == DTYPE_F32)
            f32[i] = value->type.shape.rank ? rng_normal(1, (uint64_t)i) : 0.01f;
        if (value->type.dtype == DTYPE_I32)
            i32[i] = (int32_t)(i % 2); /* a label, an index, a mask */
        if (value->type.dtype == DTYPE_I64) i64[i] = i;
    }
}

static enum status fill_param(struct bench *bench, int index) {
    const struct value *value = &bench->graph->values[bench->graph->params[index].value];
    float *plain = mem_new(tensor_type_bytes(&value->type));
    model_init_param(bench->graph, index, 1, plain);
    enum status status = layout_from_plain(bench->device, value->layout, plain,
                                           bench->data[bench->graph->params[index].value]);
    free(plain);
    return status;
}

static enum status prepare(struct bench *bench) {
    struct graph *graph = bench->graph;
    const struct backend *backend = bench->device->backend;
    bench->data = MEM_ARRAY(void *, graph->value_count);
    bench->time = MEM_ARRAY(double *, graph->node_count);
    for (int i = 0; i < graph->node_count; i++) bench->time[i] = MEM_ARRAY(double, bench->repeats);
    for (int i = 0; i < graph->value_count; i++) {
        struct value *value = &graph->values[i];
        if (!value->layout || value->root != i) continue;
        size_t bytes = value->layout->bytes + 64;
        TRY(backend->memory_new(bench->device, bytes, value->name, &bench->data[i]));
        if (value->kind == VALUE_INPUT) fill_input(bench, i, bench->data[i]);
    }
    for (int i = 0; i < graph->value_count; i++)
        if (graph->values[i].root != i) bench->data[i] = bench->data[graph->values[i].root];
    for (int i = 0; i < graph->param_count; i++) TRY(fill_param(bench, i));
    return backend->memory_new(bench->device, graph_scratch_bytes(graph, 0, graph->node_count) + 64,
                               "scratch", &bench->scratch);
}

static void release(struct bench *bench) {
    const struct graph *graph = bench->graph;
    const struct backend *backend = bench->device->backend;
    for (int i = 0; i < graph->value_count; i++)
        if (graph->values[i].root == i && bench->data[i])
            backend->memory_free(bench->device, bench->data[i],
                                 graph->values[i].layout->bytes + 64);
    backend->memory_free(bench->device, bench->scratch,
                         graph_scratch_bytes(graph, 0, graph->node_count) + 64);
    for (int i = 0; i < graph->node_count; i++) free(bench->time[i]);
    free(bench->time);
    free(bench->data);
}

static void operands(const struct bench *bench, const struct node *node, void *in[], void *out[]) {
    for (int j = 0; j < node->in_count; j++) in[j] = bench->data[node->in[j]];
    for (int j = 0; j < node->out_count; j++) out[j] = bench->data[node->out[j]];
}

static enum status run_step(struct bench *bench, int repeat) {
    for (int i = 0; i < bench->graph->node_count; i++) {
        struct node *node = &bench->graph->nodes[i];
        if (!node->kernel) continue;
        void *in[OP_MAX_IN] = {0}, *out[OP_MAX_OUT] = {0};
        operands(bench, node, in, out);
        int64_t start = floor_clock_ns(bench->device);
        TRY(kernel_run(node->kernel, in, out, bench->scratch, NULL));
        bench->time[i][repeat] = (double)(floor_clock_ns(bench->device) - start);
    }
    return STATUS_OK;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int slowest_first(const void *a, const void *b) {
    double x = ((const struct group *)a)->best_ns, y = ((const struct group *)b)->best_ns;
    return (x < y) - (x > y);
}

static void describe(const struct bench *bench, const struct node *node, struct group *out) {
    struct op_call call = graph_call(bench->graph, node);
    struct op_cost cost = op_cost(&call);
    char shape[SHAPE_TEXT_BYTES], more[SHAPE_TEXT_BYTES];
    bool weight = node->op == OP_CONV2D_BWD_WEIGHT || node->op == OP_LINEAR_BWD_WEIGHT;
    shape_text(&call.in[0].shape, shape);
    shape_text(weight ? &call.in[1].shape : &call.out[0].shape, more);
    *out = (struct group){.op = op_def(node->op)->name,
                          .kernel = node->kernel->name,
                          .count = 1,
                          .flops = cost.flops,
                          .bytes = cost.bytes};
    snprintf(out->text, sizeof out->text, "%s %s", shape, more);
}

/* Convolutions and linear layers, on the cpu backend. */
static void measure_alone(struct bench *bench, const struct node *node, struct group *group) {
    struct op_call call = graph_call(bench->graph, node);
    void *in[OP_MAX_IN] = {0}, *out[OP_MAX_OUT] = {0};
    if (node->op > OP_LINEAR_BWD_WEIGHT || strcmp(bench->device->backend->name, "cpu") != 0) return;
    operands(bench, node, in, out);
    group->alone_ns = floor_kernel_ns(node->kernel, in, out, bench->scratch, bench->repeats);
    group->onednn_ns = floor_onednn_ns(bench->device, &call, bench->repeats);
}

static int collect(struct bench *bench, struct group *groups) {
    int count = 0;
    for (int i = 0; i < bench->graph->node_count; i++) {
        const struct node *node = &bench->graph->nodes[i];
        if (!node->kernel) continue;
        struct group one;
        int at = 0;
        describe(bench, node, &one);
        qsort(bench->time[i], (size_t)bench->repeats, sizeof(double), ascending);
        while (at < count &&
               (strcmp(groups[at].op, one.op) != 0 || strcmp(groups[at].text, one.text) != 0 ||
                strcmp(groups[at].kernel, one.kernel) != 0))
            at++;
        if (at == count)
            measure_alone(bench, node, &one), groups[count++] = one;
        else
            groups[at].count++;
        groups[at].best_ns += bench->time[i][0];
        groups[at].median_ns += bench->time[i][bench->repeats / 2];
    }
    return count;
}

/* Fastest FLOP/ns of a dense group alone. */
static double best_rate(const struct group *groups, int count) {
    double best = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < 2; j++) {
            double ns = j == 0 ? groups[i].alone_ns : groups[i].onednn_ns;
            if (ns > 0 && strncmp(groups[i].op, "linear", 6) == 0 && groups[i].flops / ns > best)
                best = groups[i].flops / ns;
        }
    return best > 0 ? best : 1;
}

static double floor_ns(const struct bench *bench, const struct group *g, double rate) {
    double alone = g->onednn_ns > 0 && g->onednn_ns < g->alone_ns ? g->onednn_ns : g->alone_ns;
    if (g->best_ns < g->count * alone) alone = g->best_ns / g->count;
    if (alone > 0) return g->count * alone;
    if (strncmp(g->op, "attention", 9) == 0) return g->count * g->flops / rate;
    return g->count * g->bytes / bench->copy_rate;
}

static void print_group(const struct bench *bench, const struct group *g) {
    double rate = g->flops * g->count / g->best_ns;
    printf("%-18s %-34s %-32s %4d %9.3f %9.3f %8.1f %5.1f %7.1f", g->op, g->text, g->kernel,
           g->count, g->best_ns * 1e-6, g->median_ns * 1e-6, rate, 100 * rate / bench->peak,
           g->bytes * g->count / g->best_ns);
    if (g->onednn_ns > 0)
        printf(" %8.1f %5.1f", g->flops / g->onednn_ns, 100 * g->onednn_ns * g->count / g->best_ns);
    printf("\n");
}

/* FLOP/ns, within the step, of all operations with such a name. */
static double rate_of(const struct group *groups, int count, const char *const names[3]) {
    double flops = 0, ns = 0;
    for (int i = 0; i < count; i++)
        for (int n = 0; n < 3 && names[n]; n++)
            if (strcmp(groups[i].op, names[n]) == 0)
                flops += groups[i].count * groups[i].flops, ns += groups[i].best_ns;
    return ns > 0 ? flops / ns : 0;
}

static void print_attention(const struct group *groups, int count) {
    static const char *const linear[] = {"linear", "linear_bwd_data", "linear_bwd_weight"},
                             *const forward[3] = {"attention"},
                             *const backward[3] = {"attention_bwd"};
    double rate = rate_of(groups, count, linear);
    if (rate <= 0 || rate_of(groups, count, forward) <= 0) return;
    printf(
        "attention at %.2f (forward) and %.2f (backward) of the %.1f GFLOP/s of the step's linear "
        "layers\n",
        rate_of(groups, count, forward) / rate, rate_of(groups, count, backward) / rate, rate);
}

static void report(struct bench *bench, const char *model) {
    struct group *groups = MEM_ARRAY(struct group, bench->graph->node_count);
    int count = collect(bench, groups);
    double best = 0, median = 0, least = 0, params = 0, rate = best_rate(groups, count);
    qsort(groups, (size_t)count, sizeof *groups, slowest_first);
    printf("%s\n%-18s %-34s %-32s %4s %9s %9s %8s %5s %7s %8s %5s\n", model, "operation", "shapes",
           "kernel", "n", "best ms", "median", "GFLOP/s", "peak%", "GB/s", "oneDNN", "of it%");
    for (int i = 0; i < count; i++) {
        best += groups[i].best_ns, median += groups[i].median_ns;
        least += floor_ns(bench, &groups[i], rate);
        print_group(bench, &groups[i]);
    }
    printf("%-92s %9.3f %9.3f ms, %.1f samples/s (median %.1f)\n", "all", best * 1e-6,
           median * 1e-6, (double)bench->graph->batch * 1e9 / best,
           (double)bench->graph->batch * 1e9 / median);
    for (int i = 0; i < bench->graph->param_count; i++)
        params +=
            (double)tensor_type_bytes(&bench->graph->values[bench->graph->params[i].value].type);
    double pass = params / bench->copy_rate * 1e-6;
    print_attention(groups, count);
    printf("floor %.3f ms, and %.3f for one pass of AdamW (%.3f of SGD); reached without it: %.3f "
           "of the floor\n\n",
           least * 1e-6, ADAMW_PASSES * pass, SGD_PASSES * pass, least / best);
    free(groups);
}

static enum status build(struct bench *bench, const char *word, int64_t batch) {
    char name[64] = "";
    long size = 0;
    sscanf(word, "%63[^:]:%ld", name, &size);
    const struct model *model = model_find(name);
    if (!model) {
        fprintf(stderr, "no model \"%s\"\n", name);
        return STATUS_USAGE;
    }
    struct model_config config = {.batch = batch,
                                  .training = true,
                                  .channels = 3,
                                  .height = size ? size : 32,
                                  .width = size ? size : 32,
                                  .classes = size < 224 ? 10 : 1000,
                                  .dropout = -1};
    if (model->input == MODEL_MASKED_TOKENS)
        config = (struct model_config){.batch = batch,
                                       .training = true,
                                       .sequence = size ? size : 128,
                                       .predictions = 20,
                                       .vocabulary = 30522,
                                       .dropout = -1};
    TRY(model_build(model, &config, &bench->graph));
    graph_fuse(bench->graph);
    TRY(graph_gradient(bench->graph));
    return graph_lower(bench->graph, bench->device, NULL);
}

static enum status bench_model(const struct bench *rates, const char *name, int64_t batch) {
    struct bench bench = *rates;
    int repeats = bench.repeats;
    enum status status = build(&bench, name, batch);
    if (status == STATUS_OK) status = prepare(&bench);
    if (status == STATUS_OK) {
        for (int i = 0; i < repeats; i++)
            if (run_step(&bench, i) != STATUS_OK) return 1;
        report(&bench, name);
        release(&bench);
    }
    graph_free(&bench.graph);
    return status;
}

int main(int count, char **words) {
    static const char *const both[] = {"resnet18-cifar", "vit-tiny"};
    const char *name = count > 1 ? words[1] : "cpu";
    int threads = count > 2 ? atoi(words[2]) : 1, batch = count > 3 ? atoi(words[3]) : 64;
    int repeats = count > 4 ? atoi(words[4]) : 7;
    struct device *device = NULL;
    char text[128];
    if (batch < 1 || repeats < 1 || device_open(name, 0, threads, &device) != STATUS_OK) return 2;
    device->backend->describe(device, text, sizeof text);
    struct bench rates = {.device = device,
                          .repeats = repeats,
                          .peak = floor_peak(device),
                          .copy_rate = floor_copy_rate(device)};
    printf("%s, batch %d, best and median of %d steps\n"
           "peak %.1f GFLOP/s (a tile in the nearest cache), copy %.1f GB/s read and written\n\n",
           text, batch, repeats, rates.peak, rates.copy_rate);
    enum status status = STATUS_OK;
    for (int i = 0; i < (count > 5 ? count - 5 : 2) && status == STATUS_OK; i++)
        status = bench_model(&rates, count > 5 ? words[5 + i] : both[i], batch);
    device_close(&device);
    return status_exit_code(status);
}
