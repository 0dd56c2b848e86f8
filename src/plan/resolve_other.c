/* Runs that differ from a resolved one in one thing: see resolve.h. */
#include "plan/course.h"
#include "plan/resolve.h"

struct run_config resolve_for_rank(const struct run_config *config, int rank, bool dry) {
    struct run_config other = *config;
    other.rank = rank;
    other.cell = grid_cell(&config->grid, rank);
    other.dry = dry;
    return other;
}

/* As resolve.c decides it for replicas: what one replica has nobody to share with is left out. */
static void share_among(struct run_config *config) {
    const struct several_config *several = &config->several;
    bool some = group_size(&config->grid, GROUP_REPLICAS, 0) > 1;
    config->sync = some ? several->sync : "none";
    config->zero_stage = some ? several->zero_stage : 0;
    config->sliced = config->zero_stage ? SLICED_STATE : 0;
    if (config->zero_stage >= 2 && (several->scatters || config->micro_batches == 1))
        config->sliced |= SLICED_GRADIENTS;
    config->sync_bn = several->sync_bn && config->replicas > 1;
}

struct run_config resolve_for_part(const struct run_config *config, const struct course_part *part,
                                   bool dry) {
    struct run_config other = *config;
    bool same = part->stages == config->grid.stages && part->replicas == config->replicas &&
                part->micro_batches == config->micro_batches;
    other.frozen = part->frozen;
    other.dry = dry;
    if (same) return other;
    other.replicas = part->replicas;
    other.micro_batches = part->micro_batches;
    if (config->ranks == 1)
        other.grid = grid_flat(1, part->replicas);
    else
        other.grid.stages = part->stages, other.grid.replicas = part->replicas,
        other.grid.drivers = config->ranks - part->stages * part->replicas; /* they idle */
    other.cell = grid_cell(&other.grid, other.rank);
    share_among(&other);
    return other;
}

struct run_config resolve_for_limit(const struct run_config *config, int64_t memory_limit) {
    struct run_config other = *config;
    other.memory_limit = memory_limit;
    return other;
}

struct run_config resolve_for_shape(const struct run_config *config, int chunks, bool v_shape) {
    struct run_config other = *config;
    other.grid.chunks = chunks;
    other.grid.v_shape = v_shape;
    return other;
}

struct run_config resolve_to_compare(const struct options *options, const struct run_config *config,
                                     enum recompute_policy recompute, int micro_batches) {
    struct run_config other = *config;
    other.memory_limit = 0;
    other.dry = true;
    other.recompute = recompute;
    other.micro_batches = micro_batches;
    other.eval_batch = resolve_eval_batch(options, &other);
    return other;
}
