/* Element types and shapes. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/clones.h"
#include "base/log.h"

static const struct {
    const char *name, *safetensors;
    size_t bytes;
} dtypes[] = {
#define DTYPE(name, NAME, bytes, safetensors) [DTYPE_##NAME] = {#name, safetensors, bytes},
#include "tensor/dtype.def"
#undef DTYPE
};

size_t dtype_bytes(enum dtype dtype) {
    return dtypes[dtype].bytes;
}

const char *dtype_name(enum dtype dtype) {
    return dtypes[dtype].name;
}

const char *dtype_safetensors_name(enum dtype dtype) {
    return dtypes[dtype].safetensors;
}

bool dtype_is_narrow(enum dtype dtype) {
    return dtype == DTYPE_BF16 || dtype == DTYPE_F16;
}

bool dtype_from_safetensors(const char *name, enum dtype *out) {
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].safetensors, name) != 0) continue;
        *out = (enum dtype)i;
        return true;
    }
    return false;
}

size_t tensor_type_bytes(const struct tensor_type *type) {
    return (size_t)shape_count(&type->shape) * dtype_bytes(type->dtype);
}

bool tensor_type_equal(const struct tensor_type *a, const struct tensor_type *b) {
    return a->dtype == b->dtype && shape_equal(&a->shape, &b->shape);
}

struct elements elements_part(const struct elements *all, int64_t begin, int64_t count) {
    CHECK(begin >= 0 && count >= 0 && begin <= all->count - count, "elements %lld to %lld of %lld",
          (long long)begin, (long long)(begin + count), (long long)all->count);
    char *data = all->data;
    return (struct elements){all->dtype, data + (size_t)begin * dtype_bytes(all->dtype), count};
}

size_t elements_bytes(const struct elements *elements) {
    return (size_t)elements->count * dtype_bytes(elements->dtype);
}

int64_t shape_count(const struct shape *shape) {
    return shape_span(shape, 0, shape->rank);
}

bool shape_is_countable(const struct shape *shape) {
    const int64_t most = INT64_C(1) << 48; /* no memory has room for what comes near that */
    int64_t count = 1;
    for (int d = 0; d < shape->rank; d++)
        if (shape->dim[d] < 0 || __builtin_mul_overflow(count, shape->dim[d], &count) ||
            count > most)
            return false;
    return true;
}

bool shape_equal(const struct shape *a, const struct shape *b) {
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

int64_t shape_span(const struct shape *shape, int from, int to) {
    int64_t count = 1;
    for (int i = from; i < to; i++) count *= shape->dim[i];
    return count;
}

const char *shape_text(const struct shape *shape, char text[SHAPE_TEXT_BYTES]) {
    int used = snprintf(text, SHAPE_TEXT_BYTES, "[");
    for (int i = 0; i < shape->rank; i++)
        used += snprintf(text + used, (size_t)(SHAPE_TEXT_BYTES - used), "%s%lld", i ? "," : "",
                         (long long)shape->dim[i]);
    snprintf(text + used, (size_t)(SHAPE_TEXT_BYTES - used), "]");
    return text;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

float bf16_to_f32(uint16_t value) {
    return float_of((uint32_t)value << 16);
}

uint16_t bf16_from_f32(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(bits >> 16 | 0x40); /* keep NaN a NaN */
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

VECTOR_CLONES void bf16_widen(const uint16_t *restrict from, float *restrict to, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = float_of((uint32_t)from[i] << 16);
}

/* bf16_from_f32 without a branch. */
VECTOR_CLONES void bf16_narrow(const float *restrict from, uint16_t *restrict to, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = bits_of(from[i]), even = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16,
                 nan = bits >> 16 | 0x40;
        to[i] = (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : even);
    }
}

float f16_to_f32(uint16_t value) {
    uint32_t sign = (uint32_t)(value & 0x8000u) << 16, exponent = value >> 10 & 31,
             fraction = value & 1023;
    if (exponent == 31) return float_of(sign | 0x7F800000u | fraction << 13);
    if (exponent == 0) {
        float small = (float)fraction * 0x1p-24f;
        return sign ? -small : small;
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t f16_from_f32(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) return (uint16_t)(sign | 0x7E00u);
    if (rest >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* rounds to infinity */
    if (rest < 0x38800000u) { /* subnormal: let the float adder round to a multiple of 2^-24 */
        float magnitude = float_of(rest) + 0x1p-1f;
        return (uint16_t)(sign | (bits_of(magnitude) - bits_of(0x1p-1f)));
    }
    return (uint16_t)(sign | ((rest + 0xFFFu + (rest >> 13 & 1) - 0x38000000u) >> 13));
}

double dtype_value(enum dtype dtype, const void *element) {
    uint16_t half;
    float single;
    double value;
    int32_t word;
    int64_t wide;
    switch (dtype) {
    case DTYPE_F64: memcpy(&value, element, sizeof value); return value;
    case DTYPE_F32: memcpy(&single, element, sizeof single); return (double)single;
    case DTYPE_F16: memcpy(&half, element, sizeof half); return (double)f16_to_f32(half);
    case DTYPE_BF16: memcpy(&half, element, sizeof half); return (double)bf16_to_f32(half);
    case DTYPE_I32: memcpy(&word, element, sizeof word); return word;
    case DTYPE_I64: memcpy(&wide, element, sizeof wide); return (double)wide;
    case DTYPE_U8: return *(const unsigned char *)element;
    case DTYPE_COUNT: break;
    }
    CHECK(false, "element type %d", (int)dtype);
    return 0;
}
