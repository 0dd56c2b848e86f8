/* The plan on one screen. */
#ifndef VIEW_EXPLAIN_H
#define VIEW_EXPLAIN_H

#include <stdio.h>

#include "view/view_forecast.h"

enum { EXPLAIN_NAME_COLUMNS = 11 }; /* of a row's name */

/* Local. What train prints before it starts and explain prints altogether, without the parts of
 * --show. `compares`: forecasts of the other ways to recompute, too, each of which is simulated. */
void explain_print(const struct view_forecast *view, bool compares, FILE *out);
/* Local. The same and more as a JSON object, on one line. */
void explain_print_json(const struct view_forecast *view, FILE *out);
/* Local. A part of --show: graph, program, memory. */
void explain_show(const struct planned_run *planned, const char *part, FILE *out);
/* Local, blocking. Writes the program as text; STATUS_USAGE when the file exists. */
enum status explain_save_program(const struct plan *plan, const char *path);

#endif
