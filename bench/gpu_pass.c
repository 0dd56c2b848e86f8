/* gpu-pass DEVICE MODEL BATCH SIZE TYPE: where the time of forward and backward goes on a device.
 *
 * Builds the training graph, runs it a few times, prints the best time of a whole pass with one
 * wait at its end, and then, with a wait behind every node, the sum of the best times of each
 * operation and kernel. SIZE is the side of images or the tokens of a row; TYPE is f32, tf32, bf16
 * or f16. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/golden/golden.h"
#include "../tests/unit/golden/run_graph.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"

enum { REPEATS = 5, GROUPS = 256 };

struct group {
    const char *op;
    char kernel[64];
    int count;
    double ms;
};

static enum status build(char **words, struct graph **out) {
    const struct model *model = model_find(words[2]);
    int64_t batch = atoll(words[3]), size = atoll(words[4]);
    if (!model) return fail(STATUS_USAGE, "model %s is not known", words[2]);
    bool tokens = model->input & (MODEL_MASKED_TOKENS | MODEL_TEXT);
    struct model_config config = {.batch = batch, .training = true, .dropout = -1};
    if (tokens)
        config.sequence = size, config.predictions = 20;
    else
        config.channels = 3, config.height = config.width = size,
        config.classes = size >= 224 ? 1000 : 10, config.patch = size >= 224 ? 16 : 4;
    TRY(model_build(model, &config, out));
    (*out)->dtype = strcmp(words[5], "bf16") == 0  ? DTYPE_BF16
                    : strcmp(words[5], "f16") == 0 ? DTYPE_F16
                                                   : DTYPE_F32;
    return STATUS_OK;
}

static void fill(struct run_graph *run) {
    const struct graph *graph = run->graph;
    for (int i = 0; i < graph->param_count; i++) {
        const struct value *value = &graph->values[graph->params[i].value];
        float *plain = mem_new(tensor_type_bytes(&value->type));
        model_init_param(graph, i, 1, plain);
        run_graph_set(run, graph->params[i].value, plain);
        free(plain);
    }
    for (int i = 0; i < graph->input_count; i++) {
        const struct value *value = &graph->values[graph->inputs[i]];
        int64_t count = shape_count(&value->type.shape);
        void *plain = mem_new(tensor_type_bytes(&value->type));
        for (int64_t k = 0; k < count; k++) {
            if (value->type.dtype == DTYPE_F32)
                ((float *)plain)[k] = value->type.shape.rank ? rng_normal(1, (uint64_t)k) : 0.01f;
            if (value->type.dtype == DTYPE_I32)
                ((int32_t *)plain)[k] = (int32_t)(rng_word(2, (uint64_t)k) % 2);
            if (value->type.dtype == DTYPE_I64) ((int64_t *)plain)[k] = k;
        }
        run_graph_set(run, graph->inputs[i], plain);
        free(plain);
    }
}

static double whole_ms(struct run_graph *run) {
    double best = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        int64_t begin = clock_ns();
        run_graph_again(run);
        best = fmin(best, (double)(clock_ns() - begin) / 1e6);
    }
    return best;
}

static struct group *group_of(struct group *groups, int *count, const struct node *node) {
    for (int i = 0; i < *count; i++)
        if (strcmp(groups[i].op, op_def(node->op)->name) == 0 &&
            strcmp(groups[i].kernel, node->kernel->name) == 0)
            return &groups[i];
    CHECK(*count < GROUPS, "too many kernels");
    groups[*count].op = op_def(node->op)->name;
    snprintf(groups[*count].kernel, sizeof groups->kernel, "%s", node->kernel->name);
    return &groups[(*count)++];
}

static int slower(const void *a, const void *b) {
    const struct group *x = a, *y = b;
    return x->ms < y->ms ? 1 : x->ms > y->ms ? -1 : 0;
}

static double node_ms(struct run_graph *run, int node) {
    double best = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        int64_t begin = clock_ns();
        run_graph_node(run, node);
        best = fmin(best, (double)(clock_ns() - begin) / 1e6);
    }
    return best;
}

static void print_groups(struct run_graph *run) {
    static struct group groups[GROUPS];
    const struct graph *graph = run->graph;
    int count = 0;
    for (int n = 0; n < graph->node_count; n++) {
        if (!graph->nodes[n].kernel) continue;
        struct group *group = group_of(groups, &count, &graph->nodes[n]);
        group->count++;
        group->ms += node_ms(run, n);
    }
    qsort(groups, (size_t)count, sizeof *groups, slower);
    for (int i = 0; i < count && i < 24; i++)
        printf("%9.3f ms %4d  %-22s %s\n", groups[i].ms, groups[i].count, groups[i].op,
               groups[i].kernel);
}

static enum status run_all(char **words) {
    struct device *device = NULL;
    struct graph *graph;
    struct run_graph run;
    TRY(device_open(words[1], 0, 1, &device));
    device->tf32 = strcmp(words[5], "tf32") == 0;
    TRY(build(words, &graph));
    TRY(run_graph_open_on(graph, device, &run));
    fill(&run);
    run_graph_again(&run);
    double ms = whole_ms(&run);
    printf("%s %s batch %s size %s %s: %.2f ms a pass, %.0f samples/s\n", words[1], words[2],
           words[3], words[4], words[5], ms, (double)atoll(words[3]) / ms * 1e3);
    print_groups(&run);
    run_graph_close(&run);
    device_close(&device);
    return STATUS_OK;
}

int main(int count, char **words) {
    if (count != 6)
        return status_exit_code(
            fail(STATUS_USAGE, "usage: gpu-pass DEVICE MODEL BATCH SIZE f32|tf32|bf16|f16"));
    return status_exit_code(run_all(words));
}
