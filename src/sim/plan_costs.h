/* Costs of a plan's stages, for the simulator: by hand, from a profile, from a cluster file, or
 * from the operations' own rules. All local. */
#ifndef SIM_PLAN_COSTS_H
#define SIM_PLAN_COSTS_H

#include "cost/cluster.h"
#include "cost/profile.h"
#include "cost/units.h"
#include "plan/plan.h"
#include "sim/run.h"

/* Where times come from: the first of these that is not NULL, or else the rules of the operations
 * for a device of this machine. Borrowed. */
struct cost_source {
    const struct cost_units *units;
    struct profile *profile; /* with the section that holds for the run */
    const struct profile_section *section;
    const struct cluster *cluster;
    double crowd; /* for the rules: how many threads of ranks share a core; 0: 1 */
    bool apart;   /* forecasts run every pipeline, also those that do the same */
};

struct plan_costs {
    struct sim_costs *costs; /* per class of devices: one, or those of the cluster */
    int class_count, stage_count;
    struct arena arena;
};

/* The plan's graph is cut as the plan says, for all ranks and not only its own. The caller frees
 * the result, which needs neither plan nor source any more. */
enum status plan_costs_new(const struct plan *plan, const struct cost_source *source,
                           struct plan_costs *out);
void plan_costs_free(struct plan_costs *costs);

/* Bytes that a device of this machine moves in a nanosecond, where nothing better is known. */
#define PLAN_COSTS_BYTES_PER_NS 12.0

/* The variance of a sum of passes: `uses` holds, per stage and pass, how often it is in the sum.
 * Rows of a profile that several operations use are counted together. */
double plan_costs_variance(const struct plan *plan, const struct cost_source *source,
                           const double *uses);

#endif
