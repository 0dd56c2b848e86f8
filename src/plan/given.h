/* A program that was given (`--program`) in place of the schedule's own: whether it is one for this
 * run. Apart from plan.c, which makes all else from the run's own configuration. */
#ifndef PLAN_GIVEN_H
#define PLAN_GIVEN_H

#include "plan/plan.h"

/* Local. The program of `plan`, called `name`, has the run's shape, and does its training.
 * STATUS_USAGE with what differs. */
enum status given_check(const struct plan *plan, const char *name);
/* Local. The body of `last`, the run's short last step, can be a list of it. */
enum status given_check_last(const struct plan *plan, const struct program *last, const char *name);

/* Local. The program has the buckets of this model. */
enum status given_check_buckets(const struct plan *plan, const char *name);

#endif
