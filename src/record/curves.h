/* Curves of a run, read back from metrics.jsonl in bounded memory, however long the file.
 *
 * A series begins with a point a row; when it is full, neighbours are joined in pairs and each
 * point covers twice as many rows. A point keeps the lowest and highest value it covers, so that a
 * single spike in a million steps is still drawn, which picking every n-th row would lose. */
#ifndef RECORD_CURVES_H
#define RECORD_CURVES_H

#include <stdbool.h>
#include <stdint.h>

enum { SERIES_POINTS = 1000 }; /* even; a point is drawn as at most two places */

struct series_point {
    int64_t first, last;            /* steps it covers */
    int64_t rows, finite;           /* rows, and how many of them had a value */
    double mean, low, high, smooth; /* NaN when finite is 0 */
    bool low_first;                 /* low came before high: with two rows the drawing is exact */
};

struct series {
    struct series_point *point; /* owned */
    int count;
    int64_t rows_per_point;
    int64_t finite, absent,
        first_absent; /* rows with and without a value; step of the first without */
};

/* Local. series_smooth fills `smooth` of every point once all rows are in: a mean over neighbours
 * that does not lag behind. series_free leaves an empty series. */
void series_add(struct series *series, int64_t step, double value);
void series_smooth(struct series *series);
void series_free(struct series *series);

/* What a rank's own steps took, without waiting for others: the mean over rows but the first. */
struct curves_rank {
    double ms_sum;
    int64_t rows;
};

struct curves {
    struct series loss, lr, grad_norm, samples_per_s; /* of training steps */
    struct series eval_loss, acc1, acc5;              /* of evaluations */
    /* Over virtual time, in milliseconds in place of steps; empty on the wall clock. */
    struct series timed_loss, timed_eval_loss, timed_acc1;
    int64_t rows, damaged;    /* lines read; lines that are no rows */
    struct curves_rank *rank; /* of several ranks; owned */
    int ranks;
    double begin_s; /* wall clock of the first row, NaN when unknown */
    char *trouble;  /* why there are no rows, or NULL; owned */
};

/* Local, blocking. Never fails: what cannot be read is said in `trouble`. The caller frees with
 * curves_free. */
void curves_read(const char *folder, struct curves *out);
void curves_free(struct curves *curves);

#endif
