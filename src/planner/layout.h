/* Who a grid's ranks are: devices and links of its pipelines, looked up once for all candidates of
 * that grid. Pipelines that have the same devices and links are there once. Private to
 * src/planner. */
#ifndef PLANNER_LAYOUT_H
#define PLANNER_LAYOUT_H

#include "cost/cost.h"
#include "program/grid.h"

struct planner_layout {
    int stages, replicas;       /* of the grid */
    int pipelines;              /* that differ */
    struct cost_device *device; /* [pipeline * stages + position] */
    struct cost_link *link[2];  /* likewise: to the next position, the first behind the last; and
                                   from there back */
    int *replica;               /* per pipeline: one that is of it */
    struct cost_link *ring;     /* per position: the slowest around its replicas */
    struct cost_link world;     /* the slowest around all ranks */
    struct cost_link *pipeline; /* per pipeline: the slowest around its positions */
};

/* Local. The caller frees it; accepts NULL and clears the pointer. */
struct planner_layout *planner_layout_new(const struct cost_net *net, int stages, int replicas);
void planner_layout_free(struct planner_layout **layout);

#endif
