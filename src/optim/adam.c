/* Adam and AdamW by torch's formulas; they differ in where the decay goes. */
#include <math.h>

#include "base/clones.h"
#include "optim/optim.h"

VECTOR_CLONES
static void adam_core(const struct optim_step *step, float l2, float shrink, float *restrict param,
                      const float *restrict gradient, float *restrict m, float *restrict v,
                      int64_t count) {
    const struct optim_config *config = step->config;
    double t = (double)step->step + 1;
    double correct1 = 1 - pow(config->beta1, t), correct2 = 1 - pow(config->beta2, t);
    float beta1 = (float)config->beta1, beta2 = (float)config->beta2, scale = step->gradient_scale;
    float rest1 = (float)(1 - config->beta1), rest2 = (float)(1 - config->beta2),
          epsilon = (float)config->epsilon;
    float rate = (float)((double)step->lr / correct1), root = (float)sqrt(correct2);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float p = param[i] * shrink, g = gradient[i] * scale + l2 * p;
        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * g * g;
        param[i] = p - rate * m[i] / (sqrtf(v[i]) / root + epsilon);
    }
}

static void adam_update(const struct optim_step *step, float decay, float *param,
                        const float *gradient, float *const state[], int64_t count) {
    adam_core(step, decay, 1, param, gradient, state[0], state[1], count);
}

static void adamw_update(const struct optim_step *step, float decay, float *param,
                         const float *gradient, float *const state[], int64_t count) {
    adam_core(step, 0, 1 - step->lr * decay, param, gradient, state[0], state[1], count);
}

const struct optim_rule optim_adam = {.name = "adam",
                                      .help = "Adam; weight decay as L2 in the gradient",
                                      .acts = "beta1 beta2 eps",
                                      .lr = 1e-3,
                                      .state_count = 2,
                                      .state_names = {"exp_avg", "exp_avg_sq"},
                                      .update = adam_update};
const struct optim_rule optim_adamw = {.name = "adamw",
                                       .help = "Adam with decoupled weight decay",
                                       .acts = "beta1 beta2 eps",
                                       .lr = 1e-3,
                                       .weight_decay = 0.01,
                                       .clip = 1,
                                       .state_count = 2,
                                       .state_names = {"exp_avg", "exp_avg_sq"},
                                       .update = adamw_update};
