/* Tensors are handled one at a time, in plain order, so that a save never holds more than the
 * largest one twice. */
#include "exec/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "backend/copy.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/versions.h"

/* A tensor of the file: which one in which array of the store. */
struct tensor_place {
    int array, item;
};

/* Tensors of a part: those of a share, or (no share) those of which anything is held. */
struct listing {
    const struct state_layout *layout;
    const struct tensor_share *share;
    struct store *store;
    enum tensor_part part;
    char prefix[32]; /* of names */
    struct arena names;
    struct tensor_item *items;
    struct tensor_place *places;
    size_t count;
};

const char *const tensors_part_names[PART_COUNT] = {"model", "optimizer", "versions", "common",
                                                    "replicas"};

int exec_tensor_part(const char *name) {
    static const char ending[] = ".safetensors";
    size_t length = strlen(name), end = sizeof ending - 1;
    if (length < end || strcmp(name + length - end, ending) != 0) return -1;
    for (int p = 0; p < PART_COUNT; p++) {
        size_t begin = strlen(tensors_part_names[p]);
        if (strncmp(name, tensors_part_names[p], begin) == 0 && strchr(".-", name[begin])) return p;
    }
    return -1;
}

static bool is_listed(const struct listing *list, int array, const struct state_item *item) {
    const struct tensor_share *share = list->share;
    if (item->frozen != (list->layout->arrays[array].kind == ARRAY_FROZEN)) return false;
    if (share && share->model) return true;
    if (!state_holds(item)) return false;
    if (!share || share->all) return state_holds_part(list->layout, array, item);
    if (list->part == PART_REPLICAS) return state_answers(item);
    return state_writes(list->layout, array, item, share->first_replica);
}

/* The tensors of an array; `suffix` (may be NULL) is what is added to their names. */
static void list_array(struct listing *list, enum array_kind kind, int index, const char *suffix) {
    int count, array = state_array(list->layout, kind, index);
    const struct state_item *items = state_items(list->layout, array, &count);
    for (int i = 0; i < count; i++) {
        if (!is_listed(list, array, &items[i])) continue;
        SCOPED_FREE char *name = mem_format("%s%s%s%s", list->prefix, items[i].name,
                                            suffix ? "." : "", suffix ? suffix : "");
        list->items[list->count] = (struct tensor_item){.name = arena_text(&list->names, name),
                                                        .dtype = items[i].type.dtype,
                                                        .shape = items[i].type.shape};
        list->places[list->count++] = (struct tensor_place){array, i};
    }
}

static void list_states(struct listing *list) {
    const struct optim_rule *rule = list->layout->optimizer;
    for (int s = 0; s < rule->state_count; s++)
        list_array(list, ARRAY_STATE, s, rule->state_names[s]);
}

static bool has_array(const struct state_layout *layout, enum array_kind kind) {
    return layout->first[kind + 1] > layout->first[kind];
}

static void list_common(struct listing *list) {
    if (has_array(list->layout, ARRAY_COMMON)) list_array(list, ARRAY_COMMON, 0, NULL);
    if (has_array(list->layout, ARRAY_OUTER)) list_array(list, ARRAY_OUTER, 0, "momentum");
}

/* While the mean stands in for a replica's parameters, they are in a gradient buffer. */
static void list_replica(struct listing *list, int replica) {
    snprintf(list->prefix, sizeof list->prefix, "replica.%d.", replica);
    list_array(list, list->share ? ARRAY_GRAD : ARRAY_PARAM, 0, NULL);
    list_states(list);
    list_array(list, ARRAY_BUFFER, 0, NULL);
}

static struct listing list_new(const struct state_layout *layout, struct store *store,
                               enum tensor_part part, const struct tensor_share *share) {
    int kept = layout->first[ARRAY_VERSION + 1] - layout->first[ARRAY_VERSION];
    size_t most =
        (size_t)(layout->param_count * (OPTIM_MAX_STATES + kept + 2) + layout->buffer_count + 1);
    struct listing list = {.layout = layout,
                           .share = share,
                           .store = store,
                           .part = part,
                           .items = MEM_ARRAY(struct tensor_item, most),
                           .places = MEM_ARRAY(struct tensor_place, most)};
    if (part == PART_OPTIMIZER) list_states(&list);
    if (part == PART_COMMON) list_common(&list);
    bool own = part == PART_REPLICAS && share && layout->apart;
    if (own) list_replica(&list, share->replica);
    for (int i = 1; i <= kept && part == PART_VERSIONS; i++) {
        char suffix[32];
        snprintf(suffix, sizeof suffix, "before.%d", i);
        list_array(&list, ARRAY_VERSION, store ? versions_place(store, i) : i - 1, suffix);
    }
    if (part != PART_MODEL) return list;
    list_array(&list, ARRAY_PARAM, 0, NULL);
    list_array(&list, ARRAY_FROZEN, 0, NULL);
    list_array(&list, ARRAY_BUFFER, 0, NULL);
    return list;
}

static void list_free(struct listing *list) {
    free(list->items);
    free(list->places);
    arena_free(&list->names);
}

static size_t item_bytes(const struct tensor_item *item) {
    return tensor_type_bytes(&(struct tensor_type){item->dtype, item->shape});
}

static enum status get_item(const struct listing *list, size_t index, void *plain) {
    const struct tensor_place *place = &list->places[index];
    const struct state_layout *layout = list->layout;
    const char *own = list->part == PART_REPLICAS ? list->share->own_statistics : NULL;
    if (!own || layout->arrays[place->array].kind != ARRAY_BUFFER)
        return store_get(list->store, place->array, place->item, plain);
    const struct state_item *item = &layout->buffers[place->item];
    CHECK(item->layout->plain, "%s lies in an order of its own", item->name);
    memcpy(plain, own + item->begin, item_bytes(&list->items[index]));
    return STATUS_OK;
}

static enum status emit_item(void *context, size_t index, struct safetensors_sink *sink) {
    const struct listing *list = context;
    size_t bytes = item_bytes(&list->items[index]);
    SCOPED_FREE void *plain = mem_new(bytes);
    TRY(get_item(list, index, plain));
    return safetensors_emit(sink, plain, bytes);
}

/* Those that were put together from slices are there already. */
static void take_whole(struct listing *list, const struct tensor_share *share) {
    for (int w = 0; w < share->whole_count; w++) {
        const struct whole_tensor *whole = &share->whole[w];
        for (size_t i = 0; i < list->count; i++)
            if (list->places[i].array == whole->array && list->places[i].item == whole->item)
                list->items[i].data = whole->plain;
    }
}

size_t tensors_count(const struct state_layout *layout, enum tensor_part part,
                     const struct tensor_share *share, uint64_t *bytes) {
    SCOPED(list_free) struct listing list = list_new(layout, NULL, part, share);
    size_t count = list.count;
    *bytes = 0;
    for (size_t i = 0; i < count; i++) *bytes += item_bytes(&list.items[i]);
    return count;
}

static uint64_t array_bytes(const struct state_layout *layout, enum array_kind kind, int index) {
    uint64_t bytes = 0;
    int count;
    const struct state_item *items = state_items(layout, state_array(layout, kind, index), &count);
    for (int i = 0; i < count; i++) bytes += tensor_type_bytes(&items[i].type);
    return bytes;
}

uint64_t tensors_bytes(const struct state_layout *layout, enum tensor_part part) {
    uint64_t bytes = 0;
    if (part == PART_MODEL)
        return array_bytes(layout, ARRAY_PARAM, 0) + array_bytes(layout, ARRAY_BUFFER, 0);
    for (int s = 0; s < layout->optimizer->state_count; s++)
        bytes += array_bytes(layout, ARRAY_STATE, s);
    return bytes;
}

enum status tensors_write(struct store *store, enum tensor_part part,
                          const struct tensor_share *share, const char *path,
                          struct safetensors_mark *mark) {
    SCOPED(list_free) struct listing list = list_new(store->layout, store, part, share);
    take_whole(&list, share);
    const struct safetensors_pair format = {"format", "pt"};
    struct safetensors_content content = {.items = list.items,
                                          .item_count = list.count,
                                          .metadata = &format,
                                          .metadata_count = 1,
                                          .source = emit_item,
                                          .context = &list};
    return safetensors_write(path, &content, mark);
}

enum status tensors_keep(struct store *store, enum tensor_part part,
                         const struct tensor_share *share, struct tensor_values *out) {
    SCOPED(list_free) struct listing list = list_new(store->layout, store, part, share);
    take_whole(&list, share);
    for (size_t i = 0; i < list.count; i++) {
        size_t bytes = item_bytes(&list.items[i]);
        out->items = mem_grow(out->items, &out->capacity, out->count + 1, sizeof *out->items);
        struct tensor_value *value = &out->items[out->count++];
        *value = (struct tensor_value){part, mem_text(list.items[i].name), bytes, mem_new(bytes)};
        const void *whole = list.items[i].data;
        if (whole)
            memcpy(value->plain, whole, bytes);
        else
            TRY(get_item(&list, i, value->plain));
    }
    return STATUS_OK;
}

const struct tensor_value *tensors_find_value(const struct tensor_values *values,
                                              const struct tensor_value *like) {
    for (size_t i = 0; i < values->count; i++) {
        const struct tensor_value *value = &values->items[i];
        if (value->part == like->part && strcmp(value->name, like->name) == 0) return value;
    }
    return NULL;
}

void tensors_free_values(struct tensor_values **values) {
    for (size_t i = 0; *values && i < (*values)->count; i++) {
        free((*values)->items[i].name);
        free((*values)->items[i].plain);
    }
    if (*values) free((*values)->items);
    free(*values);
    *values = NULL;
}

enum status tensors_each(const struct state_layout *layout, enum tensor_part part,
                         enum status (*visit)(void *context, const struct tensor_value *tensor,
                                              int array, int item),
                         void *context) {
    SCOPED(list_free)
    struct listing list = list_new(layout, NULL, part, &(struct tensor_share){.model = true});
    for (size_t i = 0; i < list.count; i++) {
        int array = list.places[i].array, item = list.places[i].item, count;
        const struct state_item *of = &state_items(layout, array, &count)[item];
        bool held = state_holds(of) && state_holds_part(layout, array, of);
        struct tensor_value tensor = {part, (char *)(uintptr_t)list.items[i].name,
                                      item_bytes(&list.items[i]), NULL};
        TRY(visit(context, &tensor, held ? array : -1, item));
    }
    return STATUS_OK;
}

static enum status take_item(struct listing *list, size_t item, const struct safetensors *file,
                             size_t entry) {
    size_t bytes = item_bytes(&list->items[item]);
    SCOPED_FREE void *plain = mem_new(bytes);
    const struct tensor_place *place = &list->places[item];
    TRY(safetensors_read(file, entry, plain, bytes));
    return store_put(list->store, place->array, place->item, plain);
}

static bool fits(const struct tensor_item *item, const struct safetensors_entry *entry) {
    return entry->native && entry->dtype == item->dtype && shape_equal(&entry->shape, &item->shape);
}

static enum status misfit(const char *path, const struct tensor_item *item,
                          const struct safetensors_entry *entry) {
    char have[SHAPE_TEXT_BYTES], want[SHAPE_TEXT_BYTES];
    return fail(STATUS_DATA, "%s: tensor %s is %s %s, the model has %s %s", path, item->name,
                entry->type, safetensors_shape_text(entry, have),
                dtype_safetensors_name(item->dtype), shape_text(&item->shape, want));
}

static enum status missing(const struct listing *list, size_t item, const char *folder,
                           enum tensor_part part) {
    return fail(STATUS_DATA, "%s: none of its files %s*.safetensors has tensor %s of the model",
                folder, tensors_part_names[part], list->items[item].name);
}

/* What of the list one file has; found[] is set for each. */
static enum status read_file(struct listing *list, const char *path, bool *found) {
    SCOPED(safetensors_close) struct safetensors *file = NULL;
    TRY(safetensors_open(path, &file));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < list->count && status == STATUS_OK; i++) {
        size_t entry;
        if (!safetensors_find(file, list->items[i].name, &entry)) continue;
        if (fits(&list->items[i], safetensors_at(file, entry)))
            status = take_item(list, i, file, entry);
        else
            status = misfit(path, &list->items[i], safetensors_at(file, entry));
        found[i] = true;
    }
    return status;
}

enum status tensors_read(struct store *store, enum tensor_part part, const char *folder,
                         char *const *paths, int count) {
    if (part == PART_VERSIONS) TRY(versions_fill(store));
    SCOPED(list_free) struct listing list = list_new(store->layout, store, part, NULL);
    SCOPED_FREE bool *found = MEM_ARRAY(bool, list.count + 1);
    for (int f = 0; f < count; f++) TRY(read_file(&list, paths[f], found));
    for (size_t i = 0; i < list.count && part != PART_VERSIONS; i++)
        if (!found[i]) TRY(missing(&list, i, folder, part));
    return STATUS_OK;
}

/* Whether files have that tensor. */
static enum status has_tensor(char *const *paths, int count, const char *name, bool *has) {
    *has = false;
    for (int f = 0; f < count && !*has; f++) {
        SCOPED(safetensors_close) struct safetensors *file = NULL;
        size_t entry;
        TRY(safetensors_open(paths[f], &file));
        *has = safetensors_find(file, name, &entry);
    }
    return STATUS_OK;
}

/* By the first tensor that this rank holds. */
static enum status count_replicas(const struct state_layout *layout, char *const *paths, int count,
                                  int *out) {
    const char *name = layout->held_count ? layout->params[layout->order[0]].name : NULL;
    bool has = name != NULL;
    for (*out = 0; has; *out += has) {
        SCOPED_FREE char *own = mem_format("replica.%d.%s", *out, name);
        TRY(has_tensor(paths, count, own, &has));
    }
    return STATUS_OK;
}

enum status tensors_read_replica(struct store *store, int replica, int replicas, const char *folder,
                                 char *const *paths, int count, int *found) {
    TRY(count_replicas(store->layout, paths, count, found));
    if (*found != replicas) return STATUS_OK;
    SCOPED(list_free) struct listing list = list_new(store->layout, store, PART_REPLICAS, NULL);
    list_replica(&list, replica);
    SCOPED_FREE bool *there = MEM_ARRAY(bool, list.count + 1);
    for (int f = 0; f < count; f++) TRY(read_file(&list, paths[f], there));
    for (size_t i = 0; i < list.count; i++)
        if (!there[i]) TRY(missing(&list, i, folder, PART_REPLICAS));
    return STATUS_OK;
}

/* --- checking --- */

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A file that has other tensors than the model. */
static enum status extra(const struct listing *list, const char *path,
                         const struct safetensors *file) {
    for (size_t e = 0; e < safetensors_count(file); e++) {
        const struct safetensors_entry *entry = safetensors_at(file, e);
        size_t i = 0;
        while (i < list->count && strcmp(list->items[i].name, entry->name) != 0) i++;
        if (i == list->count)
            return fail(STATUS_DATA, "%s: tensor %s is none of the model's %zu", path, entry->name,
                        list->count);
    }
    return STATUS_OK;
}

/* found[] is for each tensor the file that has it. */
static enum status check_file(const struct listing *list, const char *path, const char **found) {
    SCOPED(safetensors_close) struct safetensors *file = NULL;
    TRY(safetensors_open(path, &file));
    enum status status = STATUS_OK;
    size_t known = 0;
    for (size_t i = 0; i < list->count && status == STATUS_OK; i++) {
        size_t entry;
        if (!safetensors_find(file, list->items[i].name, &entry)) continue;
        if (found[i])
            status = fail(STATUS_DATA, "%s: tensor %s is in %s too", path, list->items[i].name,
                          name_of(found[i]));
        else if (!fits(&list->items[i], safetensors_at(file, entry)))
            status = misfit(path, &list->items[i], safetensors_at(file, entry));
        found[i] = path;
        known++;
    }
    if (status == STATUS_OK && known < safetensors_count(file)) status = extra(list, path, file);
    return status;
}

enum status tensors_check(const struct state_layout *layout, enum tensor_part part,
                          const char *folder, char *const *paths, int count) {
    if (part >= PART_VERSIONS) return STATUS_OK; /* what another strategy kept */
    if (count == 0)
        return fail(STATUS_DATA, "%s/manifest.json: names no file %s*.safetensors", folder,
                    tensors_part_names[part]);
    const struct tensor_share model = {.model = true};
    SCOPED(list_free) struct listing list = list_new(layout, NULL, part, &model);
    SCOPED_FREE const char **found = MEM_ARRAY(const char *, list.count + 1);
    for (int f = 0; f < count; f++) TRY(check_file(&list, paths[f], found));
    for (size_t i = 0; i < list.count; i++)
        if (!found[i]) TRY(missing(&list, i, folder, part));
    return STATUS_OK;
}
