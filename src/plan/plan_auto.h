/* The part of planning that `auto` adds, and the texts by which ranks get the programs that rank 0
 * chose. All local. */
#ifndef PLAN_PLAN_AUTO_H
#define PLAN_PLAN_AUTO_H

#include "plan/plan.h"

/* What messages call programs that came from rank 0, or from the run that is resumed. */
#define PLAN_AGREED "the agreed program"

bool plan_is_auto(const struct run_config *config);

/* For plan_new. The one way to write a plan's configuration: as it begins, and once more when the
 * grid of auto is known. */
void plan_configure(struct plan *plan, const struct run_config *config);
/* For plan_new. Sets the grid: by the choice, that of another plan, or the agreed programs, which
 * it reads. Does nothing for other schedules. */
enum status plan_choose(struct plan *plan);
/* For plan_new. The orders that were chosen; NULL: none. */
const struct pipeline_order *plan_orders(const struct plan *plan);
/* For plan_new. STATUS_USAGE where the agreed programs are not for this run, or are refused. */
enum status plan_check_agreed(const struct plan *plan);

/* The text of a plan's program; the caller frees it with bytes_free. */
struct bytes plan_text(const struct plan *plan);

#endif
