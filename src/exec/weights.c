/* Weights from elsewhere. A file of another model, or of a part of one, is no mistake: what fits is
 * taken, by name, and the rest is reported. A value that is not finite is a mistake of the file: a
 * run would fail on it at its first step, and blame the learning rate.
 *
 * The file is read twice, first to check and then to take, so that a file that is refused changes
 * nothing. */
#include "exec/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/shown.h"
#include "base/text.h"
#include "exec/checkpoint.h"
#include "exec/weights_place.h"

/* Names for a report: the first few, then how many more. */
struct name_list {
    char text[160];
    int count;
};

static void name_add(struct name_list *names, const char *name) {
    size_t used = strlen(names->text);
    if (names->count++ < 3)
        shown_format(names->text + used, sizeof names->text - used, "%s%s", used ? ", " : "", name);
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

static void misfit_add(struct misfit_list *misfits, const struct state_item *item,
                       const struct safetensors_entry *entry) {
    enum { SHOWN = 2, NAME_WIDTH = 80 };
    char have[SHAPE_TEXT_BYTES], want[SHAPE_TEXT_BYTES];
    size_t used = strlen(misfits->text);
    if (misfits->count++ >= SHOWN) return;
    shown_format(misfits->text + used, sizeof misfits->text - used,
                 "\n  %.*s: %s %s in the file, %s %s in the model", NAME_WIDTH, item->name,
                 entry->type, safetensors_shape_text(entry, have),
                 dtype_safetensors_name(item->type.dtype), shape_text(&item->type.shape, want));
}

/* What is being loaded, and what was found so far. */
struct loading {
    const struct state_layout *layout;
    struct store *store; /* NULL: only checked */
    bool whole;          /* all of the model must be there */
    const char *path;
    const struct shards *file;
    struct resize_grid positions;
    int taken, converted[DTYPE_COUNT];
    struct name_list missing, extra;
    struct misfit_list misfits;
    struct resize_grid from; /* of positions that were resized; else 0 */
};

/* Parameters first, then buffers. */
static int tensor_count(const struct state_layout *layout) {
    return layout->param_count + layout->buffer_count;
}

static const struct state_item *tensor_at(const struct state_layout *layout, int index) {
    int params = layout->param_count;
    return index < params ? state_param(layout, index) : &layout->buffers[index - params];
}

static enum status put(struct store *store, int index, const void *plain) {
    int params = store->layout->param_count,
        array = index < params ? state_param_array(store->layout, index)
                               : state_array(store->layout, ARRAY_BUFFER, 0);
    if (!state_holds(tensor_at(store->layout, index))) return STATUS_OK;
    return store_put(store, array, index < params ? index : index - params, plain);
}

static bool find(const struct loading *loading, int index, struct weights_place *out) {
    return weights_find(loading->file, tensor_at(loading->layout, index), loading->positions, out);
}

static enum status take(struct loading *loading, int index, const struct weights_place *place,
                        bool checking) {
    SCOPED_FREE void *plain = mem_new(tensor_type_bytes(&place->item->type));
    TRY(weights_read(place, loading->path, plain));
    if (!checking) TRY(put(loading->store, index, plain));
    return STATUS_OK;
}

static bool same_bytes(const struct shards *file, size_t a, size_t b) {
    size_t bytes = (size_t)shards_at(file, a)->bytes;
    if (bytes != (size_t)shards_at(file, b)->bytes) return false;
    SCOPED_FREE void *first = mem_new(bytes), *second = mem_new(bytes);
    return shards_read(file, a, first, bytes) == STATUS_OK &&
           shards_read(file, b, second, bytes) == STATUS_OK && memcmp(first, second, bytes) == 0;
}

/* A tied tensor may be in the file a second time. One of other values is none of the model's. */
static void pass_copy(const struct loading *loading, const struct weights_place *place,
                      bool *used) {
    const char *second = alias_tied(place->item->name);
    struct state_item item = {.name = second};
    struct weights_place copy;
    if (second && weights_find(loading->file, &item, loading->positions, &copy) &&
        copy.part[0] != place->part[0] && same_bytes(loading->file, place->part[0], copy.part[0]))
        used[copy.part[0]] = true;
}

static void count_taken(struct loading *loading, const struct weights_place *place) {
    enum dtype have = shards_at(loading->file, place->part[0])->dtype;
    loading->taken++;
    loading->converted[have] += have != place->item->type.dtype;
    if (place->to.height) loading->from = place->from;
}

/* Notes what every tensor of the model meets in the file, and checks what will be taken. */
static enum status check_all(struct loading *loading, bool *used) {
    for (int i = 0; i < tensor_count(loading->layout); i++) {
        struct weights_place place;
        if (!find(loading, i, &place)) {
            name_add(&loading->missing, tensor_at(loading->layout, i)->name);
            continue;
        }
        for (int part = 0; part < place.part_count; part++) used[place.part[part]] = true;
        pass_copy(loading, &place, used);
        if (!weights_fits(&place)) {
            misfit_add(&loading->misfits, place.item, shards_at(loading->file, place.part[0]));
            continue;
        }
        count_taken(loading, &place);
        TRY(take(loading, i, &place, true));
    }
    return STATUS_OK;
}

static enum status take_all(struct loading *loading) {
    struct weights_place place;
    for (int i = 0; i < tensor_count(loading->layout); i++)
        if (find(loading, i, &place) && weights_fits(&place)) TRY(take(loading, i, &place, false));
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

/* Where names are the model's and shapes are not, it is of another size: one tensor shows it. */
static enum status nothing_fits(const struct loading *loading) {
    char first[512] = "";
    const char *misfits = loading->misfits.text;
    if (loading->misfits.count)
        shown_format(first, sizeof first,
                     "%-.*s\n  another --model of its kind may have this size: "
                     "docs/models.md lists them",
                     (int)(1 + strcspn(misfits + 1, "\n")), misfits);
    else if (shards_count(loading->file) > 0)
        shown_format(first, sizeof first,
                     "\n  the model's begin with %.120s, the file's with %.120s",
                     tensor_at(loading->layout, 0)->name, shards_at(loading->file, 0)->name);
    return fail(STATUS_DATA, "%s: none of its %zu tensors fits the model's %d%-s", loading->path,
                shards_count(loading->file), tensor_count(loading->layout), first);
}

/* A model that is to be used as it is. */
static enum status not_whole(const struct loading *loading) {
    int missing = loading->missing.count, misfits = loading->misfits.count;
    char count[TEXT_BYTES];
    if (misfits)
        return fail(STATUS_DATA, "%s: not this model: %s of another shape or type%-s",
                    loading->path, text_count(misfits, "tensor", count), loading->misfits.text);
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
    if (loading->from.height)
        log_note("%s: positions of %ld x %ld patches resized to %ld x %ld", path,
                 (long)loading->from.height, (long)loading->from.width,
                 (long)loading->positions.height, (long)loading->positions.width);
    name_note(&loading->missing, path, "missing from the file, left at the initial value");
    if (loading->misfits.count)
        log_warning("%s: %s of another shape or type, left at the initial value%-s%s", path,
                    text_count(loading->misfits.count, "tensor", count), loading->misfits.text,
                    loading->misfits.count > 2 ? ", ..." : "");
    name_note(&loading->extra, path, "that the model does not have, passed over");
}

static enum status load(struct loading *loading) {
    size_t count = shards_count(loading->file);
    bool *used = MEM_ARRAY(bool, count + 1);
    enum status status = check_all(loading, used);
    for (size_t i = 0; i < count; i++) {
        const char *name = shards_at(loading->file, i)->name;
        if (!used[i] && !alias_is_constant(name)) name_add(&loading->extra, name);
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

static bool has_model(const char *folder) {
    char *model = model_in(folder);
    free(model);
    return model;
}

/* A run holds the lock of its folder while it trains. */
static bool is_under_way(const char *folder) {
    SCOPED_FREE char *lock = folder_path(folder, ".stretto-lock");
    return file_is_locked(lock);
}

static enum status no_model_yet(const char *folder, bool has_best) {
    SCOPED_FREE char *hint =
        has_best ? shown_text("its best checkpoint so far is %s/checkpoints/best", folder)
                 : mem_text("it writes one at its end; --save-every N saves on the way");
    return fail(STATUS_DATA,
                "%s: no model.safetensors in this folder yet: the run is under way\n  %-s", folder,
                hint);
}

/* Why a folder has no model: one of a run that did not end has checkpoints. */
static enum status no_model(const char *folder) {
    SCOPED_FREE char *best = folder_path(folder, "checkpoints/best"),
                     *config = folder_path(folder, "config.yml");
    bool has_best = has_model(best), is_run = file_exists(config);
    if (is_under_way(folder)) return no_model_yet(folder, has_best);
    if (has_best)
        return fail(STATUS_DATA,
                    "%s: no model.safetensors in this folder: the run did not reach its end\n"
                    "  its best checkpoint is %s/checkpoints/best",
                    folder, folder);
    return fail(STATUS_DATA, "%s: no model.safetensors in this folder%-s%s%s", folder,
                is_run ? ": the run ended before it saved one\n  how it ended is in " : "",
                is_run ? folder : "",
                is_run ? "/report.html; --save-every N saves on the way" : "");
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
    SCOPED(shards_close) struct shards *file = NULL;
    TRY(shards_open(loading->path, &file));
    loading->file = file;
    return load(loading);
}

/* The grid of a vision transformer's patches: as many as there are positions, less the class
 * token's, in the proportion of the image's sides. Of other models nothing. */
static struct resize_grid patch_grid(const struct state_layout *layout,
                                     const struct model_config *shape) {
    for (int i = 0; i < layout->param_count; i++) {
        const struct state_item *item = &layout->params[i];
        if (strcmp(item->name, "pos_embed") != 0 || shape->width == 0) continue;
        double patches = (double)(item->type.shape.dim[1] - 1);
        double height = sqrt(patches * (double)shape->height / (double)shape->width);
        return (struct resize_grid){lround(height), lround(patches / height)};
    }
    return (struct resize_grid){0};
}

/* A square window: its last dimension is the side, or of [H,W,in,out] the first. */
static int64_t patch_in(const struct shards *file) {
    const struct state_item item = {.name = "patch_embed.proj.weight"};
    struct weights_place place;
    if (!weights_find(file, &item, (struct resize_grid){0}, &place)) return 0;
    const struct safetensors_entry *entry = shards_at(file, place.part[0]);
    if (!entry->native || entry->shape.rank != 4) return 0;
    return entry->shape.dim[place.form == ALIAS_HWIO ? 0 : 3];
}

enum status weights_patch(const char *path, int64_t *out) {
    SCOPED_FREE char *inside = NULL;
    SCOPED(shards_close) struct shards *file = NULL;
    TRY(weights_path(path, &inside));
    TRY(shards_open(inside, &file));
    *out = patch_in(file);
    return STATUS_OK;
}

static enum status load_path(const struct state_layout *layout, struct store *store,
                             const struct model_config *shape, const char *path, bool whole) {
    char *file;
    TRY(weights_path(path, &file));
    struct loading loading = {.layout = layout,
                              .store = store,
                              .path = file,
                              .positions = patch_grid(layout, shape),
                              .whole = whole};
    enum status status = load_file(&loading);
    free(file);
    return status;
}

enum status weights_check(const struct state_layout *layout, const struct model_config *shape,
                          const char *path) {
    return load_path(layout, NULL, shape, path, false);
}

enum status weights_load(struct store *store, const struct model_config *shape, const char *path) {
    return load_path(store->layout, store, shape, path, false);
}

enum status weights_load_whole(struct store *store, const struct model_config *shape,
                               const char *path) {
    return load_path(store->layout, store, shape, path, true);
}

/* --- of an engine, see checkpoint.h --- */

enum status checkpoint_load_weights(struct engine *engine, const char *path) {
    return weights_load(engine_store(engine), &engine_plan(engine)->config.shape, path);
}

enum status checkpoint_load_model(struct engine *engine, const char *path) {
    return weights_load_whole(engine_store(engine), &engine_plan(engine)->config.shape, path);
}

enum status checkpoint_check_weights(const struct plan *plan, const char *path) {
    return weights_check(plan->store, &plan->config.shape, path);
}
