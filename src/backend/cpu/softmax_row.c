/* See softmax_row.h. Rows are short (65 tokens), so what counts is the end of a row and the step
 * from vectors to one number: with AVX-512 the end is a masked vector. The exponential there is
 * 2^x, split into a whole number, which one instruction applies, and a polynomial (Taylor's, to the
 * sixth power: 1.2e-7) of what is left. */
#include "backend/cpu/softmax_row.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "backend/cpu/avx512.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/scalar.h"
#include "base/clones.h"

#define LOG2_E 1.44269504f

#if defined(__x86_64__)

/* Rows that are worked on together: their sums and maxima cross the lanes at once. */
enum { GROUP = 4 };

#define EACH_ROW(r) _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)

/* One number of each of four vectors: element r of every quarter is that of x[r]. */
#define ACROSS(name, op)                                                                           \
    AVX512_INLINE __m512 name(const __m512 x[GROUP]) {                                             \
        __m512 first = op(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1]));         \
        __m512 last = op(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));          \
        __m512 all =                                                                               \
            op(_mm512_shuffle_ps(first, last, 0x44), _mm512_shuffle_ps(first, last, 0xEE));        \
        all = op(all, _mm512_shuffle_f32x4(all, all, 0x4E));                                       \
        return op(all, _mm512_shuffle_f32x4(all, all, 0xB1));                                      \
    }
ACROSS(most_512, _mm512_max_ps)
ACROSS(sum_512, _mm512_add_ps)

/* Element r of every quarter, in all places. */
AVX512_INLINE void spread_512(__m512 x, __m512 y[GROUP]) {
    y[0] = _mm512_permute_ps(x, 0x00);
    y[1] = _mm512_permute_ps(x, 0x55);
    y[2] = _mm512_permute_ps(x, 0xAA);
    y[3] = _mm512_permute_ps(x, 0xFF);
}

AVX512_INLINE void fill_512(__m512 x[GROUP], float value) {
    _Pragma("GCC unroll 4") for (int r = 0; r < GROUP; r++) x[r] = _mm512_set1_ps(value);
}

/* Which of the keys from `at` on the rows from `first` on may see; `same`: all rows the same. */
AVX512_INLINE void allowed_512(const struct softmax_block *b, int64_t first, int64_t at,
                               const int rows, const bool same, __mmask16 allowed[GROUP]) {
    __mmask16 given = 0xFFFF;
    if (b->mask) {
        __m512i mask = _mm512_maskz_loadu_epi32(avx512_left(b->tokens - at), b->mask + at);
        given = _mm512_test_epi32_mask(mask, mask);
    }
    EACH_ROW(r)
    allowed[r] =
        same && r > 0 ? allowed[0] : given & avx512_left(b->seen + (first + r) * b->more - at);
}

/* `rows` rows from `first` on. */
AVX512_INLINE void group_512(const struct softmax_block *b, int64_t first, const int rows,
                             const bool same) {
    float *s = b->s + first * b->s_step, *p = b->p + first * b->p_step;
    const int64_t step = b->s_step, end = b->seen + (first + rows - 1) * b->more;
    __mmask16 allowed[GROUP];
    __m512 most[GROUP], sum[GROUP], factor = _mm512_set1_ps(b->scale * LOG2_E);
    fill_512(most, -INFINITY), fill_512(sum, 0);
    unsigned any[GROUP] = {0};
    for (int64_t i = 0; i < end; i += 16) {
        allowed_512(b, first, i, rows, same, allowed);
        EACH_ROW(r) {
            any[r] |= allowed[r];
            most[r] =
                _mm512_mask_max_ps(most[r], allowed[r], most[r], _mm512_loadu_ps(s + r * step + i));
        }
    }
    spread_512(most_512(most), most);
    EACH_ROW(r) if (!any[r]) most[r] = _mm512_setzero_ps();
    for (int64_t i = 0; i < end; i += 16) {
        allowed_512(b, first, i, rows, same, allowed);
        EACH_ROW(r) {
            __m512 x = _mm512_sub_ps(_mm512_loadu_ps(s + r * step + i), most[r]);
            x = _mm512_maskz_mov_ps(allowed[r], avx512_power(_mm512_mul_ps(factor, x)));
            sum[r] = _mm512_add_ps(sum[r], x);
            _mm512_storeu_ps(s + r * step + i, x);
        }
    }
    spread_512(_mm512_div_ps(_mm512_set1_ps(1.0f), sum_512(sum)), sum);
    EACH_ROW(r) if (!any[r]) sum[r] = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i < end; i += 16) {
        __mmask16 left = avx512_left(b->tokens - i);
        EACH_ROW(r)
        _mm512_mask_storeu_ps(p + r * b->p_step + i, left,
                              _mm512_mul_ps(_mm512_loadu_ps(s + r * step + i), sum[r]));
    }
    for (; i < b->tokens; i += 16) EACH_ROW(r)
    _mm512_mask_storeu_ps(p + r * b->p_step + i, avx512_left(b->tokens - i), _mm512_setzero_ps());
}

AVX512_INLINE void bwd_group_512(const struct softmax_block *b, int64_t first, const int rows) {
    float *s = b->s + first * b->s_step;
    const float *p = b->p + first * b->p_step;
    const int64_t step = b->s_step, p_step = b->p_step;
    __m512 sum[GROUP], factor = _mm512_set1_ps(b->scale);
    fill_512(sum, 0);
    for (int64_t i = 0; i < b->seen; i += 16) {
        __mmask16 left = avx512_left(b->seen - i);
        EACH_ROW(r)
        sum[r] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(left, p + r * p_step + i),
                                 _mm512_maskz_loadu_ps(left, s + r * step + i), sum[r]);
    }
    spread_512(sum_512(sum), sum);
    for (int64_t i = 0; i < b->seen; i += 16) {
        __mmask16 left = avx512_left(b->seen - i);
        EACH_ROW(r) {
            __m512 share = _mm512_mul_ps(factor, _mm512_maskz_loadu_ps(left, p + r * p_step + i));
            __m512 off = _mm512_sub_ps(_mm512_maskz_loadu_ps(left, s + r * step + i), sum[r]);
            _mm512_mask_storeu_ps(s + r * step + i, left, _mm512_mul_ps(share, off));
        }
    }
}

AVX512_INLINE void dots_group_512(const float *x, int64_t x_step, const float *z, int64_t depth,
                                  const int rows, float *y, int64_t y_step) {
    __m512 sum[GROUP];
    float sums[GROUP];
    fill_512(sum, 0);
    for (int64_t i = 0; i < depth; i += 16) {
        __mmask16 left = avx512_left(depth - i);
        __m512 by = _mm512_maskz_loadu_ps(left, z + i);
        EACH_ROW(r)
        sum[r] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(left, x + r * x_step + i), by, sum[r]);
    }
    _mm_storeu_ps(sums, _mm512_castps512_ps128(sum_512(sum)));
    EACH_ROW(r) y[r * y_step] = sums[r];
}

/* Whole groups, then what is left of one, each by a body with the number of its rows as a constant.
 */
#define BY_GROUPS(count, body)                                                                     \
    do {                                                                                           \
        int64_t at = 0;                                                                            \
        for (; (count)-at >= GROUP; at += GROUP) body(at, GROUP);                                  \
        switch ((count)-at) {                                                                      \
        case 3: body(at, 3); break;                                                                \
        case 2: body(at, 2); break;                                                                \
        case 1: body(at, 1);                                                                       \
        }                                                                                          \
    } while (0)

AVX512 static void forward_512(const struct softmax_block *b) {
#define SAME(at, rows) group_512(b, at, rows, true)
#define MORE(at, rows) group_512(b, at, rows, false)
    if (b->more == 0)
        BY_GROUPS(b->rows, SAME);
    else
        BY_GROUPS(b->rows, MORE);
}

AVX512 static void backward_512(const struct softmax_block *b) {
#define BACKWARD(at, rows) bwd_group_512(b, at, rows)
    BY_GROUPS(b->rows, BACKWARD);
}

AVX512 static void dots_512(const float *x, int64_t x_step, const float *z, int64_t depth,
                            int64_t rows, float *y, int64_t y_step) {
#define DOTS(at, rows)                                                                             \
    dots_group_512(x + (at)*x_step, x_step, z, depth, rows, y + (at)*y_step, y_step)
    BY_GROUPS(rows, DOTS);
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

static void forward_any(const struct softmax_block *b) {
    for (int64_t i = 0; i < b->rows; i++) {
        int64_t seen = b->seen + i * b->more;
        float *p = b->p + i * b->p_step;
        row_any(b->s + i * b->s_step, seen, b->scale, b->mask, p);
        memset(p + seen, 0, (size_t)(b->tokens - seen) * sizeof *p);
    }
}

static void backward_any(const struct softmax_block *b) {
    for (int64_t i = 0; i < b->rows; i++)
        bwd_row_any(b->p + i * b->p_step, b->seen, b->scale, b->s + i * b->s_step);
}

const struct softmax_rows softmax_rows_any = {forward_any, backward_any, dots_any};

const struct softmax_rows *softmax_rows(void) {
#if defined(__x86_64__)
    static const struct softmax_rows wide = {forward_512, backward_512, dots_512};
    if (cpu_has_avx512()) return &wide;
#endif
    return &softmax_rows_any;
}
