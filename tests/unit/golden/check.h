/* The golden vectors of a model (tests/golden/MODEL.json, made by `make golden`) and how numbers
 * are held against them.
 *
 * Tolerance: 1e-4 of the number itself, or (not for losses) of what is usual in its tensor (root
 * mean square) where that is larger. All local; each function reports through Criterion. */
#ifndef GOLDEN_CHECK_H
#define GOLDEN_CHECK_H

#include <jansson.h>
#include <stdint.h>

#include "golden.h"

struct golden_check {
    const char *model;
    json_t *vectors;
    uint64_t seeds[GOLDEN_STEPS]; /* of the samples, step by step */
    double floor; /* what is asked of gradients that are nothing but rounding noise */
    double worst; /* error seen, in units of what is allowed */
};

void golden_check_open(const char *model, struct golden_check *out);
/* With GOLDEN_WORST in the environment also says how much of the tolerance was used. */
void golden_check_close(struct golden_check *check);

/* Are these still the weights that the vectors were made from? */
void golden_check_weights(struct golden_check *check, const float *weights, int64_t count);
/* Losses of step `step` (from 0): one term, or all terms added. */
void golden_check_term(struct golden_check *check, int step, int term, double got);
void golden_check_loss(struct golden_check *check, int step, double got);
/* Norm, projections and samples of a gradient of the first step, or of a buffer after it. */
void golden_check_gradient(struct golden_check *check, const char *name, const float *values,
                           int64_t count);
void golden_check_buffer(struct golden_check *check, const char *name, const float *values,
                         int64_t count);

#endif
