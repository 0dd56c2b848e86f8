/* Products of whole matrices from register tiles (gemm.h).
 *
 * The work is a grid of pieces over the tiles of rows and the panels of columns, some for each
 * thread (team.h). A piece goes through the depth in chunks. A chunk of b is packed into panels as
 * wide as a tile; a is read where it lies, a group of rows at a time that every panel meets while
 * the group is in the second cache. An a whose rows lie a multiple of 4 KiB apart, or run along
 * memory's columns (the gradient of weights sums over samples), would fall into few cache sets: its
 * tiles are packed too.
 *
 * Whatever is packed is packed just before its first use, from memory that was asked for meanwhile:
 * with the few rows of a micro-batch, a pass over the weights that waits for them would cost 5 to
 * 7% of the product. */
#include "backend/cpu/gemm.h"

#include "backend/cpu/team.h"
#include "backend/cpu/tiling.h"

/* GROUP_ROWS: so many share a panel while it is near, at most 216 KiB of a; a multiple of every
 * tile's rows. LINE: floats of a cache line. */
enum { GROUP_ROWS = 72, LINE = 16 };

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
    int64_t row_parts, column_parts;
};

/* Columns of a piece at most: what is packed of them would be as large as b, which is 150 MiB where
 * words are told. */
enum { MOST_COLUMNS = 3072 };

/* Each thread has some pieces, so that a fast one can take from a slow one. PACK: tiles that take
 * as long as packing a panel. */
enum { FEWEST = 2, MOST = 8, MOST_ROW_PARTS = 8, PACK = 2 };

/* What the slowest of equal threads does, and half a piece, which unequal ones wait at the end. */
static int64_t cost_of(const struct split *split, int threads) {
    int64_t pieces = parts(split->row_parts * split->column_parts, threads),
            panels = parts(split->panels, split->column_parts),
            tiles = parts(split->tiles, split->row_parts);
    return (2 * pieces + 1) * (2 * tiles * panels + tiles + 2 * PACK * panels);
}

/* The cheapest grid; of equal ones that with the fewest parts of the rows. */
static struct split split_of(const struct gemm *gemm, const struct gemm_isa *isa, int threads) {
    struct split best = {parts(gemm->rows, isa->rows), parts(gemm->columns, isa->columns), 1,
                         parts(gemm->columns, MOST_COLUMNS)};
    if (threads == 1) return best;
    /* Few panels for so many threads: as many parts of the rows as it takes. */
    struct split tall = best;
    tall.row_parts = least(best.tiles, parts(MOST / 2 * threads, best.panels));
    tall.column_parts = best.panels;
    if (cost_of(&tall, threads) < cost_of(&best, threads)) best = tall;
    int64_t least_cost = cost_of(&best, threads);
    for (int64_t rows = 1; rows <= MOST_ROW_PARTS && rows <= best.tiles; rows++) {
        int64_t most = MOST_COLUMNS / isa->columns,
                wide = least(best.panels * rows / (MOST * threads), most),
                widest = least(best.panels * rows / (FEWEST * threads), most);
        for (wide = wide > 1 ? wide : 1; wide <= widest; wide += 1 + wide / MOST) {
            struct split split = {best.tiles, best.panels, rows, parts(best.panels, wide)};
            int64_t cost = cost_of(&split, threads);
            if (cost < least_cost) best = split, least_cost = cost;
        }
    }
    return best;
}

/* Floats that a thread packs into: a group of tiles and a chunk of its panels. */
static int64_t tiles_floats(const struct gemm *gemm) {
    return packs_rows(gemm) ? GROUP_ROWS * chunk_of(gemm) : 0;
}

static int64_t part_floats(const struct gemm *gemm, const struct gemm_isa *isa,
                           const struct split *split) {
    return tiles_floats(gemm) +
           parts(split->panels, split->column_parts) * isa->columns * chunk_of(gemm);
}

/* A piece of the work, and what is packed of it. */
struct part {
    const struct gemm *gemm;
    const struct gemm_isa *isa;
    int64_t first, last;   /* rows */
    int64_t panel, end;    /* panels */
    int64_t chunk;         /* of the depth */
    float *tiles, *panels; /* packed: the group, if it is, and the chunk of b */
    bool packed;           /* the panels are, by the piece before this one */
};

/* A group of rows in a chunk of the depth. */
struct place {
    int64_t row, depth;
};

static struct place next_place(const struct part *part, struct place at) {
    at.row += GROUP_ROWS;
    if (at.row >= part->last) at.row = part->first, at.depth += part->chunk;
    return at;
}

static bool is_inside(const struct part *part, struct place at) {
    return at.row < part->last && at.depth < part->gemm->depth && part->panel < part->end;
}

/* The first group of a chunk packs the panels, unless the piece before has. */
static bool packs_panel(const struct part *part, struct place at) {
    return at.row == part->first && !part->packed;
}

static int64_t chunk_at(const struct part *part, int64_t depth) {
    return least(part->chunk, part->gemm->depth - depth);
}

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

/* What a panel is packed from. */
static struct block source_of(const struct part *part, int64_t depth, int64_t panel) {
    const struct gemm *gemm = part->gemm;
    int64_t column = panel * part->isa->columns;
    return block_of(gemm->b + depth * gemm->b_step + column * gemm->b_column, gemm->b_step,
                    gemm->b_column, chunk_at(part, depth),
                    least(part->isa->columns, gemm->columns - column));
}

static struct block packed_of(const struct part *part, int64_t depth, int64_t panel) {
    int64_t floats = part->isa->columns * chunk_at(part, depth);
    return (struct block){part->panels + (panel - part->panel) * floats, 0, 1, floats / LINE};
}

/* What is read for the panel behind this one, of this group of rows or of the next. */
static struct block next_panel(const struct part *part, struct place at, int64_t panel) {
    if (++panel == part->end) panel = part->panel, at = next_place(part, at);
    if (!is_inside(part, at)) return (struct block){0};
    return packs_panel(part, at) ? source_of(part, at.depth, panel)
                                 : packed_of(part, at.depth, panel);
}

static struct block next_rows(const struct part *part, struct place at) {
    const struct gemm *gemm = part->gemm;
    at = next_place(part, at);
    if (!is_inside(part, at)) return (struct block){0};
    return block_of(gemm->a + at.row * gemm->a_row + at.depth * gemm->a_step, gemm->a_step,
                    gemm->a_row, chunk_at(part, at.depth), least(part->last - at.row, GROUP_ROWS));
}

/* Its lines from so many on. */
static struct gemm_fetch lines_of(const struct block *block, int64_t from, int64_t lines) {
    int64_t left = block->rows * block->lines - from, row = 0;
    if (left <= 0) return (struct gemm_fetch){0};
    if (block->rows > 1) row = from / block->lines; /* a division costs what tens of sums do */
    int64_t line = from - row * block->lines;
    return (struct gemm_fetch){.first = block->first + row * block->step + line * LINE,
                               .step = LINE,
                               .lines = least(lines, left),
                               .left = block->lines - line,
                               .row = block->lines,
                               .jump = block->step - (block->lines - 1) * LINE};
}

/* The next lines of them, as far as there are. */
static void fetch_now(struct gemm_fetch *fetch, int64_t lines) {
    for (; lines > 0 && fetch->lines > 0; lines--, fetch->lines--) {
        __builtin_prefetch(fetch->first, 0, 2);
        bool turn = --fetch->left == 0;
        fetch->first += turn ? fetch->jump : fetch->step;
        if (turn) fetch->left = fetch->row;
    }
}

/* --- the work --- */

static void pack_panel(const struct part *part, int64_t depth, int64_t panel, float *to) {
    const struct gemm *gemm = part->gemm;
    int64_t column = panel * part->isa->columns;
    gemm_pack(gemm->b + depth * gemm->b_step + column * gemm->b_column, gemm->b_step,
              gemm->b_column, chunk_at(part, depth),
              (int)least(part->isa->columns, gemm->columns - column), part->isa->columns, to);
}

static void pack_tile(const struct part *part, struct place at, float *to) {
    const struct gemm *gemm = part->gemm;
    gemm_pack(gemm->a + at.depth * gemm->a_step + at.row * gemm->a_row, gemm->a_step, gemm->a_row,
              chunk_at(part, at.depth), (int)least(part->isa->rows, gemm->rows - at.row),
              part->isa->rows, to);
}

static void run_tile(const struct part *part, struct place at, int64_t panel, const float *tile,
                     const float *packed, const struct gemm_fetch *fetch) {
    const struct gemm *gemm = part->gemm;
    int64_t column = panel * part->isa->columns, chunk = chunk_at(part, at.depth);
    bool last = at.depth + chunk == gemm->depth;
    part->isa->tile(
        &(struct gemm_tile){.a = tile ? tile : gemm->a + at.row * gemm->a_row + at.depth,
                            .b = packed,
                            .bias = last && gemm->bias ? gemm->bias + column : NULL,
                            .c = gemm->c + at.row * gemm->columns + column,
                            .a_row = tile ? 1 : gemm->a_row,
                            .a_step = tile ? part->isa->rows : 1,
                            .b_step = part->isa->columns,
                            .c_row = gemm->columns,
                            .depth = chunk,
                            .rows = (int)least(part->isa->rows, gemm->rows - at.row),
                            .columns = (int)least(part->isa->columns, gemm->columns - column),
                            .fresh = at.depth == 0,
                            .fetch = *fetch});
}

/* What comes after the product, for these rows and the thread's panels. */
static void finish_rows(const struct part *part, int64_t row, int64_t end) {
    const struct gemm *gemm = part->gemm;
    int64_t column = part->panel * part->isa->columns,
            count = least(gemm->columns, part->end * part->isa->columns) - column;
    for (; row < end; row++) {
        int64_t place = row * gemm->columns + column;
        gemm->after(gemm->c + place, gemm->c + place, gemm->activated + place, count);
    }
}

static void run_group(const struct part *part, struct place at) {
    const struct gemm *gemm = part->gemm;
    const struct gemm_isa *isa = part->isa;
    int64_t end = least(part->last, at.row + GROUP_ROWS), tiles = parts(end - at.row, isa->rows),
            chunk = chunk_at(part, at.depth), width = isa->columns;
    struct block rows = next_rows(part, at);
    int64_t rows_lines = rows.rows * rows.lines;
    struct gemm_fetch next = lines_of(&rows, 0, rows_lines);
    int64_t share = parts(rows_lines, tiles * (part->end - part->panel));
    float *packed = part->panels;
    for (int64_t p = part->panel; p < part->end; p++, packed += width * chunk) {
        if (packs_panel(part, at)) pack_panel(part, at.depth, p, packed);
        struct block panel = next_panel(part, at, p);
        int64_t lines = parts(panel.rows * panel.lines, tiles);
        for (int64_t i = 0; i < tiles; i++) {
            struct place here = {at.row + i * isa->rows, at.depth};
            float *tile = part->tiles ? part->tiles + i * isa->rows * chunk : NULL;
            if (tile && p == part->panel) pack_tile(part, here, tile);
            struct gemm_fetch fetch = lines_of(&panel, i * lines, lines);
            fetch_now(&next, share);
            run_tile(part, here, p, tile, packed, &fetch);
        }
    }
    if (gemm->after && at.depth + chunk == gemm->depth) finish_rows(part, at.row, end);
}

static void run_part(const struct part *part) {
    for (struct place at = {part->first, 0}; is_inside(part, at); at = next_place(part, at))
        run_group(part, at);
}

/* --- on a team --- */

struct work {
    const struct gemm *gemm;
    const struct gemm_isa *isa;
    struct split split;
    int64_t chunk;    /* of the depth */
    int64_t own;      /* floats of a thread */
    float *packed;    /* of all threads, behind `columns` */
    int64_t *columns; /* a line for each thread: the part of the columns that it has packed */
};

enum { TAGS = 8 }; /* of a line */

static struct work work_of(const struct gemm *gemm, int threads) {
    struct work work = {.gemm = gemm, .isa = gemm_isa(), .chunk = chunk_of(gemm)};
    work.split = split_of(gemm, work.isa, threads);
    work.own = parts(part_floats(gemm, work.isa, &work.split), LINE) * LINE;
    return work;
}

size_t gemm_scratch_bytes(const struct gemm *gemm, int threads) {
    size_t own = (size_t)work_of(gemm, threads).own;
    return (size_t)threads * (TAGS * sizeof(int64_t) + own * sizeof(float));
}

/* Parts of the rows one after the other: a thread keeps the panels, where they have all the depth.
 */
static void run_piece(const void *of, int64_t piece, int thread) {
    const struct work *work = of;
    const struct split *split = &work->split;
    const struct gemm *gemm = work->gemm;
    int64_t column = piece / split->row_parts, row = piece % split->row_parts,
            rows = work->isa->rows, *packed = &work->columns[thread * TAGS];
    float *own = work->packed + thread * work->own;
    run_part(&(struct part){
        .gemm = gemm,
        .isa = work->isa,
        .first = split->tiles * row / split->row_parts * rows,
        .last = least(gemm->rows, split->tiles * (row + 1) / split->row_parts * rows),
        .panel = split->panels * column / split->column_parts,
        .end = split->panels * (column + 1) / split->column_parts,
        .chunk = work->chunk,
        .tiles = packs_rows(gemm) ? own : NULL,
        .panels = own + tiles_floats(gemm),
        .packed = *packed == column && work->chunk >= gemm->depth});
    *packed = column;
}

int64_t gemm_pieces(const struct gemm *gemm, int threads) {
    struct split split = split_of(gemm, gemm_isa(), threads);
    return split.row_parts * split.column_parts;
}

void gemm_run(const struct gemm *gemm, int threads, void *scratch) {
    struct work work = work_of(gemm, threads);
    work.columns = scratch;
    work.packed = (float *)(work.columns + threads * TAGS);
    for (int i = 0; i < threads; i++) work.columns[i * TAGS] = -1;
    cpu_team_run(threads, work.split.row_parts * work.split.column_parts, run_piece, &work);
}
