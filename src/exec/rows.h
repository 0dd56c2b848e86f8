/* Rows of metrics where replicas do not meet at the end of a step; private to src/exec.
 *
 * A replica tells what it knows of each number (mini-batch) that it has finished. A row is the mean
 * of the R numbers of a step, whoever trained them, and is whole when the last of them is told. So
 * nobody waits for another replica, and a row does not depend on the order in which numbers come.
 * Nothing here sends or waits: speakers.h brings the messages. */
#ifndef EXEC_ROWS_H
#define EXEC_ROWS_H

#include "exec/step.h"
#include "program/grid.h"

/* What is told of a number. Behind it follows how long each stage was busy, as rank_ms. */
struct finished {
    int64_t number, index;   /* of the run; the replica's own count, from 0 */
    int64_t at_ns;           /* when, on the clock of who tells it */
    int64_t members, spread; /* of its group, where groups are chosen: 0 */
    struct step_share share;
    double squares[LOSS_PARTS]; /* of the gradients of all stages */
};

/* Steps of which a number may be told while an earlier row is not whole. */
enum { ROWS_ROOM = 32 };

struct rows;

/* Local. `losses`: of the model. The caller frees it, which accepts NULL and clears it. */
struct rows *rows_new(const struct grid *grid, int losses);
void rows_free(struct rows **rows);
/* Local. Rows begin with this step; of earlier ones nothing is known. */
void rows_begin(struct rows *rows, int64_t step);

/* Local. Behind that: a replica has done so many. */
void rows_place(struct rows *rows, int replica, int64_t done);

/* Local. Whether there is room for what a replica tells of a number; it is told: once. */
bool rows_have_room(const struct rows *rows, int64_t number);
void rows_add(struct rows *rows, int replica, const struct finished *finished,
              const double *stage_ms);
/* Local. The oldest row that was not taken, once it is whole; its arrays are valid until the next
 * call, and `sum` is the tally of its numbers. Mini-batches are counted as they were when its last
 * number was finished. */
bool rows_take(struct rows *rows, struct step_row *out, struct tally *sum);
/* Local. The step of that row; how many mini-batches a replica has told of, over the whole run. */
int64_t rows_next(const struct rows *rows);
int64_t rows_done(const struct rows *rows, int replica);

#endif
