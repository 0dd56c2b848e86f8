/* See shards.h. The map of an index is checked in both directions when it is opened, so that
 * whoever reads through it finds a tensor once. Arrays of an .npz file are described as if they
 * were f32 tensors of a safetensors file, which is how they are read. */
#include "tensor/shards.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "tensor/npy.h"

struct shard {
    char *name; /* in the folder of the index */
    struct safetensors *file;
    struct npy *arrays; /* or these, and: */
    struct safetensors_entry *entries;
    size_t first; /* of its entries among all */
};

struct shards {
    struct shard *item;
    size_t count, room;
};

static bool is_index(const char *path) {
    return text_ends_in(path, ".index.json");
}

static struct shard *add_shard(struct shards *shards, const char *name) {
    shards->item = mem_grow(shards->item, &shards->room, shards->count + 1, sizeof *shards->item);
    shards->item[shards->count] =
        (struct shard){.name = mem_text(name), .first = shards_count(shards)};
    return &shards->item[shards->count++];
}

static enum status open_shard(struct shards *shards, const char *path, const char *name) {
    struct safetensors *file;
    TRY(safetensors_open(path, &file));
    add_shard(shards, name)->file = file;
    return STATUS_OK;
}

static enum status describe_arrays(const struct npy *arrays, struct safetensors_entry *entries) {
    for (size_t i = 0; i < npy_count(arrays); i++) {
        struct npy_array array;
        TRY(npy_describe(arrays, i, &array));
        struct safetensors_entry *entry = &entries[i];
        *entry = (struct safetensors_entry){.name = npy_name(arrays, i),
                                            .type = dtype_safetensors_name(DTYPE_F32),
                                            .rank = (size_t)array.shape.rank,
                                            .bits = 8 * (int)sizeof(float),
                                            .native = true,
                                            .dtype = DTYPE_F32,
                                            .shape = array.shape};
        entry->dim = entry->shape.dim;
        entry->bytes = (uint64_t)shape_count(&array.shape) * sizeof(float);
    }
    return STATUS_OK;
}

static enum status open_arrays(struct shards *shards, const char *path) {
    struct npy *arrays;
    TRY(npy_open(path, &arrays));
    struct shard *shard = add_shard(shards, path);
    shard->arrays = arrays;
    shard->entries = MEM_ARRAY(struct safetensors_entry, npy_count(arrays) + 1);
    return describe_arrays(arrays, shard->entries);
}

static const struct shard *find_shard(const struct shards *shards, const char *name) {
    for (size_t i = 0; i < shards->count; i++)
        if (strcmp(shards->item[i].name, name) == 0) return &shards->item[i];
    return NULL;
}

/* Names are of the folder itself: none leads out of it. */
static enum status check_name(const char *path, const char *tensor, const json_t *value) {
    const char *name = json_string_value(value);
    if (name && name[0] && name[0] != '.' && !strchr(name, '/')) return STATUS_OK;
    return fail(STATUS_DATA, "%s: weight_map.%s is not the name of a file beside it", path, tensor);
}

static enum status check_map(const char *path, const struct shards *shards, json_t *map) {
    const char *tensor;
    json_t *value;
    size_t index;
    json_object_foreach(map, tensor, value) {
        const char *name = json_string_value(value);
        if (!safetensors_find(find_shard(shards, name)->file, tensor, &index))
            return fail(STATUS_DATA, "%s: weight_map names %s for tensor %s, which is not in it",
                        path, name, tensor);
    }
    for (size_t s = 0; s < shards->count; s++) {
        const struct shard *shard = &shards->item[s];
        for (size_t i = 0; i < safetensors_count(shard->file); i++) {
            tensor = safetensors_at(shard->file, i)->name;
            const char *name = json_string_value(json_object_get(map, tensor));
            if (!name || strcmp(name, shard->name) != 0)
                return fail(STATUS_DATA, "%s: tensor %s of %s is not in weight_map%s%s", path,
                            tensor, shard->name, name ? " there, but in " : "", name ? name : "");
        }
    }
    return STATUS_OK;
}

static enum status open_map(const char *path, json_t *map, struct shards *shards) {
    SCOPED_FREE char *folder = folder_of(path);
    const char *tensor;
    json_t *value;
    enum status status = STATUS_OK;
    if (!json_is_object(map) || json_object_size(map) == 0)
        status = fail(STATUS_DATA, "%s: weight_map is missing, empty or no object", path);
    if (status == STATUS_OK) {
        json_object_foreach(map, tensor, value) {
            const char *name = json_string_value(value);
            if (status == STATUS_OK) status = check_name(path, tensor, value);
            if (status != STATUS_OK || find_shard(shards, name)) continue;
            char *file = mem_format("%s/%s", folder, name);
            status = open_shard(shards, file, name);
            free(file);
        }
    }
    return status == STATUS_OK ? check_map(path, shards, map) : status;
}

static enum status open_index(const char *path, struct shards *shards) {
    enum { INDEX_LIMIT = 256 << 20 };
    SCOPED(bytes_free) struct bytes text = {0};
    json_error_t error;
    TRY(file_read(path, INDEX_LIMIT, &text));
    json_auto_t *root = json_loadb((char *)text.data, text.count, JSON_REJECT_DUPLICATES, &error);
    return root ? open_map(path, json_object_get(root, "weight_map"), shards)
                : fail(STATUS_DATA, "%s: line %d column %d: %s", path, error.line, error.column,
                       error.text);
}

enum status shards_open(const char *path, struct shards **out) {
    SCOPED(shards_close) struct shards *shards = MEM_NEW(struct shards);
    TRY(is_index(path)               ? open_index(path, shards)
        : text_ends_in(path, ".npz") ? open_arrays(shards, path)
                                     : open_shard(shards, path, path));
    *out = shards;
    shards = NULL;
    return STATUS_OK;
}

void shards_close(struct shards **shards) {
    if (!*shards) return;
    for (size_t i = 0; i < (*shards)->count; i++) {
        safetensors_close(&(*shards)->item[i].file);
        npy_close(&(*shards)->item[i].arrays);
        free((*shards)->item[i].entries);
        free((*shards)->item[i].name);
    }
    free((*shards)->item);
    free(*shards);
    *shards = NULL;
}

static size_t shard_count(const struct shard *shard) {
    return shard->arrays ? npy_count(shard->arrays) : safetensors_count(shard->file);
}

size_t shards_count(const struct shards *shards) {
    if (shards->count == 0) return 0;
    const struct shard *last = &shards->item[shards->count - 1];
    return last->first + shard_count(last);
}

static const struct shard *shard_of(const struct shards *shards, size_t index) {
    size_t s = 0;
    while (s + 1 < shards->count && shards->item[s + 1].first <= index) s++;
    return &shards->item[s];
}

const struct safetensors_entry *shards_at(const struct shards *shards, size_t index) {
    const struct shard *shard = shard_of(shards, index);
    index -= shard->first;
    return shard->arrays ? &shard->entries[index] : safetensors_at(shard->file, index);
}

bool shards_find(const struct shards *shards, const char *name, size_t *out) {
    for (size_t s = 0; s < shards->count; s++) {
        const struct shard *shard = &shards->item[s];
        bool found = shard->arrays ? npy_find(shard->arrays, name, out)
                                   : safetensors_find(shard->file, name, out);
        if (!found) continue;
        *out += shard->first;
        return true;
    }
    return false;
}

enum status shards_read(const struct shards *shards, size_t index, void *buffer, size_t bytes) {
    const struct shard *shard = shard_of(shards, index);
    index -= shard->first;
    return shard->arrays ? npy_read(shard->arrays, index, DTYPE_F32, buffer, bytes)
                         : safetensors_read(shard->file, index, buffer, bytes);
}

/* An array may be packed: its parts are only found by reading all of it. */
static enum status read_array_part(const struct shard *shard, size_t index, uint64_t offset,
                                   void *buffer, size_t bytes) {
    size_t all = (size_t)shard->entries[index].bytes;
    SCOPED_FREE char *whole = mem_new(all);
    TRY(npy_read(shard->arrays, index, DTYPE_F32, whole, all));
    memcpy(buffer, whole + offset, bytes);
    return STATUS_OK;
}

enum status shards_read_part(const struct shards *shards, size_t index, uint64_t offset,
                             void *buffer, size_t bytes) {
    const struct shard *shard = shard_of(shards, index);
    index -= shard->first;
    return shard->arrays ? read_array_part(shard, index, offset, buffer, bytes)
                         : safetensors_read_part(shard->file, index, offset, buffer, bytes);
}
