/* Products of whole matrices from register tiles (gemm.h).
 *
 * b is packed first, into panels as wide as a tile, in chunks of GEMM_DEPTH; it then lies in the
 * second cache as a whole, and a is read where it lies, a group of rows at a time. An a whose rows
 * run along memory's columns (the gradient of weights sums over samples) would fall into few cache
 * sets: it is packed too, and both chunk by chunk, so that scratch stays small. */
#include "backend/cpu/gemm.h"

#include <omp.h>

enum { GROUP_TILES = 8 }; /* row tiles that share a panel while it is near */

static int64_t parts(int64_t total, int64_t part) {
    return (total + part - 1) / part;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static bool turned(const struct gemm *gemm) {
    return gemm->a_row == 1 && gemm->a_step != 1;
}

static int64_t b_floats(const struct gemm *gemm, const struct gemm_isa *isa) {
    int64_t depth = turned(gemm) ? least(gemm->depth, GEMM_DEPTH) : gemm->depth;
    return parts(gemm->columns, isa->columns) * isa->columns * depth;
}

size_t gemm_scratch_bytes(const struct gemm *gemm) {
    const struct gemm_isa *isa = gemm_isa();
    int64_t a = turned(gemm)
                    ? parts(gemm->rows, isa->rows) * isa->rows * least(gemm->depth, GEMM_DEPTH)
                    : 0;
    return (size_t)(a + b_floats(gemm, isa)) * sizeof(float);
}

/* Panel `panel` of the chunk at `depth`. */
static void pack_panel(const struct gemm *gemm, const struct gemm_isa *isa, int64_t depth,
                       int64_t chunk, int64_t panel, float *to) {
    int64_t first = panel * isa->columns, count = least(isa->columns, gemm->columns - first);
    gemm_pack(gemm->b + depth * gemm->b_step + first * gemm->b_column, gemm->b_step, gemm->b_column,
              chunk, (int)count, isa->columns, to);
}

struct place {
    int64_t row, panel, depth, chunk;
};

static void run_tile(const struct gemm *gemm, const struct gemm_isa *isa, const struct place *at,
                     const float *a, int64_t a_row, int64_t a_step, const float *panel) {
    int64_t column = at->panel * isa->columns;
    bool last = at->depth + at->chunk == gemm->depth;
    isa->tile(&(struct gemm_tile){.a = a,
                                  .b = panel,
                                  .bias = last && gemm->bias ? gemm->bias + column : NULL,
                                  .c = gemm->c + at->row * gemm->columns + column,
                                  .a_row = a_row,
                                  .a_step = a_step,
                                  .b_step = isa->columns,
                                  .c_row = gemm->columns,
                                  .depth = at->chunk,
                                  .rows = (int)least(isa->rows, gemm->rows - at->row),
                                  .columns = (int)least(isa->columns, gemm->columns - column),
                                  .fresh = at->depth == 0});
}

/* What the next group reads of a comes from memory: it is on its way while this one is multiplied,
 * a share (of `shares`) with each tile. */
static void fetch_share(const struct gemm *gemm, int64_t first, int64_t end, int64_t depth,
                        int64_t chunk, int64_t share, int64_t shares) {
    enum { LINE = 16 };
    int64_t lines = parts(chunk, LINE), all = (end - first) * lines,
            until = all * (share + 1) / shares;
    for (int64_t i = all * share / shares; i < until; i++)
        __builtin_prefetch(gemm->a + (first + i / lines) * gemm->a_row + depth + i % lines * LINE);
}

/* A group of row tiles, [first, end) of a thread's rows: every panel of a chunk meets all of them.
 */
static void run_group(const struct gemm *gemm, const struct gemm_isa *isa, int64_t first,
                      int64_t end, int64_t last, const float *packed) {
    int64_t panels = parts(gemm->columns, isa->columns),
            after = least(last, end + GROUP_TILES * isa->rows);
    for (int64_t depth = 0; depth < gemm->depth; depth += GEMM_DEPTH) {
        int64_t chunk = least(GEMM_DEPTH, gemm->depth - depth), share = 0;
        const float *panel = packed + depth * panels * isa->columns;
        for (int64_t p = 0; p < panels; p++, panel += chunk * isa->columns)
            for (int64_t row = first; row < end; row += isa->rows) {
                fetch_share(gemm, end, after, depth, chunk, share++, panels * GROUP_TILES);
                run_tile(gemm, isa, &(struct place){row, p, depth, chunk},
                         gemm->a + row * gemm->a_row + depth, gemm->a_row, 1, panel);
            }
    }
    int64_t at = first * gemm->columns, count = (end - first) * gemm->columns;
    if (gemm->after) gemm->after(gemm->c + at, gemm->c + at, gemm->activated + at, count);
}

static void run_straight(const struct gemm *gemm, const struct gemm_isa *isa, int threads,
                         float *packed) {
    int64_t panels = parts(gemm->columns, isa->columns), chunks = parts(gemm->depth, GEMM_DEPTH);
    int64_t group = GROUP_TILES * isa->rows;
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < panels * chunks; i++) {
            int64_t depth = i / panels * GEMM_DEPTH, chunk = least(GEMM_DEPTH, gemm->depth - depth);
            pack_panel(gemm, isa, depth, chunk, i % panels,
                       packed + (depth * panels + i % panels * chunk) * isa->columns);
        }
        int64_t tiles = parts(gemm->rows, isa->rows), thread = omp_get_thread_num();
        int64_t first = tiles * thread / threads * isa->rows,
                end = least(gemm->rows, tiles * (thread + 1) / threads * isa->rows);
        for (int64_t row = first; row < end; row += group)
            run_group(gemm, isa, row, least(end, row + group), end, packed);
    }
}

/* Rows [first, first + count) of a chunk of a turned a into [depth][tile rows]. */
static void pack_a(const struct gemm *gemm, const struct gemm_isa *isa, int64_t depth,
                   int64_t chunk, int64_t first, float *to) {
    gemm_pack(gemm->a + depth * gemm->a_step + first, gemm->a_step, 1, chunk,
              (int)least(isa->rows, gemm->rows - first), isa->rows, to);
}

static void run_turned(const struct gemm *gemm, const struct gemm_isa *isa, int threads,
                       float *packed) {
    int64_t panels = parts(gemm->columns, isa->columns), tiles = parts(gemm->rows, isa->rows);
    float *packed_a = packed + b_floats(gemm, isa);
#pragma omp parallel num_threads(threads)
    for (int64_t depth = 0; depth < gemm->depth; depth += GEMM_DEPTH) {
        int64_t chunk = least(GEMM_DEPTH, gemm->depth - depth);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < panels + tiles; i++) {
            if (i < panels)
                pack_panel(gemm, isa, depth, chunk, i, packed + i * chunk * isa->columns);
            else
                pack_a(gemm, isa, depth, chunk, (i - panels) * isa->rows,
                       packed_a + (i - panels) * chunk * isa->rows);
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < panels * tiles; i++)
            run_tile(gemm, isa, &(struct place){i % tiles * isa->rows, i / tiles, depth, chunk},
                     packed_a + i % tiles * chunk * isa->rows, 1, isa->rows,
                     packed + i / tiles * chunk * isa->columns);
    }
}

void gemm_run(const struct gemm *gemm, int threads, void *scratch) {
    const struct gemm_isa *isa = gemm_isa();
    if (turned(gemm))
        run_turned(gemm, isa, threads, scratch);
    else
        run_straight(gemm, isa, threads, scratch);
}
