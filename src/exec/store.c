/* See store.h. */
#include "exec/store.h"

#include <stdlib.h>
#include <string.h>

#include "backend/copy.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/model.h"

/* Blocks whose sums are made at once, before they are added: few enough to stay in a cache, or, of
 * a device that is apart, enough to keep it busy. */
enum { SUMS = 256, APART_SUMS = 1 << 16 };

struct store_told {
    int32_t bad;
    _Alignas(64) double sums[];
};

static int64_t sums_of(const struct store *store) {
    int64_t most = 1;
    for (int i = 0; i < store->layout->counted_count; i++) {
        int64_t blocks = (store->layout->counted[i].count + NORM_BLOCK - 1) / NORM_BLOCK;
        if (blocks > most) most = blocks;
    }
    int64_t limit = store->device->backend->apart ? APART_SUMS : SUMS;
    return most < limit ? most : limit;
}

static size_t told_bytes(const struct store *store) {
    return sizeof(struct store_told) + (size_t)sums_of(store) * sizeof(double);
}

static const struct backend *backend_of(const struct store *store) {
    return store->device->backend;
}

/* --- memory --- */

static enum status take_array(struct store *store, int array) {
    static const char *const names[ARRAY_KIND_COUNT] = {
        "parameters",         "versions of parameters", "gradients",
        "optimizer state",    "frozen parameters",      "buffers",
        "common parameters",  "outer momentum",         "gradients, windows",
        "parameters, windows"};
    const struct array_layout *layout = &store->layout->arrays[array];
    struct elements *held = &store->held[array];
    *held = (struct elements){layout->dtype, NULL, layout->held};
    size_t bytes = elements_bytes(held);
    bool shared = layout->memory == MEMORY_COMM, apart = backend_of(store)->apart;
    if (shared && store->plane)
        return plane_alloc(store->plane, bytes, names[layout->kind], &held->data);
    if (shared && !apart) return comm_alloc(store->comm, bytes, names[layout->kind], &held->data);
    if (shared && comm_size(store->comm) > 1) {
        TRY(comm_alloc(store->comm, bytes, names[layout->kind], &store->shared[array]));
        TRY(backend_of(store)->pin(store->device, store->shared[array], bytes));
    }
    return backend_of(store)->memory_new(store->device, bytes, names[layout->kind], &held->data);
}

/* What of each parameter lies in a slice, counted from its begin. */
static int clip_spans(const struct state_layout *layout, const struct slice *slice,
                      struct optim_span *out) {
    int count = 0;
    for (int p = 0; p < layout->held_count; p++) {
        const struct state_item *item = &layout->params[layout->order[p]];
        int64_t begin = item->begin - slice->begin, end = begin + item->count;
        if (begin < 0) begin = 0;
        if (end > slice->count) end = slice->count;
        if (begin < end) out[count++] = (struct optim_span){begin, end - begin, item->decay};
    }
    return count;
}

static void make_spans(struct store *store) {
    const struct state_layout *layout = store->layout;
    int at = 0, owned = layout->owned_count;
    /* Between two slices at most one parameter is cut. */
    store->spans = MEM_ARRAY(struct optim_span, layout->param_count + owned);
    store->span_first = MEM_ARRAY(int, owned + 1);
    for (int i = 0; i < owned; i++) {
        store->span_first[i] = at;
        at += clip_spans(layout, &layout->owned[i], store->spans + at);
    }
    store->span_first[owned] = at;
}

static enum status take_memory(struct store *store) {
    for (int i = 0; i < store->layout->array_count; i++) TRY(take_array(store, i));
    return backend_of(store)->memory_new(store->device, told_bytes(store), "sums of arrays",
                                         (void **)&store->told);
}

enum status store_new(const struct state_layout *layout, struct device *device, struct comm *comm,
                      struct plane *plane, struct store **out) {
    struct store *store = MEM_NEW(struct store);
    *store = (struct store){.layout = layout,
                            .device = device,
                            .comm = comm,
                            .plane = plane,
                            .held = MEM_ARRAY(struct elements, layout->array_count),
                            .shared = MEM_ARRAY(void *, layout->array_count)};
    make_spans(store);
    enum status status = take_memory(store);
    if (status == STATUS_OK)
        *out = store;
    else
        store_free(&store);
    return status;
}

void store_free(struct store **pointer) {
    struct store *store = *pointer;
    if (!store) return;
    const struct backend *backend = backend_of(store);
    for (int i = 0; i < store->layout->array_count; i++) {
        bool own =
            store->layout->arrays[i].memory == MEMORY_DEVICE || (backend->apart && !store->plane);
        if (store->shared[i])
            backend->unpin(store->device, store->shared[i], elements_bytes(&store->held[i]));
        if (own && store->held[i].data)
            backend->memory_free(store->device, store->held[i].data,
                                 elements_bytes(&store->held[i]));
    }
    if (store->told) backend->memory_free(store->device, store->told, told_bytes(store));
    free(store->held);
    free(store->shared);
    free(store->spans);
    free(store->span_first);
    free(store);
    *pointer = NULL;
}

/* --- elements and tensors --- */

struct elements store_elements(const struct store *store, int array, int64_t begin, int64_t count) {
    int64_t place = state_place(store->layout, array, begin, count);
    CHECK(place >= 0, "this rank does not hold elements %lld to %lld of array %d", (long long)begin,
          (long long)(begin + count), array);
    return elements_part(&store->held[array], place, count);
}

static const struct state_item *item_of(const struct store *store, int array, int item) {
    int count;
    const struct state_item *items = state_items(store->layout, array, &count);
    CHECK(item >= 0 && item < count, "tensor %d of %d", item, count);
    return &items[item];
}

struct elements store_tensor(const struct store *store, int array, int item) {
    const struct state_item *of = item_of(store, array, item);
    return store_elements(store, array, of->begin, of->count);
}

static const struct elements *windows_of(const struct store *store, enum array_kind kind) {
    return &store->held[state_array(store->layout, kind, 0)];
}

/* Buffers 1 and on of sliced gradients. */
static bool is_windows(const struct store *store, int grad) {
    return store->layout->grad_shift && grad >= GRAD_WINDOWS;
}

static const struct elements *grad_windows(const struct store *store, int grad) {
    return &store->held[state_array(store->layout, ARRAY_GRAD_WINDOW, grad - GRAD_WINDOWS)];
}

static struct elements in_window(const struct store *store, enum array_kind of,
                                 const struct elements *all, const struct bucket *bucket) {
    if (bucket->count == 0) return elements_part(all, 0, 0);
    return elements_part(all, state_window_place(store->layout, of, bucket->first, bucket->begin),
                         bucket->elements);
}

struct elements store_bucket_gradient(const struct store *store, int grad,
                                      const struct bucket *bucket) {
    if (is_windows(store, grad))
        return in_window(store, ARRAY_GRAD, grad_windows(store, grad), bucket);
    return store_elements(store, state_array(store->layout, ARRAY_GRAD, grad), bucket->begin,
                          bucket->elements);
}

struct elements store_bucket_params(const struct store *store, const struct bucket *bucket) {
    if (store->layout->param_shift)
        return in_window(store, ARRAY_PARAM, windows_of(store, ARRAY_PARAM_WINDOW), bucket);
    return store_elements(store, state_array(store->layout, ARRAY_PARAM, 0), bucket->begin,
                          bucket->elements);
}

struct elements store_read_param(const struct store *store, int param) {
    const struct state_item *item = &store->layout->params[param];
    if (!store->layout->param_shift || item->frozen)
        return store_tensor(store, state_param_array(store->layout, param), param);
    return elements_part(
        windows_of(store, ARRAY_PARAM_WINDOW),
        state_window_place(store->layout, ARRAY_PARAM, item->position, item->begin), item->count);
}

const struct elements *store_staging(const struct store *store) {
    if (store->layout->grad_shift) return windows_of(store, ARRAY_GRAD_WINDOW);
    return &store->held[state_array(store->layout, ARRAY_GRAD, 0)];
}

void *store_shared(const struct store *store, const void *address) {
    if (!backend_of(store)->apart) return (void *)(uintptr_t)address;
    for (int i = 0; i < store->layout->array_count; i++) {
        const char *begin = store->held[i].data, *at = address;
        if (!store->shared[i] || at < begin || at > begin + elements_bytes(&store->held[i]))
            continue;
        return (char *)store->shared[i] + (at - begin);
    }
    CHECK(false, "%p is no array that others reach", address);
    return NULL;
}

/* Whoever reads or writes past the stream comes behind what is enqueued there. */
static enum status await_stream(const struct store *store) {
    return backend_of(store)->stream_wait(store->device, store->stream);
}

struct elements store_use_gradient(const struct store *store, int grad, int use) {
    const struct state_use *of = &store->layout->uses[use];
    if (is_windows(store, grad))
        return elements_part(grad_windows(store, grad), state_window_use(store->layout, of),
                             store->layout->params[of->param].count);
    return store_elements(store, state_array(store->layout, ARRAY_GRAD, grad), of->begin,
                          store->layout->params[of->param].count);
}

enum status store_get(const struct store *store, int array, int item, void *plain) {
    const struct state_item *of = item_of(store, array, item);
    struct elements elements = store_tensor(store, array, item);
    TRY(await_stream(store));
    return layout_to_plain(store->device, of->layout, elements.data, plain);
}

/* The part of a tensor that lies in a slice, from `all` of it. */
static enum status copy_part(struct store *store, int array, const struct state_item *item,
                             const struct slice *slice, const struct elements *all) {
    int64_t begin = slice->begin > item->begin ? slice->begin : item->begin,
            end = slice->begin + slice->count, last = item->begin + all->count;
    if (end > last) end = last;
    if (begin >= end) return STATUS_OK;
    struct elements to = store_elements(store, array, begin, end - begin),
                    from = elements_part(all, begin - item->begin, end - begin);
    return backend_of(store)->array_copy(store->device, to.data, from.data, elements_bytes(&to),
                                         NULL);
}

/* Where an element lies in a layout is known to the device alone: it makes the whole tensor first.
 */
static enum status put_parts(struct store *store, int array, const struct state_item *item,
                             const void *plain) {
    const struct backend *backend = backend_of(store);
    const struct array_layout *of = &store->layout->arrays[array];
    size_t bytes = item->layout->bytes;
    struct elements all = {of->dtype, NULL, (int64_t)(bytes / dtype_bytes(of->dtype))};
    TRY(backend->memory_new(store->device, bytes, "a whole tensor", &all.data));
    enum status status = layout_from_plain(store->device, item->layout, plain, all.data);
    for (int i = 0; i < of->slice_count && status == STATUS_OK; i++)
        status = copy_part(store, array, item, &of->slices[i], &all);
    if (status == STATUS_OK) status = backend->stream_wait(store->device, NULL);
    backend->memory_free(store->device, all.data, bytes);
    return status;
}

enum status store_put(struct store *store, int array, int item, const void *plain) {
    const struct state_item *of = item_of(store, array, item);
    TRY(await_stream(store));
    if (state_place(store->layout, array, of->begin, of->count) < 0)
        return put_parts(store, array, of, plain);
    struct elements elements = store_tensor(store, array, item);
    return layout_from_plain(store->device, of->layout, plain, elements.data);
}

/* All go through memory as large as the largest: new memory for each would come from the system
 * page by page. */
static enum status init_params(struct store *store, const struct graph *graph, uint64_t seed) {
    const struct state_layout *layout = store->layout;
    int64_t most = 0;
    for (int p = 0; p < layout->param_count; p++) {
        const struct state_item *item = state_param(layout, p);
        int64_t count = shape_count(&item->type.shape);
        if (state_holds(item) && count > most) most = count;
    }
    float *plain = MEM_ARRAY(float, most);
    enum status status = STATUS_OK;
    for (int p = 0; p < layout->param_count && status == STATUS_OK; p++) {
        if (!state_holds(state_param(layout, p))) continue;
        model_init_param(graph, p, seed, plain);
        status = store_put(store, state_param_array(layout, p), p, plain);
    }
    free(plain);
    return status;
}

static enum status init_buffer(struct store *store, const struct graph *graph, int buffer) {
    const struct tensor_type *type = &store->layout->buffers[buffer].type;
    float *plain = mem_new(tensor_type_bytes(type));
    int64_t count =
        type->dtype == DTYPE_F32 ? shape_count(&type->shape) : 0; /* counters start at 0 */
    for (int64_t i = 0; i < count; i++) plain[i] = graph->buffers[buffer].start;
    enum status status =
        store_put(store, state_array(store->layout, ARRAY_BUFFER, 0), buffer, plain);
    free(plain);
    return status;
}

enum status store_init(struct store *store, const struct graph *graph, uint64_t seed) {
    const struct state_layout *layout = store->layout;
    TRY(init_params(store, graph, seed));
    for (int b = 0; b < layout->buffer_count; b++)
        if (state_holds(&layout->buffers[b])) TRY(init_buffer(store, graph, b));
    return STATUS_OK;
}

/* --- hashes --- */

uint64_t store_item_hash(const struct state_item *item, const void *plain) {
    return hash64(hash64(HASH64_START, item->name, strlen(item->name)), plain,
                  tensor_type_bytes(&item->type));
}

static enum status hash_tensor(const struct store *store, const struct state_item *of,
                               const struct elements *elements, uint64_t *sum) {
    size_t bytes = tensor_type_bytes(&of->type);
    TRY(await_stream(store));
    void *plain = mem_new(bytes);
    enum status status = layout_to_plain(store->device, of->layout, elements->data, plain);
    *sum += store_item_hash(of, plain);
    free(plain);
    return status;
}

enum status store_add_hash(const struct store *store, int array, int item, uint64_t *sum) {
    struct elements elements = store_tensor(store, array, item);
    return hash_tensor(store, item_of(store, array, item), &elements, sum);
}

enum status store_buffer_hash(const struct store *store, uint64_t *out) {
    int count, array = state_array(store->layout, ARRAY_BUFFER, 0);
    uint64_t sum = 0;
    const struct state_item *items = state_items(store->layout, array, &count);
    for (int i = 0; i < count; i++)
        if (state_answers(&items[i])) TRY(store_add_hash(store, array, i, &sum));
    *out = sum;
    return STATUS_OK;
}

/* --- arithmetic --- */

static enum status add(struct store *store, const struct elements *into,
                       const struct elements *from, struct stream *stream) {
    return backend_of(store)->array_add(store->device, into, from, stream);
}

/* What of a bucket lies in a slice; false: nothing. */
static bool clip_bucket(const struct bucket *bucket, const struct slice *slice, struct slice *out) {
    int64_t begin = bucket->begin > slice->begin ? bucket->begin : slice->begin,
            end = bucket->begin + bucket->elements, last = slice->begin + slice->count;
    if (end > last) end = last;
    *out = (struct slice){begin, end - begin};
    return begin < end;
}

/* Further uses were folded into the first by TIE: the tails are spent. */
enum status store_sum(struct store *store, int into, int from, const struct bucket *bucket) {
    const struct state_layout *layout = store->layout;
    int a = state_array(layout, ARRAY_GRAD, into), b = state_array(layout, ARRAY_GRAD, from);
    const struct array_layout *array = &layout->arrays[a];
    for (int i = 0; i < array->slice_count; i++) {
        struct slice part;
        if (!clip_bucket(bucket, &array->slices[i], &part)) continue;
        struct elements to = store_elements(store, a, part.begin, part.count),
                        of = store_elements(store, b, part.begin, part.count);
        TRY(add(store, &to, &of, store->stream));
    }
    return STATUS_OK;
}

/* A further use of one of the bucket's parameters. */
static bool is_further(const struct state_layout *layout, const struct bucket *bucket, int use) {
    int position = layout->params[layout->uses[use].param].position;
    return layout->uses[use].number > 0 && position >= bucket->first &&
           position < bucket->first + bucket->count;
}

/* The first use of a parameter on this rank lies in the parameter's own place. */
static struct elements first_gradient(const struct store *store, int grad, int param) {
    const struct state_item *item = &store->layout->params[param];
    if (!is_windows(store, grad))
        return store_tensor(store, state_array(store->layout, ARRAY_GRAD, grad), param);
    return elements_part(grad_windows(store, grad),
                         state_window_place(store->layout, ARRAY_GRAD, item->position, item->begin),
                         item->count);
}

enum status store_tie(struct store *store, int grad, const struct bucket *bucket) {
    for (int u = 0; u < store->layout->use_count; u++) {
        if (!is_further(store->layout, bucket, u)) continue;
        struct elements into = first_gradient(store, grad, store->layout->uses[u].param),
                        from = store_use_gradient(store, grad, u);
        TRY(add(store, &into, &from, store->stream));
    }
    return STATUS_OK;
}

enum status store_zero(struct store *store, int grad, const struct bucket *bucket) {
    const struct backend *backend = backend_of(store);
    struct elements own = store_bucket_gradient(store, grad, bucket);
    TRY(backend->array_fill(store->device, &own, -0.0f, store->stream));
    for (int u = 0; u < store->layout->use_count; u++) {
        if (!is_further(store->layout, bucket, u)) continue;
        struct elements use = store_use_gradient(store, grad, u);
        TRY(backend->array_fill(store->device, &use, -0.0f, store->stream));
    }
    return STATUS_OK;
}

enum status store_collect(struct store *store, int grad, int use, const void *made, bool first) {
    const struct state_item *param = &store->layout->params[store->layout->uses[use].param];
    struct elements all = store_use_gradient(store, grad, use),
                    to = elements_part(&all, 0,
                                       (int64_t)(param->layout->bytes / dtype_bytes(all.dtype))),
                    from = {to.dtype, (void *)(uintptr_t)made, to.count};
    if (!first) return add(store, &to, &from, store->stream);
    return backend_of(store)->array_copy(store->device, to.data, made, elements_bytes(&to),
                                         store->stream);
}

/* --- slices --- */

/* What was in a window before shows in the padding. */
enum status store_clear_padding(struct store *store, int grad, const struct bucket *bucket) {
    const struct state_layout *layout = store->layout;
    struct elements all = store_bucket_gradient(store, grad, bucket);
    for (int i = bucket->first; i < bucket->first + bucket->count; i++) {
        const struct state_item *item = &layout->params[layout->order[i]];
        int64_t used = (int64_t)(item->layout->bytes / dtype_bytes(all.dtype));
        struct elements padding =
            elements_part(&all, item->begin - bucket->begin + used, item->count - used);
        if (padding.count > 0)
            TRY(backend_of(store)->array_fill(store->device, &padding, 0, store->stream));
    }
    return STATUS_OK;
}

enum status store_take_slice(struct store *store, int grad, const struct bucket *bucket,
                             const struct slice *slice, bool first, struct stream *stream) {
    struct elements all = store_bucket_gradient(store, grad, bucket),
                    from = elements_part(&all, slice->begin, slice->count),
                    to = store_elements(store, state_array(store->layout, ARRAY_GRAD, GRAD_SLICES),
                                        bucket->begin + slice->begin, slice->count);
    if (!first) return add(store, &to, &from, stream);
    return backend_of(store)->array_copy(store->device, to.data, from.data, elements_bytes(&to),
                                         stream);
}

enum status store_give_slice(struct store *store, const struct bucket *bucket,
                             const struct slice *slice, struct stream *stream) {
    const struct state_layout *layout = store->layout;
    if (!layout->param_shift || slice->count == 0) return STATUS_OK;
    struct elements all = store_bucket_params(store, bucket),
                    to = elements_part(&all, slice->begin, slice->count),
                    from = store_elements(store, state_array(layout, ARRAY_PARAM, 0),
                                          bucket->begin + slice->begin, slice->count);
    return backend_of(store)->array_copy(store->device, to.data, from.data, elements_bytes(&to),
                                         stream);
}

/* The sums of some blocks, each added to *total. */
static enum status add_squares(struct store *store, const struct elements *blocks,
                               struct exact_sum *total) {
    const struct backend *backend = backend_of(store);
    int64_t count = (blocks->count + NORM_BLOCK - 1) / NORM_BLOCK;
    TRY(backend->array_squares(store->device, blocks, store->told->sums, store->stream));
    return backend->array_sum(store->device, store->told->sums, count, total, store->stream);
}

/* Of what is counted between two elements of the range. */
static enum status squares_between(struct store *store, int grad, int64_t begin, int64_t end,
                                   struct exact_sum *total) {
    const struct state_layout *layout = store->layout;
    const int64_t most = sums_of(store) * NORM_BLOCK;
    int array = state_array(layout, ARRAY_GRAD, grad);
    for (int i = 0; i < layout->counted_count; i++) {
        const struct slice *slice = &layout->counted[i];
        int64_t from = slice->begin > begin ? slice->begin : begin,
                to = slice->begin + slice->count;
        if (to > end) to = end;
        for (int64_t at = from; at < to; at += most) {
            struct elements blocks =
                store_elements(store, array, at, to - at < most ? to - at : most);
            TRY(add_squares(store, &blocks, total));
        }
    }
    return STATUS_OK;
}

enum status store_squares(struct store *store, int grad, struct exact_sum *total) {
    return squares_between(store, grad, 0, INT64_MAX, total);
}

enum status store_param_squares(struct store *store, int grad, int param, struct exact_sum *total) {
    const struct state_item *item = &store->layout->params[param];
    if (!state_holds(item)) return STATUS_OK;
    return squares_between(store, grad, item->begin, item->begin + item->count, total);
}

static enum status update_slice(struct store *store, const struct optim_step *step,
                                const struct optim_decision *decision, int grad, int index,
                                int32_t *bad) {
    const struct state_layout *layout = store->layout;
    const struct slice *slice = &layout->owned[index];
    int first = store->span_first[index], state = layout->first[ARRAY_STATE];
    struct optim_update update = {
        .rule = layout->optimizer,
        .step = step,
        .decision = decision,
        .spans = store->spans + first,
        .span_count = store->span_first[index + 1] - first,
        .param =
            store_elements(store, state_array(layout, ARRAY_PARAM, 0), slice->begin, slice->count),
        .gradient = store_elements(store, state_array(layout, ARRAY_GRAD, grad), slice->begin,
                                   slice->count)};
    for (int i = 0; i < layout->optimizer->state_count; i++)
        update.state[i] = store_elements(store, state + i, slice->begin, slice->count);
    return backend_of(store)->array_update(store->device, &update, bad, store->stream);
}

enum status store_update(struct store *store, const struct optim_step *step,
                         const struct optim_decision *decision, int grad, int32_t *bad) {
    for (int i = 0; i < store->layout->owned_count; i++)
        TRY(update_slice(store, step, decision, grad, i, bad));
    return STATUS_OK;
}

enum status store_all_finite(const struct store *store, const struct elements *elements,
                             bool *finite) {
    int32_t bad = 0;
    TRY(await_stream(store));
    TRY(device_copy_in(store->device, &store->told->bad, &bad, sizeof bad));
    TRY(backend_of(store)->array_check(store->device, elements, &store->told->bad, store->stream));
    TRY(await_stream(store));
    TRY(device_copy_out(store->device, &bad, &store->told->bad, sizeof bad));
    *finite = !bad;
    return STATUS_OK;
}
