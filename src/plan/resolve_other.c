/* Runs that differ from a resolved one in one thing: see resolve.h. */
#include "plan/resolve.h"

struct run_config resolve_for_rank(const struct run_config *config, int rank, bool dry) {
    struct run_config other = *config;
    other.rank = rank;
    other.cell = grid_cell(&config->grid, rank);
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

/* Whoever asks compares: nothing is refused, and nothing is run. */
static struct run_config described(const struct run_config *config) {
    struct run_config other = resolve_for_limit(config, 0);
    other.dry = true;
    return other;
}

struct run_config resolve_for_recompute(const struct run_config *config,
                                        enum recompute_policy policy) {
    struct run_config other = described(config);
    other.recompute = policy;
    return other;
}

struct run_config resolve_for_micro_batches(const struct options *options,
                                            const struct run_config *config, int count) {
    struct run_config other = described(config);
    other.micro_batches = count;
    other.eval_batch = resolve_eval_batch(options, &other);
    return other;
}
