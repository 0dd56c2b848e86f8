/* What a search found, for people and as JSON. */
#ifndef VIEW_PLAN_TABLE_H
#define VIEW_PLAN_TABLE_H

#include <stdio.h>

#include "planned/planned_search.h"

/* Local. The best rows, the best of each family with why it is not first, and the command. */
void plan_table_print(const struct planned_search *search, FILE *out);
void plan_table_json(const struct planned_search *search, FILE *out);

#endif
