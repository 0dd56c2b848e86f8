/* `plan --what-if`: the search once more, on machines that differ from those of the first one in
 * what the text says: slow=3:2,link=a:c:10,without=7,budget=500MiB. Numbers of ranks are those of
 * the first search. */
#ifndef PLANNED_WHAT_IF_H
#define PLANNED_WHAT_IF_H

#include "planned/planned_search.h"

struct planned_what_if {
    struct planned_search search; /* of what the text describes */
    struct planner_row old;       /* what the first row of before takes there; by its state */
    int missing;                  /* ranks that it needs and that are not there any more */
};

/* Local, blocking. Searches again; the caller closes it, where it lies. STATUS_USAGE names the
 * change that is wrong. The first search outlives it. */
enum status planned_what_if(const struct planned_search *first, struct planned_what_if *out);
void planned_what_if_close(struct planned_what_if *what_if);

#endif
