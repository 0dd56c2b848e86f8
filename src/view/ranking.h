/* What a search found, for people and as JSON. */
#ifndef VIEW_RANKING_H
#define VIEW_RANKING_H

#include <stdio.h>

#include "planned/planned_search.h"
#include "planned/what_if.h"

/* Local. The best rows, the best of each family with why it is not first, and the command. */
void ranking_print(const struct planned_search *search, FILE *out);
/* Local. Which ranks, how many plans, and the first row. */
void ranking_print_first(const struct planned_search *search, FILE *out);
/* `what_if` NULL: nothing was asked. */
void ranking_json(const struct planned_search *search, const struct planned_what_if *what_if,
                  FILE *out);
/* Local. The first row of the second search, and what that of the first one takes there. */
void ranking_print_what_if(const struct planned_search *search,
                           const struct planned_what_if *what_if, FILE *out);

#endif
