/* The clock of a rank's steps. On the wall clock there is none; in virtual time (src/virtual) it
 * tells what instructions take, and lets one rank run at a time. Other lists than steps are
 * instants to it.
 */
#ifndef EXEC_ENGINE_CLOCK_H
#define EXEC_ENGINE_CLOCK_H

#include "comm/comm.h"
#include "program/program.h"

struct plan;

enum { CLOCK_EMPTY = -1, CLOCK_LATEST = -2 };

struct engine_clock {
    void *context;
    /* Blocking, each until this rank is the next in (time, rank). A step begins, by list and
     * number; an instruction comes, and may go on once the times are known of all it awaits
     * (*idle_ns: how long it waited for somebody, and not for data under way); it has run; the list
     * has ended. Then the rank is out of the order until its next step. `row` is a number for
     * `times`. */
    enum status (*begin)(void *context, struct comm *comm, enum list_name list, int64_t step);
    enum status (*come)(void *context, int at, int64_t *idle_ns);
    enum status (*ran)(void *context, int at, int *row);
    enum status (*end)(void *context, int at, int64_t *idle_ns);
    /* Collective over all ranks, blocking, behind a step: until all have ended it, or one is lost.
     */
    enum status (*meet)(void *context);
    /* Local. Out of the order after a failure, too. */
    void (*leave)(void *context);
    /* Local. The rank's time; from when to when what a row posted was under way. */
    int64_t (*now)(void *context);
    void (*times)(void *context, int row, int64_t *begin_ns, int64_t *end_ns);
    /* Local, between steps of all ranks. The state of all clocks as numbers, into room for the
     * count that it returns (NULL: it only counts); and back. One rank does so for all. */
    int (*save)(void *context, double *out);
    void (*load)(void *context, const double *numbers, int count, int64_t full);
    /* Local, between steps of all ranks, by rank 0 alone: its program is that of another plan from
     * now on, which outlives the clocks or comes before one more. All clocks go on from the latest
     * one; `changes`: and from what it takes to move to that plan. */
    enum status (*follow)(void *context, const struct plan *plan, bool changes);
    /* Local. Whether what was loaded has a pipeline that is full before this step: `full` then, and
     * the numbers were those of the same program. CLOCK_EMPTY: of a pipeline that is empty;
     * CLOCK_LATEST: of one that does not fit, so that all clocks begin at the latest one. */
    bool (*is_full)(void *context, int64_t step);
    /* Blocking. A real wait for other ranks begins, or has ended: they must be let run. */
    void (*waits)(void *context, bool begins);
};

struct engine;
/* Local. The virtual time of a rank; NaN: it is on the wall clock. */
double engine_virtual_s(const struct engine *engine);

#endif
