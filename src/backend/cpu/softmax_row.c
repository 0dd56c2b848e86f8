/* See softmax_row.h. Rows are short (65 tokens), so what counts is the end of a row and the step
 * from vectors to one number: with AVX-512 the end is a masked vector. The exponential there is
 * 2^x, split into a whole number, which one instruction applies, and a polynomial (Taylor's, to the
 * sixth power: 1.2e-7) of what is left. */
#include "backend/cpu/softmax_row.h"

#include <math.h>
#include <stdbool.h>

#include "backend/cpu/avx512.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/scalar.h"
#include "base/clones.h"

#define LOG2_E 1.44269504f

#if defined(__x86_64__)

/* Which of the keys from `at` on are allowed. */
AVX512_INLINE __mmask16 allowed_512(int64_t at, int64_t count, const int32_t *mask) {
    __mmask16 left = avx512_left(count - at);
    if (!mask) return left;
    __m512i given = _mm512_maskz_loadu_epi32(left, mask + at);
    return _mm512_test_epi32_mask(given, given);
}

AVX512 static void row_512(float *s, int64_t count, float scale, const int32_t *mask, float *p) {
    __m512 most = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    bool any = !mask;
    for (int64_t i = 0; i < count; i += 16) {
        __mmask16 allowed = allowed_512(i, count, mask);
        any |= allowed != 0;
        most = _mm512_mask_max_ps(most, allowed, most, _mm512_loadu_ps(s + i));
    }
    __m512 top = _mm512_set1_ps(any ? _mm512_reduce_max_ps(most) : 0.0f),
           factor = _mm512_set1_ps(scale * LOG2_E);
    for (int64_t i = 0; i < count; i += 16) {
        __m512 x = _mm512_mul_ps(factor, _mm512_sub_ps(_mm512_loadu_ps(s + i), top));
        __m512 e = _mm512_maskz_mov_ps(allowed_512(i, count, mask), avx512_power(x));
        sum = _mm512_add_ps(sum, e);
        _mm512_storeu_ps(s + i, e);
    }
    __m512 share = _mm512_set1_ps(any ? 1.0f / _mm512_reduce_add_ps(sum) : 0.0f);
    for (int64_t i = 0; i < count; i += 16) {
        __m512 value = _mm512_mul_ps(_mm512_loadu_ps(s + i), share);
        _mm512_storeu_ps(s + i, value);
        _mm512_mask_storeu_ps(p + i, avx512_left(count - i), value);
    }
}

AVX512 static void bwd_row_512(const float *p, int64_t count, float scale, float *dp) {
    __m512 dot = _mm512_setzero_ps(), factor = _mm512_set1_ps(scale);
    for (int64_t i = 0; i < count; i += 16)
        dot = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(avx512_left(count - i), p + i),
                              _mm512_maskz_loadu_ps(avx512_left(count - i), dp + i), dot);
    __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(dot));
    for (int64_t i = 0; i < count; i += 16) {
        __mmask16 left = avx512_left(count - i);
        __m512 share = _mm512_mul_ps(factor, _mm512_maskz_loadu_ps(left, p + i));
        __m512 off = _mm512_sub_ps(_mm512_maskz_loadu_ps(left, dp + i), mean);
        _mm512_mask_storeu_ps(dp + i, left, _mm512_mul_ps(share, off));
    }
}

AVX512 static void dots_512(const float *x, int64_t x_step, const float *z, int64_t depth,
                            int64_t rows, float *y, int64_t y_step) {
    for (int64_t r = 0; r < rows; r++, x += x_step) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t i = 0; i < depth; i += 16)
            sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(avx512_left(depth - i), x + i),
                                  _mm512_maskz_loadu_ps(avx512_left(depth - i), z + i), sum);
        y[r * y_step] = _mm512_reduce_add_ps(sum);
    }
}
#endif

VECTOR_CLONES static void row_any(float *s, int64_t count, float scale, const int32_t *mask,
                                  float *p) {
    float most = -INFINITY, sum = 0;
    int32_t allowed = !mask;
    if (mask)
#pragma omp simd reduction(| : allowed)
        for (int64_t i = 0; i < count; i++) {
            allowed |= mask[i];
            s[i] = mask[i] ? s[i] : -INFINITY;
        }
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < count; i++) most = s[i] > most ? s[i] : most;
    if (!allowed) most = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        s[i] = scalar_exp(scale * (s[i] - most));
        sum += s[i];
    }
    float factor = allowed ? 1.0f / sum : 0; /* of a finite row the sum is at least 1 */
#pragma omp simd
    for (int64_t i = 0; i < count; i++) p[i] = s[i] *= factor;
}

VECTOR_CLONES static void bwd_row_any(const float *p, int64_t count, float scale, float *dp) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < count; i++) dot += dp[i] * p[i];
#pragma omp simd
    for (int64_t i = 0; i < count; i++) dp[i] = scale * p[i] * (dp[i] - dot);
}

VECTOR_CLONES static void dots_any(const float *x, int64_t x_step, const float *z, int64_t depth,
                                   int64_t rows, float *y, int64_t y_step) {
    for (int64_t r = 0; r < rows; r++, x += x_step) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < depth; i++) sum += x[i] * z[i];
        y[r * y_step] = sum;
    }
}

const struct softmax_rows softmax_rows_any = {row_any, bwd_row_any, dots_any};

const struct softmax_rows *softmax_rows(void) {
#if defined(__x86_64__)
    static const struct softmax_rows wide = {row_512, bwd_row_512, dots_512};
    if (cpu_has_avx512()) return &wide;
#endif
    return &softmax_rows_any;
}
