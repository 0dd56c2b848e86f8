/* What is not trained, for explain. */
#ifndef VIEW_EXPLAIN_FREEZE_H
#define VIEW_EXPLAIN_FREEZE_H

#include <stdio.h>

#include <jansson.h>

#include "planned/planned.h"

/* Local. Nothing where nothing is frozen: a row of the screen. */
void explain_freeze_print(const struct plan *plan, FILE *out);
/* Local, blocking. Of a run in which more is frozen from period to period: the parts of its course.
 * `forecasts`: with what a step of each part should take, and a run with other shares of `alpha`,
 * for which each part is planned and simulated. */
enum status explain_course_print(const struct planned_run *planned, bool forecasts, FILE *out);
/* Local, blocking. The same as an object that the caller owns, set after a failure, too: parts, and
 * what all steps and changes should take ("ns"; null where norms decide). */
enum status explain_course_json(const struct planned_run *planned, json_t **out);
/* Local. Of the first plan, as an object that the caller owns; NULL: nothing is frozen. */
json_t *explain_freeze_json(const struct plan *plan);

#endif
