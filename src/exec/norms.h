/* Norms of the blocks of a model, over several steps: of each block the exact sum of the squares of
 * its gradients. It does not depend on who holds which parameters.
 *
 * Sums are of the run (struct train_norms): a rank adds up what it answers for where its device
 * reaches it, and norms_gather brings those of all ranks together. */
#ifndef EXEC_NORMS_H
#define EXEC_NORMS_H

#include "exec/state.h"

/* Local. Memory for this rank's sums, where the run asks for norms. */
enum status norms_open(struct engine *engine);
void norms_close(struct engine *engine);
/* Local, asynchronous on the device. Adds the squares of the gradients that NORM counts. */
enum status norms_count(struct engine *engine, const struct instr *instr);

#endif
