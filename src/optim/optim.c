/* The table of rules, and the pass over all parameters. */
#include "optim/optim.h"

#include <string.h>

#include "base/clones.h"

extern const struct optim_rule optim_sgd, optim_adam, optim_adamw;

static const struct optim_rule *const rules[] = {&optim_sgd, &optim_adam, &optim_adamw};

const struct optim_rule *optim_find(const char *name) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i]->name, name) == 0) return rules[i];
    }
    return NULL;
}

const struct optim_rule *const *optim_all(int *count) {
    *count = (int)(sizeof rules / sizeof rules[0]);
    return rules;
}

/* By the exponent's bits, so that the loop has neither branches nor calls. */
VECTOR_CLONES static bool all_finite(const float *values, int64_t count) {
    const uint32_t exponent = 0x7F800000u;
    uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bad |= (bits & exponent) == exponent;
    }
    return !bad;
}

/* A chunk is looked at while it is in the cache: this is as good as free. */
static bool apply_chunk(const struct optim_rule *rule, const struct optim_step *step,
                        const struct optim_span *span, int64_t chunk, float *param,
                        const float *gradient, float *const state[]) {
    int64_t begin = span->begin + chunk * OPTIM_MAX_CHUNK, end = span->begin + span->count;
    int64_t count = end - begin < OPTIM_MAX_CHUNK ? end - begin : OPTIM_MAX_CHUNK;
    float *states[OPTIM_MAX_STATES] = {0};
    for (int i = 0; i < rule->state_count; i++) states[i] = state[i] + begin;
    float decay = span->decay ? (float)step->config->weight_decay : 0;
    rule->update(step, decay, param + begin, gradient + begin, states, count);
    return all_finite(param + begin, count);
}

bool optim_apply(const struct optim_rule *rule, const struct optim_step *step,
                 const struct optim_span *spans, int span_count, float *param,
                 const float *gradient, float *const state[]) {
    bool finite = true;
#pragma omp parallel reduction(&& : finite)
    for (int i = 0; i < span_count; i++) {
        int64_t chunks = (spans[i].count + OPTIM_MAX_CHUNK - 1) / OPTIM_MAX_CHUNK;
#pragma omp for schedule(static) nowait
        for (int64_t c = 0; c < chunks; c++)
            finite = apply_chunk(rule, step, &spans[i], c, param, gradient, state) && finite;
    }
    return finite;
}

/* Sixteen running sums a block: enough for the compiler to use vectors, in an order fixed by the
 * element's index. */
static double block_squares(const float *values) {
    double lane[16] = {0}, sum = 0;
    for (int i = 0; i < NORM_BLOCK; i += 16) {
        for (int k = 0; k < 16; k++) lane[k] += (double)values[i + k] * (double)values[i + k];
    }
    for (int k = 0; k < 16; k++) sum += lane[k];
    return sum;
}

double optim_sum_squares(const float *values, int64_t count) {
    enum {
        GROUP = 256
    }; /* blocks whose sums are made in parallel before they are added in order */
    double sums[GROUP], total = 0;
    for (int64_t begin = 0; begin < count; begin += (int64_t)GROUP * NORM_BLOCK) {
        int64_t blocks = (count - begin) / NORM_BLOCK;
        if (blocks > GROUP) blocks = GROUP;
#pragma omp parallel for schedule(static)
        for (int64_t b = 0; b < blocks; b++)
            sums[b] = block_squares(values + begin + b * NORM_BLOCK);
        for (int64_t b = 0; b < blocks; b++) total += sums[b];
    }
    return total;
}
