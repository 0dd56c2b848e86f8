/* Products of whole matrices from register tiles (gemm.h).
 *
 * b is packed first, into panels as wide as a tile, in chunks of GEMM_DEPTH; it then lies in the
 * second cache as a whole, and a is read where it lies, a group of rows at a time. */
#include "backend/cpu/gemm.h"

#include <omp.h>

enum { GROUP_TILES = 8 }; /* row tiles that share a panel while it is near */

static int64_t parts(int64_t total, int64_t part) {
    return (total + part - 1) / part;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

size_t gemm_scratch_bytes(const struct gemm *gemm) {
    const struct gemm_isa *isa = gemm_isa();
    return (size_t)(parts(gemm->columns, isa->columns) * isa->columns * gemm->depth) *
           sizeof(float);
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
                     const float *panel) {
    int64_t column = at->panel * isa->columns;
    bool last = at->depth + at->chunk == gemm->depth;
    isa->tile(&(struct gemm_tile){.a = gemm->a + at->row * gemm->a_row + at->depth,
                                  .b = panel,
                                  .bias = last && gemm->bias ? gemm->bias + column : NULL,
                                  .c = gemm->c + at->row * gemm->columns + column,
                                  .a_row = gemm->a_row,
                                  .a_step = 1,
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
                run_tile(gemm, isa, &(struct place){row, p, depth, chunk}, panel);
            }
    }
}

void gemm_run(const struct gemm *gemm, int threads, void *scratch) {
    const struct gemm_isa *isa = gemm_isa();
    float *packed = scratch;
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
