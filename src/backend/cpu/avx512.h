/* Vectors of sixteen floats, for loops in AVX-512. The same functions on eight: avx2.h. */
#ifndef BACKEND_CPU_AVX512_H
#define BACKEND_CPU_AVX512_H

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define AVX512 __attribute__((target("avx512f")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))

typedef __m512 avx512_vector;
typedef __mmask16 avx512_mask;
enum { AVX512_WIDE = 16 };

AVX512_INLINE __m512 avx512_all(float x) {
    return _mm512_set1_ps(x);
}

AVX512_INLINE __m512 avx512_load(const float *x) {
    return _mm512_loadu_ps(x);
}

AVX512_INLINE void avx512_store(float *y, __m512 x) {
    _mm512_storeu_ps(y, x);
}

AVX512_INLINE __m512 avx512_add(__m512 x, __m512 y) {
    return _mm512_add_ps(x, y);
}

AVX512_INLINE __m512 avx512_sub(__m512 x, __m512 y) {
    return _mm512_sub_ps(x, y);
}

AVX512_INLINE __m512 avx512_mul(__m512 x, __m512 y) {
    return _mm512_mul_ps(x, y);
}

AVX512_INLINE __m512 avx512_div(__m512 x, __m512 y) {
    return _mm512_div_ps(x, y);
}

/* x y + z, rounded once. */
AVX512_INLINE __m512 avx512_fma(__m512 x, __m512 y, __m512 z) {
    return _mm512_fmadd_ps(x, y, z);
}

/* The first `count` elements: 16 at most, none where it is negative. */
AVX512_INLINE __mmask16 avx512_left(int64_t count) {
    return count >= 16 ? (__mmask16)0xFFFF
           : count > 0 ? (__mmask16)((1u << count) - 1)
                       : (__mmask16)0;
}

/* Those of the first `count` elements that are not zero. */
AVX512_INLINE __mmask16 avx512_given(const int32_t *x, int64_t count) {
    __m512i given = _mm512_maskz_loadu_epi32(avx512_left(count), x);
    return _mm512_test_epi32_mask(given, given);
}

AVX512_INLINE __mmask16 avx512_both(__mmask16 x, __mmask16 y) {
    return x & y;
}

AVX512_INLINE bool avx512_any(__mmask16 mask) {
    return mask != 0;
}

/* Zero where the mask is not. */
AVX512_INLINE __m512 avx512_kept(__mmask16 mask, __m512 x) {
    return _mm512_maskz_mov_ps(mask, x);
}

/* The larger of both where the mask is, else x. */
AVX512_INLINE __m512 avx512_most(__mmask16 mask, __m512 x, __m512 y) {
    return _mm512_mask_max_ps(x, mask, x, y);
}

/* Of the first `count` elements: the others are zero, or are left as they are. */
AVX512_INLINE __m512 avx512_load_left(const float *x, int64_t count) {
    return _mm512_maskz_loadu_ps(avx512_left(count), x);
}

AVX512_INLINE void avx512_store_left(float *y, int64_t count, __m512 x) {
    _mm512_mask_storeu_ps(y, avx512_left(count), x);
}

/* One number of each of four vectors: element r of every quarter is that of x[r]. */
#define AVX512_ACROSS(name, op)                                                                    \
    AVX512_INLINE __m512 name(const __m512 x[4]) {                                                 \
        __m512 first = op(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1]));         \
        __m512 last = op(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));          \
        __m512 all =                                                                               \
            op(_mm512_shuffle_ps(first, last, 0x44), _mm512_shuffle_ps(first, last, 0xEE));        \
        all = op(all, _mm512_shuffle_f32x4(all, all, 0x4E));                                       \
        return op(all, _mm512_shuffle_f32x4(all, all, 0xB1));                                      \
    }
AVX512_ACROSS(avx512_most_across, _mm512_max_ps)
AVX512_ACROSS(avx512_sum_across, _mm512_add_ps)

/* Element r of every quarter, in all places of y[r]. */
AVX512_INLINE void avx512_spread(__m512 x, __m512 y[4]) {
    y[0] = _mm512_permute_ps(x, 0x00);
    y[1] = _mm512_permute_ps(x, 0x55);
    y[2] = _mm512_permute_ps(x, 0xAA);
    y[3] = _mm512_permute_ps(x, 0xFF);
}

AVX512_INLINE __m128 avx512_quarter(__m512 x) {
    return _mm512_castps512_ps128(x);
}

/* 2^x: a whole number, which one instruction applies, and a polynomial of what is left, fitted so
 * that the largest error is least with 2^0 = 1 (1.6e-7 of the value, rounding included). Exactly
 * zero below the smallest normal number. */
AVX512_INLINE __m512 avx512_power(__m512 x) {
    __m512 n = _mm512_roundscale_ps(x, 0), r = _mm512_sub_ps(x, n), p;
    p = _mm512_set1_ps(1.32647273e-3f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.67151299e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.55073358e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.40222424e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.93147004e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    __mmask16 normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(normal, p, n);
}

#endif
#endif
