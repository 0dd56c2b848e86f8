/* A tree of pairs by key (the C library's, balanced); a pair without a value is one somebody
 * waits for. See store.h. */
#include "control/store.h"

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

struct control_store {
    void *tree;
    struct pair **list; /* all pairs, for forgetting and freeing */
    size_t count, capacity, bytes;
    int world;
    int *open; /* [world] waiting gets */
    control_store_found *found;
    void *context;
};

static int by_key(const void *a, const void *b) {
    return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

struct control_store *control_store_new(int world, control_store_found *found, void *context) {
    struct control_store *store = MEM_NEW(struct control_store);
    store->world = world;
    store->open = MEM_ARRAY(int, world);
    store->found = found;
    store->context = context;
    return store;
}

static void free_waits(struct pair *pair) {
    while (pair->waits) {
        struct wait *wait = pair->waits;
        pair->waits = wait->next;
        free(wait);
    }
}

void control_store_free(struct control_store **store) {
    if (!*store) return;
    for (size_t i = 0; i < (*store)->count; i++) {
        struct pair *pair = (*store)->list[i];
        tdelete(pair, &(*store)->tree, by_key);
        free_waits(pair);
        free(pair->key);
        free(pair->value);
        free(pair);
    }
    free((*store)->list);
    free((*store)->open);
    free(*store);
    *store = NULL;
}

/* The pair of a key, made when there is none; NULL when there are too many. */
static struct pair *pair_of(struct control_store *store, const char *key) {
    struct pair wanted = {.key = (char *)key};
    void *node = tfind(&wanted, &store->tree, by_key);
    if (node) return *(struct pair **)node;
    size_t bytes = strlen(key) + sizeof(struct pair);
    if (store->count >= CONTROL_STORE_KEYS || store->bytes + bytes > CONTROL_STORE_BYTES)
        return NULL;
    struct pair *pair = MEM_NEW(struct pair);
    pair->key = mem_text(key);
    if (!tsearch(pair, &store->tree, by_key)) {
        free(pair->key);
        free(pair);
        return NULL;
    }
    store->list = mem_grow(store->list, &store->capacity, store->count + 1, sizeof *store->list);
    store->list[store->count++] = pair;
    store->bytes += bytes;
    return pair;
}

static void serve_waits(struct control_store *store, struct pair *pair) {
    for (struct wait *wait = pair->waits; wait; wait = wait->next) {
        store->open[wait->rank]--;
        store->found(store->context, wait->rank, wait->id, pair->value, pair->bytes);
    }
    free_waits(pair);
}

const char *control_store_put(struct control_store *store, const char *key, const void *value,
                              size_t bytes) {
    struct pair *pair = pair_of(store, key);
    if (!pair) return "the store holds too many keys";
    if (store->bytes - pair->bytes + bytes > CONTROL_STORE_BYTES)
        return "the store is full (64 MiB)";
    void *copy = mem_new(bytes + 1);
    if (bytes) memcpy(copy, value, bytes);
    free(pair->value);
    store->bytes += bytes - pair->bytes;
    pair->value = copy;
    pair->bytes = bytes;
    pair->there = true;
    serve_waits(store, pair);
    return NULL;
}

const char *control_store_get(struct control_store *store, const char *key, int rank, uint64_t id) {
    struct pair *pair = pair_of(store, key);
    if (!pair) return "the store holds too many keys";
    if (pair->there) {
        store->found(store->context, rank, id, pair->value, pair->bytes);
        return NULL;
    }
    if (store->open[rank] >= CONTROL_STORE_WAITS) return "the rank waits for too many keys";
    struct wait *wait = MEM_NEW(struct wait);
    *wait = (struct wait){pair->waits, rank, id};
    pair->waits = wait;
    store->open[rank]++;
    return NULL;
}

void control_store_forget(struct control_store *store, int rank) {
    for (size_t i = 0; store->open[rank] > 0 && i < store->count; i++) {
        struct wait **link = &store->list[i]->waits;
        while (*link) {
            struct wait *wait = *link;
            if (wait->rank != rank) {
                link = &wait->next;
                continue;
            }
            *link = wait->next;
            store->open[rank]--;
            free(wait);
        }
    }
}
