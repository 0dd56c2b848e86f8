/* What the golden tests and the program that prepares them (tests/golden/dump.c) must agree on: the
 * cases, the initial weights, ten batches of made-up samples, and which numbers are looked at. All
 * local; nothing here allocates. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "model/model.h"
#include "optim/optim.h"

enum { GOLDEN_STEPS = 10, GOLDEN_SAMPLES = 12, GOLDEN_PROJECTIONS = 3, GOLDEN_WEIGHT_SEED = 1 };

struct golden_case {
    const char *model;
    int64_t batch, channels, side, classes, patch, sequence, predictions;
    int ref_steps; /* of GOLDEN_STEPS, what the reference kernels do in a few seconds */
};

extern const struct golden_case golden_cases[];
extern const int golden_case_count;
const struct golden_case *golden_find(const char *model);

/* What the model of a case is told, dropout 0. */
struct model_config golden_config(const struct golden_case *gold);
/* The optimizer's numbers, whichever it is: rate 1e-3, momentum 0.9, torch's betas, no decay. */
struct optim_config golden_optim(void);

/* Builds the forward graph of a case for training; the caller owns it. */
enum status golden_build(const struct golden_case *gold, struct graph **out);

/* Is this input part of the samples (and not a seed of backward)? */
bool golden_is_sample(const struct graph *graph, int value);
/* Fills input `value` of step `step` in plain order: keyed by seed, name, step and element. */
void golden_fill(const struct graph *graph, int value, uint64_t seed, int step, void *out);

/* Which entry of a tensor of `count` elements is sample `k`, and the sign of entry `i` in
 * projection `k`. The script has twins of both. */
int64_t golden_sample(int k, int64_t count);
int golden_sign(int k, int64_t i);

#endif
