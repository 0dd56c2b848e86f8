/* Matrix products of our own: a register tile, of which loops put products together.
 *
 * An element of a product is one chain of fused multiply-adds in the order of the depth, whatever
 * the tile: bits do not depend on the row's place in it, or on the threads. */
#ifndef BACKEND_CPU_GEMM_H
#define BACKEND_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GEMM_DEPTH = 768, GEMM_MAX_ROWS = 12, GEMM_MAX_COLUMNS = 32 };
/* Rows a multiple of so many floats apart (4 KiB) fall into the same few cache sets. */
enum { GEMM_ALIASING = 1024 };

/* Memory that will be wanted soon: so many lines, the first at `first`, `step` floats apart, or in
 * rows: after the `left` first and then after every `row` of them comes `jump` instead. A tile
 * asks for them one by one along its depth: the caches take few requests at a time, and a burst of
 * them would hold up the sums. */
struct gemm_fetch {
    const float *first;
    int64_t step, lines, left, row, jump;
};

/* c(i,j) = (fresh ? 0 : c(i,j)) + sum over k of a(i,k) b(k,j), then + bias[j] where there is one.
 * a(i,k) lies at a[i * a_row + k * a_step], one of the two steps being 1; rows of b and c are
 * contiguous. */
struct gemm_tile {
    const float *a, *b, *bias;
    float *c;
    int64_t a_row, a_step, b_step, c_row, depth;
    int rows, columns;
    bool fresh, near; /* near: c is in the nearest cache */
    struct gemm_fetch fetch;
};

/* The tile of an instruction set, the one oneDNN uses: at most so many rows and columns. With each
 * `fetch_steps` of its depth it asks for a line of `fetch`: the fewer sums, the more steps. */
struct gemm_isa {
    int rows, columns, fetch_steps;
    void (*tile)(const struct gemm_tile *tile);
};
const struct gemm_isa *gemm_isa(void);

/* A product c[rows,columns] = a b (+ bias): a and b by the steps of an element in both directions,
 * one of which is 1; c is row major. The depth is cut into equal chunks of at most GEMM_DEPTH,
 * whose sums are added in order: bits follow from the depth alone.
 *
 * A function may be applied to c while it is in the second cache: after(c, c, activated, count) for
 * pieces of it; `activated` has c's shape and may be c. */
struct gemm {
    int64_t rows, columns, depth;
    const float *a, *b, *bias;
    int64_t a_row, a_step, b_step, b_column;
    float *c, *activated;
    void (*after)(const float *c, const float *same, float *activated, int64_t count);
};

/* Local. Scratch that gemm_run needs for a product of these sizes. */
size_t gemm_scratch_bytes(const struct gemm *gemm, int threads);
/* Local. Into how many pieces gemm_run cuts it. */
int64_t gemm_pieces(const struct gemm *gemm, int threads);
/* Local, on a team of `threads`. */
void gemm_run(const struct gemm *gemm, int threads, void *scratch);

/* Local. b[depth,count], by the steps of an element in both directions, one of which is 1, into a
 * panel [depth][width]; the rest of the width is zero. */
void gemm_pack(const float *b, int64_t step, int64_t column, int64_t depth, int count, int width,
               float *panel);

#endif
