/* See pool.h. Some ten sizes of micro-batches, each with two or three graphs: a list will do. */
#include "plan/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "plan/graphs.h"

/* The sizes of a placement, and all that it depends on; compared as bytes, so it has no gaps. */
struct place_key {
    const struct graph *graph;
    int64_t first_unit, end_unit;
    uint64_t segments; /* a hash of where they end; 0: they do not matter */
    uint64_t config;   /* its flags, a bit each */
};
struct pooled_place {
    struct place_key key; /* no graph: free */
    size_t slot_bytes, shared_bytes;
};

struct plan_pool {
    struct device *device;
    struct pooled {
        struct plan_pool_key key;
        struct graph *graph;
        struct partition_source *source;
    } * item;
    int count;
    size_t capacity;
    struct pooled_partition {
        struct partition_config config; /* without what it borrows */
        struct partition partition;
    } * *partition;
    int partition_count;
    size_t partition_capacity;
    struct pooled_place *place; /* a table of hashes */
    size_t place_count, place_size;
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
    for (int i = 0; i < (*pool)->partition_count; i++) {
        partition_free(&(*pool)->partition[i]->partition);
        free((*pool)->partition[i]);
    }
    for (int i = 0; i < (*pool)->count; i++) {
        partition_source_free(&(*pool)->item[i].source);
        graph_free(&(*pool)->item[i].graph);
    }
    free((*pool)->partition);
    free((*pool)->place);
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
    pool->item = mem_grow(pool->item, &pool->capacity, (size_t)pool->count + 1, sizeof *pool->item);
    pool->item[pool->count++] = (struct pooled){.key = *key, .graph = graph};
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

struct partition_source *plan_pool_source(struct plan_pool *pool, const struct graph *graph) {
    int i = 0;
    while (i < pool->count && pool->item[i].graph != graph) i++;
    CHECK(i < pool->count, "a graph of another pool");
    if (!pool->item[i].source) pool->item[i].source = partition_source_new(graph);
    return pool->item[i].source;
}

static bool same_config(const struct partition_config *a, const struct partition_config *b) {
    return a->chunks == b->chunks && a->balance == b->balance && a->grads == b->grads &&
           a->states == b->states && a->rule == b->rule;
}

enum status plan_pool_partition(struct plan_pool *pool, const struct graph *graph,
                                const struct partition_config *config,
                                const struct partition **out) {
    for (int i = 0; i < pool->partition_count; i++) {
        struct pooled_partition *known = pool->partition[i];
        if (known->partition.graph != graph || !same_config(&known->config, config)) continue;
        *out = &known->partition;
        return STATUS_OK;
    }
    struct pooled_partition *made = MEM_NEW(struct pooled_partition);
    made->config = *config;
    enum status status = partition_from(plan_pool_source(pool, graph), config, &made->partition);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    pool->partition = mem_grow(pool->partition, &pool->partition_capacity,
                               (size_t)pool->partition_count + 1, sizeof *pool->partition);
    pool->partition[pool->partition_count++] = made;
    *out = &made->partition;
    return STATUS_OK;
}

/* --- placements --- */

static uint64_t flags_of(const struct placement_config *config) {
    const struct life_config *life = &config->life;
    const bool flags[] = {life->split,          life->mixed,
                          life->segments_apart, life->lockstep,
                          life->recompute,      life->blocks,
                          life->some_kept,      life->inputs,
                          config->shared,       config->gradients_outside};
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) bits |= (uint64_t)flags[i] << i;
    return bits;
}

static struct place_key place_key(const struct ranges *ranges, int stage,
                                  const struct placement_config *config) {
    const struct stage_range *of = &ranges->stages[stage];
    struct place_key key = {.graph = ranges->graph,
                            .first_unit = of->first_unit,
                            .end_unit = of->end_unit,
                            .config = flags_of(config)};
    if (!config->life.segments_apart && !config->life.recompute) return key;
    key.segments = HASH64_START;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        key.segments = hash64(key.segments, of->phase[phase].segment_end,
                              (size_t)of->phase[phase].segment_count * sizeof(int));
    return key;
}

static struct pooled_place *find_place(struct pooled_place *table, size_t size,
                                       const struct place_key *key) {
    size_t at = (size_t)(hash64(HASH64_START, key, sizeof *key) % size);
    while (table[at].key.graph && memcmp(&table[at].key, key, sizeof *key) != 0)
        at = (at + 1) % size;
    return &table[at];
}

static void grow_places(struct plan_pool *pool) {
    if (2 * (pool->place_count + 1) <= pool->place_size) return;
    size_t size = pool->place_size ? 2 * pool->place_size : 256;
    struct pooled_place *table = MEM_ARRAY(struct pooled_place, size);
    for (size_t i = 0; i < pool->place_size; i++)
        if (pool->place[i].key.graph)
            *find_place(table, size, &pool->place[i].key) = pool->place[i];
    free(pool->place);
    pool->place = table;
    pool->place_size = size;
}

struct placement plan_pool_place(struct plan_pool *pool, const struct ranges *ranges, int stage,
                                 const struct placement_config *config) {
    struct place_key key = place_key(ranges, stage, config);
    grow_places(pool);
    struct pooled_place *place = find_place(pool->place, pool->place_size, &key);
    if (!place->key.graph) {
        SCOPED(placement_free) struct placement placed = graph_place(ranges, stage, config);
        *place = (struct pooled_place){key, placed.slot_bytes, placed.shared_bytes};
        pool->place_count++;
    }
    return (struct placement){.graph = ranges->graph,
                              .slot_bytes = place->slot_bytes,
                              .shared_bytes = place->shared_bytes};
}
