/* What planning takes of a process that is another rank. It is found in one that is forked for it:
 * in a process that has planned already, kernels and free memory of that plan would be used again.
 */
#ifndef PLANNED_PROBE_H
#define PLANNED_PROBE_H

#include "base/file.h"
#include "plan/plan.h"

/* Local, blocking. By how much a rank at each of `count` positions of a pipeline grows, written to
 * `bytes` (all 0 before); 0: that could not be found. It is some more than of a process that was
 * started, whatever is planned, since pages of code are not there after a fork: for differences.
 * Where orders are still to be chosen, that is done once, in a process of its own. For a process
 * that has no threads and no plan yet. */
void probe_positions(const struct run_config *config, const struct plan_given *given, int count,
                     size_t *bytes);

#endif
