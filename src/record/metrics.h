/* Metrics over time: one row feeds metrics.jsonl, the TensorBoard event file and the progress
 * display.
 *
 * metrics.jsonl has one JSON object a line: kind, step, epoch, unix_s, then the keys of metrics.def
 * that rows of that kind carry. Numbers read back exactly; what was not measured or is not finite
 * is null. */
#ifndef RECORD_METRICS_H
#define RECORD_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

enum metrics_kind { METRICS_TRAIN = 1, METRICS_EVAL = 2 };

struct metrics_row {
    enum metrics_kind kind;
    int64_t step;  /* steps done: the first row has 1 */
    int64_t epoch; /* counted from 1 */
    double unix_s; /* seconds since 1970 */
#define METRIC(field, kinds, shown, meaning) double field;
#include "record/metrics.def"
#undef METRIC
    int ranks; /* above 1: what each rank saw by itself, borrowed until the row is written */
    const double *rank_loss, *rank_ms;
};

/* Local. A row of now in which nothing has been measured. */
struct metrics_row metrics_row_new(enum metrics_kind kind, int64_t step, int64_t epoch);
/* Local. Writes a row as one line of JSON. */
void metrics_emit(FILE *stream, const struct metrics_row *row);

struct metrics;
enum { METRICS_FRESH = -1 };

/* What the rows of earlier starts tell of a run that goes on; NaN where no row does. */
struct metrics_past {
    double loss_first, loss_last; /* of step 1; of the step resumed from */
    double eval_loss, acc1, acc5; /* of the last evaluation */
};

/* Local, blocking. Opens metrics.jsonl and an event file in `folder`, which must exist; the caller
 * closes. With METRICS_FRESH an older metrics.jsonl is replaced. Else the run goes on after step
 * `resumed`: rows of later steps, and a last line that a crash cut short, are taken out, so that
 * the file will be as if the run had never stopped. Whoever saves a checkpoint of a step writes
 * that step's rows first. */
enum status metrics_open(const char *folder, int64_t resumed, struct metrics **out);
/* Local. Lives as long as `metrics`. */
const struct metrics_past *metrics_past(const struct metrics *metrics);
/* Local. The line is with the system when this returns; not finite values stay out of TensorBoard.
 * The first failure is said; after it nothing more is written, and every call returns it. */
enum status metrics_write(struct metrics *metrics, const struct metrics_row *row);
/* Local. For TensorBoard alone: count[i] times the number i, of the run up to a step. */
enum status metrics_histogram(struct metrics *metrics, int64_t step, const char *tag,
                              const int64_t *count, int numbers);
/* Local, blocking. Everything written so far is on disk: to be called before a checkpoint is
 * committed. */
enum status metrics_sync(struct metrics *metrics);
/* Local, blocking. Frees, also on failure; accepts NULL. */
enum status metrics_close(struct metrics **metrics);

#endif
