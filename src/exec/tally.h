/* Losses and counts of a step or an evaluation; private to src/exec. */
#ifndef EXEC_TALLY_H
#define EXEC_TALLY_H

#include "exec/state.h"

/* Local. Adds the counts of a micro-batch's samples. */
void tally_samples(const struct runnable *runnable, const struct micro_batch *samples,
                   struct tally *tally);
/* Local, asynchronous. The same, and has the device tell the losses and counts that the forward
 * pass in a slot made. */
enum status tally_note(struct engine *engine, const struct slot *slot, int index);
/* Local. Adds what was told and noted, once the host may read it: losses to the tally as they come,
 * and exactly to step->loss. */
void tally_read(struct step *step);
double tally_loss(const struct tally *tally, int losses);
/* Local. What this rank tells of its tally. */
void tally_share(const struct step *step, struct step_share *out);
/* Local. The tallies of all ranks. All but losses are whole numbers, which add up to the same in
 * any order; losses are added exactly. */
void tally_sum(const struct step_share *shares, int ranks, struct tally *sum);

#endif
