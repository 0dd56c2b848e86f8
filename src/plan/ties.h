/* Parameters that several stages use: which stages share them, and what of that can be trained to
 * the bits of one device.
 *
 * On one device the gradients of a parameter's uses are kept apart and added in graph order at the
 * end of a replica's step. Two stages on one rank do the same. Two ranks have one use each to add,
 * and a sum of two is in graph order whoever makes it; both then make the same update. More uses
 * would need partial sums to go along the ranks one after the other; no model here asks for it. */
#ifndef PLAN_TIES_H
#define PLAN_TIES_H

#include "graph/range.h"
#include "program/program.h"

struct ties {
    int *first, *second; /* per parameter of the graph: the stage of its first use; another one that
                            uses it, -1: none */
    struct program_tie item[PROGRAM_MAX_TIES]; /* buckets are not known yet, and 0 */
    int count;
};

/* Local. Of a graph cut into stages. STATUS_USAGE where parameters are shared in a way that cannot
 * be trained. The caller frees it with ties_free. */
enum status ties_of(const struct ranges *ranges, const struct grid *grid, enum sum_order sum,
                    struct ties *out);
void ties_free(struct ties *ties);

/* Local. STATUS_USAGE where stages share parameters: of a schedule whose steps overlap they would
 * be at different updates. */
enum status ties_refuse(const struct ties *ties, const struct graph *graph, const char *schedule);

/* Local. Is the parameter one that the stage shares with another; is it held by another rank that
 * has its first use? */
bool ties_share(const struct ties *ties, int param);
bool ties_is_copy(const struct ties *ties, const struct grid *grid, int param, int stage);

/* Local. STATUS_USAGE where a program, called `name`, has other ties than the model. */
enum status ties_check(const struct ties *ties, const struct program *program, const char *name);

#endif
