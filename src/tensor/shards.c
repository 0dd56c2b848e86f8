/* See shards.h. The map of an index is checked in both directions when it is opened, so that
 * whoever reads through it finds a tensor once. */
#include "tensor/shards.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

struct shard {
    char *name; /* in the folder of the index */
    struct safetensors *file;
    size_t first; /* of its entries among all */
};

struct shards {
    struct shard *item;
    size_t count, room;
};

bool shards_is_index(const char *path) {
    static const char ending[] = ".index.json";
    size_t length = strlen(path), end = sizeof ending - 1;
    return length > end && strcmp(path + length - end, ending) == 0;
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
    char *folder = folder_of(path);
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
    free(folder);
    return status == STATUS_OK ? check_map(path, shards, map) : status;
}

static enum status open_index(const char *path, struct shards *shards) {
    enum { INDEX_LIMIT = 256 << 20 };
    struct bytes text;
    json_error_t error;
    TRY(file_read(path, INDEX_LIMIT, &text));
    json_t *root = json_loadb((char *)text.data, text.count, JSON_REJECT_DUPLICATES, &error);
    enum status status = root ? open_map(path, json_object_get(root, "weight_map"), shards)
                              : fail(STATUS_DATA, "%s: line %d column %d: %s", path, error.line,
                                     error.column, error.text);
    json_decref(root);
    bytes_free(&text);
    return status;
}

enum status shards_open(const char *path, struct shards **out) {
    struct shards *shards = MEM_NEW(struct shards);
    enum status status =
        shards_is_index(path) ? open_index(path, shards) : open_shard(shards, path, path);
    if (status == STATUS_OK)
        *out = shards;
    else
        shards_close(&shards);
    return status;
}

void shards_close(struct shards **shards) {
    if (!*shards) return;
    for (size_t i = 0; i < (*shards)->count; i++) {
        safetensors_close(&(*shards)->item[i].file);
        free((*shards)->item[i].name);
    }
    free((*shards)->item);
    free(*shards);
    *shards = NULL;
}

size_t shards_count(const struct shards *shards) {
    if (shards->count == 0) return 0;
    const struct shard *last = &shards->item[shards->count - 1];
    return last->first + safetensors_count(last->file);
}

static const struct shard *shard_of(const struct shards *shards, size_t index) {
    size_t s = 0;
    while (s + 1 < shards->count && shards->item[s + 1].first <= index) s++;
    return &shards->item[s];
}

const struct safetensors_entry *shards_at(const struct shards *shards, size_t index) {
    const struct shard *shard = shard_of(shards, index);
    return safetensors_at(shard->file, index - shard->first);
}

bool shards_find(const struct shards *shards, const char *name, size_t *out) {
    for (size_t s = 0; s < shards->count; s++) {
        if (!safetensors_find(shards->item[s].file, name, out)) continue;
        *out += shards->item[s].first;
        return true;
    }
    return false;
}

enum status shards_read(const struct shards *shards, size_t index, void *buffer, size_t bytes) {
    const struct shard *shard = shard_of(shards, index);
    return safetensors_read(shard->file, index - shard->first, buffer, bytes);
}

enum status shards_read_part(const struct shards *shards, size_t index, uint64_t offset,
                             void *buffer, size_t bytes) {
    const struct shard *shard = shard_of(shards, index);
    return safetensors_read_part(shard->file, index - shard->first, offset, buffer, bytes);
}
