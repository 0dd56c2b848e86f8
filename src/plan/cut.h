/* Cutting a plan's model into stages; private to src/plan. */
#ifndef PLAN_CUT_H
#define PLAN_CUT_H

#include "plan/plan.h"

/* Local. How the model is cut where no times are known: for the choice of auto. */
struct partition_config cut_config(const struct plan *plan);
/* Local. Makes plan->partition from the training graph, as the configuration says: by --cut, or in
 * equal parts of what --balance names. */
enum status plan_cut(struct plan *plan);

#endif
