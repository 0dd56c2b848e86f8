/* See rows.h. */
#include "exec/rows.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/tally.h"

struct entry {
    int replica;
    int64_t at_ns;
    double loss;
};

struct row {
    int count; /* of its R numbers that were told */
    struct entry *entry;
    bool alike;                                          /* all have as many labels */
    struct tally first, sum;                             /* sum: but for losses */
    struct exact_sum part[GRAPH_MAX_LOSSES], loss, norm; /* the latter: of each number's */
    int64_t members, spread;                             /* sum; the most */
    double first_norm, *ms; /* NaN: norms differ; how long each rank was busy */
};

struct rows {
    const struct grid *grid;
    int replicas, ranks, losses;
    int64_t next, at_ns; /* the oldest row that was not taken; when those before it were whole */
    struct row row[ROWS_ROOM];
    int64_t *done; /* per replica */
    double *rank_loss, *rank_ms;
};

struct rows *rows_new(const struct grid *grid, int losses) {
    struct rows *rows = MEM_NEW(struct rows);
    rows->grid = grid;
    rows->replicas = group_count(grid, GROUP_PIPELINE);
    rows->ranks = grid_ranks(grid);
    rows->losses = losses;
    rows->done = MEM_ARRAY(int64_t, rows->replicas);
    rows->rank_loss = MEM_ARRAY(double, rows->ranks);
    rows->rank_ms = MEM_ARRAY(double, rows->ranks);
    for (int i = 0; i < ROWS_ROOM; i++) {
        rows->row[i].entry = MEM_ARRAY(struct entry, rows->replicas);
        rows->row[i].ms = MEM_ARRAY(double, rows->ranks);
    }
    return rows;
}

void rows_free(struct rows **pointer) {
    struct rows *rows = *pointer;
    if (!rows) return;
    for (int i = 0; i < ROWS_ROOM; i++) {
        free(rows->row[i].entry);
        free(rows->row[i].ms);
    }
    free(rows->done);
    free(rows->rank_loss);
    free(rows->rank_ms);
    free(rows);
    *pointer = NULL;
}

static void clear(const struct rows *rows, struct row *row) {
    struct entry *entry = row->entry;
    double *ms = row->ms;
    *row = (struct row){.entry = entry, .alike = true, .ms = ms};
    for (int r = 0; r < rows->ranks; r++) ms[r] = NAN;
}

void rows_begin(struct rows *rows, int64_t step) {
    rows->next = step;
    rows->at_ns = INT64_MIN;
    for (int i = 0; i < ROWS_ROOM; i++) clear(rows, &rows->row[i]);
    for (int r = 0; r < rows->replicas; r++) rows->done[r] = step;
}

void rows_place(struct rows *rows, int replica, int64_t done) {
    rows->done[replica] = done;
}

int64_t rows_next(const struct rows *rows) {
    return rows->next;
}

int64_t rows_done(const struct rows *rows, int replica) {
    return rows->done[replica];
}

bool rows_have_room(const struct rows *rows, int64_t number) {
    return number / rows->replicas < rows->next + ROWS_ROOM;
}

static double norm_of(const struct finished *finished) {
    struct exact_sum squares = {0};
    for (int i = 0; i < LOSS_PARTS; i++) exact_add(&squares, finished->squares[i]);
    return sqrt(exact_total(&squares));
}

static void add_tally(struct row *row, const struct step_share *share, int losses) {
    double *to = (double *)&row->sum;
    const double *from = (const double *)&share->tally;
    if (row->count == 0) row->first = share->tally;
    for (int i = 0; i < losses; i++) row->alike &= share->tally.labels[i] == row->first.labels[i];
    for (size_t i = 0; i < sizeof row->sum / sizeof(double); i++) to[i] += from[i];
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++)
        for (int p = 0; p < LOSS_PARTS; p++) exact_add(&row->part[i], share->loss[i][p]);
}

void rows_add(struct rows *rows, int replica, const struct finished *finished,
              const double *stage_ms) {
    int64_t step = finished->number / rows->replicas;
    struct row *row = &rows->row[step % ROWS_ROOM];
    struct tally own;
    double norm = norm_of(finished);
    CHECK(step >= rows->next && step < rows->next + ROWS_ROOM && row->count < rows->replicas,
          "number %lld, where row %lld is next", (long long)finished->number,
          (long long)rows->next);
    add_tally(row, &finished->share, rows->losses);
    tally_sum(&finished->share, 1, &own);
    double loss = tally_loss(&own, rows->losses);
    if (row->count == 0) row->first_norm = norm;
    if (norm != row->first_norm) row->first_norm = NAN;
    exact_add(&row->loss, loss);
    exact_add(&row->norm, norm);
    for (int p = 0; p < rows->grid->stages; p++)
        row->ms[group_rank(rows->grid, GROUP_PIPELINE, replica, p)] = stage_ms[p];
    row->members += finished->members;
    if (finished->spread > row->spread) row->spread = finished->spread;
    row->entry[row->count++] = (struct entry){replica, finished->at_ns, loss};
    rows->done[replica] = finished->index + 1;
}

/* Numbers of later rows that were finished after this one. */
static int64_t too_late(const struct rows *rows, int replica) {
    int64_t count = 0;
    for (int i = 1; i < ROWS_ROOM; i++) {
        const struct row *row = &rows->row[(rows->next + i) % ROWS_ROOM];
        for (int e = 0; e < row->count; e++)
            count += row->entry[e].replica == replica && row->entry[e].at_ns > rows->at_ns;
    }
    return count;
}

/* Rows follow one another, so counts never shrink. */
static void count_done(struct rows *rows, const struct row *row, struct step_row *out) {
    for (int e = 0; e < row->count; e++)
        if (row->entry[e].at_ns > rows->at_ns) rows->at_ns = row->entry[e].at_ns;
    out->least = INT64_MAX;
    for (int r = 0; r < rows->replicas; r++) {
        int64_t done = rows->done[r] - too_late(rows, r);
        out->numbers += done;
        if (done < out->least) out->least = done;
        if (done > out->most) out->most = done;
    }
}

static void fill(struct rows *rows, struct row *row, struct step_row *out, struct tally *sum) {
    *sum = row->sum;
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++) sum->loss[i] = exact_total(&row->part[i]);
    bool same_norm = !isnan(row->first_norm);
    *out = (struct step_row){
        .step = rows->next,
        .loss = row->alike ? tally_loss(sum, rows->losses) : exact_total(&row->loss) / row->count,
        .grad_norm = same_norm ? row->first_norm : exact_total(&row->norm) / row->count,
        .group_size = row->members > 0 ? (double)row->members / row->count : NAN,
        .spread = row->spread,
        .ranks = rows->ranks,
        .rank_loss = rows->rank_loss,
        .rank_ms = rows->rank_ms};
    for (int r = 0; r < rows->ranks; r++) {
        rows->rank_loss[r] = NAN;
        rows->rank_ms[r] = row->ms[r];
    }
    for (int e = 0; e < row->count; e++)
        rows->rank_loss[group_rank(rows->grid, GROUP_PIPELINE, row->entry[e].replica,
                                   rows->grid->stages - 1)] = row->entry[e].loss;
    count_done(rows, row, out);
    out->at_ns = rows->at_ns;
}

bool rows_take(struct rows *rows, struct step_row *out, struct tally *sum) {
    struct row *row = &rows->row[rows->next % ROWS_ROOM];
    if (row->count < rows->replicas) return false;
    fill(rows, row, out, sum);
    clear(rows, row);
    rows->next++;
    return true;
}
