/* A tree of pairs by key (the C library's, balanced); a pair without a value is one somebody
 * waits for. See key_values.h. */
#include "control/key_values.h"

#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct wait {
    struct wait *next;
    int rank;
    uint64_t id;
};

struct pair {
    char *key;
    void *value;
    size_t bytes;
    bool there;
    struct wait *waits;
};

struct control_key_values {
    void *tree;
    struct pair **list; /* all pairs, for forgetting and freeing */
    size_t count, capacity, bytes;
    int world;
    int *open; /* [world] waiting gets */
    control_key_values_found *found;
    void *context;
};

static int by_key(const void *a, const void *b) {
    return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

struct control_key_values *control_key_values_new(int world, control_key_values_found *found,
                                                  void *context) {
    struct control_key_values *key_values = MEM_NEW(struct control_key_values);
    key_values->world = world;
    key_values->open = MEM_ARRAY(int, world);
    key_values->found = found;
    key_values->context = context;
    return key_values;
}

static void free_waits(struct pair *pair) {
    while (pair->waits) {
        struct wait *wait = pair->waits;
        pair->waits = wait->next;
        free(wait);
    }
}

void control_key_values_free(struct control_key_values **key_values) {
    if (!*key_values) return;
    for (size_t i = 0; i < (*key_values)->count; i++) {
        struct pair *pair = (*key_values)->list[i];
        tdelete(pair, &(*key_values)->tree, by_key);
        free_waits(pair);
        free(pair->key);
        free(pair->value);
        free(pair);
    }
    free((*key_values)->list);
    free((*key_values)->open);
    free(*key_values);
    *key_values = NULL;
}

/* The pair of a key, made when there is none; NULL when there are too many. */
static struct pair *pair_of(struct control_key_values *key_values, const char *key) {
    struct pair wanted = {.key = (char *)key};
    void *node = tfind(&wanted, &key_values->tree, by_key);
    if (node) return *(struct pair **)node;
    size_t bytes = strlen(key) + sizeof(struct pair);
    if (key_values->count >= CONTROL_STORE_KEYS || key_values->bytes + bytes > CONTROL_STORE_BYTES)
        return NULL;
    struct pair *pair = MEM_NEW(struct pair);
    pair->key = mem_text(key);
    if (!tsearch(pair, &key_values->tree, by_key)) {
        free(pair->key);
        free(pair);
        return NULL;
    }
    key_values->list = mem_grow(key_values->list, &key_values->capacity, key_values->count + 1,
                                sizeof *key_values->list);
    key_values->list[key_values->count++] = pair;
    key_values->bytes += bytes;
    return pair;
}

static void serve_waits(struct control_key_values *key_values, struct pair *pair) {
    for (struct wait *wait = pair->waits; wait; wait = wait->next) {
        key_values->open[wait->rank]--;
        key_values->found(key_values->context, wait->rank, wait->id, pair->value, pair->bytes);
    }
    free_waits(pair);
}

const char *control_key_values_put(struct control_key_values *key_values, const char *key,
                                   const void *value, size_t bytes) {
    struct pair *pair = pair_of(key_values, key);
    if (!pair) return "the key-value store holds too many keys";
    if (key_values->bytes - pair->bytes + bytes > CONTROL_STORE_BYTES)
        return "the key-value store is full (64 MiB)";
    void *copy = mem_new(bytes + 1);
    if (bytes) memcpy(copy, value, bytes);
    free(pair->value);
    key_values->bytes += bytes - pair->bytes;
    pair->value = copy;
    pair->bytes = bytes;
    pair->there = true;
    serve_waits(key_values, pair);
    return NULL;
}

const char *control_key_values_get(struct control_key_values *key_values, const char *key, int rank,
                                   uint64_t id) {
    struct pair *pair = pair_of(key_values, key);
    if (!pair) return "the key-value store holds too many keys";
    if (pair->there) {
        key_values->found(key_values->context, rank, id, pair->value, pair->bytes);
        return NULL;
    }
    if (key_values->open[rank] >= CONTROL_STORE_WAITS) return "the rank waits for too many keys";
    struct wait *wait = MEM_NEW(struct wait);
    *wait = (struct wait){pair->waits, rank, id};
    pair->waits = wait;
    key_values->open[rank]++;
    return NULL;
}

void control_key_values_forget(struct control_key_values *key_values, int rank) {
    for (size_t i = 0; key_values->open[rank] > 0 && i < key_values->count; i++) {
        struct wait **link = &key_values->list[i]->waits;
        while (*link) {
            struct wait *wait = *link;
            if (wait->rank != rank) {
                link = &wait->next;
                continue;
            }
            *link = wait->next;
            key_values->open[rank]--;
            free(wait);
        }
    }
}
