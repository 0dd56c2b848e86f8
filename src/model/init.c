/* Initial values. Each element is drawn by its own key (seed, parameter name, element), so that any
 * rank can make any part of any parameter and all agree. The distributions are those of the
 * ecosystem's models; the draws are our own. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "model/model.h"

/* torch cuts its truncated normal at these absolute values, whatever the deviation. */
static const float trunc_limit = 2;

/* Drawn again, with another key each time, until it is inside. */
static float redrawn(uint64_t key, uint64_t index, float deviation) {
    for (uint64_t attempt = 1;; attempt++) {
        float x = deviation * rng_normal(rng_key(key, attempt), index);
        if (fabsf(x) <= trunc_limit) return x;
    }
}

static void draw_normals(const struct param *param, uint64_t key, int64_t first, int64_t count,
                         float *out) {
    rng_normals(key, (uint64_t)first, count, out);
    for (int64_t i = 0; i < count; i++) out[i] *= param->scale;
    for (int64_t i = 0; i < count && param->init == INIT_TRUNC_NORMAL; i++)
        if (!(fabsf(out[i]) <= trunc_limit))
            out[i] = redrawn(key, (uint64_t)(first + i), param->scale);
}

static void draw(const struct param *param, uint64_t key, int64_t first, int64_t count,
                 float *out) {
    switch (param->init) {
    case INIT_ZERO: memset(out, 0, (size_t)count * sizeof *out); return;
    case INIT_ONE:
        for (int64_t i = 0; i < count; i++) out[i] = 1;
        return;
    case INIT_UNIFORM:
        rng_uniforms(key, (uint64_t)first, count, out);
        for (int64_t i = 0; i < count; i++) out[i] = param->scale * (2 * out[i] - 1);
        return;
    case INIT_NORMAL:
    case INIT_NORMAL_PADDED:
    case INIT_TRUNC_NORMAL: draw_normals(param, key, first, count, out); return;
    }
}

void model_init_param(const struct graph *graph, int index, uint64_t seed, float *out) {
    enum { PIECE = 4096 };
    const struct param *param = &graph->params[index];
    const struct shape *shape = &graph->values[param->value].type.shape;
    uint64_t key = rng_key_text(rng_key_text(seed, "init"), param->name);
    int64_t count = shape_count(shape), row = shape_span(shape, 1, shape->rank);
#pragma omp parallel for schedule(static) if (count > 16 * PIECE)
    for (int64_t i = 0; i < count; i += PIECE)
        draw(param, key, i, count - i < PIECE ? count - i : PIECE, out + i);
    if (param->init == INIT_NORMAL_PADDED) memset(out, 0, (size_t)row * sizeof *out);
}
