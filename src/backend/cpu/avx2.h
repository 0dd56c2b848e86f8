/* Functions of a vector of eight floats, for loops in AVX2 with fused operations. */
#ifndef BACKEND_CPU_AVX2_H
#define BACKEND_CPU_AVX2_H

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX2_INLINE AVX2 static inline __attribute__((always_inline))

/* 2^x up to the largest power, as avx512_power makes it: the whole number goes into the exponent's
 * bits. Exactly zero below the smallest normal number; a NaN stays one. */
AVX2_INLINE __m256 avx2_power(__m256 x) {
    __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
           r = _mm256_sub_ps(x, n), p;
    p = _mm256_set1_ps(1.5403530e-4f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3333558e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(9.6181291e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.5504109e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(2.4022651e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(6.9314718e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    __m256 whole = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)),
           normal = _mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ);
    return _mm256_and_ps(normal, _mm256_mul_ps(p, whole));
}

#endif
#endif
