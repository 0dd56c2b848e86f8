/* See softmax_row.h. Rows are short (65 tokens), so what counts is the end of a row, which is a
 * masked vector, and the step from vectors to one number, which four rows take together. The
 * exponential is 2^x (avx512.h). */
#include "backend/cpu/softmax_row.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "backend/cpu/avx2.h"
#include "backend/cpu/avx512.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/scalar.h"
#include "base/clones.h"

#define LOG2_E 1.44269504f

#if defined(__x86_64__)

/* Rows that are worked on together: their sums and maxima cross the lanes at once. */
enum { GROUP = 4 };

#define EACH_ROW(r, rows) _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)

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

#define V(name) avx512_##name
#define WIDE AVX512_WIDE
#define TARGET AVX512
#include "backend/cpu/softmax_group.h"
#undef V
#undef WIDE
#undef TARGET

#define V(name) avx2_##name
#define WIDE AVX2_WIDE
#define TARGET AVX2
#include "backend/cpu/softmax_group.h"
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
    static const struct softmax_rows avx512 = {avx512_forward, avx512_backward, avx512_dots},
                                     avx2 = {avx2_forward, avx2_backward, avx2_dots};
    if (cpu_has_avx512()) return &avx512;
    if (cpu_has_avx2()) return &avx2;
#endif
    return &softmax_rows_any;
}
