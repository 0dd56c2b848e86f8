/* What a run takes of a process beside its arrays, for plans of a search: asked of explain.
 *
 * What planning takes is measured by how a process grows (planned_memory.c), so it needs a process
 * that has planned nothing yet, and whose pages of code are not those of a parent. So this program
 * is started once more, as `explain --json`: the figures are explain's own. Rejected: a forked
 * process, which maps its pages of code anew and seems to take 2 MiB more; and a table of what
 * models take, which depends on the libraries' versions. */
#ifndef PLANNED_WEIGHER_H
#define PLANNED_WEIGHER_H

#include "base/option.h"

/* A question under way. */
struct weigher {
    int pid, answer; /* answer: file descriptor; -1: none */
};

/* What was found of a run of these options. */
struct weighed {
    bool found, fits;
    int64_t library_bytes; /* of a rank */
    int64_t most_bytes;    /* of the rank that needs most */
};

/* Local. Asks; blocking: takes the answer, and ends the question. Where no process can be started
 * nothing is found. */
struct weigher weigher_ask(const struct options *options);
struct weighed weigher_answer(struct weigher *weigher);

#endif
