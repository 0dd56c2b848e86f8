/* Which sample goes where: torch's DistributedSampler, and the deal of an epoch into steps and
 * micro-batches.
 *
 * A step takes `batch` consecutive positions of the epoch's order; of its G = replicas *
 * micro_batches micro-batches, micro-batch g takes positions g, g+G, g+2G, ... of the step. With
 * one micro-batch a replica this is what torch's sampler and loader give to rank g. An evaluation
 * deals blocks of consecutive positions instead: the same blocks however many ranks share them, so
 * that its bits do not depend on how many there are. The state of a
 * run is (seed, epoch, step in the epoch) and nothing else: any step can be dealt alone. */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

/* Local. torch.randperm(n) of a generator seeded with `seed`; `out` has n entries. */
void sampler_permutation(int64_t n, uint64_t seed, int64_t *out);

struct sampler {
    int64_t samples;   /* of the split */
    int64_t batch;     /* positions a step, over all replicas */
    int replicas;      /* R: the order is padded (or with drop_last cut) to a multiple of it */
    int micro_batches; /* M: micro-batches a replica runs in a step */
    uint64_t seed;
    bool unpadded; /* neither padded nor cut, whatever R is: a run whose replicas change */
    bool shuffle;
    bool drop_last;    /* also leaves the short last step out */
    bool exactly_once; /* for evaluation: neither padded nor cut, in blocks; drop_last is not
                          looked at */
};

/* Local. Positions of an epoch; steps of an epoch (0 when there is not one whole step and
 * drop_last). */
int64_t sampler_positions(const struct sampler *sampler);
int64_t sampler_steps(const struct sampler *sampler);

/* Local. The epoch's sample ids by position; `order` has max(samples, positions) entries. */
void sampler_order(const struct sampler *sampler, int64_t epoch, int64_t *order);

/* Local. Positions of a step, all micro-batches together: `batch`, or fewer in the short last step.
 */
int64_t sampler_step_samples(const struct sampler *sampler, int64_t step);
/* Local. Samples of micro-batch g of a step (0 is possible in the short last one); most any has. */
int64_t sampler_micro_samples(const struct sampler *sampler, int64_t step, int g);
int64_t sampler_micro_most(const struct sampler *sampler);
/* Local. Copies the sample ids of micro-batch g out of the epoch's order; returns how many. */
int64_t sampler_deal(const struct sampler *sampler, const int64_t *order, int64_t step, int g,
                     int64_t *out);

#endif
