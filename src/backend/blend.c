/* See blend.h. */
#include "backend/blend.h"

#include "base/clones.h"
#include "base/log.h"

static void check(const struct elements *one, const struct elements *other) {
    CHECK(one->dtype == DTYPE_F32 && other->dtype == DTYPE_F32 && one->count == other->count,
          "%lld %s and %lld %s", (long long)one->count, dtype_name(one->dtype),
          (long long)other->count, dtype_name(other->dtype));
}

static VECTOR_CLONES void scale(float *into, float keep, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) into[i] = keep * into[i];
}

static VECTOR_CLONES void add(float *into, float keep, const float *from, float share,
                              int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) into[i] = keep * into[i] + share * from[i];
}

static enum status blend(struct device *device, const struct elements *into, float keep,
                         const struct elements *from, float share, struct stream *stream) {
    (void)device, (void)stream;
    check(into, from ? from : into);
    if (from)
        add(into->data, keep, from->data, share, into->count);
    else
        scale(into->data, keep, into->count);
    return STATUS_OK;
}

static enum status swap(struct device *device, const struct elements *one,
                        const struct elements *other, struct stream *stream) {
    float *a = one->data, *b = other->data;
    (void)device, (void)stream;
    check(one, other);
    for (int64_t i = 0; i < one->count; i++) {
        float kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
    return STATUS_OK;
}

const struct backend_blend backend_host_blend = {.blend = blend, .swap = swap};
