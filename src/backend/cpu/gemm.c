/* Products of whole matrices from register tiles (gemm.h).
 *
 * b is packed first, into panels as wide as a tile, in chunks of GEMM_DEPTH; a is read where it
 * lies, a group of rows at a time that every panel meets while the group is in the second cache.
 *
 * An a whose rows lie a multiple of 4 KiB apart, or run along memory's columns (the gradient of
 * weights sums over samples), would fall into few cache sets: it is packed too, and both chunk by
 * chunk. Where one thread alone needs a panel, and once, it packs it just before, the next one
 * being on its way meanwhile: that b never goes back to memory. */
#include "backend/cpu/gemm.h"

enum { GROUP_TILES = 8 };  /* row tiles that share a panel while it is near */
enum { GROUP_ROWS = 504 }; /* of a packed a, about, for each part of the rows: 756 KiB of a chunk */

static int64_t parts(int64_t total, int64_t part) {
    return (total + part - 1) / part;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static bool packs_rows(const struct gemm *gemm) {
    return gemm->a_step != 1 || gemm->a_row % GEMM_ALIASING == 0;
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

/* --- b packed as a whole, a where it lies --- */

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

/* Threads that are not given leave their parts to the others, here and below. */
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
        int64_t tiles = parts(gemm->rows, isa->rows);
#pragma omp for schedule(static)
        for (int part = 0; part < threads; part++) {
            int64_t first = tiles * part / threads * isa->rows,
                    end = least(gemm->rows, tiles * (part + 1) / threads * isa->rows);
            for (int64_t row = first; row < end; row += group)
                run_group(gemm, isa, row, least(end, row + group), end, packed);
        }
    }
}

/* --- both packed, chunk by chunk --- */

/* Threads are a grid over the tiles of rows and the panels of columns. */
struct split {
    int64_t tiles, panels; /* of the product */
    int row_parts, column_parts;
};

/* The grid whose slowest thread has the fewest tiles; of equal ones, that in which the fewest
 * threads pack the same panel. */
static struct split split_of(const struct gemm *gemm, const struct gemm_isa *isa, int threads) {
    struct split split = {parts(gemm->rows, isa->rows), parts(gemm->columns, isa->columns), 0, 0};
    int64_t best = 0;
    for (int rows = 1; rows <= threads; rows++) {
        if (threads % rows != 0) continue;
        int64_t most = parts(split.tiles, rows) * parts(split.panels, threads / rows);
        if (best > 0 && most >= best) continue;
        best = most;
        split.row_parts = rows;
        split.column_parts = threads / rows;
    }
    return split;
}

/* Equal groups: the panels pass a short last one as slowly as a whole one. */
static int64_t group_tiles(const struct split *split, const struct gemm_isa *isa) {
    int64_t about = GROUP_ROWS / isa->rows * split->row_parts,
            groups = (split->tiles + about / 2) / about;
    return parts(split->tiles, groups > 0 ? groups : 1);
}

/* Whether panels have one user each. */
static bool packs_late(const struct split *split, const struct gemm_isa *isa) {
    return split->row_parts == 1 && group_tiles(split, isa) == split->tiles;
}

/* A product under way: where it is, and what is packed of it. */
struct state {
    const struct gemm *gemm;
    const struct gemm_isa *isa;
    struct split split;
    int64_t first, count;  /* tiles of the group */
    int64_t depth, chunk;  /* of the sums */
    bool late;             /* a panel is packed just before it is used */
    float *tiles, *panels; /* packed: the group; the chunk of b, or a panel for each thread */
};

static void pack_tile(const struct state *at, int64_t tile) {
    const struct gemm *gemm = at->gemm;
    int64_t row = (at->first + tile) * at->isa->rows;
    gemm_pack(gemm->a + at->depth * gemm->a_step + row * gemm->a_row, gemm->a_step, gemm->a_row,
              at->chunk, (int)least(at->isa->rows, gemm->rows - row), at->isa->rows,
              at->tiles + tile * at->isa->rows * at->chunk);
}

/* What this group needs packed, by all threads. */
static void pack_group(const struct state *at) {
    int64_t panels = at->late || at->first > 0 ? 0 : at->split.panels;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < at->count + panels; i++) {
        int64_t panel = i - at->count;
        if (i < at->count)
            pack_tile(at, i);
        else
            pack_panel(at->gemm, at->isa, at->depth, at->chunk, panel,
                       at->panels + panel * at->isa->columns * at->chunk);
    }
}

/* Share `share` of `shares` of what a panel is packed from. */
static void fetch_panel(const struct state *at, int64_t panel, int64_t share, int64_t shares) {
    enum { LINE = 16 };
    const struct gemm *gemm = at->gemm;
    int64_t first = panel * at->isa->columns,
            columns = least(at->isa->columns, gemm->columns - first);
    const float *from = gemm->b + at->depth * gemm->b_step + first * gemm->b_column;
    bool along = gemm->b_column == 1; /* contiguous along the columns, or along the depth */
    int64_t step = along ? gemm->b_step : gemm->b_column,
            lines = parts(along ? columns : at->chunk, LINE),
            all = lines * (along ? at->chunk : columns), until = all * (share + 1) / shares;
    for (int64_t i = all * share / shares; i < until; i++)
        __builtin_prefetch(from + i / lines * step + i % lines * LINE, 0, 2);
}

/* What comes after the product, for these tiles of the group and panels. */
static void finish_part(const struct state *at, int64_t tile, int64_t tiles_end, int64_t first,
                        int64_t end) {
    const struct gemm *gemm = at->gemm;
    int64_t column = first * at->isa->columns,
            count = least(gemm->columns, end * at->isa->columns) - column,
            last = least(gemm->rows, (at->first + tiles_end) * at->isa->rows);
    for (int64_t row = (at->first + tile) * at->isa->rows; row < last; row++) {
        int64_t place = row * gemm->columns + column;
        gemm->after(gemm->c + place, gemm->c + place, gemm->activated + place, count);
    }
}

/* The tiles of the group and the panels that are one thread's. */
static void run_part(const struct state *at, int part) {
    int64_t row = part / at->split.column_parts, column = part % at->split.column_parts;
    int64_t tile = at->count * row / at->split.row_parts,
            tiles_end = at->count * (row + 1) / at->split.row_parts;
    int64_t first = at->split.panels * column / at->split.column_parts,
            end = at->split.panels * (column + 1) / at->split.column_parts;
    for (int64_t panel = first; panel < end && tile < tiles_end; panel++) {
        float *packed = at->panels + (at->late ? part : panel) * at->isa->columns * at->chunk;
        if (at->late) pack_panel(at->gemm, at->isa, at->depth, at->chunk, panel, packed);
        for (int64_t i = tile; i < tiles_end; i++) {
            struct place place = {(at->first + i) * at->isa->rows, panel, at->depth, at->chunk};
            if (at->late && panel + 1 < end) fetch_panel(at, panel + 1, i - tile, tiles_end - tile);
            run_tile(at->gemm, at->isa, &place, at->tiles + i * at->isa->rows * at->chunk, 1,
                     at->isa->rows, packed);
        }
    }
    if (at->gemm->after && at->depth + at->chunk == at->gemm->depth && first < end)
        finish_part(at, tile, tiles_end, first, end);
}

static void run_packed(const struct gemm *gemm, const struct gemm_isa *isa, int threads,
                       float *scratch) {
    struct split split = split_of(gemm, isa, threads);
    int64_t group = group_tiles(&split, isa);
#pragma omp parallel num_threads(threads)
    for (int64_t depth = 0; depth < gemm->depth; depth += GEMM_DEPTH)
        for (int64_t first = 0; first < split.tiles; first += group) {
            struct state at = {.gemm = gemm,
                               .isa = isa,
                               .split = split,
                               .first = first,
                               .count = least(group, split.tiles - first),
                               .depth = depth,
                               .chunk = least(GEMM_DEPTH, gemm->depth - depth),
                               .late = packs_late(&split, isa),
                               .tiles = scratch};
            at.panels = scratch + group * isa->rows * at.chunk;
            pack_group(&at);
#pragma omp for schedule(static)
            for (int part = 0; part < threads; part++) run_part(&at, part);
        }
}

/* --- either --- */

size_t gemm_scratch_bytes(const struct gemm *gemm, int threads) {
    const struct gemm_isa *isa = gemm_isa();
    struct split split = split_of(gemm, isa, threads);
    int64_t floats = split.panels * isa->columns * gemm->depth;
    if (packs_rows(gemm))
        floats = (group_tiles(&split, isa) * isa->rows +
                  (packs_late(&split, isa) ? threads : split.panels) * isa->columns) *
                 least(gemm->depth, GEMM_DEPTH);
    return (size_t)floats * sizeof(float);
}

void gemm_run(const struct gemm *gemm, int threads, void *scratch) {
    const struct gemm_isa *isa = gemm_isa();
    if (packs_rows(gemm))
        run_packed(gemm, isa, threads, scratch);
    else
        run_straight(gemm, isa, threads, scratch);
}
