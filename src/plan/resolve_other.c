/* Runs that differ from a resolved one in one thing: see resolve.h. */
#include "plan/resolve.h"

struct run_config resolve_for_rank(const struct run_config *config, int rank, bool dry) {
    struct run_config other = *config;
    other.rank = rank;
    other.cell = grid_cell(&config->grid, rank);
    other.dry = dry;
    return other;
}

struct run_config resolve_for_frozen(const struct run_config *config, int frozen, bool dry) {
    struct run_config other = *config;
    other.frozen = frozen;
    other.dry = dry;
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
