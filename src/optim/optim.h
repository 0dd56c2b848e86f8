/* Optimizers over flat arrays, and learning-rate policies.
 *
 * Parameters, gradients and state are arrays of the same shape (see exec/store.h), cut into spans
 * that share a weight decay. Every update is elementwise, so any split of the arrays over threads
 * or ranks gives the same bits. Formulas are torch's. */
#ifndef OPTIM_OPTIM_H
#define OPTIM_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

enum { OPTIM_MAX_STATES = 2, OPTIM_MAX_CHUNK = 16384 };

/* What the user chose. */
struct optim_config {
    double lr, momentum, weight_decay, beta1, beta2, epsilon;
    bool nesterov;
};

/* One step's view of it. */
struct optim_step {
    const struct optim_config *config;
    int64_t step;             /* 0 for the first */
    float lr, gradient_scale; /* of this step; the scale is the clipping factor, 1 for none */
};

/* A run of elements with one weight decay. */
struct optim_span {
    int64_t begin, count;
    bool decay;
};

struct optim_rule {
    const char *name, *help;
    int state_count;
    const char *state_names[OPTIM_MAX_STATES]; /* as torch names them in its state dict */
    /* Local. Updates `count` elements; the arrays start at the span's first element. */
    void (*update)(const struct optim_step *step, float decay, float *param, const float *gradient,
                   float *const state[], int64_t count);
};

/* Local. By name, NULL when there is none; the whole table for lists. */
const struct optim_rule *optim_find(const char *name);
const struct optim_rule *const *optim_all(int *count);

/* Local. One fused pass over all spans on the OpenMP team. False when a parameter is not finite
 * afterwards: one that no gradient depends on (a unit whose bias is -infinity, an embedding that no
 * sample uses) is seen here alone. */
bool optim_apply(const struct optim_rule *rule, const struct optim_step *step,
                 const struct optim_span *spans, int span_count, float *param,
                 const float *gradient, float *const state[]);

/* Local. Sum of squares in f64 over fixed blocks of NORM_BLOCK elements, added in order; not finite
 * when any element is not. `count` is a multiple of the block. */
enum { NORM_BLOCK = 1024 };
double optim_sum_squares(const float *values, int64_t count);

/* Learning rate over the run. */
enum lr_policy { LR_CONST, LR_STEP, LR_COSINE, LR_LINEAR };
struct lr_config {
    enum lr_policy policy;
    double base, gamma;
    int64_t warmup_steps, total_steps, step_size;
};
/* Local. Rate of step `step` (from 0). Warm-up rises linearly and reaches the base rate on its last
 * step. */
double lr_at(const struct lr_config *config, int64_t step);

#endif
