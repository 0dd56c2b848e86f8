/* The files that say what virtual time costs: a cluster, profiles, a trace. */
#ifndef RUN_KEPT_COSTS_H
#define RUN_KEPT_COSTS_H

#include "planned/planned.h"

/* Local, blocking. A name of all that the times follow from: the content of these files and the
 * laws, whatever the files are called. The caller frees it. */
enum status kept_costs_name(const struct options *options, char **out);
/* Local, blocking. Copies of them into the folder of a run, clock-1-NAME and so on. */
enum status kept_costs_write(const struct options *options, const char *folder);
/* Local, blocking. STATUS_DATA where such a file is missing of which the folder has a copy. */
enum status kept_costs_check(const struct options *options, const char *folder);
/* Local. Whether a name is one of such a copy. */
bool kept_costs_is_copy(const char *name);

#endif
