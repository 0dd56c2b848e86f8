/* Packing for register tiles (gemm.h). A panel is read from the first row to the last, so its rows
 * lie together, as wide as the tile. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Pieces of `width` floats out of rows that lie `step` apart; a constant width needs no call. */
static inline __attribute__((always_inline)) void copy_whole(const float *from, int64_t step,
                                                             int64_t depth, int width, float *to) {
    for (int64_t k = 0; k < depth; k++, from += step, to += width)
        memcpy(to, from, (size_t)width * sizeof *to);
}

static void copy_rows(const float *from, int64_t step, int64_t depth, int count, int width,
                      float *to) {
    if (count < width)
        for (int64_t k = 0; k < depth; k++, to += width) {
            memcpy(to, from + k * step, (size_t)count * sizeof *to);
            memset(to + count, 0, (size_t)(width - count) * sizeof *to);
        }
    else if (width == 32)
        copy_whole(from, step, depth, 32, to);
    else if (width == 16)
        copy_whole(from, step, depth, 16, to);
    else if (width == 12)
        copy_whole(from, step, depth, 12, to);
    else if (width == 6)
        copy_whole(from, step, depth, 6, to);
    else
        copy_whole(from, step, depth, width, to);
}

enum { SQUARE = 8 };

#if defined(__x86_64__)
#define AVX __attribute__((target("avx")))

/* Element k of columns j and j + 4 from four of them on: halves of two columns meet on the way in,
 * which leaves two shuffles for each vector. */
AVX static inline __attribute__((always_inline)) __m256 halves(const float *b, int64_t column) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(b)),
                                _mm_loadu_ps(b + 4 * column), 1);
}

/* Four of the depth and eight columns, each column contiguous. */
AVX static inline __attribute__((always_inline)) void turn_four(const float *b, int64_t column,
                                                                int width, float *panel) {
    __m256 r0 = halves(b, column), r1 = halves(b + column, column),
           r2 = halves(b + 2 * column, column), r3 = halves(b + 3 * column, column);
    __m256 s0 = _mm256_unpacklo_ps(r0, r1), s1 = _mm256_unpackhi_ps(r0, r1),
           s2 = _mm256_unpacklo_ps(r2, r3), s3 = _mm256_unpackhi_ps(r2, r3);
    _mm256_storeu_ps(panel, _mm256_shuffle_ps(s0, s2, 0x44));
    _mm256_storeu_ps(panel + width, _mm256_shuffle_ps(s0, s2, 0xEE));
    _mm256_storeu_ps(panel + 2 * width, _mm256_shuffle_ps(s1, s3, 0x44));
    _mm256_storeu_ps(panel + 3 * width, _mm256_shuffle_ps(s1, s3, 0xEE));
}

/* Eight columns, a multiple of eight of the depth. */
AVX static void turn_eight(const float *b, int64_t column, int64_t depth, int width, float *panel) {
    for (int64_t k = 0; k < depth; k += SQUARE) {
        turn_four(b + k, column, width, panel + k * width);
        turn_four(b + k + 4, column, width, panel + (k + 4) * width);
    }
}

/* Four columns, beside which the panel may have no room for more. */
static void turn_four_alone(const float *b, int64_t column, int64_t depth, int width,
                            float *panel) {
    for (int64_t k = 0; k < depth; k += 4) {
        __m128 r0 = _mm_loadu_ps(b + k), r1 = _mm_loadu_ps(b + column + k),
               r2 = _mm_loadu_ps(b + 2 * column + k), r3 = _mm_loadu_ps(b + 3 * column + k);
        _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
        _mm_storeu_ps(panel + k * width, r0);
        _mm_storeu_ps(panel + (k + 1) * width, r1);
        _mm_storeu_ps(panel + (k + 2) * width, r2);
        _mm_storeu_ps(panel + (k + 3) * width, r3);
    }
}

#define AVX512 __attribute__((target("avx512f")))
/* Sanitizers would take minutes to compile the copies. */
#ifdef STRETTO_SANITIZE
#define UNROLLED
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

/* At most sixteen of the depth and sixteen columns, of which `count` are there and `wide` have a
 * place in the panel. Each line is read once: columns a multiple of 4 KiB apart leave the nearest
 * cache before they could be read again. */
AVX512 static void turn_sixteen(const float *b, int64_t column, int deep, int count, int wide,
                                int width, float *panel) {
    __mmask16 in = (__mmask16)((1u << deep) - 1), out = (__mmask16)((1u << wide) - 1);
    __m512 r[16], s[16];
    UNROLLED
    for (int i = 0; i < 16; i++)
        r[i] = i < count ? _mm512_maskz_loadu_ps(in, b + i * column) : _mm512_setzero_ps();
    UNROLLED
    for (int i = 0; i < 16; i += 2) { /* pairs of columns, element by element */
        s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLLED
    for (int i = 0; i < 16; i += 4) { /* quarter q of r[i + e]: element 4q + e of four columns */
        r[i] = _mm512_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(s[i], s[i + 2], 0xEE);
        r[i + 2] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
    }
    UNROLLED
    for (int e = 0; e < 4; e++) {
        __m512 low = _mm512_shuffle_f32x4(r[e], r[4 + e], 0x44),
               high = _mm512_shuffle_f32x4(r[e], r[4 + e], 0xEE),
               more_low = _mm512_shuffle_f32x4(r[8 + e], r[12 + e], 0x44),
               more_high = _mm512_shuffle_f32x4(r[8 + e], r[12 + e], 0xEE);
        s[e] = _mm512_shuffle_f32x4(low, more_low, 0x88);
        s[4 + e] = _mm512_shuffle_f32x4(low, more_low, 0xDD);
        s[8 + e] = _mm512_shuffle_f32x4(high, more_high, 0x88);
        s[12 + e] = _mm512_shuffle_f32x4(high, more_high, 0xDD);
    }
    UNROLLED
    for (int k = 0; k < 16; k++)
        if (k < deep) _mm512_mask_storeu_ps(panel + k * width, out, s[k]);
}

static void pack_sixteens(const float *b, int64_t column, int64_t depth, int count, int width,
                          float *panel) {
    for (int64_t k = 0; k < depth; k += 16)
        for (int j = 0; j < width; j += 16)
            turn_sixteen(b + j * column + k, column, depth - k < 16 ? (int)(depth - k) : 16,
                         count - j, width - j < 16 ? width - j : 16, width, panel + k * width + j);
}
#endif

/* At most eight columns, `wide` of them with a place in the panel. */
static void turn_part(const float *b, int64_t column, int64_t depth, int count, int wide, int width,
                      float *panel) {
    for (int64_t k = 0; k < depth; k++)
        for (int j = 0; j < SQUARE && j < wide; j++)
            panel[k * width + j] = j < count ? b[j * column + k] : 0.0f;
}

static void pack_columns(const float *b, int64_t column, int64_t depth, int count, int width,
                         float *panel) {
    bool vectors = cpu_has_avx2();
    for (int j = 0; j < width; j += SQUARE) {
        int64_t whole = 0;
#if defined(__x86_64__)
        if (vectors && count - j >= SQUARE) {
            whole = depth / SQUARE * SQUARE;
            turn_eight(b + j * column, column, whole, width, panel + j);
        }
        if (count == width && width - j >= SQUARE / 2 && width - j < SQUARE) {
            int last = width - SQUARE / 2; /* of four to seven, some are turned twice */
            whole = depth / SQUARE * SQUARE;
            turn_four_alone(b + j * column, column, whole, width, panel + j);
            if (last > j) turn_four_alone(b + last * column, column, whole, width, panel + last);
        }
#endif
        turn_part(b + j * column + whole, column, depth - whole, count - j, width - j, width,
                  panel + whole * width + j);
    }
}

void gemm_pack(const float *b, int64_t step, int64_t column, int64_t depth, int count, int width,
               float *panel) {
    if (column == 1) copy_rows(b, step, depth, count, width, panel);
#if defined(__x86_64__)
    else if (cpu_has_avx512())
        pack_sixteens(b, column, depth, count, width, panel);
#endif
    else
        pack_columns(b, column, depth, count, width, panel);
}
