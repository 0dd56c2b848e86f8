/* Weights from elsewhere. A file of another model, or of a part of one, is no mistake: what fits is
 * taken, by name, and the rest is reported. */
#include "exec/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "tensor/safetensors.h"

/* Names for a report: the first few, then how many more. */
struct name_list {
    char text[160];
    int count;
};

static void name_add(struct name_list *names, const char *name) {
    size_t used = strlen(names->text);
    if (names->count++ < 3)
        snprintf(names->text + used, sizeof names->text - used, "%s%s", used ? ", " : "", name);
}

static void name_note(const struct name_list *names, const char *path, const char *what) {
    if (names->count)
        log_warning("%s: %d tensor(s) %s: %s%s", path, names->count, what, names->text,
                    names->count > 3 ? ", ..." : "");
}

/* What is being loaded, and what was found so far. */
struct loading {
    struct store *store;
    const char *path;
    const struct safetensors *file;
    int taken;
    struct name_list missing, other, extra;
};

/* Files saved from a wrapped model carry "module." before each name. */
static bool find_entry(const struct safetensors *file, const char *name, size_t *out) {
    if (safetensors_find(file, name, out)) return true;
    char *wrapped = mem_format("module.%s", name);
    bool found = safetensors_find(file, wrapped, out);
    free(wrapped);
    return found;
}

static bool fits(const struct store_item *item, const struct safetensors_entry *entry) {
    return entry->native && entry->dtype == item->type.dtype &&
           shape_equal(&entry->shape, &item->type.shape);
}

/* Parameters first, then buffers. */
static int tensor_count(const struct store *store) {
    return store->param_count + store->buffer_count;
}

static const struct store_item *tensor_at(const struct store *store, int index) {
    bool param = index < store->param_count;
    return param ? &store->params[index] : &store->buffers[index - store->param_count];
}

static enum status put(struct store *store, int index, const void *plain) {
    if (index < store->param_count) return store_put(store, index, store->param, plain);
    store_put_buffer(store, index - store->param_count, plain);
    return STATUS_OK;
}

static enum status take(struct loading *loading, int index, size_t entry) {
    size_t bytes = tensor_type_bytes(&tensor_at(loading->store, index)->type);
    void *plain = mem_new(bytes);
    enum status status = safetensors_read(loading->file, entry, plain, bytes);
    if (status == STATUS_OK) status = put(loading->store, index, plain);
    free(plain);
    loading->taken++;
    return status;
}

static enum status take_all(struct loading *loading, bool *used) {
    for (int i = 0; i < tensor_count(loading->store); i++) {
        const struct store_item *item = tensor_at(loading->store, i);
        size_t entry;
        if (!find_entry(loading->file, item->name, &entry)) {
            name_add(&loading->missing, item->name);
            continue;
        }
        used[entry] = true;
        if (fits(item, safetensors_at(loading->file, entry)))
            TRY(take(loading, i, entry));
        else
            name_add(&loading->other, item->name);
    }
    return STATUS_OK;
}

static enum status report(const struct loading *loading) {
    const char *path = loading->path;
    int count = tensor_count(loading->store);
    if (loading->taken == 0)
        return fail(STATUS_DATA,
                    "%s: none of its %zu tensors fits the model's %d\n  the model's begin with %s",
                    path, safetensors_count(loading->file), count,
                    tensor_at(loading->store, 0)->name);
    log_note("%s: %d of the model's %d tensors loaded", path, loading->taken, count);
    name_note(&loading->missing, path, "missing from the file keep their initial values");
    name_note(&loading->other, path, "of another shape or type keep their initial values");
    name_note(&loading->extra, path, "the model does not have were passed over");
    return STATUS_OK;
}

static enum status load(struct loading *loading) {
    size_t count = safetensors_count(loading->file);
    bool *used = MEM_ARRAY(bool, count + 1);
    enum status status = take_all(loading, used);
    for (size_t i = 0; i < count; i++) {
        if (!used[i]) name_add(&loading->extra, safetensors_at(loading->file, i)->name);
    }
    free(used);
    return status == STATUS_OK ? report(loading) : status;
}

enum status weights_load(struct store *store, const char *path) {
    struct safetensors *file;
    TRY(safetensors_open(path, &file));
    struct loading loading = {.store = store, .path = path, .file = file};
    enum status status = load(&loading);
    safetensors_close(&file);
    return status;
}
