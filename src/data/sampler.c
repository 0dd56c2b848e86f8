/* Arithmetic of the deal, and torch's permutation: a forward Fisher-Yates shuffle on MT19937. */
#include "data/sampler.h"

#include "base/rng.h"

/* torch draws 64 bits from this length on, where the bias of `word % n` with 32 bits would show. */
static const int64_t wide_draws_from = UINT32_MAX / 20;

void sampler_permutation(int64_t n, uint64_t seed, int64_t *out) {
    struct mt19937 mt;
    mt19937_seed(&mt, seed);
    for (int64_t i = 0; i < n; i++) out[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        uint64_t draw = mt19937_next(&mt);
        if (n >= wide_draws_from) draw = draw << 32 | mt19937_next(&mt);
        int64_t other = i + (int64_t)(draw % (uint64_t)(n - i)), kept = out[i];
        out[i] = out[other];
        out[other] = kept;
    }
}

static void order_fill(int64_t n, int64_t positions, uint64_t seed, bool shuffle, int64_t *order) {
    if (shuffle)
        sampler_permutation(n, seed, order);
    else
        for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n; i < positions; i++)
        order[i] = order[i - n]; /* repeats as often as it must */
}

int64_t sampler_positions(const struct sampler *sampler) {
    if (sampler->exactly_once || sampler->unpadded) return sampler->samples;
    int64_t samples = sampler->samples, replicas = sampler->replicas;
    int64_t each = sampler->drop_last ? samples / replicas : (samples + replicas - 1) / replicas;
    return each * replicas;
}

int64_t sampler_steps(const struct sampler *sampler) {
    int64_t positions = sampler_positions(sampler);
    bool cut = sampler->drop_last && !sampler->exactly_once;
    return cut ? positions / sampler->batch : (positions + sampler->batch - 1) / sampler->batch;
}

void sampler_order(const struct sampler *sampler, int64_t epoch, int64_t *order) {
    order_fill(sampler->samples, sampler_positions(sampler), sampler->seed + (uint64_t)epoch,
               sampler->shuffle, order);
}

int64_t sampler_step_samples(const struct sampler *sampler, int64_t step) {
    int64_t left = sampler_positions(sampler) - step * sampler->batch;
    return left < sampler->batch ? left : sampler->batch;
}

static int64_t strided_count(int64_t total, int64_t first, int64_t stride) {
    return total > first ? (total - first + stride - 1) / stride : 0;
}

/* Positions of a block: what a micro-batch of a whole step has. */
static int64_t block_of(const struct sampler *sampler) {
    int64_t total = (int64_t)sampler->replicas * sampler->micro_batches;
    return (sampler->batch + total - 1) / total;
}

int64_t sampler_micro_samples(const struct sampler *sampler, int64_t step, int g) {
    int64_t block = block_of(sampler), left = sampler_step_samples(sampler, step) - g * block;
    if (sampler->exactly_once) return left < 0 ? 0 : left < block ? left : block;
    return strided_count(sampler_step_samples(sampler, step), g,
                         (int64_t)sampler->replicas * sampler->micro_batches);
}

int64_t sampler_micro_most(const struct sampler *sampler) {
    return sampler_micro_samples(sampler, 0, 0);
}

int64_t sampler_deal(const struct sampler *sampler, const int64_t *order, int64_t step, int g,
                     int64_t *out) {
    int64_t count = sampler_micro_samples(sampler, step, g);
    bool blocks = sampler->exactly_once;
    int64_t stride = blocks ? 1 : (int64_t)sampler->replicas * sampler->micro_batches;
    const int64_t *from = order + step * sampler->batch + (blocks ? g * block_of(sampler) : g);
    for (int64_t i = 0; i < count; i++) out[i] = from[i * stride];
    return count;
}
