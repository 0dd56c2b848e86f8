/* --hetero on the wall clock: a pass computes and then waits, and a message that has come is held;
 * private to src/exec. */
#ifndef EXEC_LAW_H
#define EXEC_LAW_H

#include "cost/hetero.h"
#include "plan/plan.h"

struct engine;
struct posted;

struct law_run {
    const struct hetero *of; /* NULL: there are no laws */
    int64_t spent_ns;        /* by the segment under way, without its waits for others */
    int64_t owed_ns;         /* by which earlier segments of the pass exceeded their law */
    int64_t pass_spent_ns, pass_due_ns;        /* by all segments of the pass so far */
    int64_t *free_ns;                          /* per channel: when its link is free */
    int64_t group_free_ns[PROGRAM_MAX_GROUPS]; /* per group: when its last operation ended */
};

/* Local. Begins with the laws of the plan, if it has any; ends with them. */
void law_open(struct engine *engine);
void law_close(struct engine *engine);
/* Local, blocking. Called when an instruction of a step, or a part of it, has run since `begin_ns`:
 * a pass that has ended waits for the rest of its law's time. `comm_before_ns` is what the step had
 * spent on communication at `begin_ns`. */
enum status law_wait(struct engine *engine, const struct instr *instr, int64_t begin_ns,
                     int64_t comm_before_ns);
/* Local, blocking. Holds what has come until its link would have delivered it. */
enum status law_hold(struct engine *engine, const struct posted *posted);

#endif
