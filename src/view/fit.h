/* Whether a run fits into the memory it is for, in a row: the answer that stands first. */
#ifndef VIEW_FIT_H
#define VIEW_FIT_H

#include <stdio.h>

#include <jansson.h>

#include "planned/planned.h"

/* Local. A row whose name takes so many columns; nothing where neither --cluster nor --memory-limit
 * is given. */
void fit_print(const struct planned_run *planned, int columns, FILE *out);
/* Local. true or false; null where neither is given. The caller owns it. */
json_t *fit_json(const struct planned_run *planned);

#endif
