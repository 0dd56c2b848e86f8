/* Functions of a vector of sixteen floats, for loops in AVX-512. */
#ifndef BACKEND_CPU_AVX512_H
#define BACKEND_CPU_AVX512_H

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>

#define AVX512 __attribute__((target("avx512f")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))

/* The first `count` elements: 16 at most, none where it is negative. */
AVX512_INLINE __mmask16 avx512_left(int64_t count) {
    return count >= 16 ? (__mmask16)0xFFFF
           : count > 0 ? (__mmask16)((1u << count) - 1)
                       : (__mmask16)0;
}

/* 2^x: a whole number, which one instruction applies, and a polynomial (Taylor's, to the sixth
 * power: 1.2e-7) of what is left. Exactly zero below the smallest normal number. */
AVX512_INLINE __m512 avx512_power(__m512 x) {
    __m512 n = _mm512_roundscale_ps(x, 0), r = _mm512_sub_ps(x, n), p;
    p = _mm512_set1_ps(1.5403530e-4f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3333558e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.6181291e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.5504109e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.4022651e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.9314718e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    __mmask16 normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(normal, p, n);
}

#endif
#endif
