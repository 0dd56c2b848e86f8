/* See store.h. */
#include "exec/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/clones.h"
#include "base/hash.h"
#include "base/log.h"
#include "model/model.h"

int64_t store_param_span(const struct graph *graph, int param) {
    int64_t elements =
        (int64_t)(graph->values[graph->params[param].value].layout->bytes / sizeof(float));
    return (elements + NORM_BLOCK - 1) / NORM_BLOCK * NORM_BLOCK;
}

struct store_size store_size(const struct graph *graph) {
    struct store_size size = {0};
    for (int p = 0; p < graph->param_count; p++) {
        size_t span = (size_t)store_param_span(graph, p);
        size.param_elements += span;
        size.gradient_elements += span * (size_t)graph->params[p].use_count;
    }
    for (int b = 0; b < graph->buffer_count; b++)
        size.buffer_bytes += (graph->values[graph->buffers[b].value].layout->bytes + 63) / 64 * 64;
    return size;
}

static void describe_params(struct store *store, const struct graph *graph, const bool decay[3]) {
    int64_t begin = 0, tail = (int64_t)store_size(graph).param_elements;
    for (int p = 0; p < graph->param_count; p++) {
        const struct param *param = &graph->params[p];
        const struct value *value = &graph->values[param->value];
        int64_t span = store_param_span(graph, p);
        store->params[p] =
            (struct store_item){param->name, value->type, value->layout, begin, span};
        store->spans[p] = (struct optim_span){begin, span, decay[param->class]};
        for (int u = 0; u < param->use_count; u++) {
            int use = param->first_use + u;
            store->use_begin[use] = u == 0 ? begin : tail;
            store->use_param[use] = p;
            store->use_rank[use] = u;
            if (u > 0) tail += span;
        }
        begin += span;
    }
    store->param_elements = begin;
    store->gradient_elements = tail;
}

static void describe_buffers(struct store *store, const struct graph *graph) {
    int64_t begin = 0;
    for (int b = 0; b < graph->buffer_count; b++) {
        const struct value *value = &graph->values[graph->buffers[b].value];
        int64_t bytes = (int64_t)value->layout->bytes;
        store->buffers[b] =
            (struct store_item){graph->buffers[b].name, value->type, value->layout, begin, bytes};
        begin += (bytes + 63) / 64 * 64;
    }
    store->buffer_bytes = (size_t)begin;
}

static enum status take_memory(struct store *store, int grads) {
    const struct backend *backend = store->device->backend;
    size_t param_bytes = (size_t)store->param_elements * sizeof(float);
    size_t grad_bytes = (size_t)store->gradient_elements * sizeof(float);
    TRY(backend->memory_new(store->device, param_bytes, "parameters", (void **)&store->param));
    for (int i = 0; i < grads; i++) {
        TRY(comm_alloc(store->comm, grad_bytes, "gradients", (void **)&store->grad[i]));
        store->grad_count = i + 1;
    }
    for (int i = 0; i < store->optimizer->state_count; i++)
        TRY(backend->memory_new(store->device, param_bytes, "optimizer state",
                                (void **)&store->state[i]));
    return backend->memory_new(store->device, store->buffer_bytes, "buffers",
                               (void **)&store->buffer);
}

enum status store_new(const struct graph *graph, struct device *device, struct comm *comm,
                      int grads, const struct optim_rule *optimizer, const bool decay[3],
                      struct store **out) {
    struct store *store = MEM_NEW(struct store);
    *store = (struct store){.device = device,
                            .comm = comm,
                            .optimizer = optimizer,
                            .param_count = graph->param_count,
                            .buffer_count = graph->buffer_count,
                            .use_count = graph->use_count,
                            .params = MEM_ARRAY(struct store_item, graph->param_count),
                            .buffers = MEM_ARRAY(struct store_item, graph->buffer_count),
                            .use_begin = MEM_ARRAY(int64_t, graph->use_count),
                            .use_param = MEM_ARRAY(int, graph->use_count),
                            .use_rank = MEM_ARRAY(int, graph->use_count),
                            .grad = MEM_ARRAY(float *, grads),
                            .spans = MEM_ARRAY(struct optim_span, graph->param_count)};
    describe_params(store, graph, decay);
    describe_buffers(store, graph);
    enum status status = take_memory(store, grads);
    if (status == STATUS_OK)
        *out = store;
    else
        store_free(&store);
    return status;
}

void store_free(struct store **pointer) {
    struct store *store = *pointer;
    if (!store) return;
    const struct backend *backend = store->device->backend;
    size_t param_bytes = (size_t)store->param_elements * sizeof(float);
    if (store->param) backend->memory_free(store->device, store->param, param_bytes);
    for (int i = 0; i < OPTIM_MAX_STATES; i++) {
        if (store->state[i]) backend->memory_free(store->device, store->state[i], param_bytes);
    }
    if (store->buffer) backend->memory_free(store->device, store->buffer, store->buffer_bytes);
    free(store->params);
    free(store->buffers);
    free(store->use_begin);
    free(store->use_param);
    free(store->use_rank);
    free(store->grad);
    free(store->spans);
    free(store);
    *pointer = NULL;
}

enum status store_init(struct store *store, const struct graph *graph, uint64_t seed) {
    enum status status = STATUS_OK;
    for (int p = 0; p < store->param_count && status == STATUS_OK; p++) {
        float *plain = MEM_ARRAY(float, shape_count(&store->params[p].type.shape));
        model_init_param(graph, p, seed, plain);
        status = store_put(store, p, store->param, plain);
        free(plain);
    }
    for (int b = 0; b < store->buffer_count; b++) {
        const struct store_item *item = &store->buffers[b];
        float start = graph->buffers[b].start;
        float *plain = mem_new((size_t)item->count);
        int64_t count = item->type.dtype == DTYPE_F32 ? shape_count(&item->type.shape)
                                                      : 0; /* counters start at 0 */
        for (int64_t i = 0; i < count; i++) plain[i] = start;
        store_put_buffer(store, b, plain);
        free(plain);
    }
    return status;
}

enum status store_get(const struct store *store, int param, const float *array, void *plain) {
    const struct store_item *item = &store->params[param];
    return layout_to_plain(store->device, item->layout, array + item->begin, plain);
}

enum status store_put(struct store *store, int param, float *array, const void *plain) {
    const struct store_item *item = &store->params[param];
    return layout_from_plain(store->device, item->layout, plain, array + item->begin);
}

void store_get_buffer(const struct store *store, int buffer, void *plain) {
    const struct store_item *item = &store->buffers[buffer];
    store->device->backend->copy_out(store->device, plain, store->buffer + item->begin,
                                     (size_t)item->count);
}

void store_put_buffer(struct store *store, int buffer, const void *plain) {
    const struct store_item *item = &store->buffers[buffer];
    store->device->backend->copy_in(store->device, store->buffer + item->begin, plain,
                                    (size_t)item->count);
}

enum status store_param_hash(const struct store *store, uint64_t *out) {
    uint64_t hash = HASH64_START;
    for (int p = 0; p < store->param_count; p++) {
        const struct store_item *item = &store->params[p];
        size_t bytes = tensor_type_bytes(&item->type);
        void *plain = mem_new(bytes);
        enum status status = store_get(store, p, store->param, plain);
        hash = hash64(hash64(hash, item->name, strlen(item->name)), plain, bytes);
        free(plain);
        TRY(status);
    }
    *out = hash;
    return STATUS_OK;
}

uint64_t store_buffer_hash(const struct store *store) {
    uint64_t hash = HASH64_START;
    for (int b = 0; b < store->buffer_count; b++) {
        const struct store_item *item = &store->buffers[b];
        void *plain = mem_new((size_t)item->count);
        store_get_buffer(store, b, plain);
        hash = hash64(hash64(hash, item->name, strlen(item->name)), plain, (size_t)item->count);
        free(plain);
    }
    return hash;
}

VECTOR_CLONES
static void add_span(float *restrict into, const float *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) into[i] += from[i];
}

void store_add(float *into, const float *from, int64_t count) {
    enum { CHUNK = 16384 };
#pragma omp parallel for schedule(static) if (count > 4 * CHUNK)
    for (int64_t begin = 0; begin < count; begin += CHUNK)
        add_span(into + begin, from + begin, count - begin < CHUNK ? count - begin : CHUNK);
}

void store_sum(struct store *store, int into, int from) {
    /* Further uses were folded into the first by TIE: the tails are spent. */
    store_add(store->grad[into], store->grad[from], store->param_elements);
}

void store_tie(struct store *store, int grad, int first_param, int count) {
    for (int u = 0; u < store->use_count; u++) {
        int param = store->use_param[u];
        if (store->use_rank[u] == 0 || param < first_param || param >= first_param + count)
            continue;
        const struct store_item *item = &store->params[param];
        store_add(store->grad[grad] + item->begin, store->grad[grad] + store->use_begin[u],
                  item->count);
    }
}

void store_zero(struct store *store, int grad) {
    float *values = store->grad[grad];
    for (int64_t i = 0; i < store->gradient_elements; i++) values[i] = -0.0f;
}
