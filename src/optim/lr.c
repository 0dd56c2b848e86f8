/* Learning-rate policies: pure functions of the step. */
#include <math.h>

#include "optim/optim.h"

static double after_warmup(const struct lr_config *config, int64_t step) {
    double span = (double)(config->total_steps - config->warmup_steps);
    double done = span > 0 ? (double)(step - config->warmup_steps) / span : 1;
    switch (config->policy) {
    case LR_CONST: return config->base;
    case LR_STEP:
        return config->base *
               pow(config->gamma, (double)(step / (config->step_size > 0 ? config->step_size : 1)));
    case LR_COSINE: return config->base * (1 + cos(M_PI * done)) / 2;
    case LR_LINEAR: return config->base * (1 - done);
    }
    return config->base;
}

double lr_at(const struct lr_config *config, int64_t step) {
    if (step < config->warmup_steps)
        return config->base * (double)(step + 1) / (double)config->warmup_steps;
    return after_warmup(config, step);
}
