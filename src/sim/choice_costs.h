/* The costs of a forecast, for the choice of `auto`: it stands below this folder, and is told by a
 * function what a node takes. */
#ifndef SIM_CHOICE_COSTS_H
#define SIM_CHOICE_COSTS_H

#include "plan/choice.h"
#include "sim/plan_costs.h"

/* Local. By units or by a profile; else all zero, for the rules of the operations. The source must
 * outlive the result, and stay where it is. */
struct choice_costs choice_costs_of(const struct cost_source *source);

#endif
