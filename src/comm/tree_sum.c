/* The fixed tree over n terms is recursive: its left half holds the largest power of two below n,
 * the right half the rest. Up to four terms are added in registers; more go through blocks small
 * enough to stay in the first cache, so each term is read from memory once whatever n is. */
#include "comm/tree_sum.h"

#include <string.h>

#include "base/clones.h"

enum { BLOCK = 1024 };

VECTOR_CLONES static void add_2(const float *a, const float *b, int64_t count, float *out) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) out[i] = a[i] + b[i];
}

VECTOR_CLONES static void add_3(const float *a, const float *b, const float *c, int64_t count,
                                float *out) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) out[i] = (a[i] + b[i]) + c[i];
}

VECTOR_CLONES static void add_4(const float *a, const float *b, const float *c, const float *d,
                                int64_t count, float *out) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) out[i] = (a[i] + b[i]) + (c[i] + d[i]);
}

VECTOR_CLONES static void add_2_all(float *restrict a, float *restrict b, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) a[i] = b[i] = a[i] + b[i];
}

VECTOR_CLONES static void add_3_all(float *restrict a, float *restrict b, float *restrict c,
                                    int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) a[i] = b[i] = c[i] = (a[i] + b[i]) + c[i];
}

VECTOR_CLONES static void add_4_all(float *restrict a, float *restrict b, float *restrict c,
                                    float *restrict d, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) a[i] = b[i] = c[i] = d[i] = (a[i] + b[i]) + (c[i] + d[i]);
}

static int left_half(int terms) {
    int half = 1;
    while (2 * half < terms) half *= 2;
    return half;
}

/* At most BLOCK elements. */
static void sum_block(float *const term[], int terms, int64_t at, int64_t count, float *out) {
    if (terms > 4) {
        float left[BLOCK], right[BLOCK];
        int half = left_half(terms);
        sum_block(term, half, at, count, left);
        sum_block(term + half, terms - half, at, count, right);
        add_2(left, right, count, out);
        return;
    }
    switch (terms) {
    case 4: add_4(term[0] + at, term[1] + at, term[2] + at, term[3] + at, count, out); break;
    case 3: add_3(term[0] + at, term[1] + at, term[2] + at, count, out); break;
    case 2: add_2(term[0] + at, term[1] + at, count, out); break;
    case 1: memmove(out, term[0] + at, (size_t)count * sizeof *out); break;
    }
}

void comm_tree_sum(float *const term[], int terms, int64_t at, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i += BLOCK)
        sum_block(term, terms, at + i, count - i < BLOCK ? count - i : BLOCK, out + i);
}

static void sum_many_all(float *const term[], int terms, int64_t at, int64_t count) {
    float sum[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        int64_t piece = count - i < BLOCK ? count - i : BLOCK;
        sum_block(term, terms, at + i, piece, sum);
        for (int t = 0; t < terms; t++) memcpy(term[t] + at + i, sum, (size_t)piece * sizeof *sum);
    }
}

void comm_tree_sum_all(float *const term[], int terms, int64_t at, int64_t count) {
    switch (terms) {
    case 1: break;
    case 2: add_2_all(term[0] + at, term[1] + at, count); break;
    case 3: add_3_all(term[0] + at, term[1] + at, term[2] + at, count); break;
    case 4: add_4_all(term[0] + at, term[1] + at, term[2] + at, term[3] + at, count); break;
    default: sum_many_all(term, terms, at, count);
    }
}
