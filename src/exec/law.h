/* --hetero on the wall clock: passes that compute and then wait, messages that are held; private to
 * src/exec. */
#ifndef EXEC_LAW_H
#define EXEC_LAW_H

#include "cost/hetero.h"
#include "plan/plan.h"

struct engine;
struct posted;

struct law_run {
    const struct hetero *of; /* NULL: there are no laws */
    int64_t spent_ns;        /* of the pass under way, without its waits for others */
    int64_t owed_ns;         /* that earlier segments of a pass computed beyond their law */
    int64_t pass_spent_ns, pass_due_ns; /* of all segments of the pass so far */
    int64_t *free_ns;                   /* per channel: when its link has moved the last message */
    int64_t group_free_ns[PROGRAM_MAX_GROUPS]; /* per group: when its last operation ended */
};

/* Local. The laws of a plan, if it has any; forgets them. */
void law_open(struct engine *engine);
void law_close(struct engine *engine);
/* Local, blocking. After (a part of) an instruction of a step has run, from `begin_ns` on, with so
 * much communication before it: a pass that has ended waits until its law has passed. */
enum status law_wait(struct engine *engine, const struct instr *instr, int64_t begin_ns,
                     int64_t comm_before_ns);
/* Local, blocking. Holds what has come until its link would have brought it. */
enum status law_hold(struct engine *engine, const struct posted *posted);

#endif
