/* Replicas that draw the numbers of their mini-batches (sync/controller.h); private to src/exec.
 *
 * A replica counts its own mini-batches: `number` of a step is that count. What it trains with
 * follows from the number that it drew: number n is the part of replica n mod R of step n div R,
 * whose samples, learning rate and keys it has. The training's own count of steps stands at that
 * step meanwhile. Between rounds all replicas pause, and it is the same everywhere. */
#ifndef EXEC_ROUNDS_H
#define EXEC_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "exec/engine.h"

struct step;

/* Whom a mini-batch averages with. */
struct rounds_choice {
    int64_t number, spread;
    int count;
    int *replica; /* room for all */
    double *weight;
};

struct rounds_run {
    bool placed;                /* `index` is known */
    int64_t index;              /* mini-batches of this replica so far */
    int64_t round, end;         /* the next round; steps before the end of the one under way */
    bool under_way;             /* a round is */
    int64_t asked;              /* numbers of the round that the loader was asked for, or -1 */
    struct step_request wanted, /* by this replica since the last pause */
        agreed;                 /* by any of them, at this pause */
    struct rounds_choice choice;
};

/* Local. Whether replicas draw numbers here; room for it. */
bool rounds_act(const struct engine *engine);
void rounds_open(struct engine *engine);
void rounds_close(struct engine *engine);

/* Local. Behind engine_enqueue: whether replicas are at steps of their own, which nothing but steps
 * may come between; else what any rank was asked for since the last pause, where they draw numbers.
 */
bool engine_is_in_round(const struct engine *engine);
struct step_request engine_asked(const struct engine *engine);
/* Blocking. Takes the number of the next step, before it; *pauses: there is none, and all ranks
 * have come to the pause. */
enum status rounds_next(struct engine *engine, bool *pauses);
/* Local. The loader may read the step behind the one under way, if its number is known by now. */
enum status rounds_look_ahead(struct engine *engine);
/* Local. A step is finished: what is known of it goes to rank 0. */
enum status rounds_tell(struct engine *engine, const struct step *step);
/* Local. Behind a step: what its ranks asked for. */
enum status rounds_ended(struct engine *engine, const struct step_request *asked);

#endif
