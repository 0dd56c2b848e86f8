/* What is not trained, for explain. */
#ifndef VIEW_EXPLAIN_FREEZE_H
#define VIEW_EXPLAIN_FREEZE_H

#include <stdio.h>

#include <jansson.h>

#include "plan/plan.h"

/* Local. Nothing where nothing is frozen: a row of the screen. */
void explain_freeze_print(const struct plan *plan, FILE *out);
/* Local. The same as an object that the caller owns; NULL: nothing is frozen. */
json_t *explain_freeze_json(const struct plan *plan);

#endif
