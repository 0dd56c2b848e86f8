/* The part of a plan that is activations: where the values of every graph lie in the slots of a
 * rank. Private to src/plan but for what plan.h shows. */
#ifndef PLAN_ACTIVATIONS_H
#define PLAN_ACTIVATIONS_H

#include "plan/plan.h"

/* Local. Places every graph of the run and lays the arenas; fills in their part of the estimate.
 * Programs, ranges and sizes are known by then. `of` says how programs run backward. */
void plan_activations(struct plan *plan, const struct placement_config *of);

#endif
