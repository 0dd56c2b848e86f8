/* What the ranks of a run take of memory, for explain: of the one that needs most in parts, of the
 * others and of the machine their sums. */
#ifndef VIEW_EXPLAIN_MEMORY_H
#define VIEW_EXPLAIN_MEMORY_H

#include <stdio.h>

#include <jansson.h>

#include "planned/planned.h"

/* Local. Rows of the screen. */
void explain_print_memory(const struct planned_run *planned, FILE *out);
/* Local. Every part by name; the caller owns the object. */
json_t *explain_memory_json(const struct planned_run *planned);
/* Local. All parts as a table, then the tensors of this process's rank at their peak. */
void explain_show_memory(const struct planned_run *planned, FILE *out);

#endif
