/* Learning-rate policies: pure functions of the step. A policy is a function here and a row in
 * lr.def. */
#include <math.h>

#include "base/log.h"
#include "base/text.h"
#include "optim/optim.h"

/* The part of the run behind the warm-up that is done, 0 to 1. */
static double done_of(const struct lr_config *config, int64_t step) {
    double span = (double)(config->total_steps - config->warmup_steps);
    return span > 0 ? (double)(step - config->warmup_steps) / span : 1;
}

static double lr_const(const struct lr_config *config, int64_t step) {
    (void)step;
    return config->base;
}

static double lr_step(const struct lr_config *config, int64_t step) {
    int64_t size = config->step_size > 0 ? config->step_size : 1;
    return config->base * pow(config->gamma, (double)(step / size));
}

static double lr_cosine(const struct lr_config *config, int64_t step) {
    return config->base * (1 + cos(M_PI * done_of(config, step))) / 2;
}

static double lr_linear(const struct lr_config *config, int64_t step) {
    return config->base * (1 - done_of(config, step));
}

/* A range test: the rate grows by the same factor at each step, and is the base at the last one. */
static double lr_range(const struct lr_config *config, int64_t step) {
    double span = (double)(config->total_steps - 1), done = span > 0 ? (double)step / span : 1;
    if (!(config->low > 0)) return config->base * done;
    return config->low * pow(config->base / config->low, done);
}

static const struct {
    const char *name, *acts;
    double peak;
    double (*at)(const struct lr_config *config, int64_t step);
} policies[LR_POLICY_COUNT] = {
#define LR_POLICY(NAME, word, peak, acting) [LR_##NAME] = {#word, acting, peak, lr_##word},
#include "optim/lr.def"
#undef LR_POLICY
};

const char *lr_policy_name(enum lr_policy policy) {
    return policies[policy].name;
}

const char *lr_policy_acts(enum lr_policy policy) {
    return policies[policy].acts;
}

double lr_policy_peak(enum lr_policy policy) {
    return policies[policy].peak;
}

enum lr_policy lr_policy_find(const char *name) {
    int policy = TEXT_FIND(name, policies);
    CHECK(policy >= 0, "no learning-rate policy is called %s", name);
    return (enum lr_policy)policy;
}

/* The share of the base rate, 0 to 1. The logarithm is DeepSpeed's WarmupLR. */
static double warmup_at(const struct lr_config *config, int64_t step) {
    double steps = (double)config->warmup_steps, done = (double)step + 1;
    return config->warmup_log && steps > 1 ? log(done) / log(steps) : done / steps;
}

double lr_at(const struct lr_config *config, int64_t step) {
    if (step < config->warmup_steps) return config->base * warmup_at(config, step);
    return policies[config->policy].at(config, step);
}
