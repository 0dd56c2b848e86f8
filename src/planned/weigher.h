/* What a run takes of a process beside its arrays, found as explain finds it, for plans of a search.
 *
 * Planning a run is measured by how the process grows (planned_memory.c), so it needs a process that
 * has planned nothing yet. A weigher is forked before the search begins, and forks itself for each
 * question. Rejected: to measure in the process that searches, whose heap has room for graphs and
 * kernels from the candidates before; and a table of what models take, which depends on the
 * libraries' versions. */
#ifndef PLANNED_WEIGHER_H
#define PLANNED_WEIGHER_H

#include "base/option.h"
#include "planner/planner.h"

struct weigher {
    int pid, ask, answer; /* file descriptors; -1: none */
};

/* What was found of a run of these options. */
struct weighed {
    bool found;
    int64_t library_bytes, shared_bytes, beside_bytes; /* of a rank; see struct planner_memory */
    int64_t most_bytes;                                /* of the rank that needs most */
    int most_rank;
    int64_t over_bytes; /* by how many it does not fit; 0: it does */
};

/* Local. Before the process has threads or large heaps. The options must outlive it. Without a
 * process to spare nothing will be found. */
void weigher_open(const struct options *options, struct weigher *out);
void weigher_close(struct weigher *weigher);
/* Local. Asks; blocking: takes the answer to the oldest question. `fit`: whether it has to say if
 * the run fits. */
void weigher_ask(const struct weigher *weigher, const struct planner_choice *choice);
struct weighed weigher_answer(const struct weigher *weigher);

#endif
