/* See versions.h. */
#include "exec/versions.h"

#include "backend/backend.h"
#include "base/log.h"

int versions_kept(const struct store *store) {
    const struct state_layout *layout = store->layout;
    return layout->first[ARRAY_VERSION + 1] - layout->first[ARRAY_VERSION];
}

int versions_array(const struct store *store, int64_t version) {
    int kept = versions_kept(store);
    if (version < 0) version = 0;
    CHECK(version <= store->updates && version >= store->updates - kept,
          "version %lld of %lld, of which %d are kept", (long long)version,
          (long long)store->updates, kept);
    if (version == store->updates) return state_array(store->layout, ARRAY_PARAM, 0);
    return state_array(store->layout, ARRAY_VERSION, (int)(version % kept));
}

/* Before the first updates there are fewer than are kept; each place has one number all the same.
 */
int versions_place(const struct store *store, int before) {
    int kept = versions_kept(store);
    int64_t place = (store->updates - before) % kept;
    return (int)(place < 0 ? place + kept : place);
}

static enum status copy_newest(struct store *store, int array) {
    const struct elements *newest = &store->held[state_array(store->layout, ARRAY_PARAM, 0)];
    return store->device->backend->array_copy(store->device, store->held[array].data, newest->data,
                                              elements_bytes(newest), store->stream);
}

enum status versions_keep(struct store *store) {
    int kept = versions_kept(store);
    if (kept > 0)
        TRY(copy_newest(store,
                        state_array(store->layout, ARRAY_VERSION, (int)(store->updates % kept))));
    store->updates++;
    return STATUS_OK;
}

void versions_set(struct store *store, int64_t updates) {
    store->updates = updates;
}

enum status versions_fill(struct store *store) {
    for (int i = 0; i < versions_kept(store); i++)
        TRY(copy_newest(store, state_array(store->layout, ARRAY_VERSION, i)));
    return STATUS_OK;
}

enum status versions_put(struct store *store, int item, const void *plain) {
    for (int i = 0; i < versions_kept(store); i++)
        TRY(store_put(store, state_array(store->layout, ARRAY_VERSION, i), item, plain));
    return store_put(store, state_param_array(store->layout, item), item, plain);
}
