/* Register tiles (gemm.h): the sums of a few rows and two vectors of columns stay in registers
 * while the depth runs; a step of it is two vectors of b and one broadcast element of a for each
 * row. With 12 rows a wide core has 24 independent sums for its two pipes of four cycles, and
 * fourteen loads for 24 operations. 12 and 32 divide the widths that networks have. */
#include "backend/cpu/gemm.h"

#include "backend/cpu/cpu.h"

/* Of the depth, unrolled. */
enum { STEPS = 2, AVX2_STEPS = 4 };
enum {
    AHEAD = 16
}; /* rows of b that are fetched ahead: a panel is larger than the nearest cache */

#define INLINE static inline __attribute__((always_inline))

/* Sanitizers would take minutes to compile all the copies that unrolling makes: they get loops. */
#ifdef STRETTO_SANITIZE
#define UNROLL(times)
#else
#define PRAGMA(text) _Pragma(#text)
#define UNROLL(times) PRAGMA(GCC unroll times)
#endif

/* The places of a row-major a's rows, four from each base: base, step and three steps are all the
 * registers that addresses take. */
struct bases {
    const float *base[GEMM_MAX_ROWS / 4];
};

INLINE struct bases bases_of(const struct gemm_tile *t) {
    struct bases bases;
    UNROLL(3)
    for (int i = 0; i < GEMM_MAX_ROWS / 4; i++) bases.base[i] = t->a + 4 * i * t->a_row;
    return bases;
}

INLINE const float *a_at(const struct bases *bases, bool turned, int64_t row_step, int row) {
    return turned ? bases->base[0] + row : bases->base[row / 4] + row % 4 * row_step;
}

INLINE void next(struct bases *bases, int64_t step) {
    UNROLL(3)
    for (int i = 0; i < GEMM_MAX_ROWS / 4; i++) bases->base[i] += step;
}

/* The lines of c are on their way while the sums are made. */
INLINE void fetch_c(const struct gemm_tile *t, int rows) {
    UNROLL(12)
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(t->c + i * t->c_row, 1);
        __builtin_prefetch(t->c + i * t->c_row + t->columns - 1, 1);
    }
}

/* Without lines to fetch, one that is near: a prefetch costs less than a branch around it. */
INLINE struct gemm_fetch fetch_of(const struct gemm_tile *t) {
    struct gemm_fetch fetch = t->fetch;
    if (fetch.lines <= 0) fetch.first = t->b;
    return fetch;
}

INLINE void fetch_line(struct gemm_fetch *fetch) {
    __builtin_prefetch(fetch->first);
    bool turn = --fetch->left == 0;
    int64_t step = turn ? fetch->jump : fetch->step;
    fetch->left = turn ? fetch->row : fetch->left;
    fetch->first += --fetch->lines > 0 ? step : 0;
}

/* The lines of c are on their way while the sums are made, a row with each step. */
struct rows_of_c {
    const float *row;
    int64_t step;
    int left, last;
};

INLINE struct rows_of_c rows_of_c(const struct gemm_tile *t, int rows) {
    if (t->near) return (struct rows_of_c){t->b, 0, 0, 0};
    return (struct rows_of_c){t->c, t->c_row, rows, t->columns - 1};
}

INLINE void fetch_row(struct rows_of_c *c) {
    __builtin_prefetch(c->row, 1);
    __builtin_prefetch(c->row + c->last, 1);
    c->row += --c->left > 0 ? c->step : 0;
}

/* A call of `body` with the rows of the tile as a constant. */
#ifdef STRETTO_SANITIZE
#define BY_ROWS(body, t, ...) body(t, (t)->rows, __VA_ARGS__);
#else
#define BY_ROWS(body, t, ...)                                                                      \
    switch ((t)->rows) {                                                                           \
    case 1: body(t, 1, __VA_ARGS__); break;                                                        \
    case 2: body(t, 2, __VA_ARGS__); break;                                                        \
    case 3: body(t, 3, __VA_ARGS__); break;                                                        \
    case 4: body(t, 4, __VA_ARGS__); break;                                                        \
    case 5: body(t, 5, __VA_ARGS__); break;                                                        \
    case 6: body(t, 6, __VA_ARGS__); break;                                                        \
    case 7: body(t, 7, __VA_ARGS__); break;                                                        \
    case 8: body(t, 8, __VA_ARGS__); break;                                                        \
    case 9: body(t, 9, __VA_ARGS__); break;                                                        \
    case 10: body(t, 10, __VA_ARGS__); break;                                                      \
    case 11: body(t, 11, __VA_ARGS__); break;                                                      \
    default: body(t, 12, __VA_ARGS__);                                                             \
    }
#endif

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f")))

AVX512 INLINE __mmask16 mask_512(int columns) {
    return columns >= 16 ? (__mmask16)0xFFFF
           : columns > 0 ? (__mmask16)((1u << columns) - 1)
                         : (__mmask16)0;
}

/* One step of the depth. */
AVX512 INLINE void step_512(__m512 sum[][2], const struct bases *bases, int64_t a_row,
                            const float *row, int64_t b_step, const __mmask16 mask[2],
                            const int rows, const bool turned, const int vectors,
                            const bool whole) {
    __m512 b[2];
    UNROLL(2)
    for (int v = 0; v < vectors; v++) __builtin_prefetch(row + AHEAD * b_step + 16 * v);
    UNROLL(2)
    for (int v = 0; v < vectors; v++)
        b[v] = whole ? _mm512_loadu_ps(row + 16 * v) : _mm512_maskz_loadu_ps(mask[v], row + 16 * v);
    UNROLL(12)
    for (int i = 0; i < rows; i++) {
        __m512 a = _mm512_set1_ps(*a_at(bases, turned, a_row, i));
        UNROLL(2)
        for (int v = 0; v < vectors; v++) sum[i][v] = _mm512_fmadd_ps(a, b[v], sum[i][v]);
    }
}

AVX512 INLINE void rows_512(const struct gemm_tile *t, const int rows, const bool turned,
                            const int vectors, const bool whole) {
    __m512 sum[GEMM_MAX_ROWS][2];
    __mmask16 mask[2] = {0xFFFF, 0xFFFF};
    if (!whole) mask[0] = mask_512(t->columns), mask[1] = mask_512(t->columns - 16);
    struct bases bases = bases_of(t);
    const float *row = t->b;
    const int64_t a_row = t->a_row, step = turned ? t->a_step : 1, b_step = t->b_step;
    struct gemm_fetch fetch = fetch_of(t);
    struct rows_of_c c_rows = rows_of_c(t, rows);
    UNROLL(12)
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    int64_t k = t->depth;
    for (; k >= STEPS; k -= STEPS) UNROLL(2)
    for (int u = 0; u < STEPS; u++) {
        fetch_line(&fetch);
        fetch_row(&c_rows);
        step_512(sum, &bases, a_row, row, b_step, mask, rows, turned, vectors, whole);
        next(&bases, step);
        row += b_step;
    }
    UNROLL(1)
    for (; k > 0; k--) {
        fetch_line(&fetch);
        step_512(sum, &bases, a_row, row, b_step, mask, rows, turned, vectors, whole);
        next(&bases, step);
        row += b_step;
    }
    float *c = t->c;
    const float *bias = t->bias;
    const int64_t c_row = t->c_row;
    if (!t->fresh) UNROLL(12)
    for (int i = 0; i < rows; i++) UNROLL(2)
    for (int v = 0; v < vectors; v++)
        sum[i][v] =
            _mm512_add_ps(_mm512_maskz_loadu_ps(mask[v], c + i * c_row + 16 * v), sum[i][v]);
    if (bias) UNROLL(2)
    for (int v = 0; v < vectors; v++) {
        __m512 more = _mm512_maskz_loadu_ps(mask[v], bias + 16 * v);
        UNROLL(12)
        for (int i = 0; i < rows; i++) sum[i][v] = _mm512_add_ps(sum[i][v], more);
    }
    UNROLL(12)
    for (int i = 0; i < rows; i++, c += c_row) UNROLL(2)
    for (int v = 0; v < vectors; v++)
        if (whole)
            _mm512_storeu_ps(c + 16 * v, sum[i][v]);
        else
            _mm512_mask_storeu_ps(c + 16 * v, mask[v], sum[i][v]);
}

AVX512 static void tile_512(const struct gemm_tile *t) {
    bool turned = t->a_row == 1 && t->a_step != 1;
    if (t->columns == 32) {
        if (turned)
            BY_ROWS(rows_512, t, true, 2, true)
        else
            BY_ROWS(rows_512, t, false, 2, true)
    } else if (t->columns > 16) {
        if (turned)
            BY_ROWS(rows_512, t, true, 2, false)
        else
            BY_ROWS(rows_512, t, false, 2, false)
    } else if (turned)
        BY_ROWS(rows_512, t, true, 1, false)
    else
        BY_ROWS(rows_512, t, false, 1, false)
}

#define AVX2 __attribute__((target("avx2,fma")))

AVX2 INLINE __m256i mask_256(int columns) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(columns),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

AVX2 INLINE void step_256(__m256 sum[][2], const struct bases *bases, int64_t a_row,
                          const float *row, const __m256i mask[2], const int rows,
                          const bool turned, const bool whole) {
    __m256 b[2];
    UNROLL(2)
    for (int v = 0; v < 2; v++)
        b[v] = whole ? _mm256_loadu_ps(row + 8 * v) : _mm256_maskload_ps(row + 8 * v, mask[v]);
    UNROLL(6)
    for (int i = 0; i < rows; i++) {
        __m256 a = _mm256_broadcast_ss(a_at(bases, turned, a_row, i));
        UNROLL(2)
        for (int v = 0; v < 2; v++) sum[i][v] = _mm256_fmadd_ps(a, b[v], sum[i][v]);
    }
}

AVX2 INLINE void rows_256(const struct gemm_tile *t, const int rows, const bool turned,
                          const bool whole) {
    __m256 sum[6][2];
    __m256i mask[2];
    UNROLL(2)
    for (int v = 0; v < 2; v++) mask[v] = mask_256(t->columns - 8 * v);
    UNROLL(6)
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    struct bases bases = bases_of(t);
    const float *row = t->b;
    const int64_t a_row = t->a_row, step = turned ? t->a_step : 1, b_step = t->b_step;
    struct gemm_fetch fetch = fetch_of(t);
    if (!t->near) fetch_c(t, rows);
    int64_t k = t->depth;
    for (; k >= AVX2_STEPS; k -= AVX2_STEPS) {
        fetch_line(&fetch);
        UNROLL(1)
        for (int u = 0; u < AVX2_STEPS; u++) {
            step_256(sum, &bases, a_row, row, mask, rows, turned, whole);
            next(&bases, step);
            row += b_step;
        }
    }
    UNROLL(1)
    for (; k > 0; k--) {
        step_256(sum, &bases, a_row, row, mask, rows, turned, whole);
        next(&bases, step);
        row += b_step;
    }
    float *c = t->c;
    const float *bias = t->bias;
    const int64_t c_row = t->c_row;
    if (!t->fresh) UNROLL(6)
    for (int i = 0; i < rows; i++) UNROLL(2)
    for (int v = 0; v < 2; v++)
        sum[i][v] = _mm256_add_ps(_mm256_maskload_ps(c + i * c_row + 8 * v, mask[v]), sum[i][v]);
    if (bias) UNROLL(2)
    for (int v = 0; v < 2; v++) {
        __m256 more = _mm256_maskload_ps(bias + 8 * v, mask[v]);
        UNROLL(6)
        for (int i = 0; i < rows; i++) sum[i][v] = _mm256_add_ps(sum[i][v], more);
    }
    UNROLL(6)
    for (int i = 0; i < rows; i++, c += c_row) UNROLL(2)
    for (int v = 0; v < 2; v++)
        if (whole)
            _mm256_storeu_ps(c + 8 * v, sum[i][v]);
        else
            _mm256_maskstore_ps(c + 8 * v, mask[v], sum[i][v]);
}

#define BY_SIX_ROWS(t, ...)                                                                        \
    switch ((t)->rows) {                                                                           \
    case 1: rows_256(t, 1, __VA_ARGS__); break;                                                    \
    case 2: rows_256(t, 2, __VA_ARGS__); break;                                                    \
    case 3: rows_256(t, 3, __VA_ARGS__); break;                                                    \
    case 4: rows_256(t, 4, __VA_ARGS__); break;                                                    \
    case 5: rows_256(t, 5, __VA_ARGS__); break;                                                    \
    default: rows_256(t, 6, __VA_ARGS__);                                                          \
    }

AVX2 static void tile_256(const struct gemm_tile *t) {
    bool turned = t->a_row == 1 && t->a_step != 1;
    if (t->columns == 16) {
        if (turned)
            BY_SIX_ROWS(t, true, true)
        else
            BY_SIX_ROWS(t, false, true)
    } else if (turned)
        BY_SIX_ROWS(t, true, false)
    else
        BY_SIX_ROWS(t, false, false)
}
#endif

static void tile_any(const struct gemm_tile *t) {
    for (int i = 0; i < t->rows; i++) {
        float sum[GEMM_MAX_COLUMNS] = {0}, *c = t->c + i * t->c_row;
        for (int64_t k = 0; k < t->depth; k++) {
            float a = t->a[i * t->a_row + k * t->a_step];
            const float *b = t->b + k * t->b_step;
            for (int j = 0; j < t->columns; j++) sum[j] += a * b[j];
        }
        for (int j = 0; j < t->columns; j++) {
            if (!t->fresh) sum[j] += c[j];
            c[j] = t->bias ? sum[j] + t->bias[j] : sum[j];
        }
    }
}

const struct gemm_isa *gemm_isa(void) {
#if defined(__x86_64__)
    static const struct gemm_isa avx512 = {12, 32, 1, tile_512},
                                 avx2 = {6, 16, AVX2_STEPS, tile_256};
    if (cpu_has_avx512()) return &avx512;
    if (cpu_has_avx2()) return &avx2;
#endif
    static const struct gemm_isa any = {4, 16, 1, tile_any};
    return &any;
}
