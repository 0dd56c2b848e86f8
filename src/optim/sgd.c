/* Stochastic gradient descent with momentum, by torch's formula, as a loop the compiler can turn
 * into vectors. */
#include "base/clones.h"
#include "optim/optim.h"

/* g += wd*p; buf = mu*buf + g (zero before the first step); nesterov: g += mu*buf, else g = buf; p
 * -= lr*g. */
VECTOR_CLONES
static void sgd_update(const struct optim_step *step, float decay, float *restrict param,
                       const float *restrict gradient, float *const state[], int64_t count) {
    float mu = (float)step->config->momentum, lr = step->lr, scale = step->gradient_scale;
    float *restrict buffer = state[0];
    bool nesterov = step->config->nesterov;
    float direct = nesterov ? 1 : 0, through = nesterov ? mu : 1;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * scale + decay * param[i];
        float b = mu * buffer[i] + g;
        buffer[i] = b;
        param[i] -= lr * (direct * g + through * b);
    }
}

const struct optim_rule optim_sgd = {.name = "sgd",
                                     .help = "stochastic gradient descent with momentum",
                                     .acts = "momentum nesterov",
                                     .lr = 0.1,
                                     .weight_decay = 1e-4,
                                     .state_count = 1,
                                     .state_names = {"momentum_buffer"},
                                     .update = sgd_update};
