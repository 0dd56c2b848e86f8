/* Weights from elsewhere. A file of another model, or of a part of one, is no mistake: what fits is
 * taken, by name, and the rest is reported. A value that is not finite is a mistake of the file: a
 * run would fail on it at its first step, and blame the learning rate.
 *
 * The file is read twice, first to check and then to take, so that a file that is refused changes
 * nothing. */
#include "exec/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/mem.h"
#include "tensor/shards.h"

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
    char count[TEXT_BYTES];
    if (names->count)
        log_warning("%s: %s %s: %s%s", path, text_count(names->count, "tensor", count), what,
                    names->text, names->count > 3 ? ", ..." : "");
}

/* Tensors of another shape or type, a line each: the first two, with both sides. */
struct misfit_list {
    char text[512];
    int count;
};

static void misfit_add(struct misfit_list *misfits, const struct store_item *item,
                       const struct safetensors_entry *entry) {
    enum { SHOWN = 2, NAME_WIDTH = 80 };
    char have[SHAPE_TEXT_BYTES], want[SHAPE_TEXT_BYTES];
    size_t used = strlen(misfits->text);
    if (misfits->count++ >= SHOWN) return;
    snprintf(misfits->text + used, sizeof misfits->text - used,
             "\n  %.*s: %s %s in the file, %s %s in the model", NAME_WIDTH, item->name, entry->type,
             safetensors_shape_text(entry, have), dtype_safetensors_name(item->type.dtype),
             shape_text(&item->type.shape, want));
}

/* What is being loaded, and what was found so far. */
struct loading {
    const struct store_layout *layout;
    struct store *store; /* NULL: only checked */
    bool whole;          /* all of the model must be there */
    const char *path;
    const struct shards *file;
    int taken, converted[DTYPE_COUNT];
    struct name_list missing, extra;
    struct misfit_list misfits;
};

/* Files saved from a wrapped model carry "module." before each name. */
static bool find_entry(const struct shards *file, const char *name, size_t *out) {
    if (shards_find(file, name, out)) return true;
    char *wrapped = mem_format("module.%s", name);
    bool found = shards_find(file, wrapped, out);
    free(wrapped);
    return found;
}

/* f32 takes what the other floating-point types hold; anything else must be of the type itself. */
static bool converts(enum dtype from, enum dtype to) {
    bool floating = from == DTYPE_F16 || from == DTYPE_BF16 || from == DTYPE_F64;
    return from == to || (to == DTYPE_F32 && floating);
}

static bool fits(const struct store_item *item, const struct safetensors_entry *entry) {
    return entry->native && converts(entry->dtype, item->type.dtype) &&
           shape_equal(&entry->shape, &item->type.shape);
}

static double element(enum dtype dtype, const void *data, int64_t index) {
    const char *at = (const char *)data + (size_t)index * dtype_bytes(dtype);
    uint16_t half;
    float single;
    double value;
    switch (dtype) {
    case DTYPE_F64: memcpy(&value, at, sizeof value); return value;
    case DTYPE_F16: memcpy(&half, at, sizeof half); return (double)f16_to_f32(half);
    case DTYPE_BF16: memcpy(&half, at, sizeof half); return (double)bf16_to_f32(half);
    default: memcpy(&single, at, sizeof single); return (double)single;
    }
}

static enum status not_finite(const struct loading *loading, const struct store_item *item,
                              int64_t index, double value) {
    if (isnan(value)) value = NAN; /* its sign means nothing, and printf shows it */
    return fail(STATUS_DATA,
                "%s: element %" PRId64 " of tensor %s is %g%s\n  the file is at fault, not this "
                "run: take weights from before it went wrong",
                loading->path, index, item->name, value,
                isfinite(value) ? ", beyond what F32 can hold" : "");
}

/* Floats of any type to f32; `plain` and `data` may be the same when the type is. */
static enum status convert(const struct loading *loading, const struct store_item *item,
                           enum dtype from, const void *data, float *plain) {
    int64_t count = shape_count(&item->type.shape);
    for (int64_t i = 0; i < count; i++) {
        double value = element(from, data, i);
        plain[i] = (float)value;
        if (!isfinite(plain[i])) return not_finite(loading, item, i, value);
    }
    return STATUS_OK;
}

/* Parameters first, then buffers. */
static int tensor_count(const struct store_layout *layout) {
    return layout->param_count + layout->buffer_count;
}

static const struct store_item *tensor_at(const struct store_layout *layout, int index) {
    int params = layout->param_count;
    return index < params ? &layout->params[index] : &layout->buffers[index - params];
}

static enum status put(struct store *store, int index, const void *plain) {
    int params = store->layout->param_count, array = index < params ? ARRAY_PARAM : ARRAY_BUFFER;
    if (!store_holds(tensor_at(store->layout, index))) return STATUS_OK;
    return store_put(store, store_array(store->layout, (enum array_kind)array, 0),
                     index < params ? index : index - params, plain);
}

static enum status take(struct loading *loading, int index, size_t at, bool checking) {
    const struct safetensors_entry *entry = shards_at(loading->file, at);
    const struct store_item *item = tensor_at(loading->layout, index);
    void *data = mem_new((size_t)entry->bytes), *plain = mem_new(tensor_type_bytes(&item->type));
    enum status status = shards_read(loading->file, at, data, (size_t)entry->bytes);
    bool real = item->type.dtype == DTYPE_F32;
    if (status == STATUS_OK && real) status = convert(loading, item, entry->dtype, data, plain);
    if (status == STATUS_OK && !checking) status = put(loading->store, index, real ? plain : data);
    free(data);
    free(plain);
    return status;
}

static void count_taken(struct loading *loading, const struct store_item *item,
                        const struct safetensors_entry *entry) {
    loading->taken++;
    loading->converted[entry->dtype] += entry->dtype != item->type.dtype;
}

/* Notes what every tensor of the model meets in the file, and checks what will be taken. */
static enum status check_all(struct loading *loading, bool *used) {
    for (int i = 0; i < tensor_count(loading->layout); i++) {
        const struct store_item *item = tensor_at(loading->layout, i);
        size_t at;
        if (!find_entry(loading->file, item->name, &at)) {
            name_add(&loading->missing, item->name);
            continue;
        }
        const struct safetensors_entry *entry = shards_at(loading->file, at);
        used[at] = true;
        if (!fits(item, entry)) {
            misfit_add(&loading->misfits, item, entry);
            continue;
        }
        count_taken(loading, item, entry);
        TRY(take(loading, i, at, true));
    }
    return STATUS_OK;
}

static enum status take_all(struct loading *loading) {
    for (int i = 0; i < tensor_count(loading->layout); i++) {
        const struct store_item *item = tensor_at(loading->layout, i);
        size_t at;
        if (find_entry(loading->file, item->name, &at) && fits(item, shards_at(loading->file, at)))
            TRY(take(loading, i, at, false));
    }
    return STATUS_OK;
}

/* "", or ", converted to F32: 6 from F16, 2 from BF16". */
static void converted_text(const struct loading *loading, char *text, size_t room) {
    size_t used = 0;
    *text = 0;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (!loading->converted[d]) continue;
        used += (size_t)snprintf(text + used, room - used, "%s %d from %s",
                                 used ? "," : ", converted to F32:", loading->converted[d],
                                 dtype_safetensors_name((enum dtype)d));
    }
}

static enum status nothing_fits(const struct loading *loading) {
    char first[160];
    snprintf(first, sizeof first, "\n  the model's begin with %.120s",
             tensor_at(loading->layout, 0)->name);
    return fail(STATUS_DATA, "%s: none of its %zu tensors fits the model's %d%s", loading->path,
                shards_count(loading->file), tensor_count(loading->layout),
                loading->misfits.count ? loading->misfits.text : first);
}

/* A model that is to be used as it is. */
static enum status not_whole(const struct loading *loading) {
    int missing = loading->missing.count, misfits = loading->misfits.count;
    char count[TEXT_BYTES];
    if (misfits)
        return fail(STATUS_DATA, "%s: not this model: %s of another shape or type%s", loading->path,
                    text_count(misfits, "tensor", count), loading->misfits.text);
    return fail(STATUS_DATA, "%s: not this model: %s missing: %s%s\n  is it another --model?",
                loading->path, text_count(missing, "tensor", count), loading->missing.text,
                missing > 3 ? ", ..." : "");
}

static void report(const struct loading *loading) {
    const char *path = loading->path;
    char converted[128], count[TEXT_BYTES];
    converted_text(loading, converted, sizeof converted);
    log_note("%s: %d of the model's %d tensors loaded%s", path, loading->taken,
             tensor_count(loading->layout), converted);
    name_note(&loading->missing, path, "missing from the file, left at the initial value");
    if (loading->misfits.count)
        log_warning("%s: %s of another shape or type, left at the initial value%s%s", path,
                    text_count(loading->misfits.count, "tensor", count), loading->misfits.text,
                    loading->misfits.count > 2 ? ", ..." : "");
    name_note(&loading->extra, path, "that the model does not have, passed over");
}

static enum status load(struct loading *loading) {
    size_t count = shards_count(loading->file);
    bool *used = MEM_ARRAY(bool, count + 1);
    enum status status = check_all(loading, used);
    for (size_t i = 0; i < count; i++) {
        if (!used[i]) name_add(&loading->extra, shards_at(loading->file, i)->name);
    }
    free(used);
    TRY(status);
    if (loading->taken == 0) return nothing_fits(loading);
    bool lacks = loading->missing.count || loading->misfits.count;
    if (loading->whole && lacks) return not_whole(loading);
    if (!loading->store) return STATUS_OK;
    TRY(take_all(loading));
    if (!loading->whole) report(loading);
    return STATUS_OK;
}

/* A model lies in a folder as one file, or as several with an index. The path of it, which the
 * caller frees; NULL: there is none. */
static char *model_in(const char *folder) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = mem_format("%s/%s", folder, names[i]);
        if (file_exists(path)) return path;
        free(path);
    }
    return NULL;
}

/* Why a folder has no model: one of a run that did not end has checkpoints. */
static enum status no_model(const char *folder) {
    char *best = mem_format("%s/checkpoints/best", folder), *saved = model_in(best);
    free(best);
    bool has_saved = saved;
    free(saved);
    if (has_saved)
        return fail(STATUS_DATA,
                    "%s: no model.safetensors in this folder: the run did not reach its end\n"
                    "  its best checkpoint is %s/checkpoints/best",
                    folder, folder);
    return fail(STATUS_DATA, "%s: no model.safetensors in this folder", folder);
}

enum status weights_path(const char *path, char **out) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        *out = mem_text(path);
        return STATUS_OK;
    }
    char *inside = model_in(path);
    if (inside) *out = inside;
    return inside ? STATUS_OK : no_model(path);
}

static enum status load_file(struct loading *loading) {
    struct shards *file;
    TRY(shards_open(loading->path, &file));
    loading->file = file;
    enum status status = load(loading);
    shards_close(&file);
    return status;
}

static enum status load_path(const struct store_layout *layout, struct store *store,
                             const char *path, bool whole) {
    char *file;
    TRY(weights_path(path, &file));
    struct loading loading = {.layout = layout, .store = store, .path = file, .whole = whole};
    enum status status = load_file(&loading);
    free(file);
    return status;
}

enum status weights_check(const struct store_layout *layout, const char *path) {
    return load_path(layout, NULL, path, false);
}

enum status weights_load(struct store *store, const char *path) {
    return load_path(store->layout, store, path, false);
}

enum status weights_load_whole(struct store *store, const char *path) {
    return load_path(store->layout, store, path, true);
}
