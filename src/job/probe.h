/* What planning takes of a process that is another rank. It is found in one that is forked for it:
 * in a process that has planned already, kernels and free memory of that plan would be used again.
 */
#ifndef JOB_PROBE_H
#define JOB_PROBE_H

#include "base/file.h"
#include "plan/plan.h"

/* Local, blocking. By how much it grows; 0: that could not be found. It is some more than of a
 * process that was started, whatever is planned, since pages of code are not there after a fork:
 * for differences. For a process that has no threads and no plan yet. */
size_t probe_planning(const struct run_config *config, const char *name,
                      const struct bytes *program);

#endif
