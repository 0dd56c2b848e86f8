/* GELU and its slope in AVX-512 and AVX2, at the speed of memory.
 *
 * With e = 2^(-x^2 / (2 ln 2)), which is the density but for a factor, the normal distribution
 * function of -|x| is e g(|x|), and g, a half of the scaled complementary error function, is
 * smooth: a polynomial of the tenth power, fitted on [0, 5.5] so that the largest error of the
 * product is least (1.5e-7 in all). Beyond 5.5 g is held and e vanishes. There is no division and
 * one exponential, in both directions. */
#include <string.h>

#include "backend/cpu/avx2.h"
#include "backend/cpu/avx512.h"
#include "backend/cpu/eltwise.h"

#if defined(__x86_64__)

#define G_BOUND 5.5f
static const float g_power[] = {0.499999922f,    -0.398935616f,    0.249905562f,   -0.132460506f,
                                0.0610294289f,   -0.0241482969f,   0.00780940353f, -0.00191295532f,
                                0.000322456913f, -3.25857687e-05f, 1.46622177e-06f};
enum { G_DEGREE = 10 };

/* Phi(x), and e. */
AVX512_INLINE __m512 phi_512(__m512 x, __m512 *e) {
    __m512 a = _mm512_abs_ps(x), near = _mm512_min_ps(a, _mm512_set1_ps(G_BOUND));
    __m512 g = _mm512_set1_ps(g_power[G_DEGREE]);
#pragma GCC unroll 10
    for (int i = G_DEGREE - 1; i >= 0; i--)
        g = _mm512_fmadd_ps(g, near, _mm512_set1_ps(g_power[i]));
    *e = avx512_power(_mm512_mul_ps(_mm512_mul_ps(a, a), _mm512_set1_ps(-0.72134752f)));
    __m512 tail = _mm512_mul_ps(*e, g);
    __mmask16 positive = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NLT_UQ);
    return _mm512_mask_sub_ps(tail, positive, _mm512_set1_ps(1.0f), tail);
}

AVX512 void gelu_span_512(const float *x, const float *unused, float *y, int64_t count) {
    (void)unused;
    for (int64_t i = 0; i < count; i += 16) {
        __mmask16 left = avx512_left(count - i);
        __m512 at = _mm512_maskz_loadu_ps(left, x + i), e;
        _mm512_mask_storeu_ps(y + i, left, _mm512_mul_ps(at, phi_512(at, &e)));
    }
}

AVX512 void gelu_bwd_span_512(const float *dy, const float *x, float *dx, int64_t count) {
    for (int64_t i = 0; i < count; i += 16) {
        __mmask16 left = avx512_left(count - i);
        __m512 at = _mm512_maskz_loadu_ps(left, x + i), e, phi = phi_512(at, &e);
        __m512 density = _mm512_mul_ps(e, _mm512_set1_ps(0.39894228f));
        __m512 slope = _mm512_fmadd_ps(at, density, phi);
        _mm512_mask_storeu_ps(dx + i, left,
                              _mm512_mul_ps(_mm512_maskz_loadu_ps(left, dy + i), slope));
    }
}

/* The same in vectors of eight. */
AVX2_INLINE __m256 phi_256(__m256 x, __m256 *e) {
    __m256 a = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x),
           near = _mm256_min_ps(a, _mm256_set1_ps(G_BOUND)), one = _mm256_set1_ps(1.0f);
    __m256 g = _mm256_set1_ps(g_power[G_DEGREE]);
#pragma GCC unroll 10
    for (int i = G_DEGREE - 1; i >= 0; i--)
        g = _mm256_fmadd_ps(g, near, _mm256_set1_ps(g_power[i]));
    *e = avx2_power(_mm256_mul_ps(_mm256_mul_ps(a, a), _mm256_set1_ps(-0.72134752f)));
    __m256 tail = _mm256_mul_ps(*e, g);
    return _mm256_blendv_ps(_mm256_sub_ps(one, tail), tail, x); /* by the sign */
}

AVX2_INLINE __m256 gelu_256(__m256 x) {
    __m256 e;
    return _mm256_mul_ps(x, phi_256(x, &e));
}

AVX2_INLINE __m256 gelu_bwd_256(__m256 dy, __m256 x) {
    __m256 e, phi = phi_256(x, &e), density = _mm256_mul_ps(e, _mm256_set1_ps(0.39894228f));
    return _mm256_mul_ps(dy, _mm256_fmadd_ps(x, density, phi));
}

AVX2 void gelu_span_256(const float *x, const float *unused, float *y, int64_t count) {
    float rest[8] = {0};
    int64_t i = 0;
    (void)unused;
    for (; i + 8 <= count; i += 8) _mm256_storeu_ps(y + i, gelu_256(_mm256_loadu_ps(x + i)));
    size_t bytes = (size_t)(count - i) * sizeof *y;
    memcpy(rest, x + i, bytes);
    _mm256_storeu_ps(rest, gelu_256(_mm256_loadu_ps(rest)));
    memcpy(y + i, rest, bytes);
}

AVX2 void gelu_bwd_span_256(const float *dy, const float *x, float *dx, int64_t count) {
    float rest[2][8] = {{0}};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(dx + i, gelu_bwd_256(_mm256_loadu_ps(dy + i), _mm256_loadu_ps(x + i)));
    size_t bytes = (size_t)(count - i) * sizeof *dx;
    memcpy(rest[0], dy + i, bytes);
    memcpy(rest[1], x + i, bytes);
    _mm256_storeu_ps(rest[0], gelu_bwd_256(_mm256_loadu_ps(rest[0]), _mm256_loadu_ps(rest[1])));
    memcpy(dx + i, rest[0], bytes);
}

#endif
