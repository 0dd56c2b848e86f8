/* See staging.h. Tensors are handled one at a time. Those that slices cut are the exception: their
 * writer keeps them, put together, until files are written. A save is always counted: a signal can
 * ask for one. */
#include "plan/staging.h"

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* From a layout that is not plain to the file, or back, a device with memory of its own has a copy
 * between. */
static size_t copy_bytes(const struct plan *plan, const struct state_item *item) {
    bool between = !item->layout->plain && plan->device->backend->apart;
    return tensor_type_bytes(&item->type) * (between ? 2 : 1);
}

/* A tensor that slices cut is made whole first. */
static size_t start_bytes(const struct plan *plan) {
    const struct state_layout *layout = plan->store;
    size_t most = 0;
    for (int p = 0; p < layout->param_count; p++) {
        const struct state_item *item = state_param(layout, p);
        if (!state_holds(item)) continue;
        bool cut = state_place(layout, state_param_array(layout, p), item->begin, item->count) < 0;
        most = larger(most, copy_bytes(plan, item) + (cut ? item->layout->bytes : 0));
    }
    return most;
}

/* Whether all of an item is hashed where it lies, or was gathered. */
static bool is_hashed(const struct plan *plan, int array, bool first) {
    return plan->store->arrays[array].kind != ARRAY_STATE &&
           (first || state_is_sliced(plan->store, array));
}

struct copies {
    size_t kept;          /* until files are written */
    size_t saved, hashed; /* one at a time, or compared with another rank's */
};

static void count_array(const struct plan *plan, int array, struct copies *copies) {
    int count;
    bool first = plan->config.cell.first_replica == 0 || plan->config.saves;
    const struct state_item *items = state_items(plan->store, array, &count);
    for (int i = 0; i < count; i++) {
        const struct state_item *item = &items[i];
        if (!state_holds(item)) continue;
        size_t bytes = tensor_type_bytes(&item->type), copy = copy_bytes(plan, item);
        bool kept = state_collects(plan->store, array, item);
        if (kept) copies->kept += bytes;
        if (kept || state_writes(plan->store, array, item, first))
            copies->saved = larger(copies->saved, kept ? copy - bytes : copy);
        if (is_hashed(plan, array, first)) copies->hashed = larger(copies->hashed, copy);
    }
}

/* Of an array: a tensor of the bucket at a time where it is whole, else the part of the bucket that
 * a slice has. */
static size_t compared_of(const struct plan *plan, int array, const struct bucket *bucket) {
    const struct state_layout *layout = plan->store;
    const struct array_layout *of = &layout->arrays[array];
    size_t most = 0;
    if (!state_is_sliced(layout, array)) {
        for (int p = bucket->first; p < bucket->first + bucket->count; p++)
            most = larger(most, copy_bytes(plan, &layout->params[layout->order[p]]));
        return most;
    }
    for (int i = 0; i < of->slice_count; i++) {
        int64_t begin = of->slices[i].begin, end = begin + of->slices[i].count;
        if (begin < bucket->begin) begin = bucket->begin;
        if (end > bucket->begin + bucket->elements) end = bucket->begin + bucket->elements;
        if (begin < end) most = larger(most, (size_t)(end - begin) * dtype_bytes(of->dtype));
    }
    return most;
}

/* Both ranks that have a parameter compare theirs before a save, those of every replica. */
static size_t compared_bytes(const struct plan *plan) {
    size_t most = 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        const struct bucket_list *buckets = &plan->chunk[c].buckets;
        for (int b = 0; b < buckets->count; b++) {
            const struct program_tie *tie = program_tie_at(plan->program, plan->chunk[c].stage, b);
            if (!tie || !tie_is_apart(tie)) continue;
            for (int a = 0; a < plan->store->array_count; a++) {
                enum array_kind kind = plan->store->arrays[a].kind;
                if (kind == ARRAY_PARAM || kind == ARRAY_STATE)
                    most = larger(most, compared_of(plan, a, &buckets->items[b]));
            }
        }
    }
    return most;
}

static size_t end_bytes(const struct plan *plan) {
    struct copies copies = {.hashed = compared_bytes(plan)};
    for (int a = 0; a < plan->store->array_count; a++) {
        enum array_kind kind = plan->store->arrays[a].kind;
        if (kind == ARRAY_PARAM || kind == ARRAY_STATE || kind == ARRAY_FROZEN ||
            kind == ARRAY_BUFFER)
            count_array(plan, a, &copies);
    }
    return larger(copies.kept + copies.saved, copies.hashed);
}

/* A model is read tensor by tensor, those of other stages too: as it lies in the file, as numbers
 * of our own, and in our order. The arrays have their memory by then. */
static size_t load_bytes(const struct plan *plan) {
    enum { COPIES = 3 };
    const struct run_config *config = &plan->config;
    bool reads = config->cell.first_replica == 0 || config->sliced & SLICED_PARAMS;
    size_t most = 0;
    for (int p = 0; reads && p < plan->store->param_count; p++)
        most = larger(most, COPIES * tensor_type_bytes(&plan->store->params[p].type));
    return most;
}

static size_t comes_later(const struct plan *plan) {
    const struct memory_estimate *estimate = &plan->memory;
    return estimate->activations + estimate->scratch + estimate->loader + RUN_DATA_BYTES +
           RUN_CODE_BYTES;
}

size_t staging_bytes(const struct plan *plan) {
    size_t start = start_bytes(plan), later = comes_later(plan);
    if (plan->chunk_count == 0) return 0;
    bool loads = plan->config.forward || plan->config.weights;
    size_t load = loads ? load_bytes(plan) : 0, end = plan->config.forward ? 0 : end_bytes(plan);
    return larger(larger(load, end), start > later ? start - later : 0);
}

size_t staging_share_bytes(const struct plan *plan) {
    const struct run_config *config = &plan->config;
    if (config->sliced || plan->chunk_count == 0) return plan->memory.staging;
    return larger(plan->memory.staging / (size_t)config->grid.replicas,
                  config->forward ? 0 : compared_bytes(plan));
}
