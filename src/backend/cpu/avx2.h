/* Vectors of eight floats, for loops in AVX2: the functions of avx512.h by the same names. A mask
 * is a vector of bits. Stores under a mask are slow on some processors, so a last vector is stored
 * in pieces. */
#ifndef BACKEND_CPU_AVX2_H
#define BACKEND_CPU_AVX2_H

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX2_INLINE AVX2 static inline __attribute__((always_inline))

typedef __m256 avx2_vector;
typedef __m256 avx2_mask;
enum { AVX2_WIDE = 8 };

AVX2_INLINE __m256 avx2_all(float x) {
    return _mm256_set1_ps(x);
}

AVX2_INLINE __m256 avx2_load(const float *x) {
    return _mm256_loadu_ps(x);
}

AVX2_INLINE void avx2_store(float *y, __m256 x) {
    _mm256_storeu_ps(y, x);
}

AVX2_INLINE __m256 avx2_add(__m256 x, __m256 y) {
    return _mm256_add_ps(x, y);
}

AVX2_INLINE __m256 avx2_sub(__m256 x, __m256 y) {
    return _mm256_sub_ps(x, y);
}

AVX2_INLINE __m256 avx2_mul(__m256 x, __m256 y) {
    return _mm256_mul_ps(x, y);
}

AVX2_INLINE __m256 avx2_div(__m256 x, __m256 y) {
    return _mm256_div_ps(x, y);
}

AVX2_INLINE __m256 avx2_fma(__m256 x, __m256 y, __m256 z) {
    return _mm256_fmadd_ps(x, y, z);
}

AVX2_INLINE __m256 avx2_left(int64_t count) {
    int bounded = count > 8 ? 8 : count < 0 ? 0 : (int)count;
    return _mm256_castsi256_ps(
        _mm256_cmpgt_epi32(_mm256_set1_epi32(bounded), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

AVX2_INLINE __m256 avx2_given(const int32_t *x, int64_t count) {
    __m256i given = _mm256_maskload_epi32(x, _mm256_castps_si256(avx2_left(count)));
    given = _mm256_cmpeq_epi32(given, _mm256_setzero_si256());
    return _mm256_castsi256_ps(_mm256_xor_si256(given, _mm256_set1_epi32(-1)));
}

AVX2_INLINE __m256 avx2_both(__m256 x, __m256 y) {
    return _mm256_and_ps(x, y);
}

AVX2_INLINE bool avx2_any(__m256 mask) {
    return _mm256_movemask_ps(mask) != 0;
}

AVX2_INLINE __m256 avx2_kept(__m256 mask, __m256 x) {
    return _mm256_and_ps(mask, x);
}

AVX2_INLINE __m256 avx2_most(__m256 mask, __m256 x, __m256 y) {
    return _mm256_max_ps(x, _mm256_blendv_ps(x, y, mask));
}

AVX2_INLINE __m256 avx2_load_left(const float *x, int64_t count) {
    if (count >= 8) return _mm256_loadu_ps(x);
    return _mm256_maskload_ps(x, _mm256_castps_si256(avx2_left(count)));
}

AVX2_INLINE void avx2_store_left(float *y, int64_t count, __m256 x) {
    if (count >= 8) {
        _mm256_storeu_ps(y, x);
        return;
    }
    __m128 part = _mm256_castps256_ps128(x);
    if (count & 4) _mm_storeu_ps(y, part), part = _mm256_extractf128_ps(x, 1), y += 4;
    if (count & 2) _mm_storel_pi((__m64 *)y, part), part = _mm_movehl_ps(part, part), y += 2;
    if (count & 1) _mm_store_ss(y, part);
}

#define AVX2_ACROSS(name, op)                                                                      \
    AVX2_INLINE __m256 name(const __m256 x[4]) {                                                   \
        __m256 first = op(_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1]));         \
        __m256 last = op(_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3]));          \
        __m256 all =                                                                               \
            op(_mm256_shuffle_ps(first, last, 0x44), _mm256_shuffle_ps(first, last, 0xEE));        \
        return op(all, _mm256_permute2f128_ps(all, all, 1));                                       \
    }
AVX2_ACROSS(avx2_most_across, _mm256_max_ps)
AVX2_ACROSS(avx2_sum_across, _mm256_add_ps)

AVX2_INLINE void avx2_spread(__m256 x, __m256 y[4]) {
    y[0] = _mm256_permute_ps(x, 0x00);
    y[1] = _mm256_permute_ps(x, 0x55);
    y[2] = _mm256_permute_ps(x, 0xAA);
    y[3] = _mm256_permute_ps(x, 0xFF);
}

AVX2_INLINE __m128 avx2_quarter(__m256 x) {
    return _mm256_castps256_ps128(x);
}

/* 2^x for x up to 127: the whole number is added to the exponent. */
AVX2_INLINE __m256 avx2_power(__m256 x) {
    __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
           r = _mm256_sub_ps(x, n), p;
    p = _mm256_set1_ps(1.32647273e-3f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(9.67151299e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.55073358e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(2.40222424e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(6.93147004e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i bits =
        _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23));
    __m256 normal = _mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ);
    return _mm256_and_ps(normal, _mm256_castsi256_ps(bits));
}

#endif
#endif
