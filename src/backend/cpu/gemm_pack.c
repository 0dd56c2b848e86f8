/* Packing for register tiles (gemm.h). A panel is read from the first row to the last, so its rows
 * lie together, as wide as the tile. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

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
    else
        copy_whole(from, step, depth, width, to);
}

enum { SQUARE = 8 };

/* Eight of the depth and eight columns, each column contiguous. */
#if defined(__x86_64__)
__attribute__((target("avx"))) static void turn_square_avx(const float *b, int64_t column,
                                                           int width, float *panel) {
    __m256 r[SQUARE], s[SQUARE];
    for (int j = 0; j < SQUARE; j++) r[j] = _mm256_loadu_ps(b + j * column);
    for (int j = 0; j < SQUARE; j += 2) {
        s[j] = _mm256_unpacklo_ps(r[j], r[j + 1]);
        s[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);
    }
    for (int j = 0; j < SQUARE; j += 4)
        for (int i = 0; i < 2; i++) {
            r[j + 2 * i] = _mm256_shuffle_ps(s[j + i], s[j + i + 2], 0x44);
            r[j + 2 * i + 1] = _mm256_shuffle_ps(s[j + i], s[j + i + 2], 0xEE);
        }
    for (int k = 0; k < 4; k++) {
        _mm256_storeu_ps(panel + k * width, _mm256_permute2f128_ps(r[k], r[k + 4], 0x20));
        _mm256_storeu_ps(panel + (k + 4) * width, _mm256_permute2f128_ps(r[k], r[k + 4], 0x31));
    }
}

/* The same of four columns, where the panel has room for no more. */
static void turn_square_sse(const float *b, int64_t column, int width, float *panel) {
    for (int k = 0; k < SQUARE; k += 4) {
        __m128 r0 = _mm_loadu_ps(b + k), r1 = _mm_loadu_ps(b + column + k),
               r2 = _mm_loadu_ps(b + 2 * column + k), r3 = _mm_loadu_ps(b + 3 * column + k);
        _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
        _mm_storeu_ps(panel + k * width, r0);
        _mm_storeu_ps(panel + (k + 1) * width, r1);
        _mm_storeu_ps(panel + (k + 2) * width, r2);
        _mm_storeu_ps(panel + (k + 3) * width, r3);
    }
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
    for (int j = 0; j < width; j += SQUARE)
        for (int64_t k = 0; k < depth; k += SQUARE) {
            const float *from = b + j * column + k;
            float *to = panel + k * width + j;
#if defined(__x86_64__)
            if (vectors && depth - k >= SQUARE && count - j >= SQUARE) {
                turn_square_avx(from, column, width, to);
                continue;
            }
            if (depth - k >= SQUARE && width - j == SQUARE / 2 && count - j >= SQUARE / 2) {
                turn_square_sse(from, column, width, to);
                continue;
            }
#endif
            turn_part(from, column, least(SQUARE, depth - k), count - j, width - j, width, to);
        }
}

void gemm_pack(const float *b, int64_t step, int64_t column, int64_t depth, int count, int width,
               float *panel) {
    if (column == 1)
        copy_rows(b, step, depth, count, width, panel);
    else
        pack_columns(b, column, depth, count, width, panel);
}
