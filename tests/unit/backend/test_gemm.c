/* Products of our own: right in every form of the operands and at every edge, the same bits on any
 * number of threads and beside any number of other rows, within the scratch that was asked for. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/gemm.h"
#include "base/mem.h"
#include "base/rng.h"

static float *values(int64_t count, uint64_t key) {
    float *value = MEM_ARRAY(float, count);
    for (int64_t i = 0; i < count; i++) value[i] = rng_uniform(key, (uint64_t)i) - 0.5f;
    return value;
}

/* What lies behind the scratch must stay as it is. */
static void run(const struct gemm *gemm, int threads) {
    size_t bytes = gemm_scratch_bytes(gemm, threads);
    char guard[64], *scratch = mem_new(bytes + sizeof guard);
    memset(guard, 0x5a, sizeof guard);
    memcpy(scratch + bytes, guard, sizeof guard);
    gemm_run(gemm, threads, scratch);
    cr_assert_eq(memcmp(scratch + bytes, guard, sizeof guard), 0, "%lld x %lld x %lld",
                 (long long)gemm->rows, (long long)gemm->columns, (long long)gemm->depth);
    free(scratch);
}

static void check_values(const struct gemm *gemm) {
    for (int64_t i = 0; i < gemm->rows; i += 1 + gemm->rows / 7)
        for (int64_t j = 0; j < gemm->columns; j++) {
            double sum = gemm->bias ? gemm->bias[j] : 0;
            for (int64_t k = 0; k < gemm->depth; k++)
                sum += (double)gemm->a[i * gemm->a_row + k * gemm->a_step] *
                       gemm->b[k * gemm->b_step + j * gemm->b_column];
            cr_assert_float_eq(
                gemm->c[i * gemm->columns + j], sum, 1e-6 * sqrt((double)gemm->depth),
                "(%lld,%lld) of %lld x %lld x %lld", (long long)i, (long long)j,
                (long long)gemm->rows, (long long)gemm->columns, (long long)gemm->depth);
        }
}

static void doubled(const float *c, const float *same, float *activated, int64_t count) {
    for (int64_t i = 0; i < count; i++) activated[i] = c[i] + same[i];
}

/* What comes after it sees each element of the product once, with all of its sums. */
static void check_after(struct gemm *gemm, int threads) {
    int64_t count = gemm->rows * gemm->columns;
    float *activated = MEM_ARRAY(float, count);
    gemm->after = doubled;
    gemm->activated = activated;
    run(gemm, threads);
    gemm->after = NULL;
    for (int64_t i = 0; i < count; i++)
        cr_assert_eq(activated[i], 2 * gemm->c[i], "%lld of %lld", (long long)i, (long long)count);
    free(activated);
}

static void check(int64_t rows, int64_t columns, int64_t depth, bool a_turned, bool b_turned) {
    float *a = values(rows * depth, 1), *b = values(depth * columns, 2), *bias = values(columns, 3);
    float *c = MEM_ARRAY(float, rows *columns), *other = MEM_ARRAY(float, rows *columns);
    struct gemm gemm = {.rows = rows,
                        .columns = columns,
                        .depth = depth,
                        .a = a,
                        .b = b,
                        .bias = bias,
                        .a_row = a_turned ? 1 : depth,
                        .a_step = a_turned ? rows : 1,
                        .b_step = b_turned ? 1 : columns,
                        .b_column = b_turned ? depth : 1,
                        .c = c};
    run(&gemm, 1);
    check_values(&gemm);
    gemm.c = other;
    for (int threads = 2; threads <= 6; threads++) {
        memset(other, 0, (size_t)(rows * columns) * sizeof *other);
        run(&gemm, threads);
        cr_assert_eq(memcmp(c, other, (size_t)(rows * columns) * sizeof *c), 0, "%d threads",
                     threads);
        check_after(&gemm, threads);
    }
    if (rows > 1 && !a_turned) {
        gemm.rows = rows / 2;
        memset(other, 0, (size_t)(rows * columns) * sizeof *other);
        run(&gemm, 1);
        cr_assert_eq(memcmp(c, other, (size_t)(rows / 2 * columns) * sizeof *c), 0, "fewer rows");
    }
    free(a), free(b), free(bias), free(c), free(other);
}

static void check_forms(int64_t rows, int64_t columns, int64_t depth) {
    for (int form = 0; form < 4; form++) check(rows, columns, depth, form & 1, form >> 1);
}

static void check_edges(void) {
    for (int64_t rows = 1; rows <= 25; rows += 4)
        for (int64_t columns = 1; columns <= 70; columns += 23) check_forms(rows, columns, 37);
}

static void check_chunks_and_groups(void) {
    check_forms(100, 65, 801);
    check_forms(1100, 40, 390);
}

/* Rows that fall into few cache sets are packed: in one group, and in several. */
static void check_aliasing_rows(void) {
    check_forms(61, 100, 1024);
    check_forms(1100, 33, 1024);
    check_forms(760, 70, 2048);
}

Test(backend_gemm, edges_of_tiles) {
    check_edges();
}

Test(backend_gemm, several_chunks_and_groups) {
    check_chunks_and_groups();
}

Test(backend_gemm, rows_a_multiple_of_4_kib_apart) {
    check_aliasing_rows();
}

/* Tiles follow oneDNN's limit, which it reads when it is first asked: a test is a process. */
Test(backend_gemm, all_of_it_in_avx2) {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    check_edges();
    check_chunks_and_groups();
    check_aliasing_rows();
}

/* Of the words of a language there are tens of thousands: what is packed of them stays small. */
Test(backend_gemm, packs_a_part_of_many_columns) {
    struct gemm gemm = {.rows = 1024,
                        .columns = 50257,
                        .depth = 768,
                        .a_row = 768,
                        .a_step = 1,
                        .b_step = 1,
                        .b_column = 768};
    for (int threads = 1; threads <= 16; threads *= 2) {
        size_t bytes = gemm_scratch_bytes(&gemm, threads);
        cr_expect_leq(bytes, (size_t)threads * 3072 * 768 * sizeof(float) + 4096 * threads,
                      "%d: %zu", threads, bytes);
    }
}

/* Also where there are fewer panels of columns than threads. */
Test(backend_gemm, has_work_for_every_thread) {
    static const int64_t columns[] = {32, 64, 192, 768, 3072, 50257};
    for (int threads = 2; threads <= 256; threads *= 2)
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
            struct gemm gemm = {.rows = 4160,
                                .columns = columns[i],
                                .depth = 192,
                                .a_row = 192,
                                .a_step = 1,
                                .b_step = 1,
                                .b_column = 192};
            cr_expect_geq(gemm_pieces(&gemm, threads), threads, "%lld columns, %d threads",
                          (long long)columns[i], threads);
        }
}
