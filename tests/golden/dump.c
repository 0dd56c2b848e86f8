/* dump CASE SEED FILE: writes what a golden case starts from as safetensors, for make_golden.py:
 * the initial parameters
 * ("param.NAME") and ten batches ("batch.STEP.INPUT"). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit/golden/golden.h"
#include "base/log.h"
#include "tensor/safetensors.h"

/* Items own their names and data. */
struct list {
    struct tensor_item *items;
    size_t count, capacity;
};

static void *add(struct list *list, char *name, const struct tensor_type *type) {
    list->items = mem_grow(list->items, &list->capacity, list->count + 1, sizeof(*list->items));
    void *data = mem_new(tensor_type_bytes(type));
    list->items[list->count++] = (struct tensor_item){name, type->dtype, type->shape, data};
    return data;
}

static void list_free(struct list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free((void *)list->items[i].name);
        free((void *)list->items[i].data);
    }
    free(list->items);
}

static void collect(const struct graph *graph, uint64_t seed, struct list *list) {
    for (int i = 0; i < graph->param_count; i++) {
        const struct param *param = &graph->params[i];
        float *data =
            add(list, mem_format("param.%s", param->name), &graph->values[param->value].type);
        model_init_param(graph, i, GOLDEN_WEIGHT_SEED, data);
    }
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        for (int i = 0; i < graph->input_count; i++) {
            const struct value *input = &graph->values[graph->inputs[i]];
            if (!golden_is_sample(graph, graph->inputs[i])) continue;
            void *data = add(list, mem_format("batch.%d.%s", step, input->name), &input->type);
            golden_fill(graph, graph->inputs[i], seed, step, data);
        }
    }
}

int main(int argc, char **argv) {
    const struct golden_case *gold = argc == 4 ? golden_find(argv[1]) : NULL;
    if (!gold) return status_exit_code(fail(STATUS_USAGE, "usage: dump CASE SEED FILE"));
    struct graph *graph;
    enum status status = golden_build(gold, &graph);
    if (status != STATUS_OK) return status_exit_code(status);
    struct list list = {0};
    collect(graph, strtoull(argv[2], NULL, 10), &list);
    struct safetensors_content content = {.items = list.items, .item_count = list.count};
    status = safetensors_write(argv[3], &content, NULL);
    list_free(&list);
    graph_free(&graph);
    return status_exit_code(status);
}
