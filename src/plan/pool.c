/* See pool.h. Some ten sizes of micro-batches, each with two or three graphs: a list will do. */
#include "plan/pool.h"

#include <stdlib.h>

#include "base/mem.h"
#include "plan/graphs.h"

struct plan_pool {
    struct device *device;
    struct pooled {
        struct plan_pool_key key;
        struct graph *graph;
    } * item;
    int count;
    size_t capacity;
};

enum status plan_pool_new(const struct run_config *config, struct plan_pool **out) {
    SCOPED(plan_pool_free) struct plan_pool *pool = MEM_NEW(struct plan_pool);
    TRY(device_open(config->device, config->device_index, config->threads, &pool->device));
    *out = pool;
    pool = NULL;
    return STATUS_OK;
}

void plan_pool_free(struct plan_pool **pool) {
    if (!*pool) return;
    for (int i = 0; i < (*pool)->count; i++) graph_free(&(*pool)->item[i].graph);
    free((*pool)->item);
    device_close(&(*pool)->device);
    free(*pool);
    *pool = NULL;
}

int plan_pool_count(const struct plan_pool *pool) {
    return pool->count;
}

struct device *plan_pool_device(const struct plan_pool *pool) {
    return pool->device;
}

static bool same_key(const struct plan_pool_key *a, const struct plan_pool_key *b) {
    return a->samples == b->samples && a->main_samples == b->main_samples &&
           a->stats_ranks == b->stats_ranks && a->training == b->training;
}

struct graph *plan_pool_find(const struct plan_pool *pool, const struct plan_pool_key *key) {
    for (int i = 0; i < pool->count; i++)
        if (same_key(&pool->item[i].key, key)) return pool->item[i].graph;
    return NULL;
}

void plan_pool_add(struct plan_pool *pool, const struct plan_pool_key *key, struct graph *graph) {
    pool->item =
        mem_grow(pool->item, &pool->capacity, (size_t)pool->count + 1, sizeof *pool->item);
    pool->item[pool->count++] = (struct pooled){*key, graph};
}

enum status plan_pool_graph(struct plan_pool *pool, const struct run_config *config,
                            int64_t samples, const struct graph **out) {
    struct plan_pool_key key = {.samples = samples,
                                .stats_ranks = config->sync_bn ? config->replicas : 1,
                                .training = true};
    struct graph *graph = plan_pool_find(pool, &key);
    pool->device->dry = true;
    if (!graph) {
        TRY(graphs_build(config, pool->device, NULL, samples, true, &graph));
        plan_pool_add(pool, &key, graph);
    }
    *out = graph;
    return STATUS_OK;
}
