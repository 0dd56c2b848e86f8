/* Initial values. Each element is drawn by its own key (seed, parameter name, element), so that any
 * rank can make any part of any parameter and all agree. The distributions are those of the
 * ecosystem's models; the draws are our own. */
#include <math.h>

#include "base/rng.h"
#include "model/model.h"

/* torch cuts its truncated normal at these absolute values, whatever the deviation. */
static const float trunc_limit = 2;

static float trunc_normal(uint64_t key, uint64_t index, float deviation) {
    for (uint64_t attempt = 0;; attempt++) {
        float x = deviation * rng_normal(attempt ? rng_key(key, attempt) : key, index);
        if (fabsf(x) <= trunc_limit) return x;
    }
}

static float draw(const struct param *param, uint64_t key, uint64_t index, int64_t row_elements) {
    switch (param->init) {
    case INIT_ZERO: return 0;
    case INIT_ONE: return 1;
    case INIT_UNIFORM: return param->scale * (2 * rng_uniform(key, index) - 1);
    case INIT_NORMAL: return param->scale * rng_normal(key, index);
    case INIT_NORMAL_PADDED:
        return index < (uint64_t)row_elements ? 0 : param->scale * rng_normal(key, index);
    case INIT_TRUNC_NORMAL: return trunc_normal(key, index, param->scale);
    }
    return 0;
}

void model_init_param(const struct graph *graph, int index, uint64_t seed, float *out) {
    const struct param *param = &graph->params[index];
    const struct shape *shape = &graph->values[param->value].type.shape;
    uint64_t key = rng_key_text(rng_key_text(seed, "init"), param->name);
    int64_t count = shape_count(shape), row = shape_span(shape, 1, shape->rank);
#pragma omp parallel for schedule(static) if (count > 65536)
    for (int64_t i = 0; i < count; i++) out[i] = draw(param, key, (uint64_t)i, row);
}
