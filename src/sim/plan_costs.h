/* Costs of a plan's stages, for the simulator. All local. */
#ifndef SIM_PLAN_COSTS_H
#define SIM_PLAN_COSTS_H

#include "plan/plan.h"
#include "sim/run.h"

struct plan_costs {
    struct sim_costs *costs; /* per class of devices: one, or those of the cluster */
    int class_count, stage_count;
    struct cost_table times; /* of the nodes of the plan's main graph */
    struct arena arena;
};

/* The plan's graph is cut as the plan says, for all ranks and not only its own. The caller frees
 * the result, which needs neither plan nor costs any more, but for the variance. */
enum status sim_costs_new(const struct plan *plan, const struct costs *costs,
                          struct plan_costs *out);
void sim_costs_free(struct plan_costs *costs);

/* The variance of a sum of passes: `uses` holds, per stage and pass, how often it is in the sum.
 * Rows of a profile that several operations use are counted together. */
double sim_costs_variance(const struct plan *plan, const struct plan_costs *costs,
                          const double *uses);

#endif
