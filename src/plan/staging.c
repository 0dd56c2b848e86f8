/* See staging.h. Tensors are handled one at a time. Those that slices cut are the exception: their
 * writer keeps them, put together, until files are written. A save is always counted: a signal can
 * ask for one. */
#include "plan/staging.h"

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* From a layout that is not plain to the file, or back, there is a copy between. */
static size_t copy_bytes(const struct store_item *item) {
    return tensor_type_bytes(&item->type) * (item->layout->plain ? 1 : 2);
}

/* A tensor that slices cut is made whole first. */
static size_t start_bytes(const struct plan *plan) {
    const struct store_layout *layout = plan->store;
    int params = store_array(layout, ARRAY_PARAM, 0);
    size_t most = 0;
    for (int p = 0; p < layout->param_count; p++) {
        const struct store_item *item = &layout->params[p];
        if (!store_holds(item)) continue;
        bool cut = store_place(layout, params, item->begin, item->count) < 0;
        most = larger(most, copy_bytes(item) + (cut ? item->layout->bytes : 0));
    }
    return most;
}

/* Whether a rank looks at an item of an array at a save or at the end: it writes it, hashes it, or
 * compares it with another rank's. */
static bool is_copied(const struct plan *plan, int array, const struct store_item *item) {
    const struct store_layout *layout = plan->store;
    bool first = plan->config.cell.first_replica == 0 || plan->config.saves;
    bool gathered = layout->arrays[array].kind == ARRAY_PARAM && store_is_sliced(layout, array);
    return store_writes(layout, array, item, first) || gathered || item->copy;
}

struct copies {
    size_t kept, largest; /* until files are written; one at a time */
};

static void count_array(const struct plan *plan, int array, struct copies *copies) {
    int count;
    const struct store_item *items = store_items(plan->store, array, &count);
    for (int i = 0; i < count; i++) {
        const struct store_item *item = &items[i];
        if (!store_holds(item) || !is_copied(plan, array, item)) continue;
        copies->largest = larger(copies->largest, copy_bytes(item));
        if (store_collects(plan->store, array, item))
            copies->kept += tensor_type_bytes(&item->type);
    }
}

static size_t end_bytes(const struct plan *plan) {
    struct copies copies = {0};
    for (int a = 0; a < plan->store->array_count; a++) {
        enum array_kind kind = plan->store->arrays[a].kind;
        if (kind == ARRAY_PARAM || kind == ARRAY_STATE || kind == ARRAY_BUFFER)
            count_array(plan, a, &copies);
    }
    return copies.kept + copies.largest;
}

static size_t comes_later(const struct plan *plan) {
    const struct memory_estimate *estimate = &plan->memory;
    struct backend_overhead run = plan_overhead(plan);
    return estimate->activations + estimate->scratch + estimate->loader + run.data_bytes +
           run.code_bytes;
}

size_t staging_bytes(const struct plan *plan) {
    size_t start = start_bytes(plan), later = comes_later(plan);
    if (plan->chunk_count == 0) return 0;
    return larger(end_bytes(plan), start > later ? start - later : 0);
}
