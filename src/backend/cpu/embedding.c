/* The gradient of a table whose rows were looked up: a table of words is large, and few of its rows
 * were. The team shares the rows: whoever has some clears them and adds what came back for them, in
 * the order of the look-ups, whatever the team. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/team.h"
#include "backend/cpu/tiling.h"
#include "base/clones.h"
#include "base/log.h"

struct table {
    const float *dy;
    const int32_t *id;
    float *dw;
    int64_t count, rows, columns, piece_rows;
};

VECTOR_CLONES static void add_row(float *dw, const float *dy, int64_t columns) {
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) dw[c] += dy[c];
}

static void sum_rows(const void *work, int64_t piece, int thread) {
    (void)thread;
    const struct table *table = work;
    int64_t first = piece * table->piece_rows, end = least(first + table->piece_rows, table->rows),
            columns = table->columns;
    memset(table->dw + first * columns, 0, (size_t)((end - first) * columns) * sizeof(float));
    for (int64_t i = 0; i < table->count; i++)
        if (table->id[i] >= first && table->id[i] < end)
            add_row(table->dw + table->id[i] * columns, table->dy + i * columns, columns);
}

static void run_embedding_bwd(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                              void *scratch) {
    (void)scratch;
    const struct shape *shape = &kernel->call.attrs.like;
    struct table table = {.dy = in[0],
                          .id = in[1],
                          .dw = out[0],
                          .count = shape_count(&kernel->call.in[1].shape),
                          .rows = shape->dim[0],
                          .columns = shape->dim[1]};
    for (int64_t i = 0; i < table.count; i++)
        CHECK(table.id[i] >= 0 && table.id[i] < table.rows, "row %d of %lld", table.id[i],
              (long long)table.rows);
    int threads = kernel->base.device->threads;
    table.piece_rows = parts(table.rows, threads); /* the longer, the faster memset clears */
    cpu_team_run(threads, parts(table.rows, table.piece_rows), sum_rows, &table);
}

enum status cpu_embedding_bwd(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    if (kernel->call.in[0].dtype != DTYPE_F32) return STATUS_NO;
    cpu_step_loop(kernel, run_embedding_bwd);
    cpu_name(kernel, "loop:embedding");
    return STATUS_OK;
}
