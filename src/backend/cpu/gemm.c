/* Products of whole matrices from register tiles (gemm.h).
 *
 * Threads are a grid over the tiles of rows and the panels of columns, and each works alone. It
 * goes through the depth in chunks. A chunk of b is packed into panels as wide as a tile; a is read
 * where it lies, a group of rows at a time that every panel meets while the group is in the second
 * cache. An a whose rows lie a multiple of 4 KiB apart, or run along memory's columns (the gradient
 * of weights sums over samples), would fall into few cache sets: its tiles are packed too.
 *
 * Whatever is packed is packed just before its first use, from memory that was asked for meanwhile:
 * with the few rows of a micro-batch, a pass over the weights that waits for them would cost 5 to
 * 7% of the product. */
#include "backend/cpu/gemm.h"

enum { GROUP_TILES = 8 }; /* row tiles that share a panel while it is near */

enum { LINE = 16 }; /* floats of a cache line */

static int64_t parts(int64_t total, int64_t part) {
    return (total + part - 1) / part;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static bool packs_rows(const struct gemm *gemm) {
    return gemm->a_step != 1 || gemm->a_row % GEMM_ALIASING == 0;
}

/* Equal chunks, but for the last: a short one writes c as often as a long one. */
static int64_t chunk_of(const struct gemm *gemm) {
    int64_t chunk = parts(gemm->depth, parts(gemm->depth, GEMM_DEPTH));
    return parts(chunk, LINE) * LINE;
}

/* --- threads --- */

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

/* Floats that a thread packs into: a group of tiles and a chunk of its panels. */
static int64_t tiles_floats(const struct gemm *gemm, const struct gemm_isa *isa) {
    return packs_rows(gemm) ? GROUP_TILES * isa->rows * chunk_of(gemm) : 0;
}

static int64_t part_floats(const struct gemm *gemm, const struct gemm_isa *isa,
                           const struct split *split) {
    return tiles_floats(gemm, isa) +
           parts(split->panels, split->column_parts) * isa->columns * chunk_of(gemm);
}

/* A thread's work: where it is, and what is packed of it. */
struct part {
    const struct gemm *gemm;
    const struct gemm_isa *isa;
    int64_t first, last;   /* rows */
    int64_t panel, end;    /* panels */
    int64_t depth, chunk;  /* of the sums */
    float *tiles, *panels; /* packed: the group, if it is, and the chunk of b */
};

/* --- what is wanted next --- */

/* Rows of lines, `step` floats apart. */
struct block {
    const float *first;
    int64_t step, rows, lines;
};

/* A part of an operand: contiguous along the depth, or across it. */
static struct block block_of(const float *from, int64_t deep, int64_t across, int64_t depth,
                             int64_t count) {
    if (deep == 1) return (struct block){from, across, count, parts(depth, LINE)};
    return (struct block){from, deep, depth, parts(count, LINE)};
}

static struct block panel_block(const struct part *at, int64_t panel) {
    const struct gemm *gemm = at->gemm;
    int64_t column = panel * at->isa->columns;
    return block_of(gemm->b + at->depth * gemm->b_step + column * gemm->b_column, gemm->b_step,
                    gemm->b_column, at->chunk, least(at->isa->columns, gemm->columns - column));
}

/* The rows of the group that follows one that ends before `row`: in the next chunk, maybe. */
static struct block group_block(const struct part *at, int64_t row) {
    const struct gemm *gemm = at->gemm;
    int64_t depth = at->depth;
    if (row == at->last) row = at->first, depth += at->chunk;
    return block_of(gemm->a + row * gemm->a_row + depth * gemm->a_step, gemm->a_step, gemm->a_row,
                    least(at->chunk, gemm->depth - depth),
                    least(at->last - row, GROUP_TILES * at->isa->rows));
}

static struct gemm_fetch share_of(const struct block *block, int64_t share, int64_t shares) {
    int64_t all = block->rows * block->lines, from = all * share / shares,
            line = block->lines > 0 ? from % block->lines : 0;
    if (all <= 0) return (struct gemm_fetch){0};
    return (struct gemm_fetch){.first =
                                   block->first + from / block->lines * block->step + line * LINE,
                               .step = LINE,
                               .lines = all * (share + 1) / shares - from,
                               .left = block->lines - line,
                               .row = block->lines,
                               .jump = block->step - (block->lines - 1) * LINE};
}

static void fetch_now(struct gemm_fetch fetch) {
    while (fetch.lines-- > 0) {
        __builtin_prefetch(fetch.first, 0, 2);
        bool turn = --fetch.left == 0;
        fetch.first += turn ? fetch.jump : fetch.step;
        if (turn) fetch.left = fetch.row;
    }
}

/* --- the work --- */

static void pack_panel(const struct part *at, int64_t panel, float *to) {
    const struct gemm *gemm = at->gemm;
    int64_t column = panel * at->isa->columns;
    gemm_pack(gemm->b + at->depth * gemm->b_step + column * gemm->b_column, gemm->b_step,
              gemm->b_column, at->chunk, (int)least(at->isa->columns, gemm->columns - column),
              at->isa->columns, to);
}

static void pack_tile(const struct part *at, int64_t row, float *to) {
    const struct gemm *gemm = at->gemm;
    gemm_pack(gemm->a + at->depth * gemm->a_step + row * gemm->a_row, gemm->a_step, gemm->a_row,
              at->chunk, (int)least(at->isa->rows, gemm->rows - row), at->isa->rows, to);
}

static void run_tile(const struct part *at, int64_t row, int64_t panel, const float *tile,
                     const float *packed, const struct gemm_fetch *fetch) {
    const struct gemm *gemm = at->gemm;
    int64_t column = panel * at->isa->columns;
    bool last = at->depth + at->chunk == gemm->depth;
    at->isa->tile(
        &(struct gemm_tile){.a = tile ? tile : gemm->a + row * gemm->a_row + at->depth,
                            .b = packed,
                            .bias = last && gemm->bias ? gemm->bias + column : NULL,
                            .c = gemm->c + row * gemm->columns + column,
                            .a_row = tile ? 1 : gemm->a_row,
                            .a_step = tile ? at->isa->rows : 1,
                            .b_step = at->isa->columns,
                            .c_row = gemm->columns,
                            .depth = at->chunk,
                            .rows = (int)least(at->isa->rows, gemm->rows - row),
                            .columns = (int)least(at->isa->columns, gemm->columns - column),
                            .fresh = at->depth == 0,
                            .fetch = *fetch});
}

/* What comes after the product, for these rows and the thread's panels. */
static void finish_rows(const struct part *at, int64_t row, int64_t end) {
    const struct gemm *gemm = at->gemm;
    int64_t column = at->panel * at->isa->columns,
            count = least(gemm->columns, at->end * at->isa->columns) - column;
    for (; row < end; row++) {
        int64_t place = row * gemm->columns + column;
        gemm->after(gemm->c + place, gemm->c + place, gemm->activated + place, count);
    }
}

static void run_group(const struct part *at, int64_t first, int64_t end) {
    const struct gemm_isa *isa = at->isa;
    struct block rows = group_block(at, end), panel = {0};
    int64_t tiles = parts(end - first, isa->rows), share = 0,
            shares = tiles * (at->end - at->panel);
    for (int64_t p = at->panel; p < at->end; p++) {
        float *packed = at->panels + (p - at->panel) * isa->columns * at->chunk;
        if (first == at->first) {
            pack_panel(at, p, packed);
            panel = p + 1 < at->end ? panel_block(at, p + 1) : (struct block){0};
        }
        for (int64_t i = 0; i < tiles; i++) {
            int64_t row = first + i * isa->rows;
            float *tile = at->tiles ? at->tiles + i * isa->rows * at->chunk : NULL;
            if (tile && p == at->panel) pack_tile(at, row, tile);
            struct gemm_fetch fetch = share_of(&panel, i, tiles);
            fetch_now(share_of(&rows, share++, shares));
            run_tile(at, row, p, tile, packed, &fetch);
        }
    }
    if (at->gemm->after && at->depth + at->chunk == at->gemm->depth) finish_rows(at, first, end);
}

static void run_part(struct part *at) {
    int64_t chunk = at->chunk, group = GROUP_TILES * at->isa->rows;
    for (at->depth = 0; at->depth < at->gemm->depth; at->depth += chunk) {
        at->chunk = least(chunk, at->gemm->depth - at->depth);
        for (int64_t row = at->first; row < at->last; row += group)
            run_group(at, row, least(at->last, row + group));
    }
}

size_t gemm_scratch_bytes(const struct gemm *gemm, int threads) {
    const struct gemm_isa *isa = gemm_isa();
    struct split split = split_of(gemm, isa, threads);
    return (size_t)(threads * part_floats(gemm, isa, &split)) * sizeof(float);
}

/* Threads that are not given leave their parts to the others. */
void gemm_run(const struct gemm *gemm, int threads, void *scratch) {
    const struct gemm_isa *isa = gemm_isa();
    struct split split = split_of(gemm, isa, threads);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < threads; i++) {
        int64_t row = i / split.column_parts, column = i % split.column_parts;
        float *own = (float *)scratch + i * part_floats(gemm, isa, &split);
        run_part(&(struct part){
            .gemm = gemm,
            .isa = isa,
            .first = split.tiles * row / split.row_parts * isa->rows,
            .last = least(gemm->rows, split.tiles * (row + 1) / split.row_parts * isa->rows),
            .panel = split.panels * column / split.column_parts,
            .end = split.panels * (column + 1) / split.column_parts,
            .chunk = chunk_of(gemm),
            .tiles = packs_rows(gemm) ? own : NULL,
            .panels = own + tiles_floats(gemm, isa)});
    }
}
