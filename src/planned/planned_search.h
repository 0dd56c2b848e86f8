/* The search of planner/planner.h for a command: what its options fix, this machine's memory and
 * cores, or a cluster's. */
#ifndef PLANNED_SEARCH_H
#define PLANNED_SEARCH_H

#include "planned/planned.h"
#include "planner/planner.h"

struct planned_search {
    struct options options; /* with what the data decide resolved; texts belong to the caller's */
    struct planned_run opened; /* data and costs alone: there is no plan */
    struct planner_input input;
    struct planner_result result;
    int64_t library_bytes; /* of a rank, as it was found */
    int fitting;           /* rows of the result that come first and were found not to fit */
};

/* Local, blocking (opens the data, forks). Searches; the caller closes it, where it lies: it must
 * not be moved. The options must outlive it. */
enum status planned_search(const struct options *options, bool exhaustive,
                           struct planned_search *out);
/* Local, blocking (opens the data). The same, and nothing is searched yet. */
enum status planned_search_open(const struct options *options, struct planned_search *out);
void planned_search_close(struct planned_search *search);

/* Local. How many ranks a command without a launcher plans: -n, --stages x --replicas, or all of
 * --cluster. */
enum status planned_ranks_asked(const struct options *options, int *out);
/* Local. The row that a command would run; NULL: none fits. */
const struct planner_row *planned_search_first(const struct planned_search *search);
/* Local. STATUS_MEMORY where no candidate fits: by how many bytes the best misses, and what would
 * make it fit. */
enum status planned_search_refuse(const struct planned_search *search);
/* Local, blocking. Writes the options of a row that train needs as a config file, which begins with
 * this line. */
#define PLANNED_CONFIG_LINE "# A plan that stretto found.\n"
enum status planned_search_write(const struct planned_search *search, const struct planner_row *row,
                                 const char *path);
/* Local. Whether train needs the option, or another command (forecasts take a cluster and profile):
 * what it decides about the run, and not how this command talks. */
bool planned_search_is_told(const struct options *options, enum option_id id,
                            enum option_command command);
/* Local. The options of a row, with the number of threads that the search had: those of the command
 * that is printed. The caller frees them. */
enum status planned_search_options(const struct planned_search *search,
                                   const struct planner_row *row, struct options *out);

#endif
