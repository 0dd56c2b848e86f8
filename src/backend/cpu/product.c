/* The inner product of Winograd's method (product.h).
 *
 * Rows of the result stay in registers while the depth runs; each step of it is one vector of u and
 * one broadcast element of v a row. The compiler may not join a multiplication and an addition
 * (-ffp-contract=off), so the joined ones are asked for by name, per instruction set. Every element
 * is summed in the order of the depth, whatever the number of rows, the vectors and the team: with
 * fused operations the bits are the same for both widths. A call sums from zero and adds that to m:
 * sums of a few channels, added up, err less than one long sum (with 256 channels by half). */
#include "backend/cpu/cpu.h"
#include "backend/cpu/product.h"

enum { WIDE = CPU_PRODUCT_WIDE };

#define INLINE static inline __attribute__((always_inline))

/* Element (row, depth) of a block of v. */
INLINE const float *v_at(const float *v, bool turned, int row, int depth) {
    return turned ? v + depth * WIDE + row : v + row * WIDE + depth;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Rows a register file holds, of one vector and of two. */
enum { ROWS_512 = 16, ROWS_256 = 6 };

__attribute__((target("avx512f"))) INLINE void rows_512(const struct cpu_product *p, int first,
                                                        int rows, bool turned) {
    __m512 sum[ROWS_512];
    float *m = p->m + first * WIDE;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i] = _mm512_setzero_ps();
    for (int b = 0; b < p->blocks; b++) {
        const float *v = v_at(p->v + b * p->v_step, turned, first, 0), *u = p->u + b * p->u_step;
        for (int d = 0; d < p->depth; d++) {
            __m512 row = _mm512_loadu_ps(u + d * WIDE);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++)
                sum[i] = _mm512_fmadd_ps(_mm512_set1_ps(*v_at(v, turned, i, d)), row, sum[i]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        __m512 before = p->fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(m + i * WIDE);
        _mm512_storeu_ps(m + i * WIDE, _mm512_add_ps(before, sum[i]));
    }
}

__attribute__((target("avx512f"))) static void product_512(const struct cpu_product *p) {
    int i = 0, rows = p->rows;
    if (p->turned) {
        rows_512(p, 0, WIDE, true);
        return;
    }
    for (; rows - i >= 16; i += 16) rows_512(p, i, 16, false);
    if (rows - i >= 8) rows_512(p, i, 8, false), i += 8;
    if (rows - i >= 4) rows_512(p, i, 4, false), i += 4;
    if (rows - i >= 2) rows_512(p, i, 2, false), i += 2;
    if (rows - i >= 1) rows_512(p, i, 1, false);
}

__attribute__((target("avx2,fma"))) INLINE void rows_256(const struct cpu_product *p, int first,
                                                         int rows, bool turned) {
    __m256 low[ROWS_256], high[ROWS_256];
    float *m = p->m + first * WIDE;
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) low[i] = high[i] = _mm256_setzero_ps();
    for (int b = 0; b < p->blocks; b++) {
        const float *v = v_at(p->v + b * p->v_step, turned, first, 0), *u = p->u + b * p->u_step;
        for (int d = 0; d < p->depth; d++) {
            __m256 left = _mm256_loadu_ps(u + d * WIDE), right = _mm256_loadu_ps(u + d * WIDE + 8);
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++) {
                __m256 one = _mm256_broadcast_ss(v_at(v, turned, i, d));
                low[i] = _mm256_fmadd_ps(one, left, low[i]);
                high[i] = _mm256_fmadd_ps(one, right, high[i]);
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        __m256 left = p->fresh ? _mm256_setzero_ps() : _mm256_loadu_ps(m + i * WIDE);
        __m256 right = p->fresh ? _mm256_setzero_ps() : _mm256_loadu_ps(m + i * WIDE + 8);
        _mm256_storeu_ps(m + i * WIDE, _mm256_add_ps(left, low[i]));
        _mm256_storeu_ps(m + i * WIDE + 8, _mm256_add_ps(right, high[i]));
    }
}

__attribute__((target("avx2,fma"))) static void product_256(const struct cpu_product *p) {
    int i = 0, rows = p->rows;
    if (p->turned) {
        rows_256(p, 0, 6, true);
        rows_256(p, 6, 6, true);
        rows_256(p, 12, 4, true);
        return;
    }
    for (; rows - i >= 6; i += 6) rows_256(p, i, 6, false);
    if (rows - i >= 4) rows_256(p, i, 4, false), i += 4;
    if (rows - i >= 2) rows_256(p, i, 2, false), i += 2;
    if (rows - i >= 1) rows_256(p, i, 1, false);
}
#endif

static void product_any(const struct cpu_product *p) {
    for (int i = 0; i < (p->turned ? WIDE : p->rows); i++) {
        float *m = p->m + i * WIDE, sum[WIDE] = {0};
        for (int b = 0; b < p->blocks; b++)
            for (int d = 0; d < p->depth; d++) {
                float one = *v_at(p->v + b * p->v_step, p->turned, i, d);
                const float *u = p->u + b * p->u_step + d * WIDE;
                for (int l = 0; l < WIDE; l++) sum[l] += one * u[l];
            }
        for (int l = 0; l < WIDE; l++) m[l] = (p->fresh ? 0.0f : m[l]) + sum[l];
    }
}

/* What oneDNN was told to use at most holds here too. */
cpu_product_loop *cpu_product_of(void) {
#if defined(__x86_64__)
    if (cpu_has_avx512()) return product_512;
    if (cpu_has_avx2()) return product_256;
#endif
    return product_any;
}
