/* Optimizers over flat arrays, and learning-rate policies.
 *
 * Parameters, gradients and state are arrays of the same shape (see exec/store.h), cut into spans
 * that share a weight decay. Every update is elementwise, so any split of the arrays over threads
 * or ranks gives the same bits. Formulas are torch's. A rule is the definition, on the host;
 * devices run it, or kernels of their own that do the same, by the row array_update of
 * backend/backend.h. */
#ifndef OPTIM_OPTIM_H
#define OPTIM_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/tensor.h"

enum { OPTIM_MAX_STATES = 2 };

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

/* What the norm of the gradients means for the updates of a step. It lies where they run, so that
 * nobody waits for it to enqueue them. */
struct optim_decision {
    double norm;
    float scale;  /* the clipping factor, times `unscale` below */
    int32_t skip; /* nothing is updated: this norm, or one before, is not finite */
};
/* What the norm is held against. */
struct optim_limits {
    double clip;    /* the most that it may be; 0: anything */
    double unscale; /* what gradients are multiplied by before: 1, or 1 / the scale of the loss */
    bool leaves; /* a step whose gradients are not finite is left out alone, and the run goes on */
};
/* Local. Of a sum of squares: clipping as torch does it, by clip / (norm + 1e-6) where that is
 * below
 * 1. *stop is set where the norm is not finite, and read where it is. */
void optim_decide(double squares, const struct optim_limits *limits, struct optim_decision *out,
                  int32_t *stop);

/* A run of elements with one weight decay. */
struct optim_span {
    int64_t begin, count;
    bool decay;
};

struct optim_rule {
    const char *name, *help;
    const char *acts; /* options that only some rules read, as typed: "beta1 beta2 eps" */
    /* Defaults, where the model's family has another rule. */
    double lr, weight_decay, clip; /* clip 0: none */
    int state_count;
    const char *state_names[OPTIM_MAX_STATES]; /* as torch names them in its state dict */
    /* Local. Updates `count` elements; the arrays start at the span's first element. */
    void (*update)(const struct optim_step *step, float decay, float *param, const float *gradient,
                   float *const state[], int64_t count);
};

/* Local. By name, NULL when there is none; the whole table for lists. */
const struct optim_rule *optim_find(const char *name);
const struct optim_rule *const *optim_all(int *count);

/* All that one pass over parameters needs: what to do, to which elements of which arrays. */
struct optim_update {
    const struct optim_rule *rule;
    const struct optim_step *step;
    const struct optim_span *spans; /* of the arrays below */
    int span_count;
    struct elements param, gradient, state[OPTIM_MAX_STATES]; /* f32, equally long */
    const struct optim_decision *decision; /* in place of the step's scale; NULL: that one counts */
};

/* Learning rate over the run. */
enum lr_policy {
#define LR_POLICY(NAME, ...) LR_##NAME,
#include "optim/lr.def"
#undef LR_POLICY
    LR_POLICY_COUNT
};
/* Local. As --lr-policy spells it; the policy of a name that exists. */
const char *lr_policy_name(enum lr_policy policy);
const char *lr_policy_acts(enum lr_policy policy); /* options, as in struct optim_rule */
double lr_policy_peak(enum lr_policy policy);      /* where --lr is not given; 0: the model's */
enum lr_policy lr_policy_find(const char *name);
struct lr_config {
    enum lr_policy policy;
    double base, gamma;
    double low; /* where a range test begins */
    int64_t warmup_steps, total_steps, step_size;
    bool warmup_log;
};
/* Local. Rate of step `step` (from 0). Warm-up reaches the base rate on its last step: in equal
 * parts, or as the logarithm of the step, which begins at 0. */
double lr_at(const struct lr_config *config, int64_t step);

#endif
