/* Arithmetic on arrays in host memory: the definition, one element after the other. Backends with a
 * team share what is done of one block or one chunk, so that their bits are these. */
#include <math.h>
#include <string.h>

#include "backend/host.h"
#include "backend/reach.h"
#include "base/clones.h"
#include "base/log.h"
#include "comm/tree_sum.h"

static float get(const struct elements *elements, int64_t i) {
    switch (elements->dtype) {
    case DTYPE_F32: return ((const float *)elements->data)[i];
    case DTYPE_BF16: return bf16_to_f32(((const uint16_t *)elements->data)[i]);
    case DTYPE_F16: return f16_to_f32(((const uint16_t *)elements->data)[i]);
    default: CHECK(false, "arithmetic on an array of %s", dtype_name(elements->dtype));
    }
}

static void put(const struct elements *elements, int64_t i, float value) {
    switch (elements->dtype) {
    case DTYPE_F32: ((float *)elements->data)[i] = value; break;
    case DTYPE_BF16: ((uint16_t *)elements->data)[i] = bf16_from_f32(value); break;
    case DTYPE_F16: ((uint16_t *)elements->data)[i] = f16_from_f32(value); break;
    default: CHECK(false, "arithmetic on an array of %s", dtype_name(elements->dtype));
    }
}

enum status host_array_copy(struct device *device, void *to, const void *from, size_t bytes,
                            struct stream *stream) {
    (void)device, (void)stream;
    memcpy(to, from, bytes);
    return STATUS_OK;
}

enum status host_array_fill(struct device *device, const struct elements *to, float value,
                            struct stream *stream) {
    (void)device, (void)stream;
    for (int64_t i = 0; i < to->count; i++) put(to, i, value);
    return STATUS_OK;
}

enum status host_array_add(struct device *device, const struct elements *into,
                           const struct elements *from, struct stream *stream) {
    (void)device, (void)stream;
    CHECK(into->dtype == from->dtype && into->count == from->count, "%lld %s += %lld %s",
          (long long)into->count, dtype_name(into->dtype), (long long)from->count,
          dtype_name(from->dtype));
    for (int64_t i = 0; i < into->count; i++) put(into, i, get(into, i) + get(from, i));
    return STATUS_OK;
}

enum status host_array_tree(struct device *device, const struct tree_terms *terms,
                            struct stream *stream) {
    enum { BLOCK = 1024 };
    float sum[BLOCK], *term[TREE_MOST];
    (void)device, (void)stream;
    CHECK(terms->dtype == DTYPE_F32, "a tree of %s", dtype_name(terms->dtype));
    for (int t = 0; t < terms->terms; t++) term[t] = (float *)(uintptr_t)terms->term[t];
    for (int64_t at = 0; at < terms->count; at += BLOCK) {
        int64_t count = terms->count - at < BLOCK ? terms->count - at : BLOCK;
        comm_tree_sum(term, terms->terms, at, count, sum);
        for (int i = 0; i < terms->outs; i++)
            memcpy((float *)terms->out[i] + at, sum, (size_t)count * sizeof *sum);
    }
    return STATUS_OK;
}

/* Sixteen running sums a block: enough for the compiler to use vectors, in an order fixed by the
 * element's index. */
VECTOR_CLONES double host_block_squares(const float *values) {
    double lane[16] = {0}, sum = 0;
    for (int i = 0; i < NORM_BLOCK; i += 16) {
#pragma omp simd
        for (int k = 0; k < 16; k++) lane[k] += (double)values[i + k] * (double)values[i + k];
    }
    for (int k = 0; k < 16; k++) sum += lane[k];
    return sum;
}

/* A short last block is one whose other elements are 0. */
enum status host_array_squares(struct device *device, const struct elements *of, double *sums,
                               struct stream *stream) {
    (void)device, (void)stream;
    for (int64_t begin = 0; begin < of->count; begin += NORM_BLOCK) {
        float block[NORM_BLOCK] = {0};
        for (int64_t i = 0; i < NORM_BLOCK && begin + i < of->count; i++)
            block[i] = get(of, begin + i);
        sums[begin / NORM_BLOCK] = host_block_squares(block);
    }
    return STATUS_OK;
}

enum status host_array_sum(struct device *device, const double *sums, int64_t count,
                           struct exact_sum *total, struct stream *stream) {
    (void)device, (void)stream;
    for (int64_t i = 0; i < count; i++) exact_add(total, sums[i]);
    return STATUS_OK;
}

enum status host_array_decide(struct device *device, const struct exact_sum *squares,
                              const struct exact_sum *losses, const struct optim_limits *limits,
                              struct optim_decision *out, int32_t *stop, struct stream *stream) {
    (void)device, (void)stream;
    if (losses && losses->special != 0) *stop = 1;
    optim_decide(exact_total(squares), limits, out, stop);
    return STATUS_OK;
}

enum status host_array_check(struct device *device, const struct elements *of, int32_t *bad,
                             struct stream *stream) {
    (void)device, (void)stream;
    for (int64_t i = 0; i < of->count; i++)
        if (!isfinite(get(of, i))) *bad = 1;
    return STATUS_OK;
}

/* By the exponent's bits, so that the loop has neither branches nor calls. */
VECTOR_CLONES bool host_all_finite(const float *values, int64_t count) {
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
bool host_update_chunk(const struct optim_update *update, const struct optim_span *span,
                       int64_t chunk) {
    int64_t begin = span->begin + chunk * HOST_CHUNK, end = span->begin + span->count;
    int64_t count = end - begin < HOST_CHUNK ? end - begin : HOST_CHUNK;
    float *param = (float *)update->param.data + begin, *states[OPTIM_MAX_STATES] = {0};
    for (int i = 0; i < update->rule->state_count; i++)
        states[i] = (float *)update->state[i].data + begin;
    float decay = span->decay ? (float)update->step->config->weight_decay : 0;
    update->rule->update(update->step, decay, param, (const float *)update->gradient.data + begin,
                         states, count);
    return host_all_finite(param, count);
}

void host_check_update(const struct optim_update *update) {
    const struct elements *param = &update->param, *gradient = &update->gradient;
    bool fits = param->dtype == DTYPE_F32 && gradient->dtype == DTYPE_F32 &&
                gradient->count == param->count;
    for (int i = 0; i < update->rule->state_count; i++)
        fits =
            fits && update->state[i].dtype == DTYPE_F32 && update->state[i].count == param->count;
    CHECK(fits, "%s updates f32 arrays of one length, here %lld %s by %lld %s", update->rule->name,
          (long long)param->count, dtype_name(param->dtype), (long long)gradient->count,
          dtype_name(gradient->dtype));
}

bool host_decided(const struct optim_update *update, struct optim_step *step,
                  struct optim_update *out) {
    *out = *update;
    if (!update->decision) return true;
    *step = *update->step;
    step->gradient_scale = update->decision->scale;
    out->step = step;
    return !update->decision->skip;
}

enum status host_array_update(struct device *device, const struct optim_update *given, int32_t *bad,
                              struct stream *stream) {
    (void)device, (void)stream;
    struct optim_step step;
    struct optim_update own, *update = &own;
    host_check_update(given);
    if (!host_decided(given, &step, update)) return STATUS_OK;
    for (int i = 0; i < update->span_count; i++) {
        const struct optim_span *span = &update->spans[i];
        for (int64_t c = 0; c * HOST_CHUNK < span->count; c++)
            if (!host_update_chunk(update, span, c)) *bad = 1;
    }
    return STATUS_OK;
}
