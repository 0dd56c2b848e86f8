/* What `auto` chose and what the fixed schedules would take, for explain. */
#ifndef VIEW_EXPLAIN_AUTO_H
#define VIEW_EXPLAIN_AUTO_H

#include <stdio.h>

#include <jansson.h>

#include "plan/choice.h"

/* Local. Nothing where nothing was chosen: a table, the chosen order first. */
void explain_auto_print(const struct choice *choice, FILE *out);
/* Local. The same as an array of objects that the caller owns. */
json_t *explain_auto_json(const struct choice *choice);

#endif
