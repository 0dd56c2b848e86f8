/* Losses and counts of a step or an evaluation; private to src/exec. */
#ifndef EXEC_TALLY_H
#define EXEC_TALLY_H

#include "exec/state.h"

/* Local. Adds the counts of a micro-batch's samples; and, blocking, the losses and counts of the
 * forward pass in a slot, from the device. */
void tally_samples(const struct runnable *runnable, const struct micro_batch *samples,
                   struct tally *tally);
enum status tally_add(const struct runnable *runnable, int slot, const struct micro_batch *samples,
                      struct tally *tally);
double tally_loss(const struct tally *tally, int losses);
/* Local. The losses of a forward pass of an evaluation, added exactly. */
enum status tally_add_exactly(const struct runnable *runnable, int slot, struct exact_sum *loss);
/* Local. The tallies of all ranks, added in rank order. */
void tally_sum(const struct step_share *shares, int ranks, struct tally *sum);

#endif
