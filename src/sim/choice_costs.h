/* The costs of a forecast, for the choice of `auto`: it stands below this folder, and is told by a
 * function what a node takes. */
#ifndef SIM_CHOICE_COSTS_H
#define SIM_CHOICE_COSTS_H

#include "plan/choice.h"
#include "sim/plan_costs.h"

/* The devices of a cluster that pipelines run on: of each position those of all replicas, since a
 * step takes as long as the slowest of them. */
struct choice_devices {
    const struct cluster *cluster;
    struct grid grid;
    struct choice_device *device; /* different ones only, one position's behind the other's */
    int *first;                   /* per position, and one more */
};
/* Local. The cluster has all ranks of the grid, and outlives them. */
void choice_devices_new(const struct cluster *cluster, const struct grid *grid,
                        struct choice_devices *out);
void choice_devices_free(struct choice_devices *devices);

/* Local. By units, by a profile or by a cluster, whose devices are given; else all zero, for the
 * rules of the operations. All that is given must outlive the result, and stay where it is. */
struct choice_costs choice_costs_of(const struct cost_source *source,
                                    const struct choice_devices *devices);

#endif
