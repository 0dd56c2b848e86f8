/* What replicas tell one another where they do not meet at the end of a step
 * (program_reports_apart); private to src/exec.
 *
 * The first rank of a replica speaks for it. It sends what the replica has finished to rank 0 and
 * goes on; rank 0 takes what has come at the end of each of its steps, and makes rows of it
 * (rows.h). Requests go the same way, and what rank 0 has decided comes back with a verdict on each
 * of its steps. A speaker takes the verdict on step k before step k + SPEAKERS_LAG. Where replicas
 * meet in a sum between the two it is there already, so nobody waits for it.
 *
 * A group's exchange was rejected: it is done when its last member has come. */
#ifndef EXEC_SPEAKERS_H
#define EXEC_SPEAKERS_H

#include "exec/rows.h"

struct engine;
struct speakers;

enum { SPEAKERS_LAG = 2 };

/* What rank 0 has decided by the end of a step. */
struct verdict {
    int64_t step, end;         /* the pipeline is drained before step `end` */
    struct step_request asked; /* why */
};
_Static_assert(sizeof(struct verdict) <= PLAN_VERDICT_BYTES, "a plan counts so much");
_Static_assert(sizeof(struct finished) <= PLAN_FINISHED_BYTES, "a plan counts so much");

/* Collective over all ranks, not blocking. Declares the channels; close accepts an engine that has
 * none. */
enum status speakers_open(struct engine *engine);
void speakers_close(struct engine *engine);
/* Local. This step is the next one; nothing is known of others. */
void speakers_begin(struct engine *engine, int64_t step);

/* Local, of a speaker, not blocking unless rank 0 is SPEAKERS_SENT steps behind. Tells of a step
 * of which all is known, in order: one that was told already is left out. */
enum { SPEAKERS_SENT = 64 };
enum status speakers_tell(struct engine *engine, const struct step *step);
/* Local, of rank 0, not blocking. Takes what has come; what other replicas have asked for since. */
enum status speakers_look(struct engine *engine, struct step_request *asked);
/* Collective over the speakers, blocking. All that was told before a step has come; where replicas
 * draw numbers, of all that they have drawn. */
enum status speakers_settle(struct engine *engine, int64_t step);
/* Local. Of rank 0: the row of a step, if it is the next one and whole. */
bool speakers_row(struct engine *engine, int64_t step, struct step_row *out, struct tally *sum);
bool speakers_have_rows(const struct engine *engine);

/* Local, of rank 0: tells the others. Blocking, of the others: calls `take` with the verdicts up to
 * that of a step that were not taken yet. */
enum status speakers_decide(struct engine *engine, const struct verdict *verdict);
enum status speakers_hear(struct engine *engine, int64_t step,
                          void (*take)(struct engine *engine, const struct verdict *verdict));

#endif
