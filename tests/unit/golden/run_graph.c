/* See run_graph.h. */
#include "run_graph.h"

#include <stdlib.h>
#include <string.h>

#include "backend/copy.h"
#include "base/log.h"

static enum status prepare(struct run_graph *run) {
    graph_fuse(run->graph);
    if (run->graph->training) TRY(graph_gradient(run->graph));
    graph_narrow(run->graph, run->graph->dtype);
    return graph_lower(run->graph, run->device, NULL);
}

static bool has_memory(const struct run_graph *run, int value) {
    return run->graph->values[value].root == value && run->graph->values[value].layout;
}

static enum status allocate(struct run_graph *run) {
    const struct backend *backend = run->device->backend;
    run->memory = MEM_ARRAY(void *, run->graph->value_count);
    for (int i = 0; i < run->graph->value_count; i++) {
        const struct value *value = &run->graph->values[i];
        if (!has_memory(run, i)) continue;
        TRY(backend->memory_new(run->device, value->layout->bytes, value->name, &run->memory[i]));
    }
    return backend->memory_new(run->device,
                               graph_scratch_bytes(run->graph, 0, run->graph->node_count) + 1,
                               "scratch", &run->scratch);
}

static enum status open_run(struct run_graph run, struct run_graph *out) {
    enum status status = prepare(&run);
    if (status == STATUS_OK) status = allocate(&run);
    if (status == STATUS_OK)
        *out = run;
    else
        run_graph_close(&run);
    return status;
}

enum status run_graph_open(struct graph *graph, const char *backend, struct run_graph *out) {
    struct run_graph run = {.graph = graph};
    enum status status = device_open(backend, 0, 1, &run.device);
    if (status != STATUS_OK) {
        graph_free(&graph);
        return status;
    }
    return open_run(run, out);
}

enum status run_graph_open_on(struct graph *graph, struct device *device, struct run_graph *out) {
    return open_run((struct run_graph){.graph = graph, .device = device, .borrowed = true}, out);
}

static void give_back(struct run_graph *run, void *memory, size_t bytes) {
    if (memory) run->device->backend->memory_free(run->device, memory, bytes);
}

void run_graph_close(struct run_graph *run) {
    for (int i = 0; run->memory && i < run->graph->value_count; i++)
        if (has_memory(run, i)) give_back(run, run->memory[i], run->graph->values[i].layout->bytes);
    if (run->device)
        give_back(run, run->scratch,
                  graph_scratch_bytes(run->graph, 0, run->graph->node_count) + 1);
    free(run->memory);
    graph_free(&run->graph);
    if (!run->borrowed) device_close(&run->device);
    *run = (struct run_graph){0};
}

static void *memory_of(const struct run_graph *run, int value) {
    return run->memory[run->graph->values[value].root];
}

void run_graph_set(struct run_graph *run, int value, const void *plain) {
    const struct layout *layout = run->graph->values[value].layout;
    enum status status = layout_from_plain(run->device, layout, plain, memory_of(run, value));
    CHECK(status == STATUS_OK, "cannot set %s", run->graph->values[value].name);
}

void run_graph_get(struct run_graph *run, int value, void *plain) {
    const struct layout *layout = run->graph->values[value].layout;
    enum status status = layout_to_plain(run->device, layout, memory_of(run, value), plain);
    CHECK(status == STATUS_OK, "cannot get %s", run->graph->values[value].name);
}

static void fill(struct run_graph *run, void *memory, size_t bytes) {
    void *host = memset(mem_new(bytes), 0xFF, bytes);
    CHECK(device_copy_in(run->device, memory, host, bytes) == STATUS_OK, "fill");
    free(host);
}

/* All bits set is a NaN in every float type: a kernel that leaves part of its output unwritten
 * shows. */
static void poison(struct run_graph *run) {
    for (int i = 0; i < run->graph->value_count; i++) {
        const struct value *value = &run->graph->values[i];
        if (value->kind == VALUE_LOCAL && run->memory[i])
            fill(run, run->memory[i], value->layout->bytes);
    }
}

static void run_node(struct run_graph *run, const struct node *node) {
    void *in[OP_MAX_IN], *out[OP_MAX_OUT];
    for (int i = 0; i < node->in_count; i++) in[i] = memory_of(run, node->in[i]);
    for (int i = 0; i < node->out_count; i++) out[i] = memory_of(run, node->out[i]);
    if (node->kernel)
        CHECK(kernel_run(node->kernel, in, out, run->scratch, NULL) == STATUS_OK, "%s", node->name);
}

void run_graph_node(struct run_graph *run, int node) {
    run_node(run, &run->graph->nodes[node]);
    CHECK(run->device->backend->stream_wait(run->device, NULL) == STATUS_OK, "%s failed",
          run->graph->nodes[node].name);
}

void run_graph_again(struct run_graph *run) {
    for (int i = 0; i < run->graph->node_count; i++) run_node(run, &run->graph->nodes[i]);
    CHECK(run->device->backend->stream_wait(run->device, NULL) == STATUS_OK, "a node failed");
}

void run_graph_run(struct run_graph *run) {
    poison(run);
    run_graph_again(run);
}

void run_graph_gradient(struct run_graph *run, int param, float *out) {
    const struct param *of = &run->graph->params[param];
    int64_t count = shape_count(&run->graph->values[of->value].type.shape);
    float *part = MEM_ARRAY(float, count);
    memset(out, 0, (size_t)count * sizeof(float));
    for (int u = of->first_use; u < of->first_use + of->use_count; u++) {
        run_graph_get(run, run->graph->uses[u].gradient, part);
        for (int64_t i = 0; i < count; i++) out[i] += part[i];
    }
    free(part);
}
